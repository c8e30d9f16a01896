"""What the newest turns did to the variables, so that it can be taken back."""

from parsimony_kernel.lineage.checkpoint import Change, Checkpoints, PutBack

# Each holds what its turn replaced.
MOST_TURNS = 10


class Changes:
    """The changes of a notebook's newest turns in this process, by run."""

    def __init__(self) -> None:
        self._by_run: dict[str, list[Change]] = {}

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that can be taken back, oldest first."""
        return tuple(self._by_run)

    def add(self, run_id: str, change: Change) -> None:
        """Remember a change; a run that waited in between has several."""
        held = self._by_run.pop(run_id, [])
        self._by_run[run_id] = [*held, change]
        while len(self._by_run) > MOST_TURNS:
            del self._by_run[next(iter(self._by_run))]

    def undo(self, run_id: str, checkpoints: Checkpoints) -> PutBack:
        """Take a run back, its newest change first. ``KeyError`` when it is not remembered."""
        done = [checkpoints.undo(change) for change in reversed(self._by_run.pop(run_id))]
        return PutBack(
            *(
                tuple(sorted({name for each in done for name in getattr(each, kind)}))
                for kind in ("restored", "removed", "kept", "lost")
            )
        )
