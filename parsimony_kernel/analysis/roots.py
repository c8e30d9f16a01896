"""From which names an expression's object comes, and through which attributes and items."""

import ast
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.analysis import calls

# The steps from a name's object to the part of it that is changed: an attribute's name, an
# item's key in a tuple of its own, or None where the text does not tell.
Steps = tuple[str | tuple[str | int] | None, ...]
_LONGEST_PATH = 4


@dataclass(frozen=True)
class Root:
    """A name whose object, or a part of it, an expression evaluates to.

    ``is_call`` says that a call lies between, ``gives_parts`` that all such calls give parts of
    what they are handed, and ``is_fresh`` that it is no more than held by what
    the expression gives, such as a new list.
    """

    name: str
    path: Steps = ()
    is_call: bool = False
    gives_parts: bool = False
    is_fresh: bool = False

    @property
    def is_same(self) -> bool:
        return not self.path and not self.is_call

    def part(self, step: str | tuple[str | int] | None = None) -> "Root":
        return dataclasses.replace(self, path=(*self.path, step)[-_LONGEST_PATH:], is_fresh=False)

    def in_container(self) -> "Root":
        return dataclasses.replace(self.part(), is_fresh=True)

    def through_call(self, gives_parts: bool, *, is_fresh: bool = False) -> "Root":
        gives_parts = gives_parts and (self.gives_parts or not self.is_call)
        return dataclasses.replace(
            self.part(), is_call=True, gives_parts=gives_parts, is_fresh=is_fresh
        )


# The parts of which a node gives one, and those that it holds in what it gives.
_GIVES = {
    "Starred": "value", "Await": "value", "NamedExpr": "value", "IfExp": "body orelse",
    "BoolOp": "values", "comprehension": "iter",
}  # fmt: skip
_HOLDS = {
    "Tuple": "elts", "List": "elts", "Set": "elts", "Dict": "values", "ListComp": "elt generators",
    "GeneratorExp": "elt generators",
}  # fmt: skip


def roots_of(node: Any) -> Iterator[Root]:
    """The names to whose objects, or parts of them, ``node`` may evaluate."""
    kind = type(node).__name__
    if fields := _GIVES.get(kind) or _HOLDS.get(kind):
        for field in fields.split():
            its = getattr(node, field)
            for each in its if isinstance(its, list) else [its]:
                for root in roots_of(each):
                    yield root.in_container() if kind in _HOLDS else root
        return
    match node:
        case ast.Name(id=name):
            yield Root(name)
        case ast.Attribute(value=value, attr=name):
            for root in roots_of(value):
                yield root if name == "__dict__" else root.part(name)
        case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key)):
            if is_namespace(value) and isinstance(key, str):
                yield Root(key)
            yield from (root.part((key,)) for root in roots_of(value))
        case ast.Subscript(value=value):
            yield from (root.part() for root in roots_of(value))
        case ast.Lambda(body=body):
            yield from (Root(name).in_container() for name in names_in(body))
        case ast.BinOp(left=one, op=ast.Add() | ast.Mult() | ast.BitOr(), right=other):
            # A new container with the elements of both, where they are containers.
            for each in (one, other):
                for root in roots_of(each):
                    yield root.through_call(gives_parts=True, is_fresh=True)
        case ast.Call(func=ast.Name(id="vars"), args=[held]):
            yield from roots_of(held)
        case ast.Call(func=function, args=args, keywords=keywords):
            name = function.id if isinstance(function, ast.Name) else ""
            handed = [*args, *(each.value for each in keywords)]
            handed += [function.value] if isinstance(function, ast.Attribute) else []
            gives = last_name(function) in calls.GIVES_PARTS
            for each in handed if name not in calls.ATOMIC_FUNCTIONS else ():
                for root in roots_of(each):
                    yield root.through_call(gives, is_fresh=name in calls.COPYING_FUNCTIONS)


def last_name(node: ast.expr) -> str:
    """The last name of a callee or an attribute chain; empty if there is none."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return last_name(function)
    return ""


def is_namespace(node: ast.expr) -> bool:
    """Whether an expression is the notebook's namespace as a mapping."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
            return name in calls.NAMESPACES
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr="user_ns"):
            return True
    return False


def names_in(*nodes: ast.AST) -> Iterator[str]:
    """Every name in ``nodes``."""
    for node in nodes:
        yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def strings_in(*nodes: ast.AST) -> Iterator[str]:
    """Every string literal in ``nodes``."""
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def written(node: ast.expr) -> str:
    """A dotted name as written; its trailing names if it starts with something else."""
    if not isinstance(node, ast.Attribute):
        return node.id if isinstance(node, ast.Name) else ""
    before = written(node.value)
    return f"{before}.{node.attr}" if before else node.attr
