"""An action keeps the contract of its task or does not run."""

from typing import Any

import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.rules import task_stages
from parsimony_kernel.gate.stages import STAGES, Attempt
from parsimony_kernel.toolbox.plan import plan
from parsimony_kernel.tools import Tools, tool

CONTRACT = ActionContract(
    frozenset({"query_db", "calculate_shipping"}), frozenset({"query_db"}), {"order_id": "A102"}
)


def test_a_second_identifier_may_be_left_out_but_not_contradicted() -> None:
    contract = ActionContract(frozenset({"q"}), None, {"order_id": "A102", "customer_id": "C1"})
    assert contract.violation("q", {"id": "A102"}) is None
    assert contract.violation("q", {"id": "A102", "customer_id": "C1"}) is None
    assert contract.violation("q", {"id": "A102", "customer_id": "C2"}) == "customer ID changed"
    assert contract.violation("q", {"customer_id": "C1"}) == "order ID changed"
    assert contract.violation("q", {"id": "a102"}) == "order ID changed"
    assert contract.violation("q", {"id": "A102", "order_id": "B7"}) == "order ID changed"


@tool
async def query_db(id: str) -> str:
    """Look an order up."""
    return f"{id} is delayed"


@tool
async def calculate_shipping() -> str:
    """Reckon the price of a shipment."""
    raise AssertionError("this must not run")


@tool
async def run_code(code: str) -> str:
    """Run code."""
    return code


@tool
async def track(order_id: str, since: str = "") -> str:
    """Where a parcel is."""
    return f"{order_id} {since}"


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("run_code", {"code": "orders[orders.id == 'B7']"}, None),
        ("calculate_shipping", {}, None),
        ("query_db", {"id": "A102"}, None),
        ("query_db", {"id": "B7"}, "order ID changed"),
        ("track", {"order_id": "A102", "since": "May"}, None),
        ("track", {"order_id": "B7"}, "order ID changed"),
    ],
)
async def test_an_identifier_binds_the_tools_that_take_it(
    name: str, args: dict[str, Any], reason: str | None
) -> None:
    tools = Tools([query_db, track, run_code, calculate_shipping]) + termination_tools()
    stage, *_ = task_stages(ActionContract(None, None, {"order_id": "A102"}))
    failure = stage(Attempt(name, args, tools))
    said = None if failure is None else failure.metadata["envelope"]["reason"]
    assert said == reason


def test_a_tool_that_takes_the_identifier_has_to_carry_it_and_one_that_is_not_known_too() -> None:
    contract = ActionContract(None, None, {"order_id": "A102", "customer_id": "C1"})
    assert contract.violation("q", {}, ["order_id", "text"]) == "order ID changed"
    assert contract.violation("q", {}, ["id"]) == "order ID changed"
    assert contract.violation("q", {}) == "order ID changed"
    assert contract.violation("q", {}, ["text"]) is None
    assert contract.violation("q", {}, ["customer_id"]) is None
    # What is sent all the same, as to a tool with any names, is compared.
    assert contract.violation("q", {"customer_id": "C2"}, ["text"]) == "customer ID changed"


def test_a_number_is_the_identifier_that_is_written_the_same() -> None:
    contract = ActionContract(None, None, {"order_id": "42"})
    assert contract.violation("q", {"id": 42}) is None
    assert contract.violation("q", {"id": 43}) == "order ID changed"
    assert ActionContract(None, None, {"order_id": "0042"}).violation("q", {"id": 42}) is not None
    assert ActionContract(None, None, {"flag": "True"}).violation("q", {"flag": True}) is not None


async def test_without_a_list_of_tools_the_refusal_tells_those_that_work() -> None:
    tools = Tools([query_db, track, plan]) + termination_tools()
    stage, *_ = task_stages(ActionContract(None, None, {"order_id": "A102"}))
    outcome = await Gate(tools, timeout_s=5, stages=(*STAGES, stage)).step("query_db", {"id": "B"})
    assert outcome.envelope["details"]["allowed_tools"] == ["query_db", "track"]


def test_a_contract_names_tools_that_exist() -> None:
    CONTRACT.check_tools(["query_db", "calculate_shipping", "more"])
    with pytest.raises(
        ValueError, match=r"'calculate_shipping'.*did you mean 'calculate_shippings'"
    ):
        CONTRACT.check_tools(["query_db", "calculate_shippings"])
    with pytest.raises(ValueError, match="'q', which is no tool; there are look"):
        ActionContract(None, frozenset({"q"})).check_tools(["look"])


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("return_done", {"summary": "A102 is delayed"}),
        ("return_unable", {"rationale": "no", "blockers": ["no order"]}),
        ("ask_user", {"question": "Which?"}),
        ("plan", {"parts": ["find A102", "tell where it is"]}),
    ],
)
async def test_no_contract_keeps_a_run_from_planning_or_ending(
    name: str, args: dict[str, Any]
) -> None:
    contract = ActionContract(frozenset(), frozenset(), {"order_id": "A102"})
    gate = Gate(
        Tools([query_db, plan]) + termination_tools(),
        timeout_s=5,
        stages=(*STAGES, *task_stages(contract)),
    )
    assert not (await gate.step("query_db", {"id": "A102"})).ok
    assert (await gate.step(name, args)).ok
