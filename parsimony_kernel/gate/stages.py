"""Checks of an action: stages before it runs, and validators of its output.

Each stage is a plain function ``-> Failure | None``; the gate runs them in order and the first
failure wins. A refusal says what to send instead. A host's own checks (tool validators, procedure
guards) run on the event loop, block it, and may do anything; so they get a deadline.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from parsimony_kernel.core.cancellation import Cancelled
from parsimony_kernel.core.causes import BAD_ARGUMENTS, NOT_REGISTERED
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.interrupt import CodeGuard
from parsimony_kernel.gate.body import refused_output
from parsimony_kernel.gate.envelope import plain
from parsimony_kernel.tools import Tool, ToolResult, Tools, is_bool

T = TypeVar("T")

# Deadline of a host's check in seconds: it blocks the event loop.
CHECK_S = 2.0
_REFUSED = "a validator refused it"
_GOT = 80


@dataclass(frozen=True)
class Attempt:
    """One requested action.

    ``approved`` is the hash of the one action that the person approved. ``recorded`` marks a write
    that was begun before: it is answered from its record and not run. The stages append to
    ``outside`` a sentence for each side effect outside the notebook, and to ``not_found`` each
    statement that no result supports. ``repeated`` are sentences on downloads that are run again.
    """

    action: str
    inputs: Mapping[str, Any]
    tools: Tools
    approved: str | None = None
    recorded: bool = False
    outside: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)

    @property
    def tool(self) -> Tool:
        """The requested tool; ``KeyError`` if it doesn't exist."""
        return self.tools[self.action]

    @property
    def code(self) -> str:
        """The code to run; empty if there is none."""
        return str(self.inputs.get("code", ""))


Stage = Callable[[Attempt], Failure | None]


class CheckError(Exception):
    """A check gave no answer; the message is a clause that follows the check's name."""


# A validator's objections: reasons by field name; the name is empty if no field is named.
Objections = Mapping[str, str]


def known(attempt: Attempt) -> Failure | None:
    """Refuse an action that doesn't exist."""
    if attempt.action in attempt.tools:
        return None
    names = list(attempt.tools)
    likely = nearest(attempt.action, names)
    hint = f" Did you mean {likely!r}?" if likely else ""
    fields = {"known_actions": names, **({"did_you_mean": likely} if likely else {})}
    return NOT_REGISTERED.failure(
        f"Tool {attempt.action!r} is not available.{hint} Available tools: {', '.join(names)}.",
        envelope=fields,
    )


def arguments(attempt: Attempt) -> Failure | None:
    """Refuse inputs that don't fit the tool's signature, naming every bad field."""
    if "_raw_args" in attempt.inputs:
        return _invalid(attempt, "the arguments are not a JSON object", [{"field": "arguments"}])
    try:
        attempt.tool.arguments.model_validate(dict(attempt.inputs))
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False)
        wrong = [_misfit(attempt.tool, error) for error in errors]
        return _invalid(attempt, "; ".join(why for why, _ in wrong), [each for _, each in wrong])
    return None


def _misfit(tool: Tool, error: Any) -> tuple[str, dict[str, Any]]:
    """Describe one invalid argument, as a clause and as fields."""
    path = ".".join(map(str, error["loc"])) or "arguments"
    fields = {"field": path, "problem": error["msg"]}
    if error["type"] == "missing":
        return f"{path!r} is missing", fields
    if error["type"] == "extra_forbidden":
        known = list(tool.parameters_schema.get("properties", {}))
        likely = nearest(path, known)
        hint = f"did you mean {likely!r}?" if likely else f"fields: {known}"
        return f"{path!r} is not a field ({hint})", fields
    got = error["input"]
    return f"{path!r}: {error['msg']}, got {repr(got)[:_GOT]}", {**fields, "got": _told(got)}


def _told(value: Any) -> Any:
    """Return a sent value for JSON: plain values as they are, others as a short ``repr``."""
    return value if value is None or isinstance(value, str | int | float) else repr(value)[:_GOT]


def _invalid(attempt: Attempt, reason: str, details: Sequence[Any]) -> Failure:
    return BAD_ARGUMENTS.failure(
        f"{attempt.action}: {reason}. Nothing was run.",
        envelope={"reason": reason, "details": details[0] if len(details) == 1 else details},
    )


def validators(attempt: Attempt) -> Failure | None:
    """Refuse inputs that the tool's own validators reject."""
    inputs = attempt.inputs
    # An unnamed objection to a single input can only mean that input.
    otherwise = next(iter(inputs)) if len(inputs) == 1 else "arguments"
    for validator in attempt.tool.validators:
        if against := objections(validator, inputs):
            blamed = [_blamed(name or otherwise, inputs) for name in against]
            return _invalid(attempt, _in_words(against), blamed)
    return None


def _blamed(name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"field": name, "got": _told(inputs[name])} if name in inputs else {"field": name}


STAGES: tuple[Stage, ...] = (arguments, validators)


# -- the host's checks


def run_check(check: Callable[..., T], *arguments: Any) -> T:
    """Call ``check`` for at most ``CHECK_S`` seconds.

    Raises:
        CheckError: it raised, or missed the deadline.
        Cancelled: the person stopped it, whatever it raised or returned then.
    """
    guard = CodeGuard(CHECK_S)
    try:
        with guard:
            guard.check()
            answer = guard.call(check, *arguments)
    except BaseException as exc:  # boundary: tool - a check may raise anything
        if guard.reason is None:
            if isinstance(exc, KeyboardInterrupt):
                raise
            raise CheckError(f"broke ({type(exc).__name__}: {words_of(exc)})") from exc
    if guard.reason == "deadline":
        raise CheckError(f"took longer than {CHECK_S:g} s")
    if guard.reason is not None:
        raise Cancelled("stopped by the user")
    return answer


def objections(validator: Callable[[Any], Any], value: Any) -> Objections:
    """Return a validator's objections to ``value``; empty if it accepts it in time."""
    try:
        return run_check(_verdict, validator, value)
    except CheckError as exc:
        return {"": f"a check of it {exc}"}


def _verdict(validator: Callable[[Any], Any], value: Any) -> Objections:
    try:
        answer = validator(value)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False, include_input=False)
        return {".".join(map(str, each["loc"])): each["msg"] for each in errors}
    except ValueError as exc:
        return {"": words_of(exc) or _REFUSED}
    if isinstance(answer, Mapping):
        return {str(name): str(why) for name, why in answer.items()}
    if answer is None or isinstance(answer, str):
        return {} if answer is None else {"": answer}
    is_fine = answer if is_bool(answer) else answer.valid
    return {} if is_fine else {"": getattr(answer, "reason", "") or _REFUSED}


def _in_words(against: Objections) -> str:
    return "; ".join(why if name in why else f"{name}: {why}" for name, why in against.items())


def validated_output(tool: Tool, result: ToolResult) -> ToolResult:
    """Return ``result`` if every output validator accepts its data, else a failure.

    Validators run in order and the first refusal stops; a validator that raises counts as a
    refusal. For a write they judge the recorded form, so that the verdict is the same each time it
    is answered from the record.
    """
    if result.failure is not None or not tool.output_validators:
        return result
    judged = plain(result.data) if tool.effect == "write" else result.data
    for validator in tool.output_validators:
        if against := objections(validator, judged):
            return refused_output(tool, _in_words(against), result.data)
    return result
