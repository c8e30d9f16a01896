"""Which strategy answers which type of failure.

A policy is a frozen value: one field per type, each a strategy or nothing. What it leaves out, and
``default`` does not cover, is answered as the table in ``RECOVERY`` below says.
"""

import inspect
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import yaml

from parsimony_kernel.gate.stages import nearest
from parsimony_kernel.triage.actions import ACTIONS, RecoveryAction, Strategy
from parsimony_kernel.triage.strategies.escalate import escalate
from parsimony_kernel.triage.strategies.replan import replan, resume_from_subgoal
from parsimony_kernel.triage.strategies.retry import (
    backoff_and_retry,
    retry_with_schema_hint,
    retry_with_tool_manifest,
)
from parsimony_kernel.triage.strategies.rollback import rollback_to_checkpoint
from parsimony_kernel.triage.taxonomy import FailureContext, FailureType

__all__ = ["RECOVERY", "STRATEGIES", "FailurePolicy", "RecoveryAction", "Strategy"]

STRATEGIES: Mapping[str, Any] = {
    "backoff_and_retry": backoff_and_retry,
    "escalate": escalate,
    "replan": replan,
    "resume_from_subgoal": resume_from_subgoal,
    "retry_with_schema_hint": retry_with_schema_hint,
    "retry_with_tool_manifest": retry_with_tool_manifest,
    "rollback_to_checkpoint": rollback_to_checkpoint,
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
        except Exception as exc:  # a host's function may do anything, and its trouble is told
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
    except Exception:  # a host's annotations may name anything
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
