"""What a file says about a task is read whole, or every error in it is told with its line."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.config import ActionContract
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.procedure import Edge, Procedure, ProcedureError
from parsimony_kernel.gate.rules import Rules, task_stages
from parsimony_kernel.gate.stages import STAGES
from parsimony_kernel.gate.task_file import Playbook, from_yaml
from parsimony_kernel.tools import Tools, tool
from parsimony_kernel.triage.policy import (
    FailurePolicy,
    backoff_and_retry,
    escalate,
    rollback_to_checkpoint,
)


@tool
async def query_db(id: str) -> str:
    """Look an order up."""
    return f"{id} is delayed"


@tool
async def refund(id: str) -> str:
    """Give the money back."""
    return id


TOOLS = Tools([query_db, refund]) + termination_tools()

STATES = """\
name: orders
start: new
final: [seen]
states: [new, seen]
edges:
  - {action: query_db, from: new, to: seen}
"""
CONTRACT = """\
contract:
  tools: [query_db, refund]
  intent_tools: query_db
  identifiers: {order_id: 0042}
"""
RULES = """\
constraints:
  - Never be rude.
  - Say it
    in metres.
"""
POLICY = """\
policy:
  EXTERNAL_FAULT: backoff_and_retry
  HALLUCINATED_STATE: rollback_to_checkpoint
  default: escalate
