"""The scope of the running code (run, notebook, cell), for provenance and file names."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class RunScope:
    """The run, the notebook and the cell that code runs for."""

    run_id: str
    notebook_path: str
    cell_id: str
    turn: int = 0
    actor: Literal["user", "agent"] = "agent"


_current: ContextVar[RunScope | None] = ContextVar("parsimony_run_scope", default=None)


def current_scope() -> RunScope | None:
    """Return the innermost open scope, or ``None``."""
    return _current.get()


@contextmanager
def run_scope(scope: RunScope | None) -> Iterator[None]:
    """Open ``scope`` for the body; ``None`` for code that runs for nobody."""
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
