"""What is known of names at a place of the walk over a cell: what was done to them so far."""

import ast
from typing import Any

from parsimony_kernel.lineage.syntax.roots import Root, Steps, roots_of


class Names:
    """What was found so far, which names are bound for certain or belong to a scope around, and
    whose objects names stand for."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.deletes: set[str] = set()
        self.mutated: set[str] = set()
        self.literals: list[str] = []
        self.certain: set[str] = set()
        # Names that belong to the functions and comprehensions around, innermost last.
        self.local: list[frozenset[str]] = []
        self.declared: list[frozenset[str]] = []
        # How many of them are functions and classes; a comprehension binds around itself.
        self.functions = 0
        self.stale: set[str] = set()
        self.modules: dict[str, str] = {}
        self.reached: set[str] = set()
        self.touched: set[str] = set()
        self.calls: set[str] = set()
        self.paths: dict[tuple[str, Steps], None] = {}
        self.opaque = False
        self.aliases: dict[str, dict[Root, None]] = {}
        # Names bound to what they stood for already.
        self._again: set[str] = set()
        # Within a block that may or may not run, or run again.
        self.maybe = 0

    def found(self) -> dict[str, Any]:
        """What was found, as the fields of ``CellNames``."""
        return {
            "reads": frozenset(self.reads),
            "writes": frozenset(self.writes),
            "deletes": frozenset(self.deletes),
            "mutated": frozenset(self.mutated),
            "literals": tuple(dict.fromkeys(self.literals)),
            "stale": frozenset(self.stale),
            "imports": frozenset(self.modules) & frozenset(self.writes),
            "modules": tuple(self.modules.items()),
            "reached": frozenset(self.reached - self.mutated),
            "touched": frozenset(self.touched),
            "calls": frozenset(self.calls),
            "aliases": tuple(
                dict.fromkeys(
                    (name, root.name) for name, roots in self.aliases.items() for root in roots
                )
            ),
            "paths": tuple(self.paths),
            "opaque": self.opaque,
        }

    def is_local(self, name: str) -> bool:
        """Whether ``name`` belongs to a function or a comprehension around."""
        for local, declared in zip(reversed(self.local), reversed(self.declared), strict=True):
            if name in local:
                return True
            if name in declared:
                return False
        return False

    def read(self, name: str) -> None:
        """``name`` is read: a value from before the cell, unless it is bound for certain."""
        if not self.is_local(name) and name not in self.certain:
            self.reads.add(name)

    def write(self, name: str) -> None:
        """``name`` is bound."""
        if self.is_local(name):
            return
        if not self.functions:
            self.certain.add(name)
            self.writes.add(name)
        elif name in self.declared[-1]:
            self.writes.add(name)

    def mutate(self, target: ast.expr) -> None:
        """What ``target`` gives is changed in place."""
        for root in roots_of(target):
            if not root.is_call and not self.is_local(root.name):
                self.mutated.add(root.name)
                self.paths[root.name, root.path] = None
                if root.name not in self.certain or root.name in self._again:
                    self.stale.add(root.name)
            for held in self.aliases.get(root.name, ()):
                if self.is_local(held.name):
                    continue
                if held.is_same:
                    self.mutated.add(held.name)
                    self.stale.add(held.name)
                    self.paths[held.name, root.path] = None
                elif not held.is_call or held.gives_parts:
                    self.reached.add(held.name)
            if root.is_call and root.gives_parts and not self.is_local(root.name):
                self.reached.add(root.name)

    def add_touched(self, node: ast.AST) -> None:
        """What is named in ``node`` is handed to a call, or a method of it is called."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                if not self.is_local(each.id):
                    self.touched.add(each.id)
                self.touched |= {root.name for root in self.aliases.get(each.id, ())}

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
                held = {root.part(): None for root in roots_of(value)}
                for root in roots_of(target):
                    known = {each: None for each in held if each.name != root.name}
                    if known:
                        self.aliases[root.name] = {**self.aliases.get(root.name, {}), **known}
            case ast.Name(id=name), _:
                known = {}
                for root in roots_of(value):
                    root = root.part() if part else root
                    known[root] = None
                    for further in self.aliases.get(root.name, ()):
                        known[further if root.is_same else further.part()] = None
                own = any(root.name == name for root in known)
                (self._again.add if own else self._again.discard)(name)
                known = {root: None for root in known if root.name != name}
                if self.maybe:
                    known = {**self.aliases.get(name, {}), **known}
                self.aliases[name] = known
