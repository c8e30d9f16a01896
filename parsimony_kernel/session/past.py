"""History of a notebook's variables: provenance, per-turn diffs, undo and redo."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from parsimony_kernel.core.events import TurnTakenBack
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.lineage.checkpoint import Change, PutBack
from parsimony_kernel.lineage.diff import Diff, of_changes
from parsimony_kernel.lineage.file_backups import FileState, turned
from parsimony_kernel.lineage.script import slice_of
from parsimony_kernel.lineage.why import Explanation, why
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.run_log import has_reached

# Limits of the undo history. An entry keeps the values that its turn replaced or, once undone,
# the values that the turn made.
MOST_TURNS = 10
MOST_BYTES = 512 * 2**20
# Possible outcomes for a name when a turn is undone.
_OUTCOMES = ("restored", "removed", "kept", "lost")


@dataclass
class _Entry:
    """A run's changes of variables, newest last, and of files, and whether they are undone."""

    changes: list[Change] = field(default_factory=list)
    files: list[FileState] = field(default_factory=list)
    undone: bool = False


class Changes:
    """Undo and redo history of a notebook's newest turns in this process, by run id."""

    def __init__(self) -> None:
        # Oldest run first.
        self._by_run: dict[str, _Entry] = {}

    def runs(self, *, undone: bool = False) -> tuple[str, ...]:
        """Return the runs that can be undone, or with ``undone`` be redone, oldest first."""
        return tuple(run_id for run_id, entry in self._by_run.items() if entry.undone is undone)

    def add(self, run_id: str, change: Change | None, files: Sequence[FileState] = ()) -> None:
        """Record a change and written files of a run; a run that was suspended has several.

        Drops the oldest runs beyond ``MOST_TURNS`` or ``MOST_BYTES``; the newest is always kept.
        """
        entry = self._by_run.pop(run_id, _Entry())
        if entry.undone:
            entry = _Entry()
        entry.changes += [] if change is None else [change]
        # Per file: keep the first "before" state and the last "after" state.
        last = {each.path: each for each in files}
        known = [replace(each, then=last.pop(each.path, each).then) for each in entry.files]
        entry.files = [*known, *last.values()]
        self._by_run[run_id] = entry
        self._make_room(run_id)

    def diff(self, run_id: str) -> Diff:
        """Return a run's changes to variables and files.

        Raises:
            KeyError: The run isn't in the history, or is undone.
        """
        entry = self._entry(run_id, undone=False)
        return of_changes(entry.changes, entry.files)

    def undo(self, run_id: str, executor: BaseCodeExecutor, *, redo: bool = False) -> PutBack:
        """Undo a run, newest change first, or with ``redo`` re-apply it.

        Names bound and files written to since are kept, for good if anything else went back. A run
        of which all was kept can be tried again, once later changes are undone.

        Raises:
            KeyError: Nothing of this run can be undone or redone.
        """
        checkpoints, entry = executor.checkpoints(), self._entry(run_id, undone=redo)
        if checkpoints is None:
            raise KeyError(run_id)
        files_back, files_left = turned(entry.files)
        names, left = ([each.path.name for each in files] for files in (files_back, files_left))
        of_files = PutBack(restored=tuple(names), kept=tuple(left))
        came = [checkpoints.undo(change) for change in reversed(entry.changes)]
        done = [*(back for back, _ in came), of_files]
        if any(done):
            inverses = [inverse for _, inverse in came if inverse is not None]
            self._by_run[run_id] = _Entry(inverses, files_back, not redo)
            if not (inverses or files_back):
                del self._by_run[run_id]
            self._make_room(run_id)
        return merged(done)

    def settle(self, run_ids: Collection[str]) -> None:
        """Drop the redo history of these runs, which other runs have replaced."""
        for run_id in {*run_ids} & {*self.runs(undone=True)}:
            del self._by_run[run_id]

    def _entry(self, run_id: str, *, undone: bool) -> _Entry:
        if run_id not in self.runs(undone=undone):
            raise KeyError(run_id)
        return self._by_run[run_id]

    def _make_room(self, but: str) -> None:
        """Drop the oldest runs beyond the limits, but never the run ``but``."""
        for oldest in [each for each in self._by_run if each != but]:
            size = sum(each.size for entry in self._by_run.values() for each in entry.changes)
            if size > MOST_BYTES or len(self._by_run) > MOST_TURNS:
                del self._by_run[oldest]


def merged(done: Sequence[PutBack]) -> PutBack:
    """Combine undo results, in the order they were made, into one outcome per name."""
    came: dict[str, str] = {}
    for back in done:
        for how in _OUTCOMES:
            for name in getattr(back, how):
                if came.get(name) != "kept" and (came.get(name), how) != ("lost", "restored"):
                    came[name] = how
    named = {how: tuple(sorted(name for name in came if came[name] == how)) for how in _OUTCOMES}
    return PutBack(**named)


