"""The top-level statements of a cell, and what each does with names, for a slice."""

import builtins
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from parsimony_kernel.analysis.calls import (
    ATOMIC_FUNCTIONS,
    HARMLESS,
    MUTATES,
    PURE_METHODS,
    RUNS_TEXT,
    SEEDING_FUNCTIONS,
    STREAM_FUNCTIONS,
    STREAM_METHODS,
    STREAM_MODULES,
    VALUE_MODULES,
    VIEW_METHODS,
    names,
)
from parsimony_kernel.analysis.cell import NOTHING, Call, Cell, Statement
from parsimony_kernel.analysis.read import read

# What a private namespace holds before any code has run, and how to get it elsewhere.
SEEDS: Mapping[str, str] = {
    "pd": "import pandas as pd",
    "np": "import numpy as np",
    "alt": "import altair as alt",
    "datetime": "from datetime import datetime",
    "timedelta": "from datetime import timedelta",
    "timezone": "from datetime import timezone",
    "read_excel": "from parsimony_kernel import read_excel",
    "read_pdf_text": "from parsimony_kernel import read_pdf_text",
    "read_pptx_text": "from parsimony_kernel import read_pptx_text",
    "load_dataset": "from parsimony_kernel import load_dataset",
    "display": "from IPython.display import display",
    "get_ipython": "from IPython import get_ipython",
}
BUILTINS = frozenset(vars(builtins)) | {"__name__", "__builtins__"}
# The random numbers that libraries keep for all.
RANDOM = "*random"

_TEXT_MAGICS = names("magics", "text")
_DRAWING = frozenset({"sample", "rvs", "fit", "fit_transform", "fit_predict"})
_RANDOM_MODULES = frozenset({"random", "sklearn", "scipy"})


@dataclass(eq=False)
class Vocabulary:
    """What the cells of a notebook import and define.

    Args:
        homes: the names of imports, with what they are bound to.
        defined: the names of functions and classes.
        stateful: those that may give something else each time, or what moves on when it is read.
        harmless: those that leave their arguments and the names of the notebook alone.
    """

    homes: dict[str, str]
    defined: set[str]
    stateful: set[str]
    harmless: set[str]


def vocabulary(cells: Iterable[Cell]) -> Vocabulary:
    """What ``cells`` import and define. A function is harmless until it, or one that it calls, is
    not."""
    known = Vocabulary(dict(read("\n".join(SEEDS.values())).modules), set(), set(), set())
    functions: list[Statement] = []
    callers: dict[str, list[Statement]] = {}
    for cell in cells:
        known.homes |= dict(cell.modules)
        known.defined |= cell.defined
        functions += [each for each in cell.statements if each.later is not NOTHING]
    for each in functions:
        known.harmless |= each.writes & known.defined
        for call in each.later.calls:
            callers.setdefault(call.name, []).append(each)
            callers.setdefault(call.root, []).append(each)
    while functions:
        each = functions.pop()
        calls = each.later.calls
        news = set[str]()
        if each.keeps_state or any(gives_streams(call, known) for call in calls):
            news |= each.writes - known.stateful
            known.stateful |= each.writes
        plain = all(is_harmless(call, known) for call in calls)
        if each.keeps_state or each.later.may_mutate or each.later.writes or not plain:
            news |= each.writes & known.harmless
            known.harmless -= each.writes
        for name in news:
            functions += callers.get(name, ())
    return known


def statements_of(cell: Cell) -> tuple[Statement, ...]:
    """The statements of a cell, with those of magics that run Python in place of the magics."""
    if not cell.magics:
        return cell.statements
    found: list[Statement] = []
    for each in cell.statements:
        found += _of_magic(each) or [each]
    return tuple(found)


def _of_magic(statement: Statement) -> list[Statement]:
    """The statements that a magic runs; none where it is no such magic, or does more than that."""
    match statement.magics:
        case (magic, *_) if (
            magic.name in _TEXT_MAGICS
            and statement.source.startswith("get_ipython().run_")
            and not (magic.body and magic.text)
        ):
            inner = statements_of(read(magic.body or magic.text))
            return [replace(each, lines=statement.lines) for each in inner]
    return []


def is_opaque(statement: Statement) -> bool:
    """Whether it may bind or change names that its text does not tell."""
    return (statement.opaque or statement.changes_any) and not is_star(statement)


def is_blind(statement: Statement) -> bool:
    """Whether it may read any name."""
    return any(each.name in RUNS_TEXT and each.name != "" for each in statement.calls) and (
        statement.opaque or any(len(each.names) > 1 for each in statement.calls)
    )


def is_star(statement: Statement) -> bool:
    """Whether it imports all that a module has."""
    return statement.source.startswith("from ") and statement.opaque


def is_future(statement: Statement) -> bool:
    """Whether it is an import that has to stand first."""
    return statement.source.startswith("from __future__")


def binds_whole(statement: Statement) -> bool:
    """Whether it, if it raises, has bound and changed nothing."""
    return statement.rebinds and not statement.mutated


def is_plain(call: Call, known: Vocabulary) -> bool:
    """Whether a call leaves what it is handed as it is, and keeps nothing of it."""
    if call.last in MUTATES or call.root in known.defined or not call.name:
        return False
    if call.root in known.homes:
        return _home(call, known).partition(".")[0] in VALUE_MODULES
    if call.name == call.root:
        return call.last in HARMLESS and not call.last[:1].isupper()
    return call.last in PURE_METHODS and call.last not in known.defined


def is_harmless(call: Call, known: Vocabulary) -> bool:
    """Whether a call leaves what it is handed as it is."""
    return call.name in known.harmless or is_plain(call, known)


