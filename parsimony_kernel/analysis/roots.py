"""What an expression plainly is, and from which names its value comes, by which steps."""

import ast
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from parsimony_kernel.analysis.calls import (
    ATOMIC_FUNCTIONS,
    COPYING_FUNCTIONS,
    GIVES_PARTS,
    NAMESPACES,
)

# The steps from a name's object to the part of it that is changed: an attribute's name, an
# item's key in a tuple of its own, or None where the text does not tell.
Steps = tuple[str | tuple[str | int] | None, ...]
_LONGEST_PATH = 4


@dataclass(frozen=True)
class Root:
    """A name of which an expression gives the object, or a part of it.

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
                yield from (root.in_container() for root in roots_of(each))
        case ast.Dict(values=values):
            for each in values:
                yield from (root.in_container() for root in roots_of(each))
        case (
            ast.ListComp(elt=elt, generators=generators)
            | ast.GeneratorExp(elt=elt, generators=generators)
        ):
            for each in (elt, *(generator.iter for generator in generators)):
                yield from (root.in_container() for root in roots_of(each))
        case ast.Lambda(body=body):
            inner = (each.id for each in ast.walk(body) if isinstance(each, ast.Name))
            yield from (Root(name).in_container() for name in inner)
        case ast.BinOp(left=one, op=ast.Add() | ast.Mult() | ast.BitOr(), right=other):
            # A new container with the elements of both, where they are containers.
            for each in (one, other):
                yield from (
                    root.through_call(gives_parts=True, is_fresh=True) for root in roots_of(each)
                )
        case ast.Call(func=ast.Name(id="vars"), args=[held]):
            yield from roots_of(held)
        case ast.Call(func=ast.Name(id=name)) if name in ATOMIC_FUNCTIONS:
            return
        case ast.Call(func=function, args=args, keywords=keywords):
            gives = last_name(function) in GIVES_PARTS
            fresh = isinstance(function, ast.Name) and function.id in COPYING_FUNCTIONS
            handed = [*args, *(each.value for each in keywords)]
            if isinstance(function, ast.Attribute):
                handed.append(function.value)
            for each in handed:
                yield from (root.through_call(gives, is_fresh=fresh) for root in roots_of(each))


def last_name(node: ast.expr) -> str:
    """The name at the end of what is called or looked up, empty where there is none."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return last_name(function)
    return ""


def is_namespace(node: ast.expr) -> bool:
    """Whether an expression gives the names of the notebook as a mapping."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
            return name in NAMESPACES
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr="user_ns"):
            return True
    return False


def names_in(*nodes: ast.AST) -> Iterator[str]:
    """Every name that ``nodes`` mention."""
    for node in nodes:
        yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def strings_in(*nodes: ast.AST) -> Iterator[str]:
    """The strings that stand in ``nodes``."""
    for node in nodes:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def written(node: ast.expr) -> str:
    """A name with its dots as it is written, as far as there are names at its end."""
    if not isinstance(node, ast.Attribute):
        return node.id if isinstance(node, ast.Name) else ""
    before = written(node.value)
    return f"{before}.{node.attr}" if before else node.attr
