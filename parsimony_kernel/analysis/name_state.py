"""The visitor's knowledge of names at the current point of a cell."""

import ast
from collections.abc import Iterable
from dataclasses import replace

from parsimony_kernel.analysis.cell_names import Names
from parsimony_kernel.analysis.columns import Lookup
from parsimony_kernel.analysis.values import Root, Value, names_in, roots_of


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
        for node in nodes:
            self.found.may_mutate.update(names_in(node))
            self.doubted.update(names_in(node))

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
                self.found.columns[replace(each, doubted=doubted)] = None

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
                held = [root.in_container() for root in roots_of(value)]
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
