"""What one look gives."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    ``remedy`` is what to do where it is not ``ok``. A run does without what is a ``warn``, and
    not without what is an ``error``.
    """

    name: str
    ok: bool
    says: str
    remedy: str = ""
    level: Literal["error", "warn", "info"] = "info"


def well(name: str, says: str) -> Finding:
    return Finding(name, True, says)


def doubtful(name: str, says: str, remedy: str) -> Finding:
    return Finding(name, False, says, remedy, "warn")


def wrong(name: str, says: str, remedy: str) -> Finding:
    return Finding(name, False, says, remedy, "error")
