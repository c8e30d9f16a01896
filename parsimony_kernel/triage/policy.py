"""What is done about a failure, by its type: recovery actions, the strategies that choose among
them, and a policy that gives each type its strategy.

``RecoveryAction.RETRY(hint=…)`` and its six siblings are frozen values; ``RecoveryAction.RETRY`` is
also their class, for ``isinstance`` and ``match``. A policy is a frozen value too: one field per
type, each a strategy or nothing. What it leaves out, and ``default`` does not cover, is answered
as the table in ``RECOVERY`` says.
"""

import functools
import inspect
import reprlib
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, get_args, get_type_hints

import yaml
from tenacity import RetryCallState, Retrying, wait_random_exponential

from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.taxonomy import FailureContext, FailureType


@dataclass(frozen=True)
class RecoveryAction:
    """One of seven plans."""

    RETRY: ClassVar[type["Retry"]]
    REPLAN: ClassVar[type["Replan"]]
    ROLLBACK: ClassVar[type["Rollback"]]
    RESUME: ClassVar[type["Resume"]]
    ESCALATE: ClassVar[type["Escalate"]]
    SUSPEND: ClassVar[type["Suspend"]]
    ABORT: ClassVar[type["Abort"]]

    @property
    def name(self) -> str:
        """The name under which the class stands here."""
        return type(self).__name__.upper()


@dataclass(frozen=True)
class Retry(RecoveryAction):
    """The same step again, after ``delay`` seconds, knowing ``hint`` and the values of ``inject``.

    ``ValueError`` when the delay is negative.
    """

    hint: str | None = None
    inject: Mapping[str, Any] | None = None
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not self.delay >= 0:
            raise ValueError(f"a delay is 0 or more seconds, not {self.delay!r}")


@dataclass(frozen=True)
class Replan(RecoveryAction):
    """Another way to the same goal, knowing ``hint``."""

    hint: str | None = None


@dataclass(frozen=True)
class Rollback(RecoveryAction):
    """Back to a state whose checks passed; ``None`` is the newest."""

    checkpoint_id: str | None = None


@dataclass(frozen=True)
class Resume(RecoveryAction):
    """On from a part of the plan that is open; ``None`` is the first."""

    from_subgoal: str | None = None


@dataclass(frozen=True)
class Escalate(RecoveryAction):
    """Hand the task to a person."""

    message: str = ""


@dataclass(frozen=True)
class Suspend(RecoveryAction):
    """Ask a person and wait."""

    message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Abort(RecoveryAction):
    """Stop, with what there is."""

    reason: str = ""


ACTIONS: Mapping[str, type[RecoveryAction]] = {
    each.__name__.upper(): each
    for each in (Retry, Replan, Rollback, Resume, Escalate, Suspend, Abort)
}
for _name, _action in ACTIONS.items():
    setattr(RecoveryAction, _name, _action)

Strategy = Callable[[FailureContext], Awaitable[RecoveryAction]]


