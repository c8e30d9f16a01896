"""What an expression says of frames and of columns, from its syntax alone."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from parsimony_kernel.gate.known_calls import (
    BY_KEYWORD,
    GROUPING,
    HARMLESS,
    KEEPING,
    LIBRARIES,
    TAKES,
)


def table_of(node: ast.expr, is_known: Callable[[str], bool]) -> str | None:
    """The known frame whose columns ``node`` has, or some of them."""
    if isinstance(node, ast.Name):
        return node.id if is_known(node.id) else None
    if isinstance(node, ast.Subscript):
        holder = node.value
        if isinstance(holder, ast.Attribute) and holder.attr == "loc":
            holder = holder.value
        rows = _picks_rows(node.slice)
        listed = isinstance(node.slice, ast.List) and holder is node.value
        return table_of(holder, is_known) if rows or listed else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        plain = all(each.arg not in (None, "axis", "inplace") for each in node.keywords)
        return table_of(node.func.value, is_known) if node.func.attr in KEEPING and plain else None
    return None


def groups_of(node: ast.expr, is_known: Callable[[str], bool]) -> str | None:
    """The known frame that ``node`` is a grouping of."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return table_of(node.func.value, is_known) if node.func.attr in GROUPING else None
    return None


def _picks_rows(node: ast.expr) -> bool:
    """Whether ``frame[node]`` is some rows of it for certain."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitAnd | ast.BitOr)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    return isinstance(node, ast.Slice | ast.Compare)


def column_arguments(
    method: str, args: Sequence[ast.expr], keywords: Mapping[str | None, ast.expr]
) -> list[ast.expr]:
    """What a call of ``method`` is given where it takes columns."""
    takes = TAKES.get(method)
    if takes is None or len(args) > len(takes) or {"level", "errors"} & set(keywords):
        return []
    names = (*takes, *BY_KEYWORD.get(method, ()))
    given = [value for parameter, value in zip(takes, args, strict=False) if parameter]
    return given + [value for key, value in keywords.items() if key in names]


def strings(node: ast.expr | None) -> list[str]:
    """The literal texts that ``node`` is, or is a list of."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.List):
        return [text for each in node.elts for text in strings(each)]
    return []


def made_names(tree: ast.Module) -> set[str]:
    """Names that the code may itself give to columns, of whatever frame."""
    made: set[str] = set()
    altered = {node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign)}
    for node in ast.walk(tree):
        if node in altered:
            continue
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            made.update(strings(node.slice))
            if isinstance(node.slice, ast.Tuple):
                made.update(text for each in node.slice.elts for text in strings(each))
        elif isinstance(node, ast.keyword) and node.arg is not None:
            made.add(node.arg)
    return made


def aggregated(node: ast.Call) -> list[str]:
    """The columns that a call of ``agg`` asks for."""
    columns: list[str] = []
    if node.args and isinstance(node.args[0], ast.Dict):
        columns += [text for key in node.args[0].keys for text in strings(key)]
    for each in node.keywords:
        value = each.value
        if isinstance(value, ast.Tuple) and len(value.elts) == 2:
            columns += strings(value.elts[0])
        elif isinstance(value, ast.Call) and value.keywords:
            columns += [t for k in value.keywords if k.arg == "column" for t in strings(k.value)]
    return columns


def root_of(node: ast.expr) -> ast.expr:
    """What the attributes and subscripts of ``node`` start from."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node


def is_harmless(function: ast.expr) -> bool:
    """Whether a call of ``function`` leaves the frames that it is given as they are."""
    if isinstance(function, ast.Name):
        return function.id in HARMLESS
    root = root_of(function)
    return isinstance(root, ast.Name) and root.id in LIBRARIES


def names_in(node: ast.AST) -> Iterator[str]:
    """Every name that ``node`` mentions."""
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
