"""What the places that a session writes to may say, told as why a turn cannot be had."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from parsimony_kernel.session.turns import SessionError
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.keyring import KeyringError

P = ParamSpec("P")
T = TypeVar("T")

# Each text of theirs is a sentence with the remedy.
TROUBLE = (JournalError, StorageError, KeyringError)


def explained(method: Callable[P, T]) -> Callable[P, T]:
    """``method`` with what the journal and the disk say as a ``SessionError``."""

    @wraps(method)
    def telling(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return method(*arguments, **named)
        except TROUBLE as exc:
            raise SessionError(str(exc)) from exc

    return telling
