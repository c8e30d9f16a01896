"""What a check says, and the three ways it can end."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    ``remedy`` is what to do where it is not ``ok``. A run can do without what is a ``warn``, and
    not without what is an ``error``.
    """

    name: str
    ok: bool
    says: str
    remedy: str = ""
    level: Literal["error", "warn", "info"] = "info"


def passed(name: str, says: str) -> Check:
    return Check(name, True, says)


def warning(name: str, says: str, remedy: str) -> Check:
    return Check(name, False, says, remedy, "warn")


def failed(name: str, says: str, remedy: str) -> Check:
    return Check(name, False, says, remedy, "error")
