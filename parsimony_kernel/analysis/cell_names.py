"""The static analysis of a cell: its use of names, per top-level statement. Pure values.

Only the syntax is read, so code that hasn't run can be analyzed too. The analysis
over-approximates: a name that might be read counts as read.
"""

import ast
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.analysis.values import Lookup, Ref, Root, Steps, Value, names_in, roots_of


@dataclass(unsafe_hash=True)
class Call:
    """One call.

    Args:
        name: the callee as written, e.g. ``pd.read_csv``; its last part if it has no full name.
        origin: the callee resolved through imports, e.g. ``pandas.read_csv``.
        root: the first name of the chain, through other calls: ``pd`` for ``pd.f().g()``.
        line: its line in the cell, from 1.
        names: the last name of each argument (``x`` for ``a.x`` and ``x()``), empty for others.
        texts: every string in the arguments.
        handed: every name in the arguments and in a method's receiver.
        receiver: the object of a method call.
        args: positional arguments, up to the first starred one.
        keywords: keyword arguments.
    """

    name: str
    origin: Ref | None
    root: str
    line: int
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    handed: frozenset[str] = frozenset()
    receiver: Value | None = None
    args: tuple[Value | None, ...] = ()
    keywords: Mapping[str, Value | None] = field(default_factory=dict, hash=False)

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Magic:
    """A line or cell magic. ``name`` is empty for ``!``; ``body`` is a cell magic's text."""

    name: str
    text: str
    line: int
    body: str | None = None


@dataclass
class Names:
    """The use of a notebook's module-level names by code.

    It grows while the code is visited; from then on it is shared and read-only. Dictionaries serve
    as ordered sets.

    Args:
        reads: names whose earlier value is used.
        writes: names that are bound.
        deletes: names that are deleted.
        mutated: names whose object is mutated in place.
        stale: the subset of ``mutated`` that may still hold the object from before the cell.
        reached: names of which a part is mutated through another name.
        touched: names passed to a call, or on which a method is called.
        may_mutate: names mutated in place, or passed to code that may do so.
        literals: strings, except targets that are only written to.
        modules: the origins of imported names: ``pandas``, ``math:sqrt``.
        items: key lookups as calls of ``__getitem__``, and deletions of unknown names from a
            namespace as calls of ``__delitem__``.
        links: pairs of a name and the root of the object, or part, that it is bound to or given.
        paths: the names in ``mutated`` with the steps to the mutated part.
        keeps_state: it creates a class, a generator or a closure, whose results may vary.
        opaque: it may bind and mutate names that the text doesn't show.
        changes_all: it may mutate anything that it reads.
        changes_any: it may mutate anything at all.
        changes_inside: it mutates an object other than by setting an item or an attribute.
        columns: labels that are certainly looked up in what may be data frames.
        imported: every imported module and member, with its parent packages; this and the
            following fields ignore scopes.
        defined: every function and class.
        strings: every string.
    """

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    mutated: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    may_mutate: set[str] = field(default_factory=set)
    literals: dict[str, None] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)
    links: dict[tuple[str, Root], None] = field(default_factory=dict)
    paths: dict[tuple[str, Steps], None] = field(default_factory=dict)
    calls: dict[Call, None] = field(default_factory=dict)
    items: dict[Call, None] = field(default_factory=dict)
    magics: dict[Magic, None] = field(default_factory=dict)
    keeps_state: bool = False
    opaque: bool = False
    changes_all: bool = False
    changes_any: bool = False
    changes_inside: bool = False
    columns: dict[Lookup, None] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    strings: set[str] = field(default_factory=set)

    def merge(self, other: "Names") -> None:
        """Add the findings for other code."""
        mine = vars(self)
        for name, its in vars(other).items():
            if isinstance(its, bool):
                mine[name] |= its
            elif its:
                mine[name].update(its)

    def settled(self) -> dict[str, Any]:
        """Return the final fields, once all of the code is visited."""
        self.may_mutate |= self.mutated | self.reached
        self.reached -= self.mutated
        return vars(self)

    @property
    def called(self) -> set[str]:
        """The names that are called."""
        return {call.root for call in self.calls if call.root and call.name == call.root}

    @property
    def receivers(self) -> set[str]:
        """The names on which, or on a part of which, a method is called, also in a loop."""
        return self.linked({call.root for call in self.calls if call.name not in ("", call.root)})

    def linked(self, names: Set[str]) -> set[str]:
        """Return ``names``, and the names whose objects, or parts of them, they may be bound to."""
        found, pending = {*names}, [*names]
        while pending:
            name = pending.pop()
            more = {root.name for each, root in self.links if each == name} - found
            found |= more
            pending += more
        return found


