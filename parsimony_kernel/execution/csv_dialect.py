"""Detect the dialect of a delimited text file: separator, decimal mark, dates, encoding, signs.

If the text is ambiguous, all readings are returned and a person chooses. The result is arguments
of ``pandas.read_csv``, so that the code that loads a file shows how it was read.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

_HEAD = 256 * 1024
_LINES = 400
# At most so many title lines may precede the header.
_TITLES = 20
_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
# Values of separator, title lines and encoding that pandas needs no argument for.
_DEFAULTS = (",", 0, "utf-8", "utf-8-sig")
_SIGN = re.compile(r"[$€£¥%]|EUR|USD|GBP|CHF")
_SIGNS = re.compile(rf"\s|{_SIGN.pattern}")
_NUMBER = re.compile(r"-?\d[\d.,]*")
_COMMA = re.compile(r"-?\d{1,3}(?:\.\d{3})+,\d+|-?\d+,(?:\d{1,2}|\d{4,})")
_POINT = re.compile(r"-?\d{1,3}(?:,\d{3})+\.\d+|-?\d+\.(?:\d{1,2}|\d{4,})")
_GROUPS = re.compile(r"-?[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*")
# What stands for a missing number; pandas knows others, such as "n/a", by itself.
_ABSENT = frozenset({"-", "–", "—", "?", "k.A.", "k. A.", "n.a.", "unknown"})
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2\d{4}( \d{1,2}:\d{2}(:\d{2})?)?")


@dataclass(frozen=True)
class Reading:
    """One way to read a file.

    Args:
        options: arguments of ``pandas.read_csv`` that differ from its defaults.
        signed: numeric columns whose values have a sign such as ``$`` or ``%``.
        says: how this reading differs from the others; empty if it is the only one.
    """

    options: dict[str, Any] = field(default_factory=dict)
    signed: tuple[str, ...] = ()
    says: str = ""

    def __str__(self) -> str:
        signs = f"numbers with a sign in {', '.join(self.signed)}" if self.signed else ""
        comment = "; ".join(filter(None, (self.says, signs)))
        told = in_words({"sep": ",", **self.options})
        return f"{told}  # {comment}" if comment else told


def in_words(options: Mapping[str, Any], signed: Sequence[str] = ()) -> str:
    """Describe how a file was read by the arguments of ``pandas.read_csv``."""
    told = [f"{name}={value!r}" for name, value in options.items()]
    return ", ".join((*told, *(f"{name} without its sign" for name in signed)))


def sniff(path: str) -> str:
    """Detect the keyword arguments of ``pandas.read_csv`` for a file, as Python text.

    Args:
        path: a text file of data, separated by commas, semicolons, tabs or pipes.

    Returns:
        Text such as ``sep=';', skiprows=2, decimal=','``. If the file is ambiguous, one line per
        reading, likeliest first, each with its meaning in a comment.

    Raises:
        OSError: when the file can't be read.
    """
    return "\n".join(map(str, readings_of(path)))


def readings_of(path: str) -> list[Reading]:
    """Return the readings of a file, likeliest first; ``OSError`` when it can't be read."""
    with Path(path).open("rb") as stream:
        return readings(stream.read(_HEAD))


def readings(head: bytes) -> list[Reading]:
    """Return the readings of a file that begins with ``head``, likeliest first."""
    encoding = _encoding(head)
    separator, titles, rows = _rows(head.decode(encoding, "replace"))
    found = {"sep": separator, "skiprows": titles, "encoding": encoding}
    options = {name: each for name, each in found.items() if each not in _DEFAULTS}
    amounts, absent = dict[str, list[str]](), dict[str, list[str]]()
    for name, values in _columns(rows):
        given = [each for each in values if each not in _ABSENT]
        if given and all(map(_is_amount, given)):
            amounts[name] = given
            absent |= {name: sorted({*values} - {*given})} if len(given) < len(values) else {}
    options |= {"na_values": absent} if absent else {}
    dates = {name: each for name, each in amounts.items() if all(map(_DATE.fullmatch, each))}
    numbers = {name: each for name, each in amounts.items() if not any(map(_DATE.fullmatch, each))}
    plain = [_SIGNS.sub("", each) for values in numbers.values() for each in values]
    # Of decimal commas in one column beside points in another, pandas can read only one.
    if any(map(_COMMA.fullmatch, plain)) and any(map(_POINT.fullmatch, plain)):
        numbers, plain = {}, []
    signed = tuple(
        name
        for name, values in numbers.items()
        # Two signs, such as two currencies: no numbers of one kind.
        if any(map(_SIGNS.search, values)) and len({*_SIGN.findall(" ".join(values))}) < 2
    )
    return [
        Reading({**options, **marks, **days}, signed, ", ".join(filter(None, (one, other))))
        for (marks, one), (days, other) in product(_marks(plain, separator), _days(dates))
    ]


