"""The backward slice inside one run of a cell."""

from collections.abc import Collection

from parsimony_kernel.analysis.cell import Statement
from parsimony_kernel.lineage.ledger import CellRun
from parsimony_kernel.lineage.slicing.program import Program
from parsimony_kernel.lineage.slicing.statements import (
    ANY,
    binds_whole,
    is_blind,
    is_future,
    is_opaque,
    is_star,
)


class SliceError(Exception):
    """There is no script that surely rebuilds the variable. ``names`` are in the way."""

    def __init__(self, message: str, names: Collection[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(sorted(names))


class Within:
    """The backward slice inside one run. ``held`` are names that have to end as they began, made
    before it and needed after it."""

    def __init__(self, program: Program, run: CellRun, held: Collection[str] = ()) -> None:
        self._program = program
        self._run = run
        self._statements = program.statements(run)
        self._made = program.made(run)
        self._held = frozenset(held)

    def slice(self, wanted: Collection[str]) -> tuple[tuple[int, ...], set[str]]:
        """The statements that make ``wanted``, and the names that they find bound before."""
        statements = self._statements
        if not statements:
            raise SliceError(
                f"the text of run {self._run.number}, which made {_told(wanted)}, is no Python",
                wanted,
            )
        ran = len(self._program.ran(self._run))
        if self._run.failed and not self._run.stopped_at:
            self._must_be_told(wanted)
        ends = set(wanted)
        while True:
            kept, live = self._backwards(ran, ends)
            undone = self._undone_between(ran, kept)
            if undone <= self._made and undone & self._held <= ends:
                break
            self._made |= undone
            ends |= undone & self._held
        if ran < len(statements):
            self._check_stop(statements[ran], ran, live | set(wanted))
        if ANY in wanted:
            live.add(ANY)
        return tuple(sorted(kept)), live

    def _backwards(self, ran: int, wanted: Collection[str]) -> tuple[set[int], set[str]]:
        statements = self._statements
        live, kept, explained = set(wanted), set[int](), set[str]()
        whole = any(is_opaque(each) for each in statements[:ran])
        if any(is_blind(each) for each in statements[:ran]):
            earlier = self._program.runs[: self._run.number - 1]
            live |= {ref.name for run in earlier for ref in run.made}
        for index in reversed(range(ran)):
            each = statements[index]
            bound = self._program.maybe_writes(each) & live
            changed = self._changes(each, index, live)
            if not (bound or changed or is_star(each) or whole or each.deletes & live):
                continue
            kept.add(index)
            explained |= bound | changed
            live -= each.certain
            live |= self._program.reads(each)
        if not (whole or set(wanted) <= explained | {ANY}):
            # Something changed it that no text names: the cell as it is.
            kept = set(range(ran))
            for index in reversed(range(ran)):
                live -= statements[index].certain
                live |= self._program.reads(statements[index])
            live |= set(wanted)
        if kept:
            kept |= {index for index in range(ran) if is_future(statements[index])}
        return kept, live

    def _undone_between(self, ran: int, kept: Collection[int]) -> set[str]:
        """The names that end as they began, and that something kept may see changed meanwhile."""
        touching: dict[str, list[int]] = {}
        read = {name for index in kept for name in self._program.reads(self._statements[index])}
        for index in range(ran):
            for name in self._program.changed(self._statements[index], read | self._held):
                touching.setdefault(name, []).append(index)
        return {
            name
            for name, places in touching.items()
            if len(places) > 1
            and any(
                places[0] <= index <= places[-1]
                and (index in places or name in self._program.reads(self._statements[index]))
                for index in kept
            )
        }

    def _changes(self, statement: Statement, index: int, live: set[str]) -> set[str]:
        return {
            each
            for each in self._program.changed(statement, live)
            if each in statement.mutated or self._may_have_changed(each, index)
        }

    def _may_have_changed(self, name: str, index: int) -> bool:
        """Whether it is open that a statement changed ``name``: by the ledger, which tells what
        came of the whole run."""
        if name in self._made or name not in self._program.tracked:
            return True
        if name in self._run.deleted or self._program.is_moving(name):
            return True
        if name in self._program.known.homes:
            return True
        return any(name in each.writes for each in self._statements[:index])

    def _must_be_told(self, wanted: Collection[str]) -> None:
        for name in wanted:
            makers = [
                each
                for index, each in enumerate(self._statements)
                if name in self._program.maybe_writes(each) or self._changes(each, index, {name})
            ]
            if len(makers) > 1 or any(not binds_whole(each) for each in makers):
                raise self._stopped(name)

    def _check_stop(self, statement: Statement, index: int, live: set[str]) -> None:
        """What stopped did some of its work, perhaps on what is needed."""
        bound = set() if binds_whole(statement) else self._program.maybe_writes(statement) & live
        for name in sorted(bound | self._changes(statement, index, live)):
            raise self._stopped(name)

    def _stopped(self, name: str) -> SliceError:
        return SliceError(
            f"a cell stopped with an error where it may have changed {name!r}, and how far it "
            f"got is not known: run the cell that makes {name!r} again",
            {name},
        )


def _told(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
