"""What code runs for and what it may do: its run, notebook and cell, and its permit.

A permit says which side effects the approval gate allows an action's code.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from parsimony_kernel.core.reach import Reach

T = TypeVar("T")
Lines = frozenset[int]


@dataclass(frozen=True)
class RunScope:
    """The run, the notebook and the cell that code runs for."""

    run_id: str
    notebook_path: str
    cell_id: str
    turn: int = 0
    actor: Literal["user", "agent"] = "agent"


@dataclass(kw_only=True)
class Outcome:
    """What came of an action's side effects.

    Args:
        made: the paths that this run has created so far.
        left: the side effects that have happened so far.
        held: the side effect that the code was stopped before.
        open_end: the key of an earlier attempt with unknown outcome, when the code was stopped
            because of it.
        why_not: why the code can't resume from there; empty when it can.
    """

    made: set[str] = field(default_factory=set)
    left: list[Reach] = field(default_factory=list)
    held: Reach | None = None
    open_end: str = ""
    why_not: str = ""

    def add(self, more: "Outcome") -> None:
        """Add what came of the same action elsewhere."""
        self.held, self.open_end, self.why_not = more.held, more.open_end, more.why_not
        self.left += more.left
        self.made |= more.made


@dataclass
class Permit(Outcome):
    """The side effects that one action may have, and those that it had.

    Args:
        workspace: the folder that the code may write to.
        allows: returns whether a side effect is allowed, given the cell's lines on the stack.
        sha: returns the hash of the action together with the side effect that it is held for.
        approved: the hash that a person approved, if any.
        leaving: records a statement's side effect before it happens (write-ahead), and whether it
            only reads; returns the key of an earlier attempt whose outcome is unknown, or "".
        ended: records that the statement ended, and its side effects with it.
        keep: saves the contents of a workspace file before it is overwritten; returns whether it
            could.
        is_dry: dry run: nothing may change, so only allowed reads happen.
    """

    workspace: Path
    allows: Callable[[Reach, Lines], bool] = lambda reach, lines: False
    sha: Callable[[Reach], str] = lambda reach: ""
    approved: str | None = None
    leaving: Callable[[Reach, str, bool], str] = lambda reach, statement, reads: ""
    ended: Callable[[], None] = lambda: None
    keep: Callable[[str], bool] = lambda path: True
    is_dry: bool = False


_current: ContextVar[RunScope | None] = ContextVar("parsimony_run_scope", default=None)
_permit: ContextVar[Permit | None] = ContextVar("parsimony_permit", default=None)
# Whether this package itself is at work, which no approval check concerns.
OURS: ContextVar[bool] = ContextVar("parsimony_ours", default=False)
# The innermost open scope, or ``None``.
current_scope = _current.get
# The permit of the running code; ``None`` when nothing needs approval.
current_permit = _permit.get


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable for the body."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


# Open a scope for the body; ``None`` for code that runs for nobody.
run_scope = partial(setting, _current)
# Run the body's code under a permit.
permitting = partial(setting, _permit)
# Exempt the body from approval checks: it is this package's own work.
ours = partial(setting, OURS, True)
