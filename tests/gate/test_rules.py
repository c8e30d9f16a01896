"""What a task forbids is refused before it runs, by the keys of its file."""

from collections.abc import Sequence
from typing import Any

import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.kinds import Action, FailureKind
from parsimony_kernel.core.taxonomy import FailureType, Step
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.rules import NO_RULES, Rules, task_stages
from parsimony_kernel.gate.stages import STAGES, Attempt
from parsimony_kernel.gate.task_file import from_yaml
from parsimony_kernel.toolbox.plan import plan
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
def test_a_rule_is_kept(rules: str, call: tuple[str, dict[str, Any]], broken: str) -> None:
    name, args = call
    assert refusal(from_yaml(rules, tools=TOOLS).rules, name, **args) == broken


@pytest.mark.parametrize(("made", "is_over"), [([], False), ([RAN], True), ([REFUSED], False)])
def test_calls_are_counted_that_ran(made: list[Step], is_over: bool) -> None:
    assert bool(refusal(Rules(max_tool_calls=1), "search", made, text="tea")) == is_over


def test_without_rules_nothing_is_asked_of_anybody() -> None:
    assert not NO_RULES
    assert task_stages(None) == ()


async def test_the_refusal_names_the_rule_and_the_run_goes_on() -> None:
    stages = task_stages(None, Rules(forbid_tools=("refund",)))
    gate = Gate(TOOLS, timeout_s=5, stages=(*STAGES, *stages))
    outcome = await gate.step("refund", {"order": 1})
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.type) == (
        FailureKind.policy_violation,
        FailureType.CONSTRAINT_IGNORED,
    )
    assert outcome.failure.suggested_action is Action.retry
    assert "breaks a rule of this task: forbid_tools: refund" in outcome.envelope["message"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("forbid_tools: [refnd]", "line 1: there is no tool 'refnd'; did you mean 'refund'?"),
        ("max_words: many", "line 1: max_words: Input should be a valid integer"),
        (
            "max_tool_calls: -1",
            "line 1: max_tool_calls: Input should be greater than or equal to 0",
        ),
        ("forbid_text: []", "line 1: nothing stands in here; write it"),
        ("forbid_import: [os]", "line 1: 'forbid_import' is not a field; did you mean"),
    ],
)
def test_an_error_in_a_rule_names_the_line_and_the_remedy(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="task") as caught:
        from_yaml(text, tools=TOOLS, source="task.yaml")
    assert said in str(caught.value)
