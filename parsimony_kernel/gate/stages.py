"""The checks that an action passes before it runs.

Each stage is a plain function ``-> Failure | None``; the gate asks them in order and the first
failure wins. A refusal tells what to send instead.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from parsimony_kernel.core.causes import BAD_ARGUMENTS, NOT_REACHABLE, NOT_REGISTERED
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.checks import Objection, objection
from parsimony_kernel.tools import Tools

_GOT = 80


@dataclass(frozen=True)
class Attempt:
    """One action as it was requested.

    ``over`` says that the run has ended already; ``approved`` is the hash of the one action that
    the person has allowed; ``recorded`` says of a write that it was begun before, so that it is
    answered from its record and not run. The stages add to ``outside`` what they find that the
    action would do outside the notebook, a sentence each, and to ``not_found`` what it says and no
    result supports.
    """

    action: str
    inputs: Mapping[str, Any]
    tools: Tools
    over: bool = False
    approved: str | None = None
    recorded: bool = False
    outside: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)


Stage = Callable[[Attempt], Failure | None]


def known(attempt: Attempt) -> Failure | None:
    """The action exists."""
    if attempt.action in attempt.tools:
        return None
    names = list(attempt.tools)
    likely = nearest(attempt.action, names)
    fields: dict[str, Any] = {"known_actions": names}
    hint = ""
    if likely is not None:
        fields["did_you_mean"] = likely
        hint = f" Did you mean {likely!r}?"
    return NOT_REGISTERED.failure(
        f"Tool {attempt.action!r} is not available.{hint} Available tools: {', '.join(names)}.",
        envelope=fields,
    )


def reachable(attempt: Attempt) -> Failure | None:
    """The action is possible now: nothing runs after the run has ended."""
    if not attempt.over:
        return None
    return NOT_REACHABLE.failure(
        f"{attempt.action!r} is not reachable: the run has ended. Nothing was run."
    )


def arguments(attempt: Attempt) -> Failure | None:
    """The inputs fit the tool's whole signature; every bad field is named."""
    if "_raw_args" in attempt.inputs:
        return _invalid(attempt, "the arguments are not a JSON object", {"field": "arguments"})
    tool = attempt.tools[attempt.action]
    try:
        tool.arguments.model_validate(dict(attempt.inputs))
    except ValidationError as exc:
        return _from_validation(attempt, exc)
    return None


def _from_validation(attempt: Attempt, exc: ValidationError) -> Failure:
    properties = list(attempt.tools[attempt.action].parameters_schema.get("properties", {}))
    problems: list[str] = []
    fields: list[dict[str, Any]] = []
    for error in exc.errors(include_url=False, include_context=False):
        path = ".".join(str(part) for part in error["loc"]) or "arguments"
        detail: dict[str, Any] = {"field": path, "problem": error["msg"]}
        if error["type"] == "missing":
            problems.append(f"{path!r} is missing")
        elif error["type"] == "extra_forbidden":
            likely = nearest(path, properties)
            problems.append(
                f"{path!r} is not a field"
                + (f" (did you mean {likely!r}?)" if likely else f" (fields: {properties})")
            )
        else:
            detail["got"] = _told(error["input"])
            problems.append(f"{path!r}: {error['msg']}, got {repr(error['input'])[:_GOT]}")
        fields.append(detail)
    return _invalid(attempt, "; ".join(problems), fields[0] if len(fields) == 1 else fields)


def _told(value: Any) -> Any:
    """What was sent, as it stands in JSON and short."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return (value if isinstance(value, str) else repr(value))[:_GOT]


def _invalid(attempt: Attempt, reason: str, details: Any) -> Failure:
    return BAD_ARGUMENTS.failure(
        f"{attempt.action}: {reason}. Nothing was run.",
        envelope={"reason": reason, "details": details},
    )


def validators(attempt: Attempt) -> Failure | None:
    """The tool's own checks have nothing against the inputs."""
    for validator in attempt.tools[attempt.action].validators:
        against = objection(validator, attempt.inputs)
        if against is not None:
            return _invalid(attempt, against.reason, _blamed(attempt.inputs, against))
    return None


def _blamed(inputs: Mapping[str, Any], against: Objection) -> Any:
    """The fields that a validator names; without a name it is certain where there is only one."""
    names = against.fields or (tuple(inputs) if len(inputs) == 1 else ("arguments",))
    told = [{"field": n} | ({"got": _told(inputs[n])} if n in inputs else {}) for n in names]
    return told[0] if len(told) == 1 else told


STAGES: tuple[Stage, ...] = (known, reachable, arguments, validators)
