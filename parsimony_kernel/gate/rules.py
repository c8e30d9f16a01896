"""A task's checks of each action before it runs: contract, rules, plan and goal.

These are no security boundary: code can name one thing in many ways. The audit hook watches what
code really does. Contracts and rules don't apply to plans, nor to tools that end or suspend a run:
there must be a way out.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationInfo

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.causes import GOAL_DRIFT, PLAN_OPEN, RULE_BROKEN, Cause
from parsimony_kernel.core.config import ActionContract
from parsimony_kernel.core.fuzzy import suggestion
from parsimony_kernel.core.kinds import Action, Failure, RefusalError, Step
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.tools import Tool
from parsimony_kernel.triage.constraints import changed_an_identifier, given, holds

DONE = "return_done"
# Errors of calls whose body began to run.
_RAN = frozenset({RefusalError.action_error, RefusalError.action_timeout})

# Returns the steps of the run so far.
Made = Callable[[], Sequence[Step]]


def listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple | set | frozenset) else [value]


def one_of(what: str, names: Collection[str] | None = None) -> AfterValidator:
    """Build a validator that accepts only ``names``, each the name of a ``what``.

    Without ``names`` it uses those in the validation context; without a context it accepts any.
    """

    def check(name: str, info: ValidationInfo) -> str:
        known = info.context if names is None else names
        if known is None or name in known:
            return name
        raise ValueError(f"there is no {what} {name!r}; {suggestion(name, known)}")

    return AfterValidator(check)


Name = Annotated[str, Field(pattern=r"\S")]
Names = Annotated[tuple[Name, ...], BeforeValidator(listed)]
Count = Annotated[int, Field(ge=0)]
ToolName = Annotated[Name, one_of("tool")]
ToolNames = Annotated[tuple[ToolName, ...], BeforeValidator(listed)]


class Fields(BaseModel, extra="forbid", frozen=True):
    """Fields of a task file; unknown fields are rejected."""


class Rules(Fields):
    """Rules of a task. A rule without a value forbids nothing.

    Args:
        forbid_tools: tools that may not be called.
        only_tools: the only tools that may be called.
        forbid_imports: modules that code may not import, submodules included.
        forbid_text: texts that no argument and no answer may contain; case is ignored.
        max_tool_calls: maximum number of tool calls, not counting plans and endings.
        max_words: maximum number of words in the answer.
    """

    forbid_tools: ToolNames = ()
    only_tools: ToolNames = ()
    forbid_imports: Names = ()
    forbid_text: Names = ()
    max_tool_calls: Count | None = None
    max_words: Count | None = None

    def __bool__(self) -> bool:
        return bool(self.in_words())

    def in_words(self) -> tuple[str, ...]:
        """Render each rule that is set as a line ``key: value``."""
        held = {name: getattr(self, name) for name in Rules.model_fields}
        shown = {name: ", ".join(v) if isinstance(v, tuple) else v for name, v in held.items()}
        return tuple(f"{name}: {value}" for name, value in shown.items() if value not in ("", None))

    def broken_by(self, attempt: Attempt, made: Made) -> Iterator[str]:
        """Yield the rules that an action breaks, as ``key: value``."""
        tool, summary = attempt.tool, attempt.inputs.get("summary")
        if is_work(tool):
            summary = given(dict(attempt.inputs))
            yield from self._broken_by_call(attempt, made)
        elif not (tool.terminal and isinstance(summary, str)):
            return
        elif self.max_words is not None and (words := len(summary.split())) > self.max_words:
            yield f"max_words: {self.max_words}, and the summary has {words}"
        yield from (f"forbid_text: {each}" for each in self.forbid_text if holds(each, summary))

    def _broken_by_call(self, attempt: Attempt, made: Made) -> Iterator[str]:
        action = attempt.action
        if action in self.forbid_tools:
            yield f"forbid_tools: {action}"
        if self.only_tools and action not in self.only_tools:
            yield f"only_tools: {', '.join(self.only_tools)}"
        if attempt.tool.tool_type == "code":
            imported = [f"{each}." for each in read(attempt.code).imported]
            for module in self.forbid_imports:
                if any(each.startswith(f"{module}.") for each in imported):
                    yield f"forbid_imports: {module}"
        most = self.max_tool_calls
        if most is not None and sum(_has_run(each, attempt) for each in made()) >= most:
            yield f"max_tool_calls: {most}"


NO_RULES = Rules()


def task_stages(
    contract: ActionContract | None, rules: Rules = NO_RULES, made: Made = tuple
) -> tuple[Stage, ...]:
    """Return the stages of a task's contract (the goal check included) and of its rules.

    They run after the tools' validators.
    """
    stages: list[Stage] = []
    if contract is not None:
        stages.append(lambda attempt: _against_the_contract(contract, attempt, made))
    if rules:
        stages.append(lambda attempt: _against_a_rule(rules, attempt, made))
    return tuple(stages)


def nothing_open(open_parts: Callable[[], Sequence[str]]) -> Stage:
    """Build a stage that refuses ``return_done`` while the plan has open parts."""

    def stage(attempt: Attempt) -> Failure | None:
        waiting = list(open_parts()) if attempt.action == DONE else []
        if not waiting:
            return None
        again = "call plan again with what is done, or without a part that is not needed any more"
        remedy, reason = f"Go on with {waiting[0]!r}; {again}.", "; ".join(waiting)
        return _not_done(PLAN_OPEN, f"the plan is open: {reason}", remedy, open=waiting)

    return stage


def is_work(tool: Tool) -> bool:
    """Whether ``tool`` does work, rather than planning, ending or suspending the run."""
    return not tool.terminal and tool.tool_type != "plan"


def _has_run(step: Step, attempt: Attempt) -> bool:
    tool = attempt.tools.get(step.tool_called or "")
    ran = step.tool_output is not None or step.metadata.get("refusal") in _RAN
    return tool is not None and is_work(tool) and ran


def _against_a_rule(rules: Rules, attempt: Attempt, made: Made) -> Failure | None:
    rule = next(rules.broken_by(attempt, made), None)
    if rule is None:
        return None
    remedy = "Keep to the rule, or end the run and say what it leaves undone."
    reason = f"it breaks the rule {rule}"
    return _breaking(attempt, f"a rule of this task: {rule}", remedy, reason, rule=rule)


def _against_the_contract(contract: ActionContract, attempt: Attempt, made: Made) -> Failure | None:
    if not is_work(attempt.tool):
        return _beside_the_goal(contract, attempt, made)
    parameters = attempt.tool.parameters_schema.get("properties", {})
    broken = contract.violation(attempt.action, attempt.inputs, parameters)
    if broken is None:
        return None
    stated = (contract.allowed_tools, contract.serving_tools)
    limits = [each for each in stated if each is not None]
    names = {name for name, each in attempt.tools.items() if limits or is_work(each)}
    serving = sorted(names.intersection(*limits))
    identifiers = dict(contract.identifiers)
    kept = f", with {_listing(identifiers)}" if identifiers else ""
    remedy = f"The task allows: {', '.join(serving) or 'no tool'}{kept}."
    terms = f"the contract of this task: {broken}"
    return _breaking(attempt, terms, remedy, broken, allowed_tools=serving, identifiers=identifiers)


def _breaking(attempt: Attempt, terms: str, remedy: str, reason: str, **details: Any) -> Failure:
    return RULE_BROKEN.failure(
        f"{attempt.action} breaks {terms}. Nothing was run. {remedy}",
        # The model may send another action; a second violation goes to a person.
        action=Action.retry,
        tool_name=attempt.action,
        envelope={"reason": reason, "details": details},
    )


def _beside_the_goal(contract: ActionContract, attempt: Attempt, made: Made) -> Failure | None:
    # Only texts and numbers have a single spelling to look for.
    goal = {
        name: str(value)
        for name, value in contract.identifiers.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }
    summary = attempt.inputs.get("summary")
    if attempt.action != DONE or not (isinstance(summary, str) and summary):
        return None
    if not changed_an_identifier(made(), summary, goal):
        return None
    named = _listing(goal)
    reason = f"the answer is to another question than was asked, which is about {named}"
    remedy = (
        f"Do what was asked with {named}, and name it in the summary; or call return_unable with "
        "what stands in the way."
    )
    return _not_done(GOAL_DRIFT, reason, remedy, identifiers=goal)


def _not_done(cause: Cause, reason: str, remedy: str, **details: Any) -> Failure:
    return cause.failure(
        f"The run has not ended, for {reason}. {remedy}",
        tool_name=DONE,
        envelope={"reason": reason, "details": details},
    )


def _listing(identifiers: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in identifiers.items())
