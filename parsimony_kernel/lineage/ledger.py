"""The provenance ledger: the origin of every variable, and the record of every cell run.

There is one ledger per namespace. It stores facts, never the objects themselves. Its cost per cell
doesn't depend on the size of the data, and is the same for the user's cells and the agent's.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import PurePath
from typing import Any, ClassVar, Literal, NamedTuple

from parsimony_kernel.analysis.calls import ATOMIC_FUNCTIONS, PURE_METHODS, READS_FILES
from parsimony_kernel.analysis.cell_names import Cell, Statement
from parsimony_kernel.analysis.parse import is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.file_access import SourceState
from parsimony_kernel.lineage.observe import CellEffect

# Calls of these names leave their arguments unchanged.
_HARMLESS = PURE_METHODS | ATOMIC_FUNCTIONS | READS_FILES


@dataclass(frozen=True, order=True, slots=True)
class InputRef:
    """A variable used as input, at the version it had then."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # for loading it back

    name: str
    version: int


_OF_SCOPE = ("actor", "notebook_path", "cell_id", "run_id", "turn")


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """The code that ran, on whose behalf and when; ``turn`` is 0 for a person's code."""

    actor: Literal["user", "agent"]
    notebook_path: str
    cell_id: str
    run_id: str
    turn: int = 0
    code: str
    code_sha: str
    at: str = ""


@dataclass(frozen=True, kw_only=True)
class VariableOrigin(_Ran):
    """The provenance of a variable: the code that made it, and its inputs.

    Args:
        version: counts the bindings of the name, from 1.
        sources: the files, folders and addresses that it was read from; paths below the working
            folder are relative to it.
        source_states: the state of these files after the code ended.
        replaced: the names in ``inputs`` that the same cell bound to other objects afterwards.
        cell_run: the number of the cell run that made it, 0 if none was recorded.
        until: the number of the cell's statements before the one that bound the name anew, 0 if
            none did.
    """

    name: str
    version: int
    inputs: tuple[InputRef, ...] = ()
    sources: tuple[str, ...] = ()
    source_states: tuple[SourceState, ...] = ()
    replaced: tuple[str, ...] = ()
    cell_run: int = 0
    until: int = 0


@dataclass(frozen=True, kw_only=True)
class CellRun(_Ran):
    """One run of one cell.

    Args:
        number: counts the runs in the namespace, from 1, in the order in which they ended.
        reads: the variables that it read, at their versions when it began; version 0 means that
            the origin is unknown.
        made: the variables that it bound or mutated, at their new versions.
        deleted: the names that it deleted.
        written: the files that it wrote.
        failed: whether it ended with an error.
        stopped_at: the line of the code at which it failed, 0 if unknown.
    """

    number: int
    reads: tuple[InputRef, ...] = ()
    made: tuple[InputRef, ...] = ()
    deleted: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    failed: bool = False
    stopped_at: int = 0


class Moment(NamedTuple):
    """A state of a namespace: the number of cell runs, and of undos, before it."""

    runs: int = 0
    returns: int = 0


# The prefix of files among stale inputs. The blank in it rules out a clash with variables.
FILE = "file "

# By name, the cell runs whose work on it was undone.
TakenBack = Mapping[str, Set[int]]


