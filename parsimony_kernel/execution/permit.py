"""Permits: the side effects that the approval gate allows an action's code."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from parsimony_kernel.core.reach import Reach

Lines = frozenset[int]


@dataclass
class Permit:
    """The side effects that one action may have, and those that it had.

    Args:
        workspace: the folder that the code may write to.
        allows: returns whether a side effect is allowed, given the cell's lines on the stack.
        sha: returns the hash of the action together with the side effect that it is held for.
        approved: the hash that a person approved, if any.
        keep: saves the contents of a workspace file before it is overwritten; returns whether it
            could.
        is_dry: dry run: nothing may change, so only allowed reads happen.
        made: the paths that this run has created so far.
        leaving: records a statement's side effect before it happens (write-ahead), and whether it
            only reads; returns the key of an earlier attempt whose outcome is unknown, or "".
        ended: records that the statement ended, and its side effects with it.
        left: the side effects that have happened so far.
        open_end: the key of that earlier attempt, when the code was stopped because of it.
        held: the side effect that the code was stopped before.
        why_not: why the code can't resume from there; empty when it can.
    """

    workspace: Path
    allows: Callable[[Reach, Lines], bool]
    sha: Callable[[Reach], str] = lambda reach: ""
    approved: str | None = None
    leaving: Callable[[Reach, str, bool], str] = lambda reach, statement, reads: ""
    ended: Callable[[], None] = lambda: None
    keep: Callable[[str], bool] = lambda path: True
    made: set[str] = field(default_factory=set)
    left: list[Reach] = field(default_factory=list)
    held: Reach | None = None
    open_end: str = ""
    why_not: str = ""
    is_dry: bool = False


_permit: ContextVar[Permit | None] = ContextVar("parsimony_permit", default=None)


def current_permit() -> Permit | None:
    """Return the permit of the running code; ``None`` when nothing needs approval."""
    return _permit.get()


@contextmanager
def permitting(permit: Permit | None) -> Iterator[None]:
    """Run the body's code under ``permit``."""
    token = _permit.set(permit)
    try:
        yield
    finally:
        _permit.reset(token)
