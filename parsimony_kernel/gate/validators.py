"""The word of a tool's own validator, which may do anything while it is asked."""

from collections.abc import Callable
from typing import Any

from parsimony_kernel.agent.cancellation import Cancelled
from parsimony_kernel.execution.interrupt import CodeGuard
from parsimony_kernel.tools import is_bool, words_of

# Validators run on the event loop, where everything waits for them.
_LIMIT_S = 2.0
_REFUSED = "a validator refused it"


def reason_against(validator: Callable[[Any], Any], value: Any) -> str | None:
    """Why ``validator`` refuses ``value``; ``None`` when it accepts it within its time.

    Raises ``Cancelled`` when it was stopped by the person.
    """
    with CodeGuard(_LIMIT_S) as guard:
        try:
            reason = guard.call(_said, validator, value)
        except BaseException as exc:  # a foreign check may raise anything, and has then not passed
            if isinstance(exc, KeyboardInterrupt) and guard.reason is None:
                raise
            reason = _broken(exc)
    if guard.reason == "deadline":
        return f"a check of it took longer than {_LIMIT_S:g} s"
    if guard.reason is not None:
        raise Cancelled("stopped by the user")
    return reason


def _said(validator: Callable[[Any], Any], value: Any) -> str | None:
    try:
        said = validator(value)
        if said is None or isinstance(said, str):
            return said
        if is_bool(said):
            return None if said else _REFUSED
        return None if said.valid else said.reason or _REFUSED
    except ValueError as exc:
        return words_of(exc) or _REFUSED


def _broken(exc: BaseException) -> str:
    return f"a check of it broke ({type(exc).__name__}: {words_of(exc)})"
