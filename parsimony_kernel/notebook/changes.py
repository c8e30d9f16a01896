"""What the newest turns did to the variables, so that it can be taken back."""

from collections.abc import Mapping
from typing import Any

from parsimony_kernel.execution.executor import BaseCodeExecutor
from parsimony_kernel.lineage.checkpoint import Change, PutBack

# Each holds what its turn replaced.
MOST_TURNS = 10
MOST_BYTES = 512 * 2**20


class Changes:
    """The changes of a notebook's newest turns in this process, by run."""

    def __init__(self) -> None:
        self._by_run: dict[str, list[Change]] = {}

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that can be taken back, oldest first."""
        return tuple(self._by_run)

    def add(self, run_id: str, change: Change) -> None:
        """Remember a change; a run that waited in between has several.

        The oldest runs are forgotten where there are too many, or they hold too much.
        """
        held = self._by_run.pop(run_id, [])
        self._by_run[run_id] = [*held, change]
        while len(self._by_run) > MOST_TURNS or self._size() > MOST_BYTES:
            del self._by_run[next(iter(self._by_run))]

    def undo(self, run_id: str, executor: BaseCodeExecutor) -> PutBack:
        """Take a run back, its newest change first. ``KeyError`` when it is not remembered."""
        checkpoints = executor.checkpoints()
        if checkpoints is None:
            raise KeyError(run_id)
        done = [checkpoints.undo(change) for change in reversed(self._by_run.pop(run_id))]
        left = _names(done, "kept")
        lost = _names(done, "lost") - left
        restored = _names(done, "restored") - left - lost
        removed = _names(done, "removed") - left - lost - restored
        each = (restored, removed, left, lost)
        return PutBack(*(tuple(sorted(names)) for names in each))

    def _size(self) -> int:
        return sum(change.size for changes in self._by_run.values() for change in changes)


def _names(done: list[PutBack], kind: str) -> set[str]:
    found: Mapping[str, Any] = {name: None for each in done for name in getattr(each, kind)}
    return set(found)
