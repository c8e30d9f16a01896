"""The code that adds a column to a copy of a table."""

from typing import Any

from parsimony_kernel.offline.codegen.cells import DERIVE, Cell, Options
from parsimony_kernel.offline.codegen.conversions import (
    as_dates,
    as_numbers,
    assigning,
    source_of,
    values_of,
)
from parsimony_kernel.offline.codegen.python import chain, listed, literal, with_imports
from parsimony_kernel.offline.grammar.expressions import Function, Operation, leaves
from parsimony_kernel.offline.schema import Column, Table

_RANK = {"+": 1, "-": 1, "*": 2, "/": 2}
_ATOM = 9


def derive(
    table: Table, name: str, column: str, tree: Any, options: Options, *, span: bool
) -> Cell:
    """The table with a new column under a name of its own; ``span`` is the days of two dates.

    There is no value where one is missing, nor where a division or a logarithm has none.
    """
    text, _ = _text(tree, table.name, options)
    value = f"({text}).dt.days" if span else text
    code = chain(name, [source_of(table.name, options), *assigning({column: value})])
    used = list(dict.fromkeys(leaf.name for leaf in leaves(tree) if isinstance(leaf, Column)))
    shown = f"{name}[{listed(dict.fromkeys([*used, column]))}].head()"
    code += (
        f'\nprint("Rows without a value:", int({name}[{literal(column)}].isna().sum()))\n{shown}'
    )
    return Cell(with_imports(_with_numpy(code)), heading(table.name, column, tree), name)


def heading(table: str, column: str, tree: Any) -> str:
    """What the cell does, by which it is found again."""
    return f"{DERIVE} {column} to {table} as {spelled(tree)}"


def spelled(tree: Any, rank: int = 0) -> str:
    """The expression as a person writes it."""
    match tree:
        case Column(name=name):
            return name
        case Function(name=name, of=of):
            return f"{name}({spelled(of)})"
        case Operation(sign=sign, left=left, right=right):
            own = _RANK[sign]
            shown = "×" if sign == "*" else sign
            text = f"{spelled(left, own)} {shown} {spelled(right, own + 1)}"
            return f"({text})" if own < rank else text
        case _:
            return f"{tree}"


def _with_numpy(code: str) -> str:
    return f"import numpy as np\n\n{code}" if "np." in code else code


def _text(tree: Any, table: str, options: Options) -> tuple[str, int]:
    """The expression as source, and how tightly its outermost sign binds."""
    match tree:
        case Column() as column:
            values = values_of(table, column, options)
            if column.is_date:
                return as_dates(values, column, options), _ATOM
            return (as_numbers(values) if column.kind == "number_text" else values), _ATOM
        case Function(name=name, of=of):
            return _function(name, of, table, options), _ATOM
        case Operation(sign="/", left=left, right=right) if not isinstance(right, int | float):
            divisor = _inner(right, table, options, _ATOM)
            positive = f"{divisor}.where({divisor} != 0)"
            return f"{_inner(left, table, options, 2)} / {positive}", 2
        case Operation(sign=sign, left=left, right=right):
            own = _RANK[sign]
            first = _inner(left, table, options, own)
            text = f"{first} {sign} {_inner(right, table, options, own + 1)}"
            return text, own
        case _:
            return literal(tree), _ATOM if tree >= 0 else 0


def _inner(tree: Any, table: str, options: Options, rank: int) -> str:
    text, own = _text(tree, table, options)
    return f"({text})" if own < rank else text


def _function(name: str, of: Any, table: str, options: Options) -> str:
    values = _inner(of, table, options, _ATOM)
    match name:
        case "abs":
            return f"{values}.abs()"
        case "sqrt":
            return f"({values}.where({values} >= 0) ** 0.5)"
        case _:
            return f"np.{name}({values}.where({values} > 0))"
