"""How a text file of data is written: separator, decimal mark, dates, encoding, signs.

Owns the guess and its doubt: where the text leaves two readings open, both are given, and a person
says which. What is found is arguments of ``pandas.read_csv``, so that the code that loads a file
shows how it was read.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

_HEAD = 256 * 1024
_LINES = 400
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_SIGNS = re.compile(r"[$€£¥%\s]|EUR|USD|GBP|CHF")
_NUMBER = re.compile(r"-?\d[\d.,]*")
_COMMA = re.compile(r"-?\d{1,3}(?:\.\d{3})+,\d+|-?\d+,(?:\d{1,2}|\d{4,})")
_POINT = re.compile(r"-?\d{1,3}(?:,\d{3})+\.\d+|-?\d+\.(?:\d{1,2}|\d{4,})")
_GROUPS = re.compile(r"-?[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2\d{4}( \d{1,2}:\d{2}(:\d{2})?)?")


@dataclass(frozen=True)
class Reading:
    """One way to read a file.

    Args:
        options: arguments of ``pandas.read_csv`` that are not its defaults.
        signed: columns of numbers that carry a sign such as ``$`` or ``%``.
        says: how this reading differs from the others; empty for the only one.
    """

    options: dict[str, Any] = field(default_factory=dict)
    signed: tuple[str, ...] = ()
    says: str = ""


def sniff(path: str) -> str:
    """The readings of a file as JSON, likeliest first; more than one where the text leaves it open.

    Args:
        path: a text file of data, separated by commas, semicolons, tabs or pipes.

    Raises:
        OSError: when it cannot be read.
    """
    with Path(path).open("rb") as stream:
        return json.dumps([asdict(each) for each in readings(stream.read(_HEAD))])


def readings(head: bytes) -> list[Reading]:
    """The readings of a file that begins with ``head``."""
    encoding = _encoding(head)
    separator, rows = _rows(head.decode(encoding, "replace"))
    options: dict[str, Any] = {}
    if separator != ",":
        options["sep"] = separator
    if not encoding.startswith("utf-8"):
        options["encoding"] = encoding
    columns = list(_columns(rows))
    dates = {name: values for name, values in columns if all(map(_DATE.fullmatch, values))}
    numbers = {
        name: values
        for name, values in columns
        if name not in dates and all(_NUMBER.fullmatch(_SIGNS.sub("", v)) for v in values)
    }
    signed = tuple(name for name, values in numbers.items() if any(map(_SIGNS.search, values)))
    plain = [_SIGNS.sub("", each) for values in numbers.values() for each in values]
    return [
        Reading({**options, **marks, **days}, signed, ", ".join(filter(None, (one, other))))
        for (marks, one), (days, other) in product(_marks(plain, separator), _days(dates))
    ]


def _marks(numbers: Sequence[str], separator: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The marks of decimals and thousands, and what to say of each where two fit."""
    commas = any(map(_COMMA.fullmatch, numbers))
    points = any(map(_POINT.fullmatch, numbers))
    groups = {
        found[1]: found[0] for each in reversed(numbers) if (found := _GROUPS.fullmatch(each))
    }
    if commas and not points:
        grouped = {"thousands": "."} if any("." in each for each in numbers) else {}
        yield {"decimal": ",", **grouped}, ""
    elif groups and not commas and not points and separator != ",":
        mark, example = next(iter(groups.items()))
        digits = re.sub(r"\D", "", example)
        yield {"thousands": mark}, f"{example} means {int(digits):,}"
        decimal = {"decimal": mark} if mark == "," else {}
        yield decimal, f"{example} has three decimals"
    else:
        yield ({"thousands": ","} if any("," in each for each in numbers) else {}), ""


def _days(columns: dict[str, list[str]]) -> Iterator[tuple[dict[str, Any], str]]:
    """The formats of dates that are written in numbers, and what to say of each where two fit."""
    first: dict[str, bool] = {}
    for name, values in columns.items():
        parts = [found for each in values if (found := _DATE.fullmatch(each))]
        begins = max(int(each[1]) for each in parts) > 12
        ends = max(int(each[3]) for each in parts) > 12
        if begins != ends or parts[0][2] == ".":
            first[name] = begins or parts[0][2] == "."
    is_open = [name for name in columns if name not in first]
    for day_first in (True, False) if is_open else (True,):
        formats = {
            name: _format(values[0], day_first=first.get(name, day_first))
            for name, values in columns.items()
        }
        options = {"parse_dates": [*formats], "date_format": formats} if formats else {}
        side = "day" if day_first else "month"
        yield options, f"{columns[is_open[0]][0]} begins with the {side}" if is_open else ""


def _format(example: str, *, day_first: bool) -> str:
    found = _DATE.fullmatch(example)
    assert found is not None
    day, mark = "%d{0}%m{0}%Y" if day_first else "%m{0}%d{0}%Y", found[2]
    return day.format(mark) + (" %H:%M" + ":%S" * bool(found[5]) if found[4] else "")


def _encoding(head: bytes) -> str:
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    whole = head[: head.rfind(b"\n") + 1] or head  # the last character may have been cut in two
    for name in ("utf-8", "cp1252"):
        try:
            whole.decode(name)
        except UnicodeDecodeError:
            continue
        return name
    return "latin-1"


def _rows(text: str) -> tuple[str, list[list[str]]]:
    """The separator that cuts most lines into as many fields as the first, and the rows."""
    lines = text.splitlines()[:_LINES]
    best: tuple[float, str, list[list[str]]] = (0.0, ",", [[each] for each in lines])
    for separator in (",", ";", "\t", "|"):
        try:
            rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
        except csv.Error:
            continue
        width = len(rows[0]) if rows else 0
        even = sum(len(row) == width for row in rows) / max(len(rows), 1)
        if width > 1 and even > 0.8 and even * width**0.5 > best[0]:
            best = (even * width**0.5, separator, rows)
    return best[1], best[2]


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """The columns that hold something, without the last line, which may be cut."""
    body = rows[1:-1] if len(rows) >= _LINES else rows[1:]
    for at, name in enumerate(rows[0] if rows else ()):
        values = [row[at].strip() for row in body if at < len(row) and row[at].strip()]
        if values:
            yield name, values
