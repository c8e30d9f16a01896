"""Rules of a task that an action is held to before it runs: keys of the task's file.

No boundary against an attack: code has many names for one thing. What code reaches is watched.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.causes import RULE_BROKEN
from parsimony_kernel.core.kinds import Action, Failure
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.core.taxonomy import Step
from parsimony_kernel.gate.contract import is_work
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.constraints import given, holds

_COMMENT = re.compile(
    r"(\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|#[^\n]*", re.DOTALL
)
# The errors of calls that began to run.
_RAN = frozenset({RefusalError.action_error, RefusalError.action_timeout})


@dataclass(frozen=True)
class Rules:
    """What a task forbids. Without a value a rule forbids nothing.

    Args:
        forbid_tools: tools that may not be called.
        only_tools: those that may, and no others.
        forbid_imports: modules that code may not import, nor what lies in them.
        forbid_text: texts that may stand in no argument and no answer, in either case.
        max_tool_calls: how many calls of tools the task may take, without plans and endings.
        max_words: how many words the answer may have.
    """

    forbid_tools: tuple[str, ...] = ()
    only_tools: tuple[str, ...] = ()
    forbid_imports: tuple[str, ...] = ()
    forbid_text: tuple[str, ...] = ()
    max_tool_calls: int | None = None
    max_words: int | None = None

    def __bool__(self) -> bool:
        return self != NO_RULES

    def in_words(self) -> tuple[str, ...]:
        """A line for each rule: the key, and what it says."""
        lines = []
        for each in fields(self):
            value = getattr(self, each.name)
            if value not in ((), None):
                told = ", ".join(value) if isinstance(value, tuple) else value
                lines.append(f"{each.name}: {told}")
        return tuple(lines)


NO_RULES = Rules()


def within_rules(rules: Rules, made: Callable[[], Sequence[Step]]) -> tuple[Stage, ...]:
    """The stage that refuses what breaks ``rules``, naming the rule; none without any.

    ``made`` gives the steps of the run so far, as ``from_messages`` makes them. A plan passes, and
    a tool that ends or suspends the run, save for what a summary says.
    """

    def stage(attempt: Attempt) -> Failure | None:
        found = _of_work if is_work(attempt.tools[attempt.action]) else _of_an_answer
        broken = next(found(rules, attempt, made), None)
        return None if broken is None else _refusal(attempt, broken)

    return (stage,) if rules else ()


def _of_work(rules: Rules, attempt: Attempt, made: Callable[[], Sequence[Step]]) -> Iterator[str]:
    action = attempt.action
    if action in rules.forbid_tools:
        yield f"forbid_tools: {action}"
    if rules.only_tools and action not in rules.only_tools:
        yield f"only_tools: {', '.join(rules.only_tools)}"
    inputs = dict(attempt.inputs)
    if attempt.tools[action].tool_type == "code":
        # The rest of it, and its comments, are words about the code.
        inputs = {"code": _without_comments(str(attempt.inputs.get("code", "")))}
        imported = read(inputs["code"]).imported
        for module in rules.forbid_imports:
            if any(each == module or each.startswith(f"{module}.") for each in imported):
                yield f"forbid_imports: {module}"
    yield from _text(rules, given(inputs))
    if rules.max_tool_calls is not None:
        done = sum(_has_run(each, attempt) for each in made())
        if done >= rules.max_tool_calls:
            yield f"max_tool_calls: {rules.max_tool_calls}"


def _of_an_answer(
    rules: Rules, attempt: Attempt, made: Callable[[], Sequence[Step]]
) -> Iterator[str]:
    summary = attempt.inputs.get("summary")
    if attempt.tools[attempt.action].terminal and isinstance(summary, str):
        yield from _text(rules, summary)
        words = len(summary.split())
        if rules.max_words is not None and words > rules.max_words:
            yield f"max_words: {rules.max_words}, and the summary has {words}"


def _text(rules: Rules, text: str) -> Iterator[str]:
    return (f"forbid_text: {each}" for each in rules.forbid_text if holds(each, text))


def _has_run(step: Step, attempt: Attempt) -> bool:
    tool = attempt.tools.get(step.tool_called or "")
    ran = step.tool_output is not None or step.metadata.get("refusal") in _RAN
    return tool is not None and is_work(tool) and ran


def _refusal(attempt: Attempt, rule: str) -> Failure:
    return RULE_BROKEN.failure(
        f"{attempt.action} breaks a rule of this task: {rule}. Nothing was run. Keep to the rule, "
        "or end the run and say what it leaves undone.",
        # The model may send another action; one that breaks a rule again goes to a person.
        action=Action.retry,
        tool_name=attempt.action,
        envelope={"reason": f"it breaks the rule {rule}", "details": {"rule": rule}},
    )


def _without_comments(code: str) -> str:
    """``code`` as it runs; its texts stay."""
    return _COMMENT.sub(lambda found: found[1] or "", code) if "#" in code else code