def bound_by(executor: BaseCodeExecutor, runs: Collection[str]) -> tuple[str, ...]:
    """Return the variables whose current values were bound by these runs."""
    ledger = executor.origin_ledger
    return tuple(
        name
        for name in executor.variables()
        if (origin := ledger.get(name)) is not None and origin.run_id in runs
    )


@dataclass(eq=False)
class Past:
    """Provenance, diff, undo and redo for a notebook, since this kernel started.

    Args:
        executor: Holds the variables and their origins.
        journal: Records undos and redos.
        history: The name under which ``journal`` keeps the notebook's turns.
        must_be_free: Raises ``SessionError`` while a turn runs.
    """

    executor: BaseCodeExecutor
    journal: SqliteJournal
    history: str
    must_be_free: Callable[[], None]
    changes: Changes = field(default_factory=Changes)

    def why(self, name: str) -> Explanation:
        """Explain where ``name`` comes from, or that it doesn't exist."""
        return why(self.executor.origin_ledger, name, present=self.executor.variables())

    def script(self, name: str) -> str:
        """Return a short script that rebuilds ``name``.

        Raises:
            SessionError: ``name`` can't be rebuilt from recorded code.
        """
        return slice_of(self.executor.origin_ledger, name)

    def diff(self, ordinal: int | None = None) -> tuple[int, Diff]:
        """Return the number and the changes of a turn, by default the newest with changes.

        Raises:
            SessionError: No changes of it are kept; only those since this kernel started are.
        """
        chosen, run_id = self._chosen(ordinal, self.changes.runs(), "be compared")
        return chosen, self.changes.diff(run_id)

    def undo(self, ordinal: int | None = None, *, redo: bool = False) -> tuple[int, PutBack]:
        """Undo a turn's changes, by default those of the newest turn; return its number too.

        Variables bound or changed since are kept. A question of the turn waits no longer.

        Args:
            ordinal: The turn's number.
            redo: Re-apply an undone turn instead, by default the oldest.

        Raises:
            SessionError: No changes of it are kept, it isn't undone, or a turn is running.
        """
        self.must_be_free()
        asking = [] if redo else [each.turn.run_id for each in self.journal.pending(self.history)]
        runs = [*self.changes.runs(undone=redo), *asking]
        what = "be re-applied" if redo else "be undone"
        chosen, run_id = self._chosen(ordinal, runs, what, newest=not redo)
        return chosen, self._turned(run_id, redone=redo)

    def replace_runs(self, run_ids: Collection[str]) -> PutBack:
        """Undo earlier runs of a cell, which another run of it replaces.

        Variables bound or changed since are kept. Runs that aren't in the history are skipped. The
        undo can be redone until ``changes.settle``, once the other run has completed.
        """
        newest_first = [run_id for run_id in reversed(self.changes.runs()) if run_id in run_ids]
        return merged([self._turned(run_id) for run_id in newest_first])

    def has_reached(self, run_id: str) -> bool:
        """Return whether effects of a run outside the notebook are on record."""
        return has_reached(self.journal, run_id)

    def _turned(self, run_id: str, *, redone: bool = False) -> PutBack:
        """Undo a run, or with ``redone`` re-apply it, and journal it if anything changed.

        A run that only asks changed nothing: its question is withdrawn.
        """
        is_kept = redone or run_id in self.changes.runs()
        back = self.changes.undo(run_id, self.executor, redo=redone) if is_kept else PutBack()
        if back or not is_kept:
            told = {how: getattr(back, how) for how in _OUTCOMES}
            self.journal.withdraw(run_id, again=redone)
            self.journal.append(run_id, TurnTakenBack(**told, redone=redone))
        return back

    def _chosen(
        self, ordinal: int | None, runs: Sequence[str], what: str, *, newest: bool = True
    ) -> tuple[int, str]:
        turns = self.journal.turns(self.history)
        known = {turn.ordinal: turn.run_id for turn in turns if turn.run_id in runs}
        if not known:
            raise SessionError(f"No turn since this kernel started can {what}.")
        # Redo goes forward from the oldest turn.
        chosen = (max if newest else min)(known) if ordinal is None else ordinal
        if chosen not in known:
            raise SessionError(
                f"Turn {chosen} cannot {what}: it changed no variable since this kernel started, "
                "is undone or re-applied already, or changed too much to keep. "
                f"Turns that can {what}: {', '.join(map(str, sorted(known)))}."
            )
        return chosen, known[chosen]
