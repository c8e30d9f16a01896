"""What a task forbids is refused before it runs; a run ends as done with what it is about."""

from collections.abc import Sequence
from typing import Any

import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.causes import GOAL_DRIFT, cause_of
from parsimony_kernel.core.config import ActionContract
from parsimony_kernel.core.kinds import Step
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.rules import Rules, task_stages
from parsimony_kernel.gate.stages import STAGES, Attempt
from parsimony_kernel.gate.task_file import from_yaml
from parsimony_kernel.toolbox.run_tools import plan
from parsimony_kernel.tools import Tools, tool


@tool(tool_type="code")
async def run_code(code: str, purpose: str = "") -> str:
    """Run code."""
    return code


@tool
async def search(text: str) -> str:
    """Search."""
    return text


@tool
async def refund(order: int) -> str:
    """Give the money back."""
    return str(order)


TOOLS = Tools([run_code, search, refund, plan]) + termination_tools()
RAN = Step(0, "search", tool_called="search", tool_output="found")
REFUSED = Step(0, "search", tool_called="search")


def refusal(rules: Rules, name: str, made: Sequence[Step] = (), **args: Any) -> str:
    """The rule that a call breaks; empty where it may run."""
    for stage in task_stages(None, rules, lambda: made):
        if (failure := stage(Attempt(name, args, TOOLS))) is not None:
            return str(failure.metadata["envelope"]["details"]["rule"])
    return ""


def code(text: str) -> tuple[str, dict[str, str]]:
    return "run_code", {"code": text}


def done(summary: str) -> tuple[str, dict[str, str]]:
    return "return_done", {"summary": summary}


@pytest.mark.parametrize(
    ("rules", "call", "broken"),
    [
        ("forbid_tools: [refund]", ("refund", {"order": 1}), "forbid_tools: refund"),
        ("forbid_tools: refund", ("search", {"text": "refund"}), ""),
        ("only_tools: [search]", ("refund", {"order": 1}), "only_tools: search"),
        ("only_tools: [search]", ("search", {"text": "tea"}), ""),
        ("only_tools: [search]", ("plan", {"parts": ["a", "b"]}), ""),
        ("only_tools: [search]", done("It is tea."), ""),
        ("forbid_imports: [os]", code("import os"), "forbid_imports: os"),
        ("forbid_imports: [os]", code("from os.path import join"), "forbid_imports: os"),
        ("forbid_imports: [os]", code("import ostrich"), ""),
        ("forbid_imports: [os]", code("os = 1  # import os\nprint('import os')"), ""),
        ("forbid_imports: [sklearn.svm]", code("from sklearn import tree"), ""),
        ("forbid_imports: [sklearn.svm]", code("import sklearn.svm.libsvm"),
         "forbid_imports: sklearn.svm"),
        ("forbid_text: [DROP TABLE]", code("q = 'drop table x'"), "forbid_text: DROP TABLE"),
        ("forbid_text: [prod]", ("search", {"text": "the prod host"}), "forbid_text: prod"),
        ("forbid_text: [prod]", ("search", {"text": "a product"}), ""),
        ("forbid_text: [Acme]", done("We asked acme."), "forbid_text: Acme"),
        ("max_words: 3", done("one two three"), ""),
        ("max_words: 3", done("one two three four"), "max_words: 3, and the summary has 4"),
        ("max_words: 3", ("ask_user", {"question": "which of all of these?"}), ""),
        ("max_tool_calls: 0", ("search", {"text": "tea"}), "max_tool_calls: 0"),
        ("max_tool_calls: 0", ("plan", {"parts": ["a"]}), ""),
    ],
)  # fmt: skip
def test_rule_is_enforced(rules: str, call: tuple[str, dict[str, Any]], broken: str) -> None:
    name, args = call
    assert refusal(from_yaml(rules, tools=TOOLS).rules, name, **args) == broken


@pytest.mark.parametrize(("made", "is_over"), [([], False), ([RAN], True), ([REFUSED], False)])
def test_limit_counts_calls_that_ran(made: list[Step], is_over: bool) -> None:
    assert bool(refusal(Rules(max_tool_calls=1), "search", made, text="tea")) == is_over


# The contract.


BOTH = {"order_id": "A102", "customer_id": "C1"}
ORDER_CHANGED, CUSTOMER_CHANGED = "order ID changed", "customer ID changed"


@pytest.mark.parametrize(
    ("identifiers", "args", "accepts", "said"),
    [
        (BOTH, {"id": "A102"}, None, None),
        (BOTH, {"id": "A102", "customer_id": "C1"}, None, None),
        (BOTH, {"id": "A102", "customer_id": "C2"}, None, CUSTOMER_CHANGED),
        (BOTH, {"customer_id": "C1"}, None, ORDER_CHANGED),
        (BOTH, {"id": "a102"}, None, ORDER_CHANGED),
        (BOTH, {"id": "A102", "order_id": "B7"}, None, ORDER_CHANGED),
        # A tool that takes an identifier must be given it.
        (BOTH, {}, ["order_id", "text"], ORDER_CHANGED),
        (BOTH, {}, ["id"], ORDER_CHANGED),
        (BOTH, {}, None, ORDER_CHANGED),
        (BOTH, {}, ["text"], None),
        (BOTH, {}, ["customer_id"], None),
        # What is sent all the same, as to a tool with any names, is compared.
        (BOTH, {"customer_id": "C2"}, ["text"], CUSTOMER_CHANGED),
        # A number is the identifier that is written the same.
        ({"order_id": "42"}, {"id": 42}, None, None),
        ({"order_id": "42"}, {"id": 43}, None, ORDER_CHANGED),
        ({"order_id": "0042"}, {"id": 42}, None, ORDER_CHANGED),
        ({"flag": "True"}, {"flag": True}, None, "flag changed"),
    ],
)
def test_identifier_may_be_omitted_where_it_is_not_taken_and_never_contradicted(
    identifiers: dict[str, Any], args: dict[str, Any], accepts: list[str] | None, said: str | None
) -> None:
    contract = ActionContract(frozenset({"q"}), None, identifiers)
    assert contract.violation("q", args, accepts) == said


