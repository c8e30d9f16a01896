"""What writes have done outside, so that none is done twice.

An intent is on record before a write runs and its commit after. An intent without a commit is
uncertain: it is reconciled against the source of truth, or a person says what happened.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class Standing:
    """Where a write stands: ``intended`` is uncertain, ``committed`` has its ``answer``."""

    state: Literal["intended", "committed"]
    answer: Any = None


class Effects(Protocol):
    """The record of writes. What it is told is kept before the call returns."""

    def standing(self, key: str) -> Standing | None:
        """Where the write stands; ``None`` when it was never begun, or did not happen."""
        ...

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> None:
        """The write is about to run; what is committed stays."""
        ...

    def commit(self, key: str, answer: Any) -> None:
        """The write happened; ``answer`` is JSON."""
        ...

    def withdraw(self, key: str) -> None:
        """The write did not happen, and may be tried again; what is committed stays."""
        ...


class MemoryEffects:
    """A record that lives as long as its process."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}

    def standing(self, key: str) -> Standing | None:
        return self._standings.get(key)

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> None:
        self._standings.setdefault(key, Standing("intended"))

    def commit(self, key: str, answer: Any) -> None:
        self._standings[key] = Standing("committed", answer)

    def withdraw(self, key: str) -> None:
        standing = self._standings.get(key)
        if standing is not None and standing.state == "intended":
            del self._standings[key]


def action_sha(action: str, inputs: Mapping[str, Any], *, run_id: str = "") -> str:
    """The identity of exactly this action: SHA-256 over its name and canonical inputs.

    With ``run_id`` it is the idempotency key of the write in that run.
    """
    text = json.dumps([run_id, action, dict(inputs)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
