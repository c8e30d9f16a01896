"""Abstract values of expressions, and the names, attributes and items that they come from.

The value of a name from before the cell is unknown here: it stays a reference, for callers that
have the namespace. ``None`` stands for unknown.
"""

import ast
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple

from parsimony_kernel.analysis import calls

# The most parts of a string, or items of a collection, that are kept.
_MAX_PARTS = 40
_MOST_NODES = 4_096
_PATHS = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath", "WindowsPath"})
_FILES = frozenset({"open", "GzipFile", "FileIO"})
_SAME = frozenset({"abspath", "absolute", "as_posix", "expanduser", "fspath", "normpath"})
_SAME |= {"realpath", "resolve", "str"}
_LISTING = frozenset({"glob", "iterdir", "rglob"})


# A cell makes many of these. Frozen ones would take three times as long to make.
@dataclass(unsafe_hash=True)
class Ref:
    """An object by its dotted name; ``()`` in it marks the result of a call.

    ``outer`` says that it begins with a name from before the cell; other names are complete.
    """

    name: str
    outer: bool = False


@dataclass(unsafe_hash=True)
class Text:
    """A string in parts: literals, names from before the cell, ``None`` for unknown parts."""

    parts: tuple[str | Ref | None, ...]
    path: bool = False


Value = Ref | Text | tuple[Ref | Text | None, ...]
Known = Mapping[str, Value | None]


def value_of(node: ast.expr, known: Known) -> Value | None:
    """Evaluate ``node`` abstractly, given the values of the ``known`` names."""
    match node:
        case ast.Name(id=name):
            return known[name] if name in known else Ref(name, outer=True)
        case ast.Constant(value=value):
            return Text((value,)) if isinstance(value, str) else None
        case ast.Attribute(value=inner, attr=name):
            return attribute_of(value_of(inner, known), name)
        case ast.Call():
            return _result(node, known)
        case ast.JoinedStr(values=parts):
            return _joined([value_of(each, known) for each in parts], path=False)
        case ast.BinOp(left=left, op=ast.Add() | ast.Div() as operator, right=right):
            on = value_of(left, known)
            both = (on, value_of(right, known))
            return None if on is None else _joined(both, path=isinstance(operator, ast.Div))
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            return Text((text.partition("%")[0], None))
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return tuple(_item(value_of(each, known)) for each in items[:_MAX_PARTS])
        case ast.ListComp(elt=item, generators=made) | ast.GeneratorExp(elt=item, generators=made):
            bound = names_in(*(each.target for each in made))
            return (_item(value_of(item, {**known, **dict.fromkeys(bound)})),)
        case ast.NamedExpr() | ast.Await() | ast.FormattedValue():
            return value_of(node.value, known)
    return None


def item_of(value: Value | None) -> Value | None:
    """Return the abstract value of any item of a collection: the only one, or all of them."""
    if not isinstance(value, tuple):
        return None
    return value[0] if len(value) == 1 else value


def arguments_of(node: ast.Call, known: Known) -> tuple[Value | None, ...]:
    """Return the positional arguments of a call, up to the first starred one."""
    plain = takewhile(lambda each: not isinstance(each, ast.Starred), node.args)
    return tuple(value_of(each, known) for each in plain)


def _item(value: Value | None) -> Ref | Text | None:
    return None if isinstance(value, tuple) else value


def attribute_of(value: Value | None, name: str) -> Value | None:
    """Return the abstract value of an attribute of ``value``."""
    if isinstance(value, Ref):
        return Ref(f"{value.name}.{name}", value.outer)
    is_path = isinstance(value, Text) and value.path
    return _joined((value, Text(("..",))), path=True) if is_path and name == "parent" else None


def _parts(value: Value | None) -> tuple[str | Ref | None, ...]:
    if isinstance(value, Text):
        return value.parts
    return (value if isinstance(value, Ref) and value.outer else None,)


def _joined(values: Sequence[Value | None], *, path: bool) -> Text:
    """Join values to one text, with separators between the parts of a path."""
    said: list[str | Ref | None] = []
    for value in values:
        said += ["/"] * (path and bool(said))
        said += _parts(value)
    if len(said) > _MAX_PARTS:
        said[_MAX_PARTS:] = [None]
    return Text(tuple(said), path or any(isinstance(each, Text) and each.path for each in values))


def _result(node: ast.Call, known: Known) -> Value | None:
    """Evaluate the result of a call abstractly."""
    handed = arguments_of(node, known)
    first = handed[0] if handed else None
    if isinstance(node.func, ast.Attribute):
        on = value_of(node.func.value, known)
        if isinstance(on, Text):
            return _of_text(on, node.func.attr, handed)
        called = attribute_of(on, node.func.attr)
    else:
        called = value_of(node.func, known)
    if not isinstance(called, Ref):
        return None
    name = called.name.rpartition(".")[2]
    match name, first:
        case _, _ if name in _PATHS or called.name.endswith("path.join"):
            return _joined(handed or (Text((".",)),), path=True)
        case "cwd" | "getcwd", None:
            return Text((".",), path=True)
        case "home", None:
            return Text(("~",), path=True)
        case _, Text() | Ref() if name in _SAME | _FILES:
            return replace(first, path=True) if isinstance(first, Text) else first
        case "glob" | "iglob", Text():
            return (first,)
        case "partial", _:
            return first
        case "import_module" | "__import__", Text(parts=(str(module),)):
            return Ref(module)
    # An HTTP client with a given transport opens no connections itself.
    if any(each.arg == "transport" for each in node.keywords):
        return None
    return Ref(f"{called.name}()", called.outer)


