"""What code of a run may do outside the notebook, as its gate says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from parsimony_kernel.core.reach import Reach

Lines = frozenset[int]


@dataclass
class Permit:
    """What one action may reach.

    Args:
        workspace: what may be written to.
        allows: whether a reach may happen; with the lines of the cell that are on the stack.
        sha: gives the hash of the action with a reach that it is held for.
        approved: the hash that a person has allowed, if one has.
        keep: keeps what a file of the workspace holds, before it is written to; whether it could.
        is_dry: nothing may change: of what is allowed only that which reads is.
        of: whose code it is, where that is not the action's own: part of what is asked.
        made: the paths that this run has made so far.
        leaving: puts on record that a statement is about to reach something, and whether it only
            reads; gives the key of an earlier attempt whose end nobody knows, or nothing.
        ended: the statement has ended, and with it what it reached.
        left: what has happened so far of what it reaches.
        open_end: the key of that earlier attempt, where the code was stopped for it.
        held: what the code was stopped before; ``why_not`` says why it cannot go on from there,
            where it cannot.
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
    of: str = ""


_permit: ContextVar[Permit | None] = ContextVar("parsimony_permit", default=None)


def current_permit() -> Permit | None:
    """The permit under which code runs now; ``None`` where nobody asks."""
    return _permit.get()


@contextmanager
def permitting(permit: Permit | None) -> Iterator[None]:
    """Run the code of the body under ``permit``."""
    token = _permit.set(permit)
    try:
        yield
    finally:
        _permit.reset(token)