def _marks(numbers: Sequence[str], separator: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield options for decimal and thousands marks, each with its meaning if two fit."""
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
    """Yield options for numeric date formats, each with its meaning if two fit."""
    fits = {name: found for name, values in columns.items() if (found := _formats(values))}
    is_open = [name for name, found in fits.items() if len(found) > 1]
    for at, side in enumerate(("day", "month") if is_open else ("",)):
        formats = {name: (found * 2)[at] for name, found in fits.items()}
        options = {"parse_dates": [*formats], "date_format": formats} if formats else {}
        yield options, f"{columns[is_open[0]][0]} begins with the {side}" if is_open else ""


def _formats(dates: Sequence[str]) -> list[str]:
    """Return the formats that fit all dates, with the day first; with points, it always is."""
    import pandas  # deferred: slow

    found = _DATE.fullmatch(dates[0])
    assert found is not None
    mark, time = found[2], (" %H:%M" + ":%S" * bool(found[5])) if found[4] else ""
    orders = (f"%d{mark}%m{mark}%Y", f"%m{mark}%d{mark}%Y")[: 1 if mark == "." else 2]
    read = {each: pandas.to_datetime(dates, format=each + time, errors="coerce") for each in orders}
    return [order + time for order, times in read.items() if times.notna().all()]


def _encoding(head: bytes) -> str:
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    whole = head[: head.rfind(b"\n") + 1] or head  # the last character may have been cut in two
    for name in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            whole.decode(name)
            return name
    return "latin-1"


def _rows(text: str) -> tuple[str, int, list[list[str]]]:
    """Find the separator that splits most lines into as many fields as the header has.

    Returns:
        The separator, the number of title lines above the header, and the rows from the header on.
    """
    lines = text.splitlines()[:_LINES]
    best: tuple[Any, ...] = ()
    found = ",", 0, [[each] for each in lines]
    for separator in (",", ";", "\t", "|"):
        try:
            rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
        except csv.Error:
            continue
        titles = _titles(rows)
        if titles < len(rows) - 1 and 1 < len(rows[titles]) == len(rows[titles + 1]) - 1:
            rows[titles] = ["", *rows[titles]]  # row names without a header: pandas detects them
        width = len(rows[titles]) if rows else 0
        below = [row for row in rows[titles:] if row]
        even = sum(len(row) == width for row in below) / max(len(below), 1)
        # Decimal commas split lines evenly, too; but then the header line counts as a title.
        worth = (even == 1 and not titles, even * width**0.5, -titles)
        is_table = len(below) > 1 or not titles  # what stands below titles has a row
        if width > 1 and even > 0.8 and is_table and worth > best:
            best, found = worth, (separator, titles, below)
    return found


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """Count the title rows above the header: of unusual width, or filled up with empty fields."""
    widths = Counter(len(row) for row in rows if len(row) > 1)
    width = max(widths, key=lambda each: (widths[each], each), default=0)
    for at, row in enumerate(rows[:_TITLES]):
        filled = [cell for cell in row if cell.strip()]
        below = rows[at + 1] if at + 1 < len(rows) else ()
        is_short = 1 < len(filled) == len(row) == width - 1 == len(below) - 1
        if is_short and any(map(_is_amount, below)):
            return at  # a header as R writes it, without a name for the row names
        if len(row) != width or not filled:
            continue
        # An index column may have no name.
        is_whole = len(filled) == width or not row[0].strip()
        if is_whole or (2 * len(filled) > width and not any(map(_is_amount, filled))):
            # A row that begins with a number is no header but the first row of data.
            return 0 if at and _is_amount(row[0]) else at
    return 0


def _is_amount(cell: str) -> bool:
    return bool(_DATE.fullmatch(cell.strip()) or _NUMBER.fullmatch(_SIGNS.sub("", cell)))


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield non-empty columns with their values, without the last line if it may be cut off."""
    body = rows[1:-1] if len(rows) >= _LINES else rows[1:]
    for at, name in enumerate(rows[0] if rows else ()):
        values = [row[at].strip() for row in body if at < len(row) and row[at].strip()]
        if values:
            yield name, values
