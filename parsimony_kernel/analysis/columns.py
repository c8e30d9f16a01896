"""Column lookups: the frame columns that code selects by literal labels."""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from parsimony_kernel.analysis import calls

# Keys in brackets that select rows of a frame: a slice, a condition, or joined conditions.
_ROWS = (ast.Slice, ast.Compare)
_JOINING = (ast.BitAnd, ast.BitOr, ast.Invert)


@dataclass(frozen=True)
class Lookup:
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
    given = [] if {"axis", None} & keywords.keys() else _arguments(method, node.args, keywords)
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


def _arguments(
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
