"""The past of a notebook's variables: where each comes from, what turns did, and taking it back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.core.events import TurnTakenBack
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.lineage.checkpoint import Change, PutBack
from parsimony_kernel.lineage.diff import Diff, of_changes
from parsimony_kernel.lineage.files import FileState, turned
from parsimony_kernel.lineage.script import Script, SliceError, slice_of
from parsimony_kernel.lineage.why import Explanation, why
from parsimony_kernel.session.turns import SessionError, sentence
from parsimony_kernel.storage.store import SqliteJournal

# Each holds what its turn replaced, or, where it was taken back, what its turn had made.
MOST_TURNS = 10
MOST_BYTES = 512 * 2**20
# What may come of a name that is taken back.
_OUTCOMES = ("restored", "removed", "kept", "lost")


@dataclass
class _Side:
    """Changes of variables, the newest last, and what files held."""

    changes: list[Change] = field(default_factory=list)
    files: list[FileState] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.changes or self.files)


class Changes:
    """The changes of a notebook's newest turns in this process, by run."""

    def __init__(self) -> None:
        # What stands of each, and what was taken back of it; the oldest first.
        self._by_run: dict[str, tuple[_Side, _Side]] = {}

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs of which something can be taken back, oldest first."""
        return tuple(run_id for run_id, (done, _) in self._by_run.items() if done)

    @property
    def undone(self) -> tuple[str, ...]:
        """The runs of which something was taken back and can be done again, oldest first."""
        return tuple(run_id for run_id, (_, undone) in self._by_run.items() if undone)

    def size(self, run_id: str) -> int:
        """The bytes that are kept for a run."""
        return sum(change.size for side in self._by_run[run_id] for change in side.changes)

    def add(self, run_id: str, change: Change | None, files: Sequence[FileState] = ()) -> None:
        """Remember a change, and the files that were written to; a run that waited in between has
        several.

        The oldest runs are forgotten where there are too many, or they hold too much. The newest
        stays in any case.
        """
        side, _ = self._by_run.pop(run_id, (_Side(), _Side()))
        if change is not None:
            side.changes.append(change)
        # What a file held first counts, and what it holds last.
        last = {each.path: each for each in files}
        known = [replace(each, then=last.pop(each.path, each).then) for each in side.files]
        side.files = [*known, *last.values()]
        self._by_run[run_id] = side, _Side()
        self._make_room(run_id)

    def diff(self, run_id: str) -> Diff:
        """What a run did to the variables. ``KeyError`` when it is not remembered, or undone."""
        side, _ = self._by_run[run_id]
        if not side:
            raise KeyError(run_id)
        return of_changes(side.changes, side.files)

    def undo(self, run_id: str, executor: BaseCodeExecutor, *, redo: bool = False) -> PutBack:
        """Take a run back, its newest change first, or with ``redo`` do again what was taken
        back. ``KeyError`` when that cannot be done.

        What was bound or changed since is left; where nothing else is, it can be tried later,
        once what came after it is undone.
        """
        checkpoints, sides = executor.checkpoints(), self._by_run.get(run_id)
        if checkpoints is None or sides is None or not sides[redo]:
            raise KeyError(run_id)
        source, target = sides[redo], sides[not redo]
        files_back, files_left = turned(source.files)
        left = tuple(each.path.name for each in files_left)
        of_files = PutBack(
            restored=tuple(each.path.name for each in files_back),
            kept=left,
            reasons=dict.fromkeys(left, "written to since, so left"),
        )
        came = [(change, checkpoints.undo(change)) for change in reversed(source.changes)]
        source.changes = [each for each, (back, _) in reversed(came) if back.kept and not back]
        target.changes += [inverse for _, (_, inverse) in came if inverse is not None]
        source.files = files_left
        target.files += files_back
        self._make_room(run_id)
        return merged([*(back for _, (back, _) in came), of_files])

    def settle(self, run_ids: Collection[str]) -> None:
        """Forget what was taken back of these runs: others have taken their place."""
        for run_id in self._by_run.keys() & set(run_ids):
            done, _ = self._by_run[run_id]
            self._by_run[run_id] = done, _Side()
        self._make_room("")

    def _make_room(self, but: str) -> None:
        """Forget turns of which nothing is left, and the oldest where they are too many or hold
        too much, ``but`` that one."""
        self._by_run = {run: sides for run, sides in self._by_run.items() if any(sides)}
        while len(self._by_run) > MOST_TURNS or (
            len(self._by_run) > 1 and sum(map(self.size, self._by_run)) > MOST_BYTES
        ):
            del self._by_run[next(each for each in self._by_run if each != but)]


def merged(done: Sequence[PutBack]) -> PutBack:
    """What came of each name in the end, where ``done`` was done one after the other."""
    came: dict[str, str] = {}
    for back in done:
        for how in _OUTCOMES:
            for name in getattr(back, how):
                if came.get(name) != "kept" and (came.get(name), how) != ("lost", "restored"):
                    came[name] = how
    whys = {name: why for back in done for name, why in back.reasons.items()}
    named: dict[str, Any] = {
        how: tuple(sorted(name for name in came if came[name] == how)) for how in _OUTCOMES
    }
    return PutBack(
        **named,
        reasons={name: why for name, why in whys.items() if came.get(name) == "kept"},
    )


def bound_by(executor: BaseCodeExecutor, runs: Collection[str]) -> tuple[str, ...]:
    """The names whose values these runs have bound."""
    ledger = executor.origin_ledger
    return tuple(
        name
        for name in executor.variables()
        if (origin := ledger.get(name)) is not None and origin.run_id in runs
    )


@dataclass(eq=False)
class Past:
    """What a notebook knows of its variables and turns in this kernel's life.

    Args:
        history: the name under which ``journal`` keeps the notebook's turns.
        must_be_free: raises ``SessionError`` while a turn runs.
    """

    executor: BaseCodeExecutor
    journal: SqliteJournal
    history: str
    must_be_free: Callable[[], None]
    changes: Changes = field(default_factory=Changes)
    # The runs whose place each run takes once it is done.
    _replaced: dict[str, set[str]] = field(default_factory=dict)

    def why(self, name: str) -> Explanation:
        """Where ``name`` comes from. Of a name that there is not it says so."""
        return why(
            self.executor.origin_ledger,
            name,
            present=self.executor.variables(),
            turns=self.ordinals(),
        )

    def script(self, name: str) -> Script:
        """A short script that rebuilds ``name``. ``SessionError`` where there is none."""
        try:
            return slice_of(self.executor.origin_ledger, name, turns=self.ordinals())
        except SliceError as exc:
            raise SessionError(sentence(str(exc))) from exc

    def diff(self, ordinal: int | None = None) -> tuple[int, Diff]:
        """What a turn, by default the newest that changed something, did to the variables.

        ``SessionError`` when it is not remembered: only turns of this kernel's life are.
        """
        chosen, run_id = self._chosen(ordinal, self.changes.runs, "be compared")
        return chosen, self.changes.diff(run_id)

    def undo(self, ordinal: int | None = None) -> tuple[int, PutBack]:
        """Take back what a turn, by default the newest, did to the variables.

        What was bound or changed again since is left. ``SessionError`` when it is not remembered,
        or in a turn.
        """
        self.must_be_free()
        chosen, run_id = self._chosen(ordinal, self.changes.runs, "be taken back")
        return chosen, self._turned(run_id)

    def redo(self, ordinal: int | None = None) -> tuple[int, PutBack]:
        """Do again what was taken back of a turn, by default the oldest of those.

        ``SessionError`` when none was, or in a turn.
        """
        self.must_be_free()
        chosen, run_id = self._chosen(ordinal, self.changes.undone, "be done again", newest=False)
        return chosen, self._turned(run_id, redone=True)

    def replace(self, run_ids: Collection[str], *, by: str) -> PutBack:
        """Take back what ``run_ids``, earlier runs of the cell of run ``by``, did to the variables.

        What was bound or changed since is left. Until ``by`` is done it can be done again. Of runs
        that are not remembered nothing is taken back.
        """
        earlier = {*run_ids} & {*self.changes.runs, *self.changes.undone}
        if earlier:
            self._replaced[by] = earlier
        newest_first = [run_id for run_id in reversed(self.changes.runs) if run_id in earlier]
        return merged([self._turned(run_id) for run_id in newest_first])

    def settle(self, run_id: str) -> None:
        """The run is done, so it stands in the place of those that it replaced."""
        self.changes.settle(self._replaced.pop(run_id, ()))

    def ordinals(self) -> Mapping[str, int]:
        """The number of each turn, by its id."""
        return {turn.run_id: turn.ordinal for turn in self.journal.turns(self.history)}

    def _turned(self, run_id: str, *, redone: bool = False) -> PutBack:
        """Undo a run, or with ``redone`` re-apply it, on record where that did anything."""
        back = self.changes.undo(run_id, self.executor, redo=redone)
        if back:
            told = {how: getattr(back, how) for how in _OUTCOMES}
            event = TurnTakenBack(**told, redone=redone)
            self.journal.append(run_id, event)
        return back

    def _chosen(
        self, ordinal: int | None, runs: Sequence[str], what: str, *, newest: bool = True
    ) -> tuple[int, str]:
        numbers = self.ordinals()
        known = {numbers[run_id]: run_id for run_id in runs if run_id in numbers}
        if not known:
            if newest and self.changes.undone:
                raise SessionError("No turn is left to be undone. %agent redo does one again.")
            if newest:
                raise SessionError("No turn of this kernel's life has changed a variable.")
            raise SessionError("No turn was taken back that could be done again.")
        # What is left of a turn waits for the whole ones. The order of the undone is that of the
        # turns: one goes forward from the oldest.
        halves = {*self.changes.runs} & {*self.changes.undone}
        first = [number for number, run_id in known.items() if run_id not in halves] or known
        chosen = ordinal if ordinal is not None else (max(first) if newest else min(first))
        if chosen not in known:
            raise SessionError(
                f"Turn {chosen} cannot {what}: it changed no variable since this kernel started, "
                "is undone or done already, or held too much to be kept. Those that can: "
                f"{', '.join(map(str, sorted(known)))}."
            )
        return chosen, known[chosen]