def _of_text(text: Text, method: str, handed: Sequence[Value | None]) -> Value | None:
    """Evaluate a method call on a string or a path abstractly."""
    if not text.path:
        return None
    if method == "joinpath":
        return _joined((text, *handed), path=True)
    if method in _LISTING:
        return (_joined((text, *(handed or (Text(("*",)),))), path=True),)
    return text if method in _SAME or method == "open" else None


# Roots: the names that an expression's object comes from

# The steps from a name's object to the mutated part: an attribute's name, an item's key in a tuple
# of its own, or None if unknown.
Steps = tuple[str | tuple[str | int] | None, ...]
_LONGEST_PATH = 4


class Root(NamedTuple):
    """A name whose object, or a part of it, an expression may evaluate to.

    Args:
        name: the name.
        path: the steps from its object to the part.
        is_call: whether a call lies between.
        gives_parts: whether all such calls return parts of their arguments.
        is_fresh: whether the expression gives a new object, such as a list, that only holds it.
    """

    name: str
    path: Steps = ()
    is_call: bool = False
    gives_parts: bool = False
    is_fresh: bool = False

    @property
    def is_same(self) -> bool:
        return not self.path and not self.is_call

    def part(self, step: str | tuple[str | int] | None = None, *, is_fresh: bool = False) -> "Root":
        path = (*self.path, step)[-_LONGEST_PATH:]
        return Root(self.name, path, self.is_call, self.gives_parts, is_fresh)

    def through_call(self, gives_parts: bool, *, is_fresh: bool = False) -> "Root":
        gives_parts = gives_parts and (self.gives_parts or not self.is_call)
        return Root(self.name, self.part().path, True, gives_parts, is_fresh)


# By node type: the fields of which it evaluates to one, and those that its result holds.
_GIVES = {
    "Starred": "value", "Await": "value", "NamedExpr": "value", "IfExp": "body orelse",
    "BoolOp": "values", "comprehension": "iter",
}  # fmt: skip
_HOLDS = {
    "Tuple": "elts", "List": "elts", "Set": "elts", "Dict": "values", "ListComp": "elt generators",
    "GeneratorExp": "elt generators",
}  # fmt: skip


# A node of a tree, which never changes, is looked at again for each expression around it.
@functools.lru_cache(maxsize=_MOST_NODES)
def roots_of(node: Any) -> tuple[Root, ...]:
    """Return the names to whose objects, or parts of them, ``node`` may evaluate."""
    return tuple(_roots_of(node))


def _roots_of(node: Any) -> Iterator[Root]:
    kind = type(node).__name__
    if fields := _GIVES.get(kind) or _HOLDS.get(kind):
        for field in fields.split():
            its = getattr(node, field)
            for each in its if isinstance(its, list) else [its]:
                for root in roots_of(each):
                    yield root.part(is_fresh=True) if kind in _HOLDS else root
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
        case ast.Lambda(body=body):
            yield from (Root(name).part(is_fresh=True) for name in names_in(body))
        case ast.BinOp(left=one, op=ast.Add() | ast.Mult() | ast.BitOr(), right=other):
            # If the operands are containers, the result is a new one with the elements of both.
            for each in (one, other):
                for root in roots_of(each):
                    yield root.through_call(gives_parts=True, is_fresh=True)


def last_name(node: ast.expr) -> str:
    """Return the last name of a callee or an attribute chain; empty if there is none."""
    while isinstance(node, ast.Call):
        node = node.func
    return getattr(node, "attr", getattr(node, "id", ""))


