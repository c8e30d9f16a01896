"""Printed results as tables, and the numbers that follow from their rows.

Parses aligned text, Markdown, tab- and comma-separated lines, and the JSON of an envelope. A line
that is no row of a table becomes a row without columns. What follows are sums, means, shares,
differences, ratios and squares.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, combinations, permutations
from typing import Any, NamedTuple

from parsimony_kernel.gate.numerals import is_year

MAX_LINES = 600
# Of a table, so many rows and columns are derived from, and of so few values every sum.
MAX_ROWS, MAX_COLUMNS, FEW = 60, 8, 8

_DIGITS = r"[-+−]?[$€£]?([0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)%?"
_NUMBER = re.compile(_DIGITS)
_NUMBER_IN_WORDS = re.compile(rf"(?<![\w.,/:-]){_DIGITS}(?![\w/:-])")
_GAP = re.compile(r"\s{2,}|\s(?=-\d)")
_SERIES = re.compile(r"Name: ([^,]+)")
_FURNITURE = re.compile(r"(?:Name|Length|dtype|Freq)s?: |\[\d+ rows|[\s|:=+-]*$")


class Row(NamedTuple):
    """One line: what it is about, and its numbers by column."""

    labels: tuple[str, ...]
    cells: tuple[tuple[str, float], ...]


Table = list[Row]
# A number that follows from others, and whether it is a ratio.
Derived = tuple[bool, float]


def tables(text: str) -> list[Table]:
    """The tables of one result."""
    try:
        held = json.loads(text) if text[:1] in "{[" else text
    except (ValueError, RecursionError):
        held = text
    return [table for piece in _strings(held) for table in _read(piece) if table]


def _strings(held: Any) -> Iterator[str]:
    match held:
        case dict():
            for key, value in held.items():
                is_plain = isinstance(value, int | float)
                yield from (f"{key} {value}",) if is_plain else _strings(value)
        case [*values] if not any(isinstance(each, dict | list) for each in values):
            yield "  ".join(map(str, values))
        case [*values]:
            yield from (each for value in values for each in _strings(value))
        case _:
            yield str(held)


def _read(text: str) -> list[Table]:
    found: list[Table] = [[]]
    header: list[str] = []
    separator = outer = ""
    is_named = False
    for line in text.splitlines()[:MAX_LINES]:
        if series := _SERIES.match(line):
            found[-1] = [
                Row(r.labels, tuple((series[1], v) for _, v in r.cells)) for r in found[-1]
            ]
        if series or not line.strip():
            found.append([])
            header = []
        if _FURNITURE.match(line):
            continue
        if not header:
            separator = _separator(line)
        parts = _parts(line, separator)
        numbers = [_NUMBER.fullmatch(part) for part in parts]
        is_of_years = len(parts) > 1 and all(map(is_year, parts))
        if is_of_years or not (any(numbers) or _NUMBER_IN_WORDS.search(line)):
            if found[-1]:
                found.append([])
                header = []
            # Below a header stands the name of the index; what is left of it then is no column.
            header = header[is_named:] or parts
            is_named = line[:1] != " "
            continue
        if header and len(parts) >= len(header) and any(numbers[-len(header) :]):
            columns = [""] * (len(parts) - len(header)) + header
            pairs = list(zip(columns, parts, numbers, strict=True))
            cells = [(column, each) for column, _, each in pairs if column and each]
            labels = [part for column, part, each in pairs if not (column and each)]
            if len(labels) > 1:
                outer = labels[0]
            elif outer and line[:1] == " ":
                labels.append(outer)  # of an index of two levels, printed once
        else:
            if found[-1] and found[-1][-1].cells[0][0]:
                found.append([])
            labels, cells = _of_words(line, parts, numbers)
        found[-1].append(
            Row(
                tuple(labels),
                tuple((name, float(each[1].replace(",", ""))) for name, each in cells),
            )
        )
    return found


def _of_words(line: str, parts: list[str], numbers: list[Any]) -> tuple[list[str], list[Any]]:
    """The labels and the numbers of a line without columns."""
    if all(numbers) and len(parts) == 2 and parts[0].isdigit():
        return parts[:1], [("", numbers[1])]  # an index and a value
    words = _NUMBER_IN_WORDS.sub("  ", line).split("  ")
    labels = [word.strip(" :=,") for word in words]
    return list(filter(None, labels)), [("", each) for each in _NUMBER_IN_WORDS.finditer(line)]


def _separator(line: str) -> str:
    for each in "|\t":
        if each in line:
            return each
    is_csv = "," in line and ", " not in line and not _NUMBER_IN_WORDS.search(line)
    return "," if is_csv else ""


def _parts(line: str, separator: str) -> list[str]:
    if separator and separator in line:
        return [part.strip(" *`") for part in line.strip(f" {separator}").split(separator)]
    return _GAP.split(line.strip())


def derived_from_table(
    table: Table, named: Collection[int], *, alone: bool = False
) -> Iterator[Derived]:
    """What follows from the rows that are ``named``, with the others or ``alone``; from any where
    none is."""
    lines = [
        {name or str(at): value for at, (name, value) in enumerate(row.cells[:MAX_COLUMNS])}
        for row in table[:MAX_ROWS]
    ]
    columns: dict[str, dict[int, float]] = {}
    for r, line in enumerate(lines):
        for name, value in line.items():
            columns.setdefault(name, {})[r] = value
    totals = {name: sum(column.values()) for name, column in columns.items()}
    rows = [r for r in sorted(named) if r < MAX_ROWS] or list(range(len(lines)))
    beside = {each for r in named for each in (r - 1, r, r + 1)}
    for name, column in columns.items():
        chosen, total = [column[r] for r in rows if r in column], totals[name]
        yield from derived_from(chosen, total)
        if named and not alone:
            near = [v for r, v in column.items() if len(column) <= FEW or r in beside]
            yield from derived_from([*near, total - sum(chosen)], total)
    chosen_lines = [lines[r] for r in rows]
    sums = {name: sum(v.get(r, 0.0) for r in rows) for name, v in columns.items()}
    for line in (*chosen_lines, sums, *([] if alone else lines[: 2 * FEW])):
        yield from derived_from([*line.values()], sum(line.values()))
    if 1 < len(rows) <= (6 if named else 4):
        for one, other in permutations([_ratios(line, totals) for line in chosen_lines], 2):
            for a, b in zip(one, other, strict=False):
                yield from _of_pair(a, b)


def derived_from(values: Sequence[float], total: float) -> Iterator[Derived]:
    """What follows from numbers of one kind, which are a part of ``total``."""
    few = len(values) <= FEW
    ends = [*values[:1], *values[-1:], min(values, default=0.0), max(values, default=0.0)]
    for value in values:
        yield from ((True, value / (total or 1)), (False, value**2), (True, value**2))
        yield False, abs(value) ** 0.5
    some = (each for k in range(2, len(values) + 1) for each in combinations(values, k))
    sums = ((len(each), sum(each)) for each in some) if few else enumerate(accumulate(values), 1)
    for count, each in sums:
        yield from ((True, each / (total or 1)), (False, each), (False, each / count))
    for a, b in permutations(values if few else ends, 2):
        yield from _of_pair(a, b)


def _of_pair(a: float, b: float) -> Iterator[Derived]:
    yield from ((False, a - b), (True, a - b), (True, (a - b) / 100))
    if b:
        yield from ((True, a / b), (True, a / b - 1))


def _ratios(line: dict[str, float], totals: dict[str, float]) -> list[float]:
    """Shares of their columns and of their line, ratios and differences."""
    whole = sum(line.values()) or 1
    pairs = [x for a, b in permutations(line.values(), 2) for x in (a / (b or 1), a - b)]
    return [*pairs, *(x for c, v in line.items() for x in (v / (totals[c] or 1), v / whole))]