def configurable(function: Callable[..., Awaitable[RecoveryAction]]) -> Callable[..., Any]:
    """``function`` as a strategy, which called with settings alone gives a strategy with them.

    ``TypeError``, at once, for settings that it does not have.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def strategy(*given: Any, **settings: Any) -> Any:
        if given and isinstance(given[0], FailureContext):
            return function(*given, **settings)
        signature.bind(None, *given, **settings)

        @functools.wraps(function)
        async def configured(context: FailureContext) -> RecoveryAction:
            return await function(context, *given, **settings)

        return configured

    return strategy


# Strategies: past its ``max_attempts`` each calls a person.


@configurable
async def escalate(context: FailureContext, message: str = "") -> RecoveryAction:
    """Hand the task over, saying what failed last."""
    step = context.last_step
    seen = context.raw_error or (step.error if step else None)
    told = f"{context.failure_type.value}: {seen}" if seen else context.failure_type.value
    return RecoveryAction.ESCALATE(message=message or told)


MIN_WAIT_S = 1.0
MAX_WAIT_S = 30.0


@configurable
async def retry_with_tool_manifest(
    context: FailureContext, tools: Iterable[str] = (), *, max_attempts: int = 2
) -> RecoveryAction:
    """Again, knowing which tools there are and which was probably meant."""
    known = list(tools) or list(context.run.tools)
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"a tool that does not exist was called {context.attempts + 1} times"
        )
    step = context.last_step
    called = step.tool_called if step else None
    hint = f"There is no tool {called!r}." if called else "That tool does not exist."
    if called and (likely := nearest(called, known)) is not None:
        hint += f" Did you mean {likely!r}?"
    if known:
        hint += f" Tools: {', '.join(known)}."
    return RecoveryAction.RETRY(hint=hint, inject={"tools": known} if known else None)


@configurable
async def retry_with_schema_hint(
    context: FailureContext, *, max_attempts: int = 2
) -> RecoveryAction:
    """Again, knowing what did not fit."""
    step = context.last_step
    seen = context.raw_error or (step.error if step else None) or "no details were given"
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"the structure was wrong {context.attempts + 1} times: {seen}"
        )
    where = f" of {step.tool_called}" if step and step.tool_called else ""
    return RecoveryAction.RETRY(
        hint=f"What was sent or returned{where} does not have the structure expected: {seen}"
    )


@configurable
async def backoff_and_retry(
    context: FailureContext,
    *,
    max_attempts: int = 3,
    min_wait_s: float = MIN_WAIT_S,
    max_wait_s: float = MAX_WAIT_S,
) -> RecoveryAction:
    """Again after a wait that grows and is random; what the service asks for is the least.

    What ran past its deadline may have happened: unless doing it twice is the same as once, or it
    is known to have had no effect, a person is asked.
    """
    step = context.last_step
    facts: dict[str, Any] = {**(step.metadata if step else {}), **context.metadata}
    effect = facts.get("effect")
    is_open = context.failure_type is FailureType.TIMEOUT and effect != "none"
    if effect == "uncertain" or (is_open and not (step and step.idempotent)):
        return RecoveryAction.SUSPEND(
            message="The last action may have happened, or not. Check before it is done again.",
            metadata={"effect": "uncertain", "tool": step.tool_called if step else None},
        )
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"the service failed {context.attempts + 1} times in a row"
        )
    asked = facts.get("retry_after_s")
    wait = _wait(context.attempts + 1, min_wait_s, max_wait_s)
    return RecoveryAction.RETRY(delay=max(wait, asked) if isinstance(asked, int | float) else wait)


def _wait(attempt: int, least_s: float, most_s: float) -> float:
    # Twice the least to begin with: a first window of one point would have no jitter.
    wait = wait_random_exponential(multiplier=2 * least_s, max=most_s, min=least_s)
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    return wait(state)


_HINTS = {
    FailureType.CONSTRAINT_IGNORED: "A constraint of the task was broken. Keep to: {rules}.",
    FailureType.LOOP_DETECTED: (
        "{tool} was called again with the same input and gave the same. What it says is known by "
        "now: use it, or take another way."
    ),
    FailureType.CONTEXT_OVERFLOW: (
        "The context is too long. Go on from the checked facts and the open work alone. "
        "The task: {task}"
    ),
    FailureType.GOAL_DRIFT: "The work has left the task. The task is: {task}",
    FailureType.HALLUCINATED_STATE: (
        "Something was asserted that no tool's output shows. Observe it, or leave it out."
    ),
}
_OTHERWISE = "The last way failed ({error}). Take another one to the same goal."


@configurable
async def replan(
    context: FailureContext, hint: str | None = None, *, max_attempts: int = 2
) -> RecoveryAction:
    """Another plan, knowing what was wrong with the last one."""
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"{context.failure_type.value} {context.attempts + 1} times"
        )
    step = context.last_step
    text = hint or _HINTS.get(context.failure_type, _OTHERWISE)
    return RecoveryAction.REPLAN(
        hint=text
        if hint
        else text.format(
            rules="; ".join(context.run.constraints) or "what the task states",
            tool=(step.tool_called if step else None) or "The tool",
            task=context.original_task,
            error=context.raw_error or (step.error if step else None) or "no details",
        )
    )


@configurable
async def resume_from_subgoal(
    context: FailureContext, subgoal: str | None = None, *, max_attempts: int = 2
) -> RecoveryAction:
    """On from ``subgoal``, else from the first part of the plan that is open."""
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message="the plan is still open: " + "; ".join(context.run.open_subgoals)
        )
    first = next(iter(context.run.open_subgoals), None)
    return RecoveryAction.RESUME(from_subgoal=subgoal or first)


@configurable
async def rollback_to_checkpoint(
    context: FailureContext, checkpoint_id: str | None = None, *, max_attempts: int = 1
) -> RecoveryAction:
    """Back to ``checkpoint_id``, else to the newest state; another plan when there is none."""
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"{context.failure_type.value} again after going back"
        )
    newest = context.run.checkpoints[-1] if context.run.checkpoints else None
    target = checkpoint_id or newest
    return await replan(context) if target is None else RecoveryAction.ROLLBACK(target)


# Policies.

STRATEGIES: Mapping[str, Any] = {
    each.__name__: each
    for each in (
        backoff_and_retry,
        escalate,
        replan,
        resume_from_subgoal,
        retry_with_schema_hint,
        retry_with_tool_manifest,
        rollback_to_checkpoint,
    )
}


def _chained(*strategies: Strategy) -> Strategy:
    async def chain(context: FailureContext) -> RecoveryAction:
        for strategy in strategies[:-1]:
            action = await strategy(context)
            if not isinstance(action, RecoveryAction.ESCALATE):
                return action
        return await strategies[-1](context)

    return chain


RECOVERY: Mapping[FailureType, Strategy] = {
    FailureType.WRONG_TOOL_CALLED: retry_with_tool_manifest,
    FailureType.CONSTRAINT_IGNORED: replan,
    FailureType.LOOP_DETECTED: _chained(
        replan(max_attempts=1), rollback_to_checkpoint(max_attempts=2)
    ),
    FailureType.HALLUCINATED_STATE: rollback_to_checkpoint,
    FailureType.PLAN_INCOMPLETE: resume_from_subgoal,
    FailureType.SCHEMA_MISMATCH: retry_with_schema_hint,
    FailureType.CONTEXT_OVERFLOW: replan,
    FailureType.GOAL_DRIFT: replan,
    FailureType.EXTERNAL_FAULT: backoff_and_retry,
    FailureType.TIMEOUT: backoff_and_retry,
    FailureType.UNKNOWN: escalate,
}


@dataclass(frozen=True)
class FailurePolicy:
    """One strategy per type of failure; ``default`` answers the types that have none."""

    WRONG_TOOL_CALLED: Strategy | None = None
    CONSTRAINT_IGNORED: Strategy | None = None
    LOOP_DETECTED: Strategy | None = None
    HALLUCINATED_STATE: Strategy | None = None
    PLAN_INCOMPLETE: Strategy | None = None
    SCHEMA_MISMATCH: Strategy | None = None
    CONTEXT_OVERFLOW: Strategy | None = None
    GOAL_DRIFT: Strategy | None = None
    EXTERNAL_FAULT: Strategy | None = None
    TIMEOUT: Strategy | None = None
    UNKNOWN: Strategy | None = None
    default: Strategy | None = None

    def stated(self, failure_type: FailureType) -> Strategy | None:
        """What this policy itself says about a type: its field, else ``default``."""
        own: Strategy | None = getattr(self, FailureType(failure_type).name)
        return own or self.default

    def resolve(self, failure_type: FailureType) -> Strategy:
        """The strategy that answers a type; never nothing."""
        kind = FailureType(failure_type)
        return self.stated(kind) or RECOVERY[kind]

    async def dispatch(self, context: FailureContext) -> RecoveryAction:
        """What the strategy of the failure's type says.

        A strategy that raises, or gives no recovery action, escalates: it is somebody's code, and
        the failure that it was asked about must still reach a person.
        """
        try:
            action = await self.resolve(context.failure_type)(context)
        except Exception as exc:  # boundary: tool - a host's strategy; its trouble is told
            return RecoveryAction.ESCALATE(
                message=f"the strategy for {context.failure_type.name} failed: "
                f"{type(exc).__name__}: {exc}"
            )
        if isinstance(action, RecoveryAction):
            return action
        return RecoveryAction.ESCALATE(
            message=f"the strategy for {context.failure_type.name} gave {action!r}, "
            "which is no RecoveryAction"
        )

    @staticmethod
    def sequence(*strategies: Strategy) -> Strategy:
        """The first strategy for the first failure of a type, the second for the second, and so
        on; after the last one a person. ``ValueError`` for none."""
        _require(strategies, "sequence")

        async def sequence(context: FailureContext) -> RecoveryAction:
            turn = context.attempts
            chosen = strategies[turn] if turn < len(strategies) else escalate
            return await chosen(context)

        return sequence

    @staticmethod
    def chain(*strategies: Strategy) -> Strategy:
        """Asked in order for every failure: one that escalates passes it on to the next, and the
        last has the last word. ``ValueError`` for none."""
        _require(strategies, "chain")
        return _chained(*strategies)

    @classmethod
    def escalate_by_default(cls, **strategies: Strategy) -> "FailurePolicy":
        """A policy that hands over whatever ``strategies`` do not name."""
        stated: dict[str, Strategy] = {"default": escalate, **strategies}
        return cls(**stated)

    @classmethod
    def from_dict(
        cls, entries: Mapping[str, Any], *, strategies: Mapping[str, Any] | None = None
    ) -> "FailurePolicy":
        """A policy from plain values.

        Keys are names or values of types, or ``default``. An entry is the name of a strategy;
        ``{"strategy": name, …settings}``; ``{"action": "SUSPEND", …fields}``; a list, which is
        taken as a sequence; or a strategy itself. ``strategies`` adds names to ``STRATEGIES``.

        ``ValueError`` names the entry that cannot be read, and what could stand there.
        """
        known = {**STRATEGIES, **(strategies or {})}
        return cls(**{_field(key): _strategy(key, entry, known) for key, entry in entries.items()})

    @classmethod
    def from_yaml(
        cls, source: str | Path, *, strategies: Mapping[str, Any] | None = None
    ) -> "FailurePolicy":
        """The same from YAML: a path, or the text itself when it has more than one line or a
        colon and a space. ``ValueError`` as above, ``OSError`` when there is no such file."""
        is_text = isinstance(source, str) and ("\n" in source or ": " in source)
        text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
        try:
            entries = yaml.safe_load(text)
        except yaml.YAMLError as exc:
            raise ValueError(f"the policy is not YAML: {exc}") from exc
        except (ArithmeticError, AttributeError, LookupError, TypeError) as exc:
            raise ValueError("a value of the policy does not fit its tag") from exc
        if not isinstance(entries, Mapping):
            raise ValueError(
                f"a policy maps types to strategies, and this is {reprlib.repr(entries)}"
            )
        try:
            return cls.from_dict(entries, strategies=strategies)
        except RecursionError:
            raise ValueError("the policy contains itself; write it out") from None


def _require(strategies: Sequence[Strategy], what: str) -> None:
    if not strategies:
        raise ValueError(f"a {what} needs at least one strategy")


def _field(key: str) -> str:
    name = str(key).casefold()
    by_name = {field.name.casefold(): field.name for field in fields(FailurePolicy)}
    if name not in by_name:
        known = by_name.values()
        raise ValueError(f"{key!r} is no type of failure; {_choose(str(key).upper(), known)}")
    return by_name[name]


def _strategy(key: str, entry: Any, known: Mapping[str, Any]) -> Strategy:
    if callable(entry):
        return entry  # type: ignore[no-any-return]
    if isinstance(entry, str):
        return _named(key, entry, known)
    if isinstance(entry, list) and entry:
        return FailurePolicy.sequence(*(_strategy(key, each, known) for each in entry))
    if isinstance(entry, Mapping) and "strategy" in entry:
        settings = {name: value for name, value in entry.items() if name != "strategy"}
        strategy: Any = _named(key, _word(entry["strategy"]), known)
        _check(key, strategy, settings)
        try:
            made: Strategy = strategy(**settings) if settings else strategy
        except TypeError as exc:
            taken = list(inspect.signature(strategy).parameters)[1:]
            raise ValueError(
                f"{key}: {entry['strategy']} takes no such settings: {exc}; "
                f"it takes {', '.join(taken) or 'none'}"
            ) from exc
        return made
    if isinstance(entry, Mapping) and "action" in entry:
        return _constant(key, entry)
    raise ValueError(
        f"{key}: {reprlib.repr(entry)} is no strategy: write its name, a list of them, or "
        "a mapping with 'strategy' or 'action'"
    )


def _word(value: Any) -> str:
    return value if isinstance(value, str) else reprlib.repr(value)


def _check(key: str, made_by: Any, settings: Mapping[str, Any]) -> None:
    """``ValueError`` for a setting whose value is not of the type that it is declared with.

    Only of types that a file can hold; what else a host's strategy declares is its own matter.
    """
    try:
        declared = get_type_hints(inspect.unwrap(made_by))
    except Exception:  # boundary: tool - a host's annotations may name anything
        return
    for name, value in settings.items():
        hint = declared.get(name)
        options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if value is None and NoneType in options:
            continue
        checks = [_CHECKS[each] for each in options if each in _CHECKS]
        if checks and not any(holds(value) for holds, _ in checks):
            wanted = " or ".join(words for _, words in checks)
            raise ValueError(f"{key}: {name} is {wanted}, not {reprlib.repr(value)}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= sys.float_info.max


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


_CHECKS: Mapping[Any, tuple[Callable[[Any], bool], str]] = {
    int: (_is_count, "a whole number, 0 or more"),
    float: (_is_amount, "a finite number, 0 or more"),
    str: (lambda value: isinstance(value, str), "text"),
    Iterable[str]: (_are_texts, "a list of texts"),
    Mapping[str, Any]: (lambda value: isinstance(value, Mapping), "a mapping"),
}


def _named(key: str, name: str, known: Mapping[str, Any]) -> Strategy:
    if name not in known:
        raise ValueError(f"{key}: there is no strategy {name!r}; {_choose(name, known)}")
    return known[name]  # type: ignore[no-any-return]


def _choose(name: str, known: Iterable[str]) -> str:
    names = list(known)
    likely = nearest(name, names)
    meant = f"did you mean {likely!r}? " if likely else ""
    return f"{meant}There are {', '.join(names)}"


def _constant(key: str, entry: Mapping[str, Any]) -> Strategy:
    name = _word(entry["action"]).upper()
    given = {field: value for field, value in entry.items() if field != "action"}
    if name not in ACTIONS:
        raise ValueError(f"{key}: there is no action {name!r}; {_choose(name, ACTIONS)}")
    _check(key, ACTIONS[name], given)
    try:
        action = ACTIONS[name](**given)
    except TypeError as exc:
        taken = [each.name for each in fields(ACTIONS[name])]
        raise ValueError(
            f"{key}: {name} has no such field: {exc}; it has {', '.join(taken) or 'none'}"
        ) from exc

    async def constant(context: FailureContext) -> RecoveryAction:
        return action

    return constant
