"""The record of external writes (a write-ahead log), so that none is done twice.

The intent is recorded before a write runs and its commit afterwards. An intent without a commit is
uncertain: it is reconciled with the source of truth, or a person says what happened.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Inputs = Mapping[str, Any]

_SENSITIVE = frozenset({"delete", "modify", "transfer", "refund"})


@dataclass(frozen=True)
class Standing:
    """The state of a write: ``intended`` is uncertain, ``committed`` has its ``answer``.

    ``others`` are the keys under which other runs began the same write with unknown outcome;
    ``may_go_on`` means that one of those runs may still be working on it.
    """

    state: Literal["intended", "committed"]
    answer: Any = None
    others: tuple[str, ...] = ()
    may_go_on: bool = False


class Effects(Protocol):
    """The record of writes. Every change is recorded before the call returns.

    A key belongs to one run. The same action with the same inputs, begun by another run with
    unknown outcome, blocks the write as well, and is settled together with the run's own; another
    run's committed write does not.
    """

    def standing(self, key: str, action: str = "", inputs: Inputs | None = None) -> Standing | None:
        """Return the state of the write; ``None`` if it was never begun, or did not happen.

        Other runs are considered only with ``action`` and ``inputs``.
        """

    def intend(self, key: str, action: str, inputs: Inputs) -> bool:
        """Record that the write is about to run; a committed write stays committed.

        Returns:
            ``False`` if it was begun before, here or in another run, and so must not run.
        """

    def commit(self, key: str, answer: Any) -> None:
        """Record that the write happened, in whichever run; ``answer`` is JSON."""

    def withdraw(self, key: str) -> None:
        """Record that the write did not happen and may be retried; a committed one is kept."""


class MemoryEffects:
    """A record in memory, lost with its process."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._writes: dict[str, str] = {}

    def standing(self, key: str, action: str = "", inputs: Inputs | None = None) -> Standing | None:
        own = self._standings.get(key)
        if own is not None and own.state == "committed":
            return own
        others = () if inputs is None else self._open(action_sha(action, inputs), key)
        return Standing("intended", others=others) if own is not None or others else None

    def intend(self, key: str, action: str, inputs: Inputs) -> bool:
        began = self.standing(key, action, inputs) is not None
        self._standings.setdefault(key, Standing("intended"))
        self._writes[key] = action_sha(action, inputs)
        return not began

    def commit(self, key: str, answer: Any) -> None:
        for each in (key, *self._open(self._writes.get(key), key)):
            self._standings[each] = Standing("committed", answer)

    def withdraw(self, key: str) -> None:
        own = self._standings.get(key)
        if own is not None and own.state == "intended":
            for each in (key, *self._open(self._writes.get(key), key)):
                del self._standings[each]

    def _open(self, write: str | None, key: str) -> tuple[str, ...]:
        """Return the other keys under which ``write`` was begun with unknown outcome."""
        return tuple(
            each
            for each, standing in self._standings.items()
            if each != key and standing.state == "intended" and self._writes.get(each) == write
        )


def action_sha(action: str, inputs: Inputs, *, run_id: str = "") -> str:
    """Return the identity of exactly this action: SHA-256 over its name and canonical inputs.

    With ``run_id`` it is the idempotency key of the write in that run.
    """
    text = json.dumps([run_id, action, dict(inputs)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def is_sensitive(action_type: object) -> bool:
    """Return whether an action's name says that it deletes, modifies, transfers or refunds."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(action_type or ""))
    words = re.findall(r"[^\W_]+", apart.casefold())
    return not _SENSITIVE.isdisjoint(words)