def is_namespace(node: ast.expr) -> bool:
    """Return whether an expression is the notebook's namespace as a mapping."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]):
            return name in calls.NAMESPACES
        case ast.Attribute(value=ast.Call(func=ast.Name(id="get_ipython")), attr="user_ns"):
            return True
    return False


def names_in(*nodes: ast.AST) -> Iterator[str]:
    """Yield every name in ``nodes``."""
    return (each.id for node in nodes for each in _words(node) if isinstance(each, ast.Name))


def strings_in(*nodes: ast.AST) -> Iterator[str]:
    """Yield every string literal in ``nodes``."""
    return (each for node in nodes for each in _words(node) if isinstance(each, str))


@functools.lru_cache(maxsize=_MOST_NODES)
def _words(node: ast.AST) -> tuple[ast.Name | str, ...]:
    """Return the names and string literals in ``node``."""
    if isinstance(node, ast.Constant):
        return (node.value,) if isinstance(node.value, str) else ()
    inner = (word for each in ast.iter_child_nodes(node) for word in _words(each))
    return (node,) if isinstance(node, ast.Name) else tuple(inner)


def written(node: ast.expr) -> str:
    """Return a dotted name as written; its trailing names if it starts with something else."""
    if not isinstance(node, ast.Attribute):
        return node.id if isinstance(node, ast.Name) else ""
    before = written(node.value)
    return f"{before}.{node.attr}" if before else node.attr


# Column lookups: the frame columns that code selects by literal labels

# Keys in brackets that select rows of a frame: a slice, a condition, or joined conditions.
_ROWS = (ast.Slice, ast.Compare)
_JOINING = (ast.BitAnd, ast.BitOr, ast.Invert)


class Lookup(NamedTuple):
    """Column labels that code certainly looks up in a frame, provided the name holds a frame.

    Args:
        frame: the name of the frame; the lookup may be on a result that keeps its columns, such
            as ``df.head()``.
        columns: the labels.
        method: the method that takes them, ``loc`` for ``df.loc[rows, columns]``, else empty.
        doubted: names whose objects the cell may have mutated before, and ``name.attribute`` for
            an attribute that may do so unless it is a column.
    """

    frame: str
    columns: tuple[str, ...]
    method: str = ""
    doubted: frozenset[str] = frozenset()


def item_lookup(node: ast.Subscript) -> Lookup | None:
    """Return the lookup of ``frame[…]``, ``frame.loc[rows, …]`` or ``frame.groupby(…)[…]``."""
    owner, key = node.value, node.slice
    if isinstance(owner, ast.Attribute) and owner.attr in ("loc", "at"):
        rows_and_columns = key.elts if isinstance(key, ast.Tuple) else []
        column = rows_and_columns[1] if len(rows_and_columns) == 2 else None
        return _lookup(frame_of(owner.value), column, "loc")
    return _lookup(frame_of(owner, calls.GROUPS), key)


def call_lookups(node: ast.Call) -> Iterator[Lookup]:
    """Yield the column lookups in the arguments of a frame's method call."""
    if not isinstance(node.func, ast.Attribute):
        return
    owner, method = node.func.value, node.func.attr
    keywords = {each.arg: each.value for each in node.keywords}
    given = [] if {"axis", None} & keywords.keys() else _columns_in(method, node.args, keywords)
    found = [_lookup(frame_of(owner), each, method) for each in given]
    if method in calls.AGGREGATES and "axis" not in keywords:
        grouped = frame_of(owner, calls.GROUPS)
        found += [_lookup(grouped, each) for each in _aggregated(node)]
    yield from (each for each in found if each is not None)


def frame_of(node: ast.expr, groups: Collection[str] = ()) -> str | None:
    """Return the name of the frame whose columns, all or some, ``node`` has.

    Args:
        node: the expression.
        groups: methods that also count, such as ``groupby``.
    """
    match node:
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=ast.Attribute(value=owner, attr="loc"), slice=key):
            return frame_of(owner) if _gives_rows(key) else None
        case ast.Subscript(value=owner, slice=key):
            return frame_of(owner) if _gives_rows(key) or isinstance(key, ast.List) else None
        case ast.Call(func=ast.Attribute(value=owner, attr=method), keywords=keywords):
            is_plain = all(each.arg not in (None, "axis", "inplace") for each in keywords)
            keeps = method in calls.KEEPS_COLUMNS and is_plain
            return frame_of(owner) if keeps or method in groups else None
    return None


def _gives_rows(key: ast.expr) -> bool:
    return isinstance(key, _ROWS) or isinstance(getattr(key, "op", None), _JOINING)


def _lookup(frame: str | None, labels: ast.expr | None, method: str = "") -> Lookup | None:
    columns = _labels(labels)
    return Lookup(frame, columns, method) if frame is not None and columns else None


def _labels(node: ast.expr | None) -> tuple[str, ...]:
    """Return the string literals of ``node``: a single one, or those in a list."""
    elements = node.elts if isinstance(node, ast.List) else [node]
    values = [each.value for each in elements if isinstance(each, ast.Constant)]
    return tuple(each for each in values if isinstance(each, str))


def _columns_in(
    method: str, args: Sequence[ast.expr], keywords: Mapping[str | None, ast.expr]
) -> list[ast.expr]:
    """Return the arguments of a call of ``method`` that are columns."""
    takes = calls.COLUMNS_BY_PLACE.get(method)
    if takes is None or len(args) > len(takes) or {"level", "errors"} & keywords.keys():
        return []
    names = (*takes, *calls.COLUMNS_BY_KEYWORD.get(method, ()))
    given = [value for parameter, value in zip(takes, args, strict=False) if parameter != "-"]
    return given + [value for key, value in keywords.items() if key in names]


def _aggregated(node: ast.Call) -> Iterator[ast.expr | None]:
    """Yield the column arguments of a call of ``agg``."""
    if node.args and isinstance(node.args[0], ast.Dict):
        yield from node.args[0].keys
    for keyword in node.keywords:
        match keyword.value:
            case ast.Tuple(elts=[column, _]):
                yield column
            case ast.Call(keywords=given):
                yield from (each.value for each in given if each.arg == "column")