"""
WHOLE = STATES + CONTRACT + RULES + POLICY


def read(text: str) -> Playbook:
    return from_yaml(text, tools=TOOLS, source="task.yaml")


def problems_of(build: Callable[[], object]) -> tuple[str, ...]:
    with pytest.raises(ProcedureError) as caught:
        build()
    return caught.value.problems


def test_file_holds_all_four_parts() -> None:
    playbook = read(WHOLE)
    assert playbook.procedure is not None
    assert playbook.procedure.states == ("new", "seen")
    assert playbook.contract == ActionContract(
        frozenset({"query_db", "refund"}), frozenset({"query_db"}), {"order_id": "0042"}
    )
    assert playbook.pinned_constraints == ("Never be rude.", "Say it in metres.")
    assert playbook.policy is not None
    assert playbook.policy == FailurePolicy(
        EXTERNAL_FAULT=backoff_and_retry,
        HALLUCINATED_STATE=rollback_to_checkpoint,
        default=escalate,
    )


def test_single_rule_and_identifier_suffice() -> None:
    assert read("constraints: Be brief.") == Playbook(pinned_constraints=("Be brief.",))
    assert read("contract: {identifiers: {order_id: A102}}") == Playbook(
        contract=ActionContract(None, None, {"order_id": "A102"})
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("contract:", "contarct:", "line 7: 'contarct' is not a field; did you mean"),
        ("tools: [query", "tools: [qery", "line 8: there is no tool 'qery_db'; did"),
        ("intent_tools", "intnet_tools", "line 9: 'intnet_tools' is not a field; di"),
        ("{order_id: 0042}", "A102", "line 10: identifiers: Input should be a valid dictionary"),
        ("0042", "[1]", "line 10: order_id: a line of text is exp"),
        ("0042", "1, order_id: 2", "line 10: 'order_id' stands twice"),
        ("Never be", "Never: be", "line 12: constraints: a line of text is exp"),
        ("Never", "Never" * 80, "constraints: String should have at most 300 characters"),
        ("policy", "  - a\n" * 4 + "policy", "constraints: Tuple should have at most 5 items"),
        ("EXTERNAL_", "EXTERN_",
         "line 16: there is no type of failure 'EXTERN_FAULT'; did you mean"),
        ("backoff_and", "backof_and", "line 16: there is no strategy 'backof_and_retry'; did you"),
        ("escalate", "{strategy: replan}", "line 18: default: a line of text is exp"),
        ("escalate", "&x [*x]", "line 18: an alias (*) repeats this; write"),
        ("escalate", "[]", "line 18: this is empty; fill it in"),
        ("escalate", "", "line 18: there is no strategy ''; "),
        ("start: new\n", "", "line 1: the procedure lacks 'start'; add it."),
        ("to: seen", "to: sen", "line 6, to: there is no state 'sen'; did you mean"),
        ("start: new", "start: nwe", "line 2, start: there is no state 'nwe'; did you mean"),
        ("{action", "{guard: has, action", "there is no guard 'has'; there is none"),
        ("action: query_db", "action: qery_db", "line 6: there is no tool 'qery_db'"),
        ("contract:", "? {a: b}\n:", "line 7: a key is a name; write"),
        ("EXTERNAL_FAULT", "? [a]\n  ", "line 16: a key is a name; write"),
        ("order_id", "[a]", "line 10: a key is a name; write"),
        ("ls: query_db", "ls: [query_db, return_done]", "line 9: 'return_done' is none of the con"),
        (WHOLE, "#" * 300_000, "task.yaml: it has more than 262144 characters; shorten it."),
        (WHOLE, "contract:", "line 1: contract: Input should be a valid dictionary"),
        (WHOLE, "classifier: llm", "line 1: 'classifier' is not a field; "),
        (WHOLE, "name: orders", "line 1: the procedure lacks 'edges'; add it."),
        (WHOLE, "contract: {tools: []}", "line 1: this is empty; fill it in"),
        (WHOLE, "constraints: []", "line 1: this is empty; fill it in"),
        (WHOLE, "constraints:", "line 1: constraints: String should have at least 1 char"),
        (WHOLE, "policy: escalate", "line 1: policy: Input should be a valid dictionary"),
        (WHOLE, "", "task.yaml: the file: Input should be a valid dictionary"),
        (WHOLE, "contract: [", "line 1: this is not valid YAML"),
        (WHOLE, "forbid_tools: [refnd]",
         "line 1: there is no tool 'refnd'; did you mean 'refund'?"),
        (WHOLE, "max_words: many", "line 1: max_words: Input should be a valid integer"),
        (WHOLE, "max_tool_calls: -1", "line 1: max_tool_calls: Input should be greater than or"),
        (WHOLE, "forbid_text: []", "line 1: this is empty; fill it in"),
        (WHOLE, "forbid_import: [os]", "line 1: 'forbid_import' is not a field; did you mean"),
    ],
)  # fmt: skip
def test_error_names_line_and_remedy(old: str, new: str, said: str) -> None:
    assert old in WHOLE
    problems = problems_of(lambda: read(WHOLE.replace(old, new)))
    assert any(said in problem for problem in problems), problems
    assert all(problem.startswith("task.yaml") for problem in problems), problems


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"query_db, refund": "query_db, refnd", "Never be": "Never: be"}, ["8", "12"]),
        ({"to: seen": "to: sen", "{action": "{guard: is_open, action"}, ["6, to", "6"]),
    ],
    ids=["what stands there", "what it means"],
)
def test_all_errors_are_reported_in_order(changes: dict[str, str], lines: list[str]) -> None:
    text = WHOLE
    for old, new in changes.items():
        text = text.replace(old, new)
    problems = problems_of(lambda: read(text))
    assert [each.split(", line ")[1].split(":")[0] for each in problems] == lines


def test_tool_names_are_accepted_without_manifest() -> None:
    playbook = from_yaml(WHOLE.replace("query_db", "qery_db"))
    assert playbook.contract is not None
    assert playbook.contract.serving_tools == frozenset({"qery_db"})


@given(text=st.text(alphabet="contrapolicysx:-[]{}&*!|>'\"#%,\n ?~<", max_size=60))
def test_any_text_is_a_task_file_or_an_error(text: str) -> None:
    try:
        problems = [] if isinstance(from_yaml(text), Playbook) else ["no playbook"]
    except ProcedureError as exc:
        problems = [each for each in exc.problems if not each.startswith("task file")]
    assert problems == []


async def test_checks_run_arguments_then_contract_then_rules() -> None:
    contract = ActionContract(frozenset({"query_db"}))
    stages = (*STAGES, *task_stages(contract, Rules(forbid_tools=("refund", "query_db"))))
    gate = Gate(TOOLS, timeout_s=5, stages=stages)
    told = [
        (await gate.step("refund", {})).envelope["reason"],
        (await gate.step("refund", {"id": "A102"})).envelope["reason"],
        (await gate.step("query_db", {"id": "A102"})).envelope["reason"],
    ]
    assert told[0].startswith("'id' is missing")
    assert told[1:] == ["tool not allowed", "it breaks the rule forbid_tools: query_db"]
    assert (await gate.step("return_done", {"summary": "ok"})).ok


# A procedure is checked when it is built.


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start": "nwe"}, "start: there is no state 'nwe'; did you mean 'new'?"),
        ({"states": ("new", "done", "stuck")}, "states: 'stuck' is a dead end; add an edge"),
        ({"final": ("paid",)}, "final: there is no state 'paid'; there are new, done"),
        ({"final": ()}, "final: no state is final"),
        ({"edges": (Edge("pay", "new", "dnoe"),)}, "edge 1, to: there is no state 'dnoe'"),
    ],
)
def test_undefined_name_in_procedure_is_reported(changes: dict[str, Any], said: str) -> None:
    edges = (Edge("pay", "new", "done"),)
    given = {"states": ("new", "done"), "start": "new", "final": ("done",), "edges": edges}
    with pytest.raises(ProcedureError) as caught:
        Procedure("orders", **{**given, **changes})
    assert any(said in problem for problem in caught.value.problems), caught.value.problems
