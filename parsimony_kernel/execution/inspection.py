"""Inspect users' objects safely: type checks that run no user code, and ``attempt`` for the rest.

A class can run its own code in many places: in attributes of its metaclass, in ``__class__``, in
``__eq__`` and ``__hash__``. The type checks here are answered by the interpreter alone. Anything
that has to run user code runs in ``attempt``, which returns a result or lets an interruption
through, and nothing else.
"""

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

from parsimony_kernel.execution.interrupt import DeadlineReached
from parsimony_kernel.lineage.classes import loaded

T = TypeVar("T")

NAME_CHARS = 100

_name: Callable[[type], str] = type.__dict__["__name__"].__get__


def attempt(look: Callable[[], T], otherwise: Callable[[BaseException], T]) -> T:
    """Return ``look()``, or ``otherwise(exc)`` if it raises.

    A stop and a deadline are re-raised. A cancel is not: it is sent again while the code runs.
    """
    try:
        return look()
    except (KeyboardInterrupt, DeadlineReached):
        raise
    except BaseException as exc:  # boundary: user object - it may raise SystemExit
        return otherwise(exc)


def is_a(value: Any, *kinds: type[T]) -> TypeGuard[T]:
    """Whether the type of ``value`` is or inherits from one of ``kinds``, whatever it claims."""
    return issubclass(type(value), kinds)


def is_exactly(value: Any, *kinds: type) -> bool:
    """Whether the type of ``value`` is exactly one of ``kinds``, not a subclass."""
    return any(type(value) is kind for kind in kinds)


def comes_from(value: Any, module: str, *names: str) -> bool:
    """Whether ``value`` is an instance of a class ``names`` of ``module``, without importing it."""

    return is_a(value, *attempt(lambda: loaded(module, *names), lambda _: ()))


def class_name(kind: type) -> str:
    """Return the name of a class, at most 100 characters."""
    return plain(_name(kind))[:NAME_CHARS]


def type_name(value: Any) -> str:
    """Return the name of the class of ``value``."""
    return class_name(type(value))


def plain(text: str) -> str:
    """Return ``text`` as a plain, encodable ``str``, whatever subclass of ``str`` it is."""
    return str.__str__(text).encode("utf-8", "replace").decode()