NOTHING = Names()


@dataclass
class Statement(Names):
    """One top-level statement; its ``reads`` include names that the cell itself has bound.

    Args:
        source: its text, decorators included.
        lines: its first and last line in the cell, from 1, inclusive.
        defines: it defines a function or a class.
        rebinds: it only binds names to objects: an assignment, an import, a definition.
        certain: names that it binds in any case.
        now: the subset of ``reads`` used when it runs, not by functions that it defines.
        later: the effects of its functions when called; ``NOTHING`` if it defines none.
        pairs: for ``a, b = x, y``, the inputs of each name.
    """

    source: str = ""
    lines: tuple[int, int] = (0, 0)
    defines: bool = False
    rebinds: bool = False
    certain: Set[str] = frozenset()
    now: Set[str] = frozenset()
    later: Names = field(default_factory=lambda: NOTHING)
    pairs: Mapping[str, Set[str]] = field(default_factory=dict)

    def inputs_of(self, name: str) -> Set[str]:
        """Return the names from which ``name`` is computed."""
        return self.pairs.get(name, self.reads)


@dataclass
class Cell(Names):
    """A whole cell; its ``reads`` are the names whose value from before the cell is used.

    Args:
        error: the syntax error, if any; such a cell has no statements and may change anything.
    """

    statements: tuple[Statement, ...] = field(default=(), repr=False)
    error: str | None = None


# What is known of names at the current point of a cell, while it is visited


