"""What is known of names at a place of the walk over a cell: what was done to them so far."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from parsimony_kernel.analysis.cell import Call, Magic
from parsimony_kernel.analysis.roots import Root, Steps, roots_of
from parsimony_kernel.analysis.values import Value

_NONE = frozenset[str]()


@dataclass
class Found:
    """What was found in one statement, in the fields of ``cell.Names``.

    ``fresh`` are those of ``reads`` that the cell has not bound for certain before.
    """

    reads: set[str] = field(default_factory=set)
    fresh: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    deletes: set[str] = field(default_factory=set)
    mutated: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    receivers: set[str] = field(default_factory=set)
    may_mutate: set[str] = field(default_factory=set)
    literals: list[str] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    links: dict[tuple[str, Root], None] = field(default_factory=dict)
    paths: dict[tuple[str, Steps], None] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    items: list[Call] = field(default_factory=list)
    magics: list[Magic] = field(default_factory=list)
    keeps_state: bool = False
    opaque: bool = False
    changes_all: bool = False
    changes_any: bool = False

    def merge(self, other: "Found") -> None:
        """Add what another statement does."""
        for each in fields(self):
            mine, its = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, bool):
                setattr(self, each.name, mine or its)
            elif isinstance(mine, list):
                mine += its
            else:
                mine.update(its)

    def frozen(self) -> dict[str, Any]:
        """The same as the fields of ``cell.Names``."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        del values["fresh"]
        told: dict[str, Any] = {
            name: _frozen(value) if isinstance(value, set) else value
            for name, value in values.items()
        }
        return told | {
            "literals": tuple(dict.fromkeys(self.literals)),
            "modules": tuple(self.modules.items()),
            "links": tuple(self.links),
            "paths": tuple(self.paths),
            "calls": tuple(self.calls),
            "items": tuple(self.items),
            "magics": tuple(self.magics),
            "reached": _frozen(self.reached - self.mutated),
            "may_mutate": _frozen(self.may_mutate | self.mutated | self.reached),
        }


def _frozen(names: set[str]) -> frozenset[str]:
    """``names`` for good. Most are empty, and Python makes a new set of each."""
    return frozenset(names) if names else _NONE


class State:
    """Which names are bound for certain or belong to a scope around, and whose objects names
    stand for. ``found`` is what the statement at hand does."""

    def __init__(self) -> None:
        self.found = Found()
        # The number of the statement, and of the one in which a name was last bound for certain.
        self.number = 0
        self.certain: dict[str, int] = {}
        # Names that belong to the functions and comprehensions around, innermost last.
        self.local: list[frozenset[str]] = []
        self.declared: list[frozenset[str]] = []
        # How many of them are functions and classes; a comprehension binds around itself.
        self.functions = 0
        self.modules: dict[str, str] = {}
        # Every name that is bound anywhere, parameters and targets of comprehensions as well.
        self.bound: set[str] = set()
        self.aliases: dict[str, dict[Root, None]] = {}
        # What the names around stand for that were bound so far, in whatever scope.
        self.known: dict[str, Value | None] = {}
        # Names bound to what they stood for already.
        self._again: set[str] = set()
        # Within a block that may or may not run, or run again.
        self.maybe = 0

    def is_local(self, name: str) -> bool:
        """Whether ``name`` belongs to a function or a comprehension around."""
        for local, declared in zip(reversed(self.local), reversed(self.declared), strict=True):
            if name in local:
                return True
            if name in declared:
                return False
        return False

    def origin_of(self, name: str) -> str:
        """What the cell imports as ``name``, empty where it does not."""
        return "" if self.is_local(name) else self.modules.get(name, "")

    def read(self, name: str) -> None:
        """``name`` is read: a value from before, unless it is bound for certain."""
        if self.is_local(name):
            return
        bound_in = self.certain.get(name)
        if bound_in != self.number:
            self.found.reads.add(name)
        if bound_in is None:
            self.found.fresh.add(name)

    def write(self, name: str) -> None:
        """``name`` is bound."""
        self.bound.add(name)
        self.known[name] = None
        if self.is_local(name):
            return
        if not self.functions:
            self.certain[name] = self.number
            self.found.writes.add(name)
        elif name in self.declared[-1]:
            self.found.writes.add(name)

    def delete(self, name: str) -> None:
        """``name`` is unbound."""
        self.known[name] = None
        if not self.functions:
            self.found.deletes.add(name)
            self.certain.pop(name, None)

    def may_mutate(self, *nodes: ast.AST) -> None:
        """What the names in ``nodes`` stand for may be changed in place."""
        self.found.may_mutate |= {name for node in nodes for name in names_in(node)}

    def mutate(self, target: ast.expr) -> None:
        """What ``target`` gives is changed in place."""
        found = self.found
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
                elif held.is_fresh and root.is_same:
                    continue  # the new container changes, and none of its parts
                elif not held.is_call or held.gives_parts:
                    found.reached.add(held.name)
            if root.is_call and root.gives_parts and not self.is_local(root.name):
                found.reached.add(root.name)

    def touched_in(self, node: ast.AST) -> None:
        """What is named in ``node`` is handed to a call, or a method of it is called."""
        for name in names_in(node):
            if not self.is_local(name):
                self.found.touched.add(name)
            self.found.touched |= {root.name for root in self.aliases.get(name, ())}

    def alias(self, target: ast.expr, value: ast.expr, *, part: bool = False) -> None:
        """``target`` is bound to what ``value`` gives, or to a part of it."""
        match target, value:
            case ast.Tuple(elts=targets) | ast.List(elts=targets), _:
                several = value.elts if isinstance(value, ast.Tuple | ast.List) else ()
                plain = len(several) == len(targets) and not part
                if any(isinstance(each, ast.Starred) for each in (*several, *targets)) or not plain:
                    for each in targets:
                        self.alias(each, value, part=True)
                    return
                for each, its in zip(targets, several, strict=True):
                    self.alias(each, its)
            case ast.Starred(value=inner), _:
                self.alias(inner, value, part=True)
            case ((ast.Attribute() | ast.Subscript()), _):
                held = {root.in_container(): None for root in roots_of(value)}
                for root in roots_of(target):
                    known = {each: None for each in held if each.name != root.name}
                    if known:
                        self._link(root.name, {**self.aliases.get(root.name, {}), **known}, known)
            case ast.Name(id=name), _:
                known = {}
                own = {root.part() if part else root: None for root in roots_of(value)}
                for root in own:
                    known[root] = None
                    for further in self.aliases.get(root.name, ()):
                        known[further if root.is_same else further.part()] = None
                again = any(root.name == name for root in known)
                (self._again.add if again else self._again.discard)(name)
                known = {root: None for root in known if root.name != name}
                if self.maybe:
                    known = {**self.aliases.get(name, {}), **known}
                self._link(name, known, own)

    def _link(self, name: str, known: dict[Root, None], said: dict[Root, None]) -> None:
        """``name`` stands for ``known``; this statement says ``said`` of it."""
        self.aliases[name] = known
        self.found.links.update(((name, root), None) for root in said if root.name != name)


def names_in(node: ast.AST) -> Iterator[str]:
    """Every name that ``node`` mentions."""
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def written(node: ast.expr) -> str:
    """A name with its dots as it is written, as far as there are names at its end."""
    if not isinstance(node, ast.Attribute):
        return node.id if isinstance(node, ast.Name) else ""
    before = written(node.value)
    return f"{before}.{node.attr}" if before else node.attr


def holder_of(node: ast.expr) -> ast.expr:
    """What the attributes and subscripts of ``node`` start from."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node
