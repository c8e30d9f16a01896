"""The past of a notebook's variables: where each comes from, what turns did, and taking it back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from parsimony_kernel.core.events import TurnTakenBack
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.diff import Diff
from parsimony_kernel.lineage.script import Script, SliceError, slice_of
from parsimony_kernel.lineage.why import Explanation, why
from parsimony_kernel.session.changes import Changes, merged
from parsimony_kernel.session.turns import SessionError, sentence
from parsimony_kernel.storage.store import SqliteJournal


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

        What was bound or changed again since is left, and can be taken back later.
        ``SessionError`` when it is not remembered, or in a turn.
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
            event = TurnTakenBack(
                restored=back.restored,
                removed=back.removed,
                kept=back.kept,
                lost=back.lost,
                redone=redone,
            )
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
