"""What the newest turns did to the variables, so that it can be told, taken back and done again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.lineage.checkpoint import Change, PutBack
from parsimony_kernel.lineage.diff import Diff, of_changes
from parsimony_kernel.lineage.files import FileState, turned
from parsimony_kernel.lineage.ledger import OriginLedger

# Each holds what its turn replaced, or, where it was taken back, what its turn had made.
MOST_TURNS = 10
MOST_BYTES = 512 * 2**20
_WRITTEN_SINCE = "written to since, so left"


@dataclass
class _Turn:
    """What stands of a turn, and what was taken back of it, the newest change last."""

    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)
    files: list[FileState] = field(default_factory=list)
    files_undone: list[FileState] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return bool(self.done or self.files)

    @property
    def is_undone(self) -> bool:
        return bool(self.undone or self.files_undone)

    @property
    def size(self) -> int:
        return sum(change.size for change in (*self.done, *self.undone))


class Changes:
    """The changes of a notebook's newest turns in this process, by run."""

    def __init__(self) -> None:
        self._by_run: dict[str, _Turn] = {}

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs of which something can be taken back, oldest first."""
        return tuple(run_id for run_id, turn in self._by_run.items() if turn.is_done)

    @property
    def undone(self) -> tuple[str, ...]:
        """The runs of which something was taken back and can be done again, oldest first."""
        return tuple(run_id for run_id, turn in self._by_run.items() if turn.is_undone)

    def add(self, run_id: str, change: Change | None, files: Sequence[FileState] = ()) -> None:
        """Remember a change, and the files that were written to; a run that waited in between has
        several.

        The oldest runs are forgotten where there are too many, or they hold too much. The newest
        stays in any case.
        """
        held = self._by_run.pop(run_id, None)
        turn = _Turn() if held is None else _Turn(held.done, files=held.files)
        turn.done = [*turn.done, *([] if change is None else [change])]
        # What a file held first counts, and what it holds last.
        last = {each.path: each for each in files}
        known = [replace(each, then=last.pop(each.path, each).then) for each in turn.files]
        turn.files = [*known, *last.values()]
        self._keep(run_id, turn)

    def diff(self, run_id: str) -> Diff:
        """What a run did to the variables. ``KeyError`` when it is not remembered, or undone."""
        turn = self._by_run[run_id]
        if not turn.is_done:
            raise KeyError(run_id)
        return of_changes(turn.done, turn.files)

    def undo(self, run_id: str, executor: BaseCodeExecutor) -> PutBack:
        """Take a run back, its newest change first. ``KeyError`` when that cannot be done.

        What was bound or changed since is left, and can be taken back later, once what came after
        it is.
        """
        return self._turned(run_id, executor, redone=False)

    def redo(self, run_id: str, executor: BaseCodeExecutor) -> PutBack:
        """Do again what was taken back of a run. ``KeyError`` when that cannot be done.

        What was bound or changed since is left, and can be done later. It can be taken back again.
        """
        return self._turned(run_id, executor, redone=True)

    def _turned(self, run_id: str, executor: BaseCodeExecutor, *, redone: bool) -> PutBack:
        checkpoints, turn = executor.checkpoints(), self._by_run.get(run_id)
        changes = [] if turn is None else turn.undone if redone else turn.done
        if checkpoints is None or turn is None:
            raise KeyError(run_id)
        files = turn.files_undone if redone else turn.files
        if not changes and not files:
            raise KeyError(run_id)
        back_again, left = turned(files)
        done, inverses, rests = [], list[Change](), list[Change]()
        stale = set[str]()
        for change in reversed(changes):
            back, inverse, rest = checkpoints.undo(change)
            done.append(back)
            inverses += [] if inverse is None else [inverse]
            rests += [] if rest is None else [rest]
            stale |= _made_from(change, back, executor.origin_ledger, "" if redone else run_id)
        rests.reverse()
        now = (
            _Turn([*turn.done, *inverses], rests, [*turn.files, *back_again], left)
            if redone
            else _Turn(rests, [*turn.undone, *inverses], left, [*turn.files_undone, *back_again])
        )
        done.append(
            PutBack(
                restored=tuple(each.path.name for each in back_again),
                kept=tuple(each.path.name for each in left),
                reasons={each.path.name: _WRITTEN_SINCE for each in left},
            )
        )
        order = tuple(self._by_run)
        del self._by_run[run_id]
        if now.is_done or now.is_undone:
            self._keep(run_id, now, order)
        back = merged(done)
        return replace(back, stale=tuple(sorted(stale.difference(back.kept))))

    def settle(self, run_ids: Collection[str]) -> None:
        """Forget what was taken back of these runs: others have taken their place."""
        for run_id in self._by_run.keys() & set(run_ids):
            turn = self._by_run[run_id]
            if turn.is_done:
                self._by_run[run_id] = _Turn(turn.done, files=turn.files)
            else:
                del self._by_run[run_id]

    def _keep(self, run_id: str, turn: _Turn, order: tuple[str, ...] = ()) -> None:
        """Remember ``turn`` in its place of ``order``, the newest by default."""
        self._by_run[run_id] = turn
        held = {each: self._by_run[each] for each in order if each in self._by_run}
        self._by_run = {**held, **self._by_run}
        while len(self._by_run) > MOST_TURNS or (
            len(self._by_run) > 1 and sum(each.size for each in self._by_run.values()) > MOST_BYTES
        ):
            del self._by_run[next(each for each in self._by_run if each != run_id)]


def _made_from(change: Change, back: PutBack, ledger: OriginLedger, run_id: str) -> set[str]:
    """The variables that stand on what ``back`` took of ``change``."""
    names = [
        name
        for name in (*back.restored, *back.removed, *back.lost)
        if ledger.version(name) != change.versions.get(name, 0)
    ]
    return set(ledger.made_from(change.given(names), after=change.runs, apart_from=run_id))


def merged(done: Sequence[PutBack]) -> PutBack:
    """What came of each name in the end, where ``done`` was done one after the other."""
    came: dict[str, str] = {}
    for back in done:
        for how in ("restored", "lost", "removed", "kept"):
            for name in getattr(back, how):
                is_settled = came.get(name) == "kept" or (
                    came.get(name) == "lost" and how == "restored"
                )
                if not is_settled:
                    came[name] = how

    def named(how: str) -> tuple[str, ...]:
        return tuple(sorted(name for name in came if came[name] == how))

    kept = named("kept")
    whys = {name: why for back in done for name, why in back.reasons.items() if name in kept}
    return PutBack(named("restored"), named("removed"), kept, named("lost"), (), whys)
