"""The words of an expression become columns of a table, and units become arithmetic."""

from collections.abc import Iterable
from typing import Any

from parsimony_kernel.offline.grammar.clauses import Mention
from parsimony_kernel.offline.grammar.expressions import (
    Converted,
    Function,
    Operation,
    leaves,
)
from parsimony_kernel.offline.lexicon.deriving import UNITS
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.resolve.subject import Subject, names_of
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, spoken

# What one of a unit is in metres, metres per second, kilograms.
_SIZES = {
    "speed": {"m/s": 1.0, "km/h": 1 / 3.6, "mph": 0.44704, "knots": 1852 / 3600},
    "length": {
        "mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0, "inches": 0.0254, "feet": 0.3048,
        "miles": 1609.344,
    },
    "weight": {"g": 0.001, "kg": 1.0, "lbs": 0.45359237, "tonnes": 1000.0},
}  # fmt: skip
_DEGREES = ("celsius", "fahrenheit", "kelvin")
_SPOKEN = {"celsius": "degrees Celsius", "fahrenheit": "degrees Fahrenheit"}
_DIGITS = 10


def resolve(subject: Subject, tree: Any, notes: list[str]) -> Any:
    """The expression with its columns; conversions are arithmetic. Raises ``Missing``."""
    match tree:
        case Mention():
            return _column(subject, tree, notes)
        case Operation(sign=sign, left=left, right=right):
            return Operation(sign, resolve(subject, left, notes), resolve(subject, right, notes))
        case Function(name=name, of=of):
            return Function(name, resolve(subject, of, notes))
        case Converted(of=of, unit=unit, source=source):
            value = resolve(subject, of, notes)
            return _converted(subject, value, unit, source, notes)
        case _:
            return tree


def is_span(tree: Any) -> bool:
    """Whether it is the time between two dates; raises ``Declined`` for other sums with dates."""
    columns = [leaf for leaf in leaves(tree) if isinstance(leaf, Column)]
    if not any(c.is_date for c in columns):
        return False
    if isinstance(tree, Operation) and tree.sign == "-" and len(columns) == 2:
        both = isinstance(tree.left, Column) and isinstance(tree.right, Column)
        if both and all(c.is_date for c in columns):
            return True
    dates = names_of(c for c in columns if c.is_date)
    raise Declined(
        f"I can take one date from another, and compute nothing else with {spoken(dates)}.",
        [f"{name!r} holds dates" for name in dates],
        ["Name columns that hold numbers."],
    )


def _column(subject: Subject, mention: Mention, notes: list[str]) -> Column:
    table = subject.table
    literal = subject.literal(mention)
    near = subject.candidates(mention.text, (*table.numbers, *table.dates))
    if literal is None and (not near or all(m.extra for m in near)):
        raise Declined(
            f"`{table.name}` has no column called {mention.text!r} to compute with.",
            [f"{mention.text!r} is no column of `{table.name}`"],
            [f"Its columns are {spoken(names_of(table.columns))}."],
        )
    column, _ = subject.column(mention, notes, (*table.numbers, *table.dates))
    if not (column.is_number or column.is_date):
        raise Declined(
            f"{column.name!r} of `{table.name}` holds no numbers, so nothing is computed with it.",
            [f"{column.name!r} holds text"],
            [f"Columns with numbers are {spoken(names_of(table.numbers)) or 'none'}."],
        )
    if column.is_date:
        subject.day_order(column)
    return column


# -- units ---------------------------------------------------------------------------------------


def _converted(
    subject: Subject, value: Any, unit: str, source: str | None, notes: list[str]
) -> Any:
    names = [leaf.name for leaf in leaves(value) if isinstance(leaf, Column)]
    what = spoken(repr(n) for n in names)
    sizes = next((sizes for sizes in _SIZES.values() if unit in sizes), {})
    others = tuple(sizes) or _DEGREES
    told = source or _told_unit(names, others)
    if told is None and unit == "fahrenheit":
        told = "celsius"
        notes.append(f"I took {what} to be in {_SPOKEN[told]}")
    if told is None:
        question = f"Which unit is {what} in?"
        context = f"It is to be converted to {_SPOKEN.get(unit, unit)}."
        told = subject.choose(question, [u for u in others if u != unit], context)
    if told not in others or told == unit:
        raise Declined(
            f"I cannot convert {what} from {told} to {unit}.",
            [f"{what} is in {told} already" if told == unit else f"{told} is not {unit}"],
            [f"Units that can be converted to {unit}: {spoken(u for u in others if u != unit)}."],
        )
    if unit in _DEGREES:
        return _degrees(value, told, unit)
    factor = sizes[told] / sizes[unit]
    return Operation("*", value, float(f"{factor:.{_DIGITS}g}"))


def _told_unit(names: Iterable[str], others: Iterable[str]) -> str | None:
    """The unit that a column has in its name: ``Weight_in_lbs``. Raises ``Declined`` for rates."""
    found = set()
    for name in names:
        words = fold(name)
        own = {unit for unit in UNITS if {unit, *UNITS[unit].split("|")} & set(words)}
        if own and "per" in words:
            raise Declined(
                f"{name!r} is a rate, and I cannot convert it.",
                [f"{name!r} is in one unit per another"],
                [f"Say the factor, for instance: 'add a column converted = {name} * 1.6'."],
            )
        found |= own & set(others)
    return found.pop() if len(found) == 1 else None


def _degrees(value: Any, source: str, unit: str) -> Any:
    if source == "fahrenheit":
        value = Operation("/", Operation("*", Operation("-", value, 32), 5), 9)
    elif source == "kelvin":
        value = Operation("-", value, 273.15)
    if unit == "fahrenheit":
        return Operation("+", Operation("/", Operation("*", value, 9), 5), 32)
    return Operation("+", value, 273.15) if unit == "kelvin" else value