class State:
    """Which names are certainly bound, which are local, and which names share objects.

    ``found`` holds the findings for the current statement.
    """

    def __init__(self) -> None:
        self.found = Names()
        # Names read before the cell has certainly bound them.
        self.fresh = set[str]()
        # The statement's number, and by name the number of the last one that certainly bound it.
        self.number = 0
        self.certain: dict[str, int] = {}
        # Names bound by the enclosing functions and comprehensions (true: local to them), and
        # names that they declare global (false).
        self.scope: dict[str, bool] = {}
        # The number of enclosing functions and classes. Comprehensions don't count: a walrus in
        # one binds in the scope around it.
        self.functions = 0
        # Every name that is bound anywhere, parameters and comprehension targets included.
        self.bound: set[str] = set()
        self.aliases: dict[str, dict[Root, None]] = {}
        # The abstract values of the names bound so far, in any scope.
        self.known: dict[str, Value | None] = {}
        # Names rebound to an object, or a part of one, that they had already.
        self._again: set[str] = set()
        # The depth of conditional blocks and loops.
        self.maybe = 0
        # Names whose frames may have other columns by now, as in ``Lookup``; ``None`` means all.
        self.doubted: set[str | None] = set()

    def is_local(self, name: str) -> bool:
        """Return whether ``name`` is local to an enclosing function or comprehension."""
        return self.scope.get(name, False)

    def read(self, name: str) -> None:
        """Record that ``name`` is read; its value is from before unless it is certainly bound."""
        if self.is_local(name):
            return
        bound_in = self.certain.get(name)
        if bound_in != self.number:
            self.found.reads.add(name)
        if bound_in is None:
            self.fresh.add(name)

    def write(self, name: str) -> None:
        """Record that ``name`` is bound."""
        self.bound.add(name)
        self.known[name] = None
        if self.is_local(name):
            return
        self.doubted.add(name)
        if not self.functions:
            self.certain[name] = self.number
        if not self.functions or name in self.scope:  # which declares it global
            self.found.writes.add(name)

    def delete(self, name: str) -> None:
        """Record that ``name`` is deleted."""
        self.known[name] = None
        self.doubted.add(name)
        if not self.functions:
            self.found.deletes.add(name)
            self.certain.pop(name, None)

    def may_mutate(self, *nodes: ast.AST) -> None:
        """Record that the objects named in ``nodes`` may be mutated."""
        self.found.may_mutate.update(names_in(*nodes))
        self.doubted.update(names_in(*nodes))

    def mutate(self, target: ast.expr, *, sets: bool = False) -> None:
        """Record that the object of ``target`` is mutated.

        Args:
            target: the expression.
            sets: whether the code only sets an item or an attribute of it by name.
        """
        found = self.found
        found.changes_inside |= not (sets and isinstance(target, ast.Name))
        self.may_mutate(holder_of(target))
        for root in roots_of(target):
            if not root.is_call and not self.is_local(root.name):
                found.mutated.add(root.name)
                found.paths[root.name, root.path] = None
                if root.name not in self.certain or root.name in self._again:
                    found.stale.add(root.name)
            for held in self.aliases.get(root.name, ()):
                if self.is_local(held.name):
                    continue
                if held.is_same:
                    found.mutated.add(held.name)
                    found.stale.add(held.name)
                    found.paths[held.name, root.path] = None
                # Otherwise only a new container is mutated, not its parts, or a call's result.
                elif not (held.is_fresh and root.is_same) and (
                    not held.is_call or held.gives_parts
                ):
                    found.reached.add(held.name)
            if root.is_call and root.gives_parts and not self.is_local(root.name):
                found.reached.add(root.name)

    def look_up(self, *lookups: Lookup | None) -> None:
        """Record column lookups; they are certain only outside of blocks and functions."""
        if self.maybe or self.functions or self.scope or None in self.doubted:
            return
        doubted = frozenset(each for each in self.doubted if each is not None)
        for each in lookups:
            if each is not None and each.frame not in doubted:
                self.found.columns[each._replace(doubted=doubted)] = None

    def hand_on(self, *nodes: ast.expr) -> None:
        """Record that other code gets the objects of ``nodes`` themselves and may mutate them."""
        for root in (each for node in nodes for each in roots_of(node)):
            if not any(root.path) and (root.is_fresh or not root.is_call):
                self.doubted.add(root.name)

    def mark_touched(self, names: Iterable[str]) -> None:
        """Record that ``names`` are passed to a call, or have a method called."""
        for name in names:
            if not self.is_local(name):
                self.found.touched.add(name)
            self.found.touched.update(root.name for root in self.aliases.get(name, ()))

    def alias(self, target: ast.expr, value: ast.expr, *, part: bool = False) -> None:
        """Record that ``target`` is bound to the result of ``value``, or to a part of it."""
        self.hand_on(value)
        match target:
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                its: list[ast.expr] = getattr(value, "elts", [])
                starred = any(isinstance(each, ast.Starred) for each in (*its, *targets))
                plain = len(its) == len(targets) and not part and not starred
                for number, each in enumerate(targets):
                    self.alias(each, its[number] if plain else value, part=not plain)
            case ast.Starred(value=inner):
                self.alias(inner, value, part=True)
            case ast.Attribute() | ast.Subscript():
                held = [root.part(is_fresh=True) for root in roots_of(value)]
                for root in roots_of(target):
                    known = {each: None for each in held if each.name != root.name}
                    self._link(root.name, {**self.aliases.get(root.name, {}), **known}, known)
            case ast.Name(id=name):
                own = {root.part() if part else root: None for root in roots_of(value)}
                known = dict(own)
                for root in own:
                    for further in self.aliases.get(root.name, ()):
                        known[further if root.is_same else further.part()] = None
                again = any(root.name == name for root in known)
                (self._again.add if again else self._again.discard)(name)
                known = {root: None for root in known if root.name != name}
                self._link(
                    name, {**self.aliases.get(name, {}), **known} if self.maybe else known, own
                )

    def _link(self, name: str, known: dict[Root, None], said: dict[Root, None]) -> None:
        """Set the aliases of ``name`` to ``known``; this statement adds the links ``said``."""
        self.aliases[name] = known
        self.found.links.update(((name, root), None) for root in said if root.name != name)


def holder_of(node: ast.expr) -> ast.expr:
    """Return the expression from which the attributes and subscripts of ``node`` start."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node
