"""What writes have done outside, so that none is done twice.

An intent is on record before a write runs and its commit after. An intent without a commit is
uncertain: it is reconciled against the source of truth, or a person says what happened.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

_SENSITIVE = frozenset({"delete", "modify", "transfer", "refund"})


@dataclass(frozen=True)
class Standing:
    """Where a write stands: ``intended`` is uncertain, ``committed`` has its ``answer``.

    ``others`` are the keys under which other runs began the same write and nobody knows its end;
    one of those runs may still be at it where ``may_go_on``.
    """

    state: Literal["intended", "committed"]
    answer: Any = None
    others: tuple[str, ...] = ()
    may_go_on: bool = False


class Effects(Protocol):
    """The record of writes. What it is told is kept before the call returns.

    A key is of one run. What another run intended and never ended, the same action with the same
    inputs, stands in the way as well, and is settled together with the run's own; what another
    run has committed does not.
    """

    def standing(
        self, key: str, action: str = "", inputs: Mapping[str, Any] | None = None
    ) -> Standing | None:
        """Where the write stands; ``None`` when it was never begun, or did not happen.

        Other runs are asked about only with ``action`` and ``inputs``.
        """
        ...

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> bool:
        """The write is about to run; what is committed stays.

        ``False`` when it had begun before, here or in another run, and so must not run.
        """
        ...

    def commit(self, key: str, answer: Any) -> None:
        """The write happened, whoever began it; ``answer`` is JSON."""
        ...

    def withdraw(self, key: str) -> None:
        """The write did not happen, and may be tried again; what is committed stays."""
        ...


class MemoryEffects:
    """A record that lives as long as its process."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._writes: dict[str, str] = {}

    def standing(
        self, key: str, action: str = "", inputs: Mapping[str, Any] | None = None
    ) -> Standing | None:
        own = self._standings.get(key)
        if own is not None and own.state == "committed":
            return own
        others = () if inputs is None else self._open(action_sha(action, inputs), key)
        return Standing("intended", others=others) if own is not None or others else None

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> bool:
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
        """The other keys under which ``write`` was begun and has no known end."""
        return tuple(
            each
            for each, standing in self._standings.items()
            if each != key and standing.state == "intended" and self._writes.get(each) == write
        )


def action_sha(action: str, inputs: Mapping[str, Any], *, run_id: str = "") -> str:
    """The identity of exactly this action: SHA-256 over its name and canonical inputs.

    With ``run_id`` it is the idempotency key of the write in that run.
    """
    text = json.dumps([run_id, action, dict(inputs)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def is_sensitive(action_type: object) -> bool:
    """Whether the name of an action says that it deletes, modifies, transfers or refunds."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(action_type or ""))
    words = re.findall(r"[^\W_]+", apart.casefold())
    return not _SENSITIVE.isdisjoint(words)
