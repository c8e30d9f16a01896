"""Printed results read as tables: rows with their labels, cells with their columns.

Reads aligned text, Markdown, tab- and comma-separated lines, and the JSON of an envelope. What
cannot be read as a table is a row without columns.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from parsimony_kernel.gate.numerals import is_year

MAX_ROWS = 600

_CELL = re.compile(
    r"(?<![\w.,/:-])[-+−]?[$€£]?([0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)%?(?![\w/:-])"
)
_CHUNK = re.compile(r"\S+(?: \S+)*")
_NAME = re.compile(r"Name: ([^,]+)")
_FURNITURE = re.compile(r"(?:Name|Length|dtype|Freq)s?: |\[\d+ rows|[\s|:=+-]*$")


class Row(NamedTuple):
    """One line: what it is about, and its numbers by column."""

    labels: tuple[str, ...]
    cells: tuple[tuple[str, float], ...]


Table = list[Row]


def tables(text: str) -> list[Table]:
    """The tables of one result."""
    try:
        held = json.loads(text) if text[:1] in "{[" else text
    except (ValueError, RecursionError):
        held = text
    found: list[Table] = []
    for piece in _strings(held):
        found.append([])
        _read(piece, found)
    return [each for each in found if each]


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


def _read(text: str, found: list[Table]) -> None:
    header: dict[int, str] = {}
    separator = outer = ""
    for line in text.splitlines()[:MAX_ROWS]:
        if name := _NAME.match(line):  # of the column above
            found[-1][:] = [
                Row(r.labels, tuple((name[1], v) for _, v in r.cells)) for r in found[-1]
            ]
        if not line.strip():
            found.append([])
            header = {}
        if _FURNITURE.match(line):
            continue
        if not header:
            separator = next((each for each in "|\t" if each in line), "")
            if "," in line and not separator and not _CELL.search(line) and ", " not in line:
                separator = ","
        numbers, texts = _split(line, separator)
        if not numbers or (line[:1] == " " and all(is_year(token) for token in numbers.values())):
            if found[-1]:
                found.append([])
                header = {}
            header = header or texts | numbers
            continue
        cells = [(header[at], token) for at, token in numbers.items() if at in header]
        labels = [*texts.values(), *(token for at, token in numbers.items() if at not in header)]
        if not cells:
            tokens = list(numbers.values())
            if found[-1] and found[-1][-1].cells[0][0]:
                found.append([])
            is_index = len(tokens) == 2 and not texts and tokens[0].isdigit()
            labels = [*texts.values(), *tokens[:is_index]]
            cells = [("", token) for token in tokens[is_index:]]
        if line[:1] == " " and texts and outer:
            labels.append(outer)  # of an index of two levels, printed once
        elif len(texts) > 1:
            outer = labels[0]
        values = tuple((column, float(token.replace(",", ""))) for column, token in cells)
        found[-1].append(Row(tuple(labels), values))


def _split(line: str, separator: str) -> tuple[dict[int, str], dict[int, str]]:
    """The numbers and the other words of ``line`` by their places."""
    if separator and separator in line:
        parts = {at: part.strip(" *`") for at, part in enumerate(line.split(separator))}
        numbers = {at: m[1] for at, part in parts.items() if (m := _CELL.fullmatch(part))}
        return numbers, {at: part for at, part in parts.items() if part and at not in numbers}
    numbers, rest, end = {}, [], 0
    for found in _CELL.finditer(line):
        rest.append(line[end : found.start()])
        end = found.end()
        numbers[end] = found[1]
    if not numbers:
        return {}, {found.end(): found[0].strip(" :=,") for found in _CHUNK.finditer(line)}
    words = [word.strip(" :=,") for part in (*rest, line[end:]) for word in part.split("  ")]
    return numbers, {-at: word for at, word in enumerate(words) if word}