def gives_streams(call: Call, known: Vocabulary) -> bool:
    """Whether what a call gives may move on when it is read, or change what it was made of."""
    if call.last in STREAM_FUNCTIONS | STREAM_METHODS or call.root in known.stateful:
        return True
    if call.root in known.homes:
        module = _home(call, known).partition(".")[0]
        return module in STREAM_MODULES or module not in VALUE_MODULES or "partial" in call.last
    return call.last in ("partial", "methodcaller")


def draws(call: Call, known: Vocabulary) -> bool:
    """Whether a call may take, or set, the random numbers that a library keeps for all."""
    if call.last in SEEDING_FUNCTIONS:
        return True
    if call.last in STREAM_FUNCTIONS:
        return False
    if call.root not in known.homes or call.name.partition(".")[0] != call.root:
        return call.last in _DRAWING
    path = _home(call, known).split(".")
    return "random" in path or path[0] in _RANDOM_MODULES or path[0] not in VALUE_MODULES


def _home(call: Call, known: Vocabulary) -> str:
    """The full name of a call of an import, or of a method of what that gives."""
    rest = call.name.removeprefix(call.root).lstrip(".")
    return f"{known.homes[call.root]}.{rest}".replace(":", ".")


class Sharing:
    """Which names may share objects, over the whole notebook.

    A name stands for its object and, with a star, for all that this holds; what may be the same
    is one group.
    """

    def __init__(self) -> None:
        self._group: dict[str, str] = {}
        self._groups: dict[str, set[str]] = {}

    def group(self, name: str) -> str:
        root = name
        while (above := self._group.get(root, root)) != root:
            root = above
        while name != root:
            self._group[name], name = root, self._group.get(name, root)
        return root

    def _join(self, one: str, *others: str) -> None:
        self._groups.clear()
        for other in others:
            self._group[self.group(other)] = self.group(one)

    def groups_of(self, name: str) -> set[str]:
        """The groups of its object and of what that holds."""
        if name not in self._groups:
            self._groups[name] = {self.group(name), self.group(f"{name}*")}
        return self._groups[name]

    def groups_changed(self, name: str, is_deep: bool) -> set[str]:
        """The groups that a change of ``name`` may be one of."""
        return self.groups_of(name) if is_deep else {self.group(name)}

    def add(self, statement: Statement, known: Vocabulary) -> None:
        """Learn what a statement makes one."""
        is_view = any(each.last in VIEW_METHODS for each in statement.calls)
        is_plain_throughout = all(is_plain(each, known) for each in statement.calls)
        for name, root in statement.links:
            if root.name in known.homes:
                continue
            target, parts = f"{name}*", f"{root.name}*"
            self._join(target, parts)
            ends_in_attribute = bool(root.path) and isinstance(root.path[-1], str)
            if root.is_same:
                self._join(name, root.name)
            elif ends_in_attribute or (root.is_call and not is_plain_throughout) or is_view:
                self._join(target, name, root.name, parts)
            elif root.is_fresh and not root.is_call:
                self._join(target, root.name)
            elif root.is_fresh:
                self._join(target, *([root.name] if len(root.path) > 1 else []))
            elif root.gives_parts or not root.is_call:
                self._join(name, parts)
        for call in statement.calls:
            held = sorted(_handed(call, known))
            if _is_put(call, known):
                for each in held:
                    self._join(f"{call.root}*", *([each] if each != call.root else []), f"{each}*")
            elif len(held) > 1 and not is_plain(call, known):
                self._join(*held, *(f"{each}*" for each in held))
        if statement.later is not NOTHING:
            for name in statement.writes:
                for each in _variables(statement.reads, known) - {name}:
                    self._join(f"{name}*", each, f"{each}*")


def _variables(names: Collection[str], known: Vocabulary) -> set[str]:
    return {*names} - known.homes.keys() - BUILTINS


def _handed(call: Call, known: Vocabulary) -> set[str]:
    """The variables that a call may change: those that it is handed, and what is called."""
    return _variables(call.handed | {call.root}, known) - {""} - (known.defined - known.stateful)


def touched_now(statement: Statement, known: Vocabulary) -> Iterator[tuple[str, bool]]:
    """The names whose object a statement may change itself, with whether below its top."""
    if statement.defines:
        return
    for name, path in statement.paths:
        yield name, bool(path)
    for name in statement.reached:
        yield name, True
    for name in statement.may_mutate - statement.mutated:
        yield name, True
    for call in statement.calls:
        if not is_harmless(call, known):
            for name in {call.root} if _is_put(call, known) else _handed(call, known):
                yield name, not _is_put(call, known)
            if call.root in known.defined:
                yield call.root, True


def _is_put(call: Call, known: Vocabulary) -> bool:
    """Whether it is a method that changes its object alone, and may put there what it is handed."""
    if call.name == call.root or call.last not in MUTATES or call.last in known.defined:
        return False
    return call.root in _handed(call, known)


def carried(statement: Statement, known: Vocabulary) -> frozenset[str]:
    """The names whose functions what it binds may hold."""
    if statement.imports:
        return frozenset()
    called = statement.called - known.stateful - statement.touched
    return statement.reads - called


def used(statement: Statement) -> frozenset[str]:
    """The names that a statement uses, but for what it only hands on or measures."""
    if not statement.calls and statement.rebinds:
        linked = {root.name for _, root in statement.links if root.is_same}
        return statement.now - linked
    if all(each.last in ATOMIC_FUNCTIONS - {"any", "all"} for each in statement.calls) and (
        statement.calls and "*" not in statement.source
    ):
        return frozenset()
    return statement.now
