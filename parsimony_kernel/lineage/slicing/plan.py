"""Which statements of which runs a variable needs, from the newest run to the oldest.

Across cells the ledger decides: a run is in when it made a version that is needed.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.ledger import CellRun, InputRef, OriginLedger
from parsimony_kernel.lineage.slicing.cell import SliceError, Within
from parsimony_kernel.lineage.slicing.program import Program
from parsimony_kernel.lineage.slicing.statements import (
    ANY,
    BUILTINS,
    RANDOM,
    SEEDS,
    is_future,
    is_opaque,
    is_star,
)


@dataclass
class Chosen:
    """What of one run is in: which statements, for which names, and what they find."""

    run: CellRun
    wanted: set[str] = field(default_factory=set)
    kept: tuple[int, ...] = ()
    finds: dict[str, int] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()


class Plan:
    """Which statements of which runs are needed, found from the newest run to the oldest.

    A need is a name with the number of the run that left it so.
    """

    def __init__(self, program: Program, ledger: OriginLedger) -> None:
        self.program = program
        self.ledger = ledger
        self._returns = ledger.returns()
        self.chosen: dict[int, Chosen] = {}
        self.seeds: set[str] = set()
        self.unknown: set[str] = set()
        self.target = ("", 0)
        self.at_end: dict[str, int] = {}
        # Between which runs a name has to keep what it is.
        self._spans: dict[str, set[tuple[int, int]]] = {}

    def need_at_end(self, name: str, number: int) -> None:
        """Want ``name`` as the run ``number`` left it, and what its functions use as it is now."""
        runs = len(self.program.runs) + 1
        number = self._latest(name, number, runs)
        self.target = (name, number)
        self._want(name, number, runs)
        self.at_end = {name: number}
        for other in self.program.through(frozenset({name})).reads - {name}:
            origin = self.ledger.get(other)
            found = origin.cell_run if origin is not None else 0
            found = found or self._by_text(other, runs)
            if found > 0:
                found = self._latest(other, found, runs)
                self._want(other, found, runs)
                self.at_end[other] = found
            elif other in SEEDS:
                self.seeds.add(other)
            elif other not in BUILTINS:
                self.unknown.add(other)

    def _latest(self, name: str, number: int, until: int) -> int:
        """The newest run from ``number`` on that may have changed ``name`` unseen, which the run
        ``number`` left as the ledger has it for the run ``until``."""
        if self.program.is_moving(name):
            between = self.program.runs[number : until - 1]
            if any(ref.name == name for run in between for ref in run.made):
                raise SliceError(
                    f"{name!r} was taken back to what it was, and how far it had been read by "
                    f"then is not known: run the cell that makes {name!r} again",
                    {name},
                )
        for run, is_known in self._history(name, until):
            if run.number <= number:
                break
            if name in self.program.unseen(run):
                if not is_known:
                    raise SliceError(
                        f"whether what cell {run.number} may have done to {name!r} was taken back "
                        f"is not known: run the cell that makes {name!r} again",
                        {name},
                    )
                return run.number
        return number

    def _history(self, name: str, until: int) -> Iterator[tuple[CellRun, bool]]:
        """The runs before ``until`` that ``name`` has behind it, newest first: without those from
        which an undo put it back. With whether no undo of a run left ``name`` out."""
        at, returns, left_out = until - 1, len(self._returns), until
        while at > 0:
            back = self._returns[returns - 1] if returns else None
            if back is None or back.at < at:
                yield self.program.run(at), at <= left_out
                at -= 1
            elif back.at == at and name in back.names:
                at, returns = back.to
            else:
                left_out = min(left_out, back.to.runs) if back.at == at else left_out
                returns -= 1

    def _want(self, name: str, number: int, until: int) -> None:
        self._must_have_stood(name, number, until)
        self._spans.setdefault(name, set()).add((number, until))
        chosen = self.chosen.setdefault(number, Chosen(self.program.run(number)))
        chosen.wanted.add(name)

    def _must_have_stood(self, name: str, number: int, until: int) -> None:
        """While a name stood for something else, between a change and its undo, nobody told what
        became of the object that it stood for before."""
        between = self.program.runs[number : until - 1]
        left = [run for run in between if any(ref.name == name for ref in run.made)]
        if not left:
            return
        back = {run.number for run in left if self._came_back(name, run, until)}
        for run in between:
            if run.number in back:
                pass  # it was taken back, and that was taken back in turn
            elif run is left[0] or (run.run_id and run.run_id == left[0].run_id):
                continue  # it was taken back with all that it changed
            made = {ref.name for ref in run.made}
            for each in self.program.statements(run):
                for touched, is_deep in self.program.touched(each):
                    if (
                        touched in made
                        and (touched != name or run.number in back)
                        and self.program.sharing.affects(touched, is_deep, name)
                    ):
                        raise SliceError(
                            f"{name!r} was taken back to what it was, and cell {run.number} may "
                            f"have changed that: run the cell that makes {name!r} again",
                            {name},
                        )

    def _came_back(self, name: str, run: CellRun, until: int) -> bool:
        """Whether what ``run`` made of ``name`` stands again after the run ``until``."""
        made = [ref.version for ref in run.made if ref.name == name]
        later = [
            ref.version
            for other in self.program.runs[until:]
            for ref in other.reads
            if ref.name == name
        ]
        return not {self.ledger.version(name), *later}.isdisjoint(made)

    def resolve(self) -> None:
        for number in range(len(self.program.runs), 0, -1):
            if number in self.chosen:
                self._choose(self.chosen[number])

    def _choose(self, chosen: Chosen) -> None:
        run = chosen.run
        kept, live = self._slice_of(run, chosen.wanted)
        chosen.kept = kept
        self._must_not_be_taken_back(run, kept)
        statements = self.program.statements(run)
        direct = {name for index in kept for name in statements[index].now}
        own = {name for each in statements for name in each.writes}
        # Under "from __future__ import annotations" a name in an annotation is not asked for.
        is_lenient = any(is_future(each) for each in statements)
        absent = set()
        for name in sorted(live):
            number = self._before(run, name)
            if number > 0:
                chosen.finds[name] = number
                self._want(name, number, run.number)
                continue
            absent.add(name)
            if name == RANDOM:
                continue
            if number == 0:
                if name in SEEDS:
                    self.seeds.add(name)
                    continue
                raise SliceError(
                    f"{name!r} was bound before its origin was tracked, so what it held cannot "
                    f"be rebuilt: run the cell that makes {name!r} again, then the cells that "
                    "use it",
                    {name},
                )
            if name in SEEDS:
                self.seeds.add(name)
            elif name in BUILTINS or name == ANY:
                continue
            elif star := self._by_text(ANY, run.number):
                self._want(ANY, star, run.number)
                chosen.finds[ANY] = star
            elif name in direct and name not in own and not is_lenient:
                raise SliceError(
                    f"nothing is known of where {name!r} comes from: run the cell that binds it "
                    "again, then the cells that use it",
                    {name},
                )
            elif name not in own:
                self.unknown.add(name)
        chosen.absent = frozenset(absent - {RANDOM})

    def _slice_of(self, run: CellRun, wanted: Collection[str]) -> tuple[tuple[int, ...], set[str]]:
        """What is kept of a run, and what that finds. A name that ends as it began, bound to
        something else meanwhile, has to end so in the script as well if it is used later on."""
        made = {ref.name for ref in run.made}
        held = {
            name
            for name, spans in self._spans.items()
            if any(start < run.number < until for start, until in spans)
        }
        ends = set(wanted)
        while True:
            kept, live = Within(self.program, run, held - made).slice(ends)
            between = {
                name
                for index in kept
                for name in self.program.maybe_writes(self.program.statements(run)[index]) - made
                if name in held
            }
            if between <= ends:
                return kept, live
            ends |= between

    def _must_not_be_taken_back(self, run: CellRun, kept: Iterable[int]) -> None:
        """An undo gives an object its earlier content back for all who hold it, told or not."""
        for ref in run.made:
            if not self._was_taken_back(ref, run):
                continue
            for index in kept:
                for name, is_deep in self.program.touched(self.program.statements(run)[index]):
                    if self.program.sharing.affects(name, is_deep, ref.name):
                        raise SliceError(
                            f"what cell {run.number} did to {ref.name!r} was taken back, and "
                            f"{self.target[0]!r} may hold the same object: run the cell that "
                            f"makes {self.target[0]!r} again",
                            {ref.name},
                        )

    def _was_taken_back(self, ref: InputRef, run: CellRun) -> bool:
        later = self.program.runs[run.number :]
        if any(
            each.name == ref.name and 0 < each.version < ref.version
            for other in later
            for each in other.reads
        ):
            return True
        stands = self.ledger.version(ref.name) >= ref.version
        return not stands and not any(ref.name in other.deleted for other in later)

    def _before(self, run: CellRun, name: str) -> int:
        """The run that left ``name`` as ``run`` found it: 0 unknown, -1 not bound, as it seems."""
        for ref in run.reads:
            if ref.name == name:
                if ref.version:
                    maker = self.ledger.maker(ref)
                    if maker is not None:
                        return self._latest(name, maker.number, run.number)
                return max(self._by_text(name, run.number), 0)
        names = read(run.code)
        plain = name in names.reads | names.mutated
        if name in self.program.tracked and not plain:
            for earlier, _ in self._history(name, run.number):
                if name in self.program.made(earlier):
                    return earlier.number
                if name in earlier.deleted:
                    return -1
        return self._by_text(name, run.number) or -1

    def standing(self, name: str, number: int) -> int:
        """The run that bound or changed ``name`` last, up to the run ``number``; 0 when none."""
        for run in reversed(self.program.runs[:number]):
            if name in self.program.made(run):
                return run.number
        return 0

    def _by_text(self, name: str, before: int) -> int:
        """The newest run before ``before`` whose text binds or changes ``name``; 0 when none."""
        for run in reversed(self.program.runs[: before - 1]):
            for each in reversed(self.program.ran(run)):
                if name == RANDOM and RANDOM in self.program.moved(each):
                    return run.number
                if name == ANY and (is_star(each) or is_opaque(each)):
                    return run.number
                if name in each.writes:
                    return run.number
                if name in each.now and not {(name, True), (name, False)}.isdisjoint(
                    self.program.touched(each)
                ):
                    return run.number
                if name in each.deletes:
                    return 0
        return 0