class OriginLedger:
    """The current origin of each name, and the earlier ones.

    A version number is used once: after an undo, the next binding gets a new one.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._origins: dict[str, list[VariableOrigin]] = {}
        self._cells: list[CellRun] = []
        # The undone runs, at the start and after each undo.
        self._taken_back: list[TakenBack] = [{}]
        # The last run that wrote each file, in each folder, and what matches each pattern.
        self._written: dict[str, int] = {}
        self._matched: dict[str, int] = {}
        # The current version of each name; 0 once it is gone.
        self._versions: dict[str, int] = {}

    def get(self, name: str) -> VariableOrigin | None:
        """Return the origin of the current value of ``name``, or ``None`` if unknown."""
        return self.at_version(InputRef(name=name, version=self.version(name)))

    def at_version(self, ref: InputRef) -> VariableOrigin | None:
        """Return the origin of the variable and version in ``ref``, or ``None`` if unknown."""
        history = self._origins.get(ref.name, ())
        # Versions count from 1 without gaps, see ``stamp``.
        return history[ref.version - 1] if 0 < ref.version <= len(history) else None

    def version(self, name: str) -> int:
        """Return the current version of ``name``, 0 if its origin is unknown."""
        return self._versions.get(name, 0)

    def next_version(self, name: str) -> int:
        """Return the version that the next binding of ``name`` gets."""
        return len(self._origins.get(name, ())) + 1

    def stamp(self, origin: VariableOrigin) -> None:
        """Record a new binding, whose version is the next one."""
        self._origins.setdefault(origin.name, []).append(origin)
        self._versions[origin.name] = origin.version

    def record(self, cell: CellRun) -> None:
        """Record the next cell run, after the stamps of the variables that it made."""
        self._cells.append(cell)
        around = {str(each) for path in cell.written for each in (path, *PurePath(path).parents)}
        self._written.update(dict.fromkeys(around, cell.number))
        self._matched.clear()

    def cell_runs(self) -> tuple[CellRun, ...]:
        """Return all recorded runs, oldest first."""
        return tuple(self._cells)

    def versions(self) -> dict[str, int]:
        """Return the current version of every known name."""
        return self._versions.copy()

    def go_back(self, name: str, version: int) -> None:
        """Set the current version of ``name`` to an earlier one; 0 means unknown or deleted.

        If it is bound again, its versions go on counting.
        """
        if name in self._versions:
            self._versions[name] = version

    def now(self) -> Moment:
        """Return the current state of the namespace."""
        return Moment(len(self._cells), len(self._taken_back) - 1)

    def put_back(self, names: Iterable[str], to: Moment) -> None:
        """Record that an undo restored ``names``, with all they hold, to their state at ``to``."""
        then, since = self._taken_back[to.returns], range(to.runs + 1, len(self._cells) + 1)
        put = {name: {*then.get(name, ()), *since} for name in names}
        self._taken_back.append({**self._taken_back[-1], **put})

    def taken_back(self) -> TakenBack:
        """Return the runs that are undone now."""
        return self._taken_back[-1]

    def stale(self, name: str, chain: Sequence[VariableOrigin] = ()) -> tuple[InputRef, ...]:
        """Return the direct and indirect inputs of ``name`` that have changed since or are gone.

        An input that a run changed in place while it made the variable is not stale: the variable
        counts as made from the input as the run left it.

        Args:
            chain: the ``ancestry`` of ``name``, if the caller has it.

        Returns:
            The inputs at the versions that were used, sorted.
        """
        chain = chain or list(self.ancestry(name))
        runs = {origin.cell_run for origin in chain}
        found = set[InputRef]()

        def is_own(number: int, origin: VariableOrigin) -> bool:
            """Return whether the run is of the chain, and made a version of the same variable."""
            made = self._cells[number - 1].made if 0 < number <= len(self._cells) else ()
            return number in runs and any(ref.name == origin.name for ref in made)

        for origin in chain:
            for ref in origin.inputs:
                current = self.get(ref.name)
                if ref.name in (name, origin.name) or ref.version == self.version(ref.name):
                    continue
                is_gone = current is None or ref.name in origin.replaced
                if is_gone or (current and not is_own(current.cell_run, origin)):
                    found.add(ref)
            for ref, number in self.rewritten(origin).items():
                if not is_own(number, origin):
                    found.add(ref)
        return tuple(sorted(found, key=attrgetter("name", "version")))

    def rewritten(self, origin: VariableOrigin) -> dict[InputRef, int]:
        """Return the sources of a variable that cells wrote to after it was made.

        Returns:
            For each source, as version 0 of ``FILE`` and its path, the last run that wrote to it.
        """
        found, number = {}, origin.cell_run
        for path, size in ((s.path, s.size_bytes) for s in origin.source_states if s.is_read):
            last = self._written.get(path, 0) or ("*" in path and self._last_match(path))
            # A run that rewrote what it had read itself knows no size.
            is_own = last == number > 0 and size is None
            if last > number or (is_own and path in self._cells[number - 1].written):
                found[InputRef(name=FILE + path, version=0)] = last
        return found

    def _last_match(self, pattern: str) -> int:
        if pattern not in self._matched:
            deep, depth = pattern.replace("**/", "*"), pattern.count("/")
            paths = (each for each in self._written if fnmatchcase(each, deep))
            paths = (each for each in paths if deep != pattern or each.count("/") == depth)
            self._matched[pattern] = max(map(self._written.__getitem__, paths), default=0)
        return self._matched[pattern]

    def ancestry(self, name: str) -> Iterator[VariableOrigin]:
        """Yield the origin of ``name`` and of all its inputs, each once, the nearest first."""
        current = self.get(name)
        found = [current] if current else []
        seen = {(each.name, each.version) for each in found}
        for origin in found:  # the list grows during the loop
            yield origin
            for ref in origin.inputs:
                if (key := (ref.name, ref.version)) not in seen:
                    seen.add(key)
                    found += [made] if (made := self.at_version(ref)) else []


# Recording a cell run


def stamp_effect(
    ledger: OriginLedger,
    effect: CellEffect,
    code: str,
    scope: Any,
    at: str,
    *,
    failed: bool = False,
    stopped_at: int = 0,
) -> None:
    """Record the observed effect of a cell run: its origins, its deletions and the run itself.

    Args:
        effect: what the cell did to the namespace.
        code: the cell after IPython's transforms.
        scope: the party on whose behalf it ran, an ``execution.run_scope.RunScope``.
        at: the time, in ISO 8601.
        failed: whether it ended with an error.
        stopped_at: the line of ``code`` at which it failed, see ``Cell.left_at``.
    """
    # Versions as of the cell's start; 0 for a variable from before recording began.
    known = {name for name in effect.asked if ledger.version(name)}
    reads = {*effect.reads, *known}
    inputs = tuple(InputRef(name=name, version=ledger.version(name)) for name in sorted(reads))
    # Binding the same object again is no change, but a name of unknown origin gets one here.
    bound = {name for name in effect.bound if not ledger.version(name)}
    sha = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    cell = read(code)
    tables = filter(is_table, cell.writes | cell.mutated)  # its queries make or change them
    changed = sorted({*effect.changed, *bound, *tables})
    versions = {name: ledger.version(name) for name in effect.bound}
    versions |= {name: ledger.next_version(name) for name in changed}
    derived = _derived(cell, inputs, effect, versions, {*changed}, stopped_at)
    number = ledger.now().runs + 1
    ran: dict[str, Any] = {"code": code, "code_sha": sha, "at": at}
    ran |= {each: getattr(scope, each) for each in _OF_SCOPE}
    for each in derived:
        states = tuple(state for state in effect.files if state.path in each["sources"])
        ledger.stamp(VariableOrigin(**ran, **each, source_states=states, cell_run=number))
    made = tuple(InputRef(name=name, version=ledger.version(name)) for name in changed)
    for name in effect.deleted:
        ledger.go_back(name, 0)
    ledger.record(
        CellRun(
            **ran,
            number=number,
            reads=inputs,
            made=made,
            deleted=effect.deleted,
            written=effect.written,
            failed=failed,
            stopped_at=stopped_at,
        )
    )


def _derived(
    cell: Cell,
    before: Collection[InputRef],
    effect: CellEffect,
    versions: dict[str, int],
    changed: Set[str],
    stopped_at: int,
) -> list[dict[str, Any]]:
    """Return the derivation of each variable that a cell run made, in the order of its versions.

    These are fields of ``VariableOrigin``.
    A value that the cell itself replaced is among them if another variable was made from it.

    Args:
        before: the variables that the cell read, also through functions, as of its start.
        effect: what the cell did.
        versions: by name, the next version of a variable in ``changed``, and the current one of
            others that the cell bound. It is updated to the versions after the cell.
        changed: the variables that the cell made.
        stopped_at: the line at which the cell failed, 0 if it didn't or the line is unknown.
    """
    # A source is an input like a variable that never changes its version.
    sources, in_place = effect.sources, {*effect.in_place}
    files = {source: InputRef(name=FILE + source, version=0) for source in sources}
    old = {ref.name: {ref} for ref in (*before, *files.values())}
    ran = [each for each in cell.statements if not stopped_at or each.lines[0] <= stopped_at]
    rebinds = [_rebound_by(each, stopped_at) & (changed - in_place) for each in ran]
    # How many of the remaining statements bind each name anew.
    left = Counter(name for names in rebinds for name in names)
    # Inputs used only inside functions, or by other threads: they count as inputs of every
    # statement with a call.
    own = {name for each in ran for name in each.reads | each.mutated}
    through = {ref for ref in before if ref.name not in own}
    through |= {files[source] for source, numbers in sources.items() if -1 in numbers}
    # The inputs of each name so far, and the names that functions and classes use.
    inputs: dict[str, set[InputRef]] = {}
    uses: dict[str, Set[str]] = {}
    # What functions change is no input of theirs: they look it up whenever they are called.
    bodies = [each.later for each in ran]
    by_functions = {name for each in bodies for name in each.writes | each.mutated | each.reached}
    # No statement is known to make these, so they are made from all, and so is what uses them.
    for name in {*changed}.difference(*(each.writes | each.mutated | each.reached for each in ran)):
        old[name] = set[InputRef]().union(*old.values())
    # Inputs that a later statement replaces.
    replaced = set[InputRef]()
    found: list[dict[str, Any]] = []

    def given_by(names: Iterable[str], binds: Set[str] = frozenset()) -> set[InputRef]:
        """Return the inputs that a statement that ``binds`` names gets by reading ``names``."""
        given, pending, seen = set[InputRef](), list(names), set[str]()
        while pending:
            if (name := pending.pop()) in seen:
                continue
            seen.add(name)
            its = inputs.get(name, old.get(name, set()))
            if name in inputs and name in versions and name not in binds:
                its = {InputRef(name=name, version=versions[name])}
            if left[name] and name not in binds:
                replaced.update(its)
            given |= its
            pending += uses.get(name, ())
        return given

    def add(name: str, its: set[InputRef], until: int = 0) -> None:
        its -= {InputRef(name=name, version=versions[name])}
        plain = its.difference(files.values())
        found.append({"name": name, "version": versions[name], "until": until})
        found[-1]["inputs"] = tuple(sorted(plain))
        found[-1]["sources"] = tuple(source for source, ref in files.items() if ref in its)
        found[-1]["replaced"] = tuple(sorted({ref.name for ref in plain & replaced}))

    for number, (each, anew) in enumerate(zip(ran, rebinds, strict=True)):
        by_calls = through if each.calls else set[InputRef]()
        read = {files[source] for source, numbers in sources.items() if number in numbers}
        replaced |= {ref for ref in by_calls if left[ref.name]}
        names = each.writes | each.mutated | each.reached
        if any(call.last not in _HARMLESS for call in each.calls):
            lasting = {name for name in effect.fixed if not left[name]}
            handed = each.touched & (changed - lasting | cell.deletes)
            data = {name for name in effect.data if not (left[name] or each.changes_all)}
            data -= each.may_mutate
            names |= handed - data
            if not each.reads.isdisjoint(uses):
                names |= by_functions & changed
            is_idle = changed.isdisjoint(names | handed)
            if is_idle and not each.reads.isdisjoint((*inputs, *old)):
                through |= read  # kept by a function of the notebook, perhaps
        if each.defines:  # names in its body are looked up at the call
            made = {name: {*by_calls, *read} for name in names}
        else:
            binds = each.certain & each.writes
            given = by_calls | read
            made = {name: given_by(each.inputs_of(name), binds) | given for name in names}
        for name in anew:
            if InputRef(name=name, version=versions[name]) in replaced:
                add(name, inputs[name] | given_by(uses.get(name, ())), number)
                versions[name] += 1
        left.subtract(anew)
        for name, its in made.items():
            if name not in each.certain or name in each.mutated:
                its |= inputs.get(name, old.get(name, set()))
            elif not each.defines:
                uses.pop(name, None)
            inputs[name] = its
        if each.defines:
            uses |= dict.fromkeys(names, each.reads)

    for name in sorted(changed):
        through_body = {ref for ref in given_by(uses.get(name, ())) if ref.name not in by_functions}
        its = inputs.get(name, old.get(name, set())) | through_body
        add(name, its | old.get(name, set()) if name in in_place else its)
    return found


def _rebound_by(statement: Statement, stopped_at: int) -> Set[str]:
    """Return the names that ``statement``, unless it may have failed, bound to other objects."""
    if not statement.rebinds or 0 < stopped_at <= statement.lines[1]:
        return frozenset()
    return statement.certain & statement.writes - statement.mutated