@tool
async def query_db(id: str) -> str:
    """Look an order up."""
    return f"{id} is delayed"


@tool
async def calculate_shipping() -> str:
    """Reckon the price of a shipment."""
    raise AssertionError("this must not run")


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
async def test_identifier_binds_tools_that_accept_it(
    name: str, args: dict[str, Any], reason: str | None
) -> None:
    tools = Tools([query_db, track, run_code, calculate_shipping]) + termination_tools()
    stage, *_ = task_stages(ActionContract(None, None, {"order_id": "A102"}))
    failure = stage(Attempt(name, args, tools))
    said = None if failure is None else failure.metadata["envelope"]["reason"]
    assert said == reason


@pytest.mark.parametrize(
    ("allowed", "serving", "listed"),
    [
        (None, None, ["query_db", "track"]),
        ({"return_done", "return_unable"}, None, ["return_done", "return_unable"]),
        ({"track", "other"}, {"track", "plan"}, ["track"]),
    ],
)
async def test_refusal_lists_what_the_contract_allows(
    allowed: set[str] | None, serving: set[str] | None, listed: list[str]
) -> None:
    tools = Tools([query_db, track, plan]) + termination_tools()
    allowed_, serving_ = (None if each is None else frozenset(each) for each in (allowed, serving))
    stage, *_ = task_stages(ActionContract(allowed_, serving_, {"order_id": "A102"}))
    outcome = await Gate(tools, timeout_s=5, stages=(*STAGES, stage)).step("query_db", {"id": "B"})
    assert outcome.envelope["details"]["allowed_tools"] == listed


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("return_done", {"summary": "A102 is delayed"}),
        ("return_unable", {"rationale": "no", "blockers": ["no order"]}),
        ("ask_user", {"question": "Which?"}),
        ("plan", {"parts": ["find A102", "tell where it is"]}),
    ],
)
async def test_contract_never_blocks_planning_or_ending(name: str, args: dict[str, Any]) -> None:
    contract = ActionContract(frozenset(), frozenset(), {"order_id": "A102"})
    gate = Gate(
        Tools([query_db, plan]) + termination_tools(),
        timeout_s=5,
        stages=(*STAGES, *task_stages(contract)),
    )
    assert not (await gate.step("query_db", {"id": "A102"})).ok
    assert (await gate.step(name, args)).ok


# The end.

ORDER = ActionContract(identifiers={"order_id": "A102"})


def looked(**inputs: Any) -> Step:
    return Step(0, "query_db", tool_called="query_db", tool_input=inputs)


def judged(contract: ActionContract, steps: Sequence[Step], action: str, **inputs: Any) -> Any:
    *_, stage = task_stages(contract, made=lambda: steps)
    return stage(Attempt(action, inputs, termination_tools()))


def test_other_endings_stay_open() -> None:
    assert judged(ORDER, [], "return_unable", rationale="no such order") is None


NUMBERED = ActionContract(identifiers={"order_id": 102})
DELAYED = "The order is delayed."


@pytest.mark.parametrize(
    ("contract", "summary", "steps", "is_refused"),
    [
        (ORDER, DELAYED, [], True),
        (ORDER, DELAYED, [looked(order_id="A103")], True),
        (ORDER, DELAYED, [looked(id="A103")], True),
        (ORDER, DELAYED, [looked(order_id="A102")], False),
        (ORDER, DELAYED, [looked(order_id="A103"), looked(order_id="A102")], False),
        (ORDER, DELAYED, [looked(id="A102")], False),
        (ORDER, DELAYED, [looked(code="orders.loc['A102']")], False),
        (ORDER, "A102 is delayed.", [], False),
        (ORDER, "A102 is delayed.", [looked(order_id="A103")], True),
        (ORDER, "", [], False),  # that it is empty is the tool's own affair
        (NUMBERED, "ok", [looked(order_id=102)], False),
        (NUMBERED, "ok", [looked(order_id=103)], True),
        (ActionContract(), "ok", [], False),
        (ActionContract(identifiers={"dry": True}), "ok", [], False),
    ],
)
def test_off_topic_summary_is_refused_and_goal_repeated(
    contract: ActionContract, summary: str, steps: list[Step], is_refused: bool
) -> None:
    failure = judged(contract, steps, "return_done", summary=summary)
    assert (failure is not None) is is_refused
    if failure is not None:
        identifiers = {name: str(value) for name, value in contract.identifiers.items()}
        assert cause_of(failure) is GOAL_DRIFT
        assert f"order_id={identifiers['order_id']!r}" in failure.explanation
        assert failure.metadata["envelope"]["details"] == {"identifiers": identifiers}
