"""The word of a tool's own validator, which may do anything while it is asked."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from parsimony_kernel.core.cancellation import Cancelled
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.interrupt import CodeGuard
from parsimony_kernel.tools import is_bool

# Validators run on the event loop, where everything waits for them.
_LIMIT_S = 2.0
_REFUSED = "a validator refused it"


class Objection(NamedTuple):
    """Why a validator refuses, and the fields that it names, if any."""

    reason: str
    fields: tuple[str, ...] = ()


def objection(validator: Callable[[Any], Any], value: Any) -> Objection | None:
    """Why ``validator`` refuses ``value``; ``None`` when it accepts it within its time.

    Raises ``Cancelled`` when it was stopped by the person.
    """
    with CodeGuard(_LIMIT_S) as guard:
        try:
            against = guard.call(_said, validator, value)
        except BaseException as exc:  # boundary: tool - a check that has not passed
            if isinstance(exc, KeyboardInterrupt) and guard.reason is None:
                raise
            against = _broken(exc)
    if guard.reason == "deadline":
        return Objection(f"a check of it took longer than {_LIMIT_S:g} s")
    if guard.reason is not None:
        raise Cancelled("stopped by the user")
    return against


def _said(validator: Callable[[Any], Any], value: Any) -> Objection | None:
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


def _broken(exc: BaseException) -> Objection:
    return Objection(f"a check of it broke ({type(exc).__name__}: {words_of(exc)})")
