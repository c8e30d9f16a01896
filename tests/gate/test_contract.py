"""An action keeps the contract of its task or does not run."""

from collections.abc import Mapping
from typing import Any

import pytest

from parsimony_kernel.agent.failure.kinds import Action, FailureKind
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.gate.contract import (
    ActionContract,
    ActionMismatch,
    review,
    validate_action_contract,
    within_contract,
)
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.stages import STAGES
from parsimony_kernel.tools import Tools, tool
from parsimony_kernel.triage.taxonomy import FailureType

LOOKUP = {"intent": "lookup_order", "order_id": "A102"}
CONTRACT = ActionContract(
    frozenset({"query_db", "calculate_shipping"}), frozenset({"query_db"}), {"order_id": "A102"}
)


def test_the_lookup_is_admitted_and_the_drift_is_not_allowed() -> None:
    assert validate_action_contract(LOOKUP, "query_db", {"id": "A102"}, {"query_db"}) == "admitted"
    with pytest.raises(ActionMismatch, match=r"^tool not allowed$"):
        validate_action_contract(LOOKUP, "calculate_shipping", {}, {"query_db"})


@pytest.mark.parametrize(
    ("name", "args", "allowed", "said"),
    [
        # Each breaks everything that comes after it in the order of the checks too.
        ("calculate_shipping", {"id": "B7"}, {"query_db"}, "tool not allowed"),
        (
            "calculate_shipping",
            {"id": "B7"},
            {"query_db", "calculate_shipping"},
            "tool does not match intent",
        ),
        ("query_db", {"id": "B7"}, {"query_db"}, "order ID changed"),
        ("query_db", {}, {"query_db"}, "order ID changed"),
        ("query_db", {"id": "a102"}, {"query_db"}, "order ID changed"),
        ("query_db", {"id": "A102", "order_id": "B7"}, {"query_db"}, "order ID changed"),
    ],
)
def test_not_allowed_comes_before_the_intent_and_the_intent_before_the_identifier(
    name: str, args: dict[str, Any], allowed: set[str], said: str
) -> None:
    with pytest.raises(ActionMismatch) as refused:
        validate_action_contract(LOOKUP, name, args, allowed)
    assert str(refused.value) == said


def test_an_intent_of_one_s_own_names_its_tools() -> None:
    refund = {"intent": "refund", "payment_id": "P9"}
    serves = {"refund": {"issue_refund"}}
    allowed = {"issue_refund", "query_db"}
    assert (
        validate_action_contract(
            refund, "issue_refund", {"payment_id": "P9"}, allowed, tools_by_intent=serves
        )
        == "admitted"
    )
    with pytest.raises(ActionMismatch, match="match intent"):
        validate_action_contract(refund, "query_db", {"id": "P9"}, allowed, tools_by_intent=serves)


def test_a_second_identifier_may_be_left_out_but_not_contradicted() -> None:
    contract = ActionContract(frozenset({"q"}), None, {"order_id": "A102", "customer_id": "C1"})
    assert contract.violation("q", {"id": "A102"}) is None
    assert contract.violation("q", {"id": "A102", "customer_id": "C1"}) is None
    assert contract.violation("q", {"id": "A102", "customer_id": "C2"}) == "customer ID changed"
    assert contract.violation("q", {"customer_id": "C1"}) == "order ID changed"


def test_a_critic_may_not_overrule_the_contract() -> None:
    asked: list[str] = []

    def critic(name: str, args: Mapping[str, Any]) -> str:
        asked.append(name)
        return "admit it, it is fine"

    refused = review(CONTRACT, "query_db", {"id": "B7"}, critic)
    assert not refused.is_admitted
    assert refused.verdict == "order ID changed"
    assert asked == []


def test_a_critic_s_remark_stands_beside_an_admission_and_changes_nothing() -> None:
    admitted = review(CONTRACT, "query_db", {"id": "A102"}, lambda *_: "I would refuse it")
    assert admitted.is_admitted
    assert (admitted.verdict, admitted.remark) == ("admitted", "I would refuse it")


@tool
async def query_db(id: str) -> str:
    """Look an order up."""
    return f"{id} is delayed"


@tool
async def calculate_shipping() -> str:
    """Reckon the price of a shipment."""
    raise AssertionError("this must not run")


async def test_the_stage_refuses_what_breaks_the_contract_and_names_the_rule() -> None:
    tools = Tools([query_db, calculate_shipping]) + termination_tools()
    gate = Gate(tools, timeout_s=5, stages=(*STAGES, within_contract(CONTRACT)))
    assert (await gate.step("query_db", {"id": "A102"})).ok
    outcome = await gate.step("calculate_shipping", {})
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.policy_violation
    assert outcome.failure.type is FailureType.CONSTRAINT_IGNORED
    assert outcome.failure.suggested_action is Action.handoff
    assert outcome.envelope["error"] == "validation_failed"
    assert outcome.envelope["reason"] == "tool does not match intent"
    assert outcome.envelope["details"]["allowed_tools"] == ["query_db"]
    assert "order_id='A102'" in outcome.envelope["message"]
    assert outcome.envelope["valid_next_actions"] == list(tools)
    changed = await gate.step("query_db", {"id": "B7"})
    assert changed.envelope["reason"] == "order ID changed"


async def test_a_contract_leaves_a_way_out() -> None:
    gate = Gate(
        Tools([query_db]) + termination_tools(),
        timeout_s=5,
        stages=(*STAGES, within_contract(CONTRACT)),
    )
    assert (await gate.step("return_done", {"summary": "A102 is delayed"})).ok
