"""From which names the value of an expression comes, and by which steps."""

import ast
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from parsimony_kernel.lineage.syntax.expressions import is_namespace, last_name

# The steps from a name's object to the part of it that is changed: an attribute's name, an
# item's key in a tuple of its own, or None where the text does not tell.
Steps = tuple[str | tuple[str | int] | None, ...]
# What gives the parts of what it is handed, or of what it is a method of.
_GIVES_PARTS = frozenset(
    {
        "items", "values", "get", "setdefault", "pop", "popleft", "popitem", "enumerate", "zip",
        "iter", "next", "reversed", "sorted", "list", "tuple", "set", "dict", "filter", "chain",
        "getattr", "min", "max", "memoryview", "view", "reshape", "ravel", "asarray", "transpose",
        "squeeze", "swapaxes", "diagonal", "atleast_1d", "atleast_2d", "broadcast_to", "vars",
        "__getitem__", "most_common", "islice", "cycle", "partial", "asanyarray", "frombuffer",
        "ascontiguousarray",
    }
)  # fmt: skip
_LONGEST_PATH = 4


@dataclass(frozen=True)
class Root:
    """A name of which an expression gives the object, or a part of it.

    ``is_call`` says that a call lies between, ``gives_parts`` that all such calls give parts of
    what they are handed.
    """

    name: str
    path: Steps = ()
    is_call: bool = False
    gives_parts: bool = False

    @property
    def is_same(self) -> bool:
        return not self.path and not self.is_call

    def part(self, step: str | tuple[str | int] | None = None) -> "Root":
        return dataclasses.replace(self, path=(*self.path, step)[-_LONGEST_PATH:])

    def through_call(self, gives_parts: bool) -> "Root":
        gives_parts = gives_parts and (self.gives_parts or not self.is_call)
        return dataclasses.replace(self.part(), is_call=True, gives_parts=gives_parts)


def roots_of(node: ast.expr) -> Iterator[Root]:
    """The names of whose objects, or parts of them, ``node`` may give one."""
    match node:
        case ast.Name(id=name):
            yield Root(name)
        case ast.Attribute(value=value, attr="__dict__"):
            yield from roots_of(value)
        case ast.Attribute(value=value, attr=name):
            yield from (root.part(name) for root in roots_of(value))
        case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key)):
            if is_namespace(value) and isinstance(key, str):
                yield Root(key)
            yield from (root.part((key,)) for root in roots_of(value))
        case ast.Subscript(value=value):
            yield from (root.part() for root in roots_of(value))
        case ast.Starred(value=value) | ast.Await(value=value) | ast.NamedExpr(value=value):
            yield from roots_of(value)
        case ast.IfExp(body=one, orelse=other):
            yield from roots_of(one)
            yield from roots_of(other)
        case ast.BoolOp(values=values):
            for each in values:
                yield from roots_of(each)
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
            for each in values:
                yield from (root.part() for root in roots_of(each))
        case ast.Dict(values=values):
            for each in values:
                yield from (root.part() for root in roots_of(each))
        case (
            ast.ListComp(elt=elt, generators=generators)
            | ast.GeneratorExp(elt=elt, generators=generators)
        ):
            for each in (elt, *(generator.iter for generator in generators)):
                yield from (root.part() for root in roots_of(each))
        case ast.BinOp(left=one, op=ast.Add() | ast.Mult() | ast.BitOr(), right=other):
            # A new container with the elements of both, where they are containers.
            for each in (one, other):
                yield from (root.through_call(gives_parts=True) for root in roots_of(each))
        case ast.Call(func=ast.Name(id="vars"), args=[held]):
            yield from roots_of(held)
        case ast.Call(func=function, args=args, keywords=keywords):
            gives = last_name(function) in _GIVES_PARTS
            handed = [*args, *(each.value for each in keywords)]
            if isinstance(function, ast.Attribute):
                handed.append(function.value)
            for each in handed:
                yield from (root.through_call(gives) for root in roots_of(each))
