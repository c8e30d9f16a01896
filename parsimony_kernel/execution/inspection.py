"""Looking at a user's object: the one place where it may answer back.

A class runs code of its own wherever Python lets it: in the attributes of its metaclass, in
``__class__``, in ``__eq__`` and ``__hash__``. What is asked by name here is answered by the
interpreter alone. Whatever has to run the user's code runs in ``attempt``, out of which come an
answer and what stops code, and nothing else.
"""

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

from parsimony_kernel.execution.interrupt import DeadlineReached
from parsimony_kernel.lineage.classes import loaded

T = TypeVar("T")

NAME_CHARS = 100

_name: Callable[[type], str] = type.__dict__["__name__"].__get__


def attempt(look: Callable[[], T], otherwise: Callable[[BaseException], T]) -> T:
    """What ``look`` finds, or what ``otherwise`` makes of the exception that it met.

    A stop and a deadline go through. A cancel does not: it comes again while the code runs on.
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
    """Whether ``value`` is of one of ``kinds`` and not of a subclass."""
    return any(type(value) is kind for kind in kinds)


def comes_from(value: Any, module: str, *names: str) -> bool:
    """Whether it is an instance of a class of that ``module``, which is not imported for it."""

    return is_a(value, *attempt(lambda: loaded(module, *names), lambda _: ()))


def class_name(kind: type) -> str:
    """The name of a class, at most 100 characters."""
    return plain(_name(kind))[:NAME_CHARS]


def type_name(value: Any) -> str:
    """The name of the class of ``value``."""
    return class_name(type(value))


def plain(text: str) -> str:
    """``text`` as a ``str`` that can be encoded, whatever subclass of ``str`` it is."""
    return str.__str__(text).encode("utf-8", "replace").decode()
