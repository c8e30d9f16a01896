"""What the newest turns did to the variables, so that it can be told, taken back and done again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.lineage.checkpoint import Change, PutBack
from parsimony_kernel.lineage.dependents import Dependent, dependents
from parsimony_kernel.lineage.diff import Diff, of_changes
from parsimony_kernel.lineage.ledger import OriginLedger

# Each holds what its turn replaced, or, where it was taken back, what its turn had made.
MOST_TURNS = 10
MOST_BYTES = 512 * 2**20


@dataclass
class _Turn:
    """What stands of a turn, and what was taken back of it, the newest change last."""

    done: list[Change] = field(default_factory=list)
    undone: list[Change] = field(default_factory=list)

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
        return tuple(run_id for run_id, turn in self._by_run.items() if turn.done)

    @property
    def undone(self) -> tuple[str, ...]:
        """The runs of which something was taken back and can be done again, oldest first."""
        return tuple(run_id for run_id, turn in self._by_run.items() if turn.undone)

    def add(self, run_id: str, change: Change) -> None:
        """Remember a change; a run that waited in between has several.

        The oldest runs are forgotten where there are too many, or they hold too much. The newest
        stays in any case.
        """
        held = self._by_run.pop(run_id, None)
        earlier = [] if held is None else held.done
        self._keep(run_id, _Turn([*earlier, change]))

    def diff(self, run_id: str) -> Diff:
        """What a run did to the variables. ``KeyError`` when it is not remembered, or undone."""
        turn = self._by_run[run_id]
        if not turn.done:
            raise KeyError(run_id)
        return of_changes(turn.done)

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
        if checkpoints is None or turn is None or not changes:
            raise KeyError(run_id)
        done, inverses, rests = [], list[Change](), list[Change]()
        found: dict[int, Dependent] = {}
        for change in reversed(changes):
            back, inverse, rest = checkpoints.undo(change)
            done.append(back)
            inverses += [] if inverse is None else [inverse]
            rests += [] if rest is None else [rest]
            for each in _on(change, back, executor.origin_ledger, "" if redone else run_id):
                found.setdefault(each.cell.number, each)
        rests.reverse()
        now = (
            _Turn([*turn.done, *inverses], rests)
            if redone
            else _Turn(rests, [*turn.undone, *inverses])
        )
        order = tuple(self._by_run)
        del self._by_run[run_id]
        if now.done or now.undone:
            self._keep(run_id, now, order)
        return merged(done, tuple(found[number] for number in sorted(found)))

    def settle(self, run_ids: Collection[str]) -> None:
        """Forget what was taken back of these runs: others have taken their place."""
        for run_id in self._by_run.keys() & set(run_ids):
            done = self._by_run[run_id].done
            if done:
                self._by_run[run_id] = _Turn(done)
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


def _on(change: Change, back: PutBack, ledger: OriginLedger, run_id: str) -> tuple[Dependent, ...]:
    """The cells that stand on what ``back`` took of ``change``."""
    names = [
        name
        for name in (*back.restored, *back.removed, *back.lost)
        if ledger.version(name) != change.versions.get(name, 0)
    ]
    return dependents(ledger, change.given(names), after=change.runs, apart_from=run_id)


def merged(done: Sequence[PutBack], found: tuple[Dependent, ...] = ()) -> PutBack:
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
    return PutBack(named("restored"), named("removed"), kept, named("lost"), found, whys)
