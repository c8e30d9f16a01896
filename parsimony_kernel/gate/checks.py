"""Checks that a host wrote: validators of tools, and guards of procedures.

They run on the event loop, where everything waits for them, and may do anything meanwhile.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from parsimony_kernel.core.cancellation import Cancelled
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.interrupt import CodeGuard
from parsimony_kernel.gate.jsonable import plain
from parsimony_kernel.gate.tool_result import refused_output
from parsimony_kernel.tools import Tool, ToolResult, is_bool

T = TypeVar("T")

VALIDATOR_S = 2.0
_REFUSED = "a validator refused it"


class CheckError(Exception):
    """A check gave no answer; says why, in words that follow its name."""


class Objection(NamedTuple):
    """Why a validator refuses, and the fields that it names, if any."""

    reason: str
    fields: tuple[str, ...] = ()


def run_check(seconds: float, check: Callable[..., T], *arguments: Any) -> T:
    """Call ``check`` for at most ``seconds``.

    Raises:
        CheckError: it raised something, or was not done in time.
        Cancelled: the person stopped it, whatever it made of that.
    """
    guard = CodeGuard(seconds)
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
        raise CheckError(f"took longer than {seconds:g} s")
    if guard.reason is not None:
        raise Cancelled("stopped by the user")
    return answer


def objection(validator: Callable[[Any], Any], value: Any) -> Objection | None:
    """Why ``validator`` refuses ``value``; ``None`` when it accepts it in time."""
    try:
        return run_check(VALIDATOR_S, _verdict, validator, value)
    except CheckError as exc:
        return Objection(f"a check of it {exc}")


def _verdict(validator: Callable[[Any], Any], value: Any) -> Objection | None:
    try:
        said = validator(value)
        if said is None or isinstance(said, str):
            return None if said is None else Objection(said)
        if isinstance(said, Mapping):
            return _of_fields([(str(name), str(why)) for name, why in said.items()])
        if is_bool(said):
            return None if said else Objection(_REFUSED)
        return None if said.valid else Objection(said.reason or _REFUSED)
    except ValidationError as exc:
        errors = exc.errors(include_url=False, include_context=False, include_input=False)
        return _of_fields([(".".join(map(str, each["loc"])), each["msg"]) for each in errors])
    except ValueError as exc:
        return Objection(words_of(exc) or _REFUSED)


def _of_fields(whys: list[tuple[str, str]]) -> Objection | None:
    """The objection of a validator that names its fields; one without a name is of them all."""
    told = "; ".join(why if name in why else f"{name}: {why}" for name, why in whys)
    return Objection(told, tuple(name or "arguments" for name, _ in whys)) if whys else None


def validated_output(tool: Tool, result: ToolResult) -> ToolResult:
    """``result`` itself when every output validator accepts its data, in order; else a failure.

    The first refusal stops, and a validator that breaks has accepted nothing. Of a write they
    judge what is on record, so that the word about it is the same each time it is told.
    """
    if result.failure is not None or not tool.output_validators:
        return result
    judged = plain(result.data) if tool.effect == "write" else result.data
    for validator in tool.output_validators:
        against = objection(validator, judged)
        if against is not None:
            return refused_output(tool, against.reason, result.data)
    return result
