"""Which numbers of a text the results of a run support.

A number is supported as it stands in a result, rounded, scaled or in another unit, and as what
follows from the rows and numbers that its sentence speaks of: sums, means, shares, differences,
ratios and squares. One that stands only in another row than the rows beside it is not.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, combinations, groupby, islice, permutations
from typing import Any, NamedTuple

from parsimony_kernel.gate import numerals
from parsimony_kernel.gate.numerals import SUPPOSED, Numeral, Value, is_year, pattern

# Characters of the newest results that are read as tables, and that are read for their numbers;
# what is older is only searched as text.
MAX_READ = 24_000
MAX_LOOSE = 150_000
MAX_LINES = 600
# Numbers derived for one text; rows of a table that are derived from, and of so few every sum.
MAX_DERIVED = 8_000
MAX_ROWS, FEW = 60, 8

_SENTENCE = re.compile(r"(?<!\s[A-Z]\.)(?<!^[A-Z]\.)(?<=[.!?])\s+(?=[^\da-z])|\n+|;\s")
_AWAY = re.compile(
    r"`[^`\n]*[^\W\d_][^`\n]*`|\b[a-z][a-z0-9+.-]{1,12}://\S+|[^\W\d_]\([^()\n]{0,40}\)"
    r"|\b\d{4}[-/.]\d\d?(?:[-/.]\d\d?)?\b|\b\d\d?[./]\d\d?[./]\d{2,4}\b|\b\d\d?:\d\d(?::\d\d)?\b"
    rf"|\b\d{{1,3}}(?:st|nd|rd|th)\b|(?i:{pattern('named').pattern}\.?\s#?|#)\d[\d.]*"
)
_OTHERS, _YEARS = pattern("others"), pattern("years")
_NO_LABELS = frozenset(numerals.WORDS["words"]["labels"].split())
_CONSTANTS = frozenset(numerals.WORDS["words"]["constants"])
_DIGITS = bytes(c if c in b"0123456789.," else 32 for c in range(256))
_PRINTED = re.compile(r"[-+−]?[$€£]?([0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)%?")
_IN_WORDS = re.compile(
    r"(?<![\w.,/:-])([-+−]?[$€£]?[0-9][0-9.,]*(?:[eE][-+]?[0-9]+)?%?)(?![\w/:-])"
)
_GAP = re.compile(r"\s{2,}|\s(?=-\d)|[|\t]")
_TWO_NUMBERS = re.compile(r"\d\s\d")


class Row(NamedTuple):
    """A printed line with numbers: what it is about, and its numbers by place."""

    labels: tuple[str, ...]
    numbers: tuple[float, ...]
    is_aligned: bool


Table = list[Row]
# A number that follows from others, and whether it is a ratio.
Derived = tuple[bool, float]


class Cell(NamedTuple):
    """A number of a table, and where it stands."""

    value: float
    table: int
    row: int
    place: int


class Mention(NamedTuple):
    """Where a sentence names a row."""

    start: int
    end: int
    table: int
    row: int


class Results:
    """What a run has shown.

    Args:
        texts: what tools answered, the newest last.
        words: what the person wrote and the code that ran, whose numbers count as shown.
    """

    def __init__(self, texts: Sequence[str], words: Iterable[str] = ()) -> None:
        self.tables: list[Table] = []
        self.derivations_left = MAX_DERIVED
        loose, read, self._older = list(words), 0, ""
        for text in reversed(texts):
            read += len(text)
            if read <= MAX_READ:
                self.tables += tables(text)
            elif read <= MAX_LOOSE:
                loose.append(text)
            else:
                self._older += text.replace(",", "")
        loose += [label for table in self.tables for row in table for label in row.labels]
        self._loose = _floats("\n".join(loose))
        self._cells = sorted(
            Cell(number, t, r, place if row.is_aligned else -1)
            for t, table in enumerate(self.tables)
            for r, row in enumerate(table)
            for place, number in enumerate(row.numbers)
        )

    def is_loose(self, n: Numeral) -> bool:
        """Whether ``n`` stands where nothing says what it is about."""
        if any(_within(self._loose, v, lambda each: each) for v in n.values):
            return True
        return f"{n.values[0].number:.12g}" in self._older

    def cells_of(self, n: Numeral) -> list[Cell]:
        """The cells that ``n`` is when they are rounded, or cut off."""
        return [*chain(*(_within(self._cells, v, lambda cell: cell[0]) for v in n.values))]

    def mentions(self, sentence: str) -> list[Mention]:
        """The rows that ``sentence`` names, in its order."""
        lower = sentence.casefold()
        return sorted(
            Mention(*at.span(), t, r)
            for t, table in enumerate(self.tables)
            for r, row in enumerate(table)
            for label in row.labels
            if label[:3].strip("/.").casefold() in lower
            for at in _form_of(label).finditer(sentence)
        )


def unsupported(text: str, results: Results) -> list[str]:
    """Find the numbers of a text that nothing supports.

    Args:
        text: a summary or a report, in English, German, French or Spanish.
        results: what the run has shown; at most ``MAX_DERIVED`` numbers are derived from it.

    Returns:
        The numbers as they are written, each once, in their order.
    """
    found: list[str] = []
    said: list[float] = []
    is_share = bool(numerals.PERCENT.search(text))
    for each in _SENTENCE.split(text):
        sentence = _Sentence(each, results, said[-8:], is_share)
        found += sentence.unsupported()
        said = sentence.said
    return list(dict.fromkeys(found))


class _Sentence:
    """A sentence, and the numbers that were said before."""

    def __init__(self, text: str, results: Results, said: list[float], is_share: bool) -> None:
        self.text = text
        self.said = said
        self._results = results
        self._mentions = results.mentions(text)
        scales = (numerals.SCALES.get(word, 1.0) for word in re.findall(r"[^\W\d_]+", text.lower()))
        bare = _AWAY.sub(lambda away: " " * len(away[0]), text)
        found = numerals.amounts(bare, scaled=max(scales, default=1.0), percent=is_share)
        self._numerals = [
            n for n in found if not any(m.start <= n.start < m.end for m in self._mentions)
        ]

    def unsupported(self) -> Iterator[str]:
        results, unseen = self._results, []
        is_supposed = bool(SUPPOSED.search(self.text))
        speaks_of_others = bool(_OTHERS.search(self.text))
        for n in self._numerals:
            number, cells, is_loose = n.values[0].number, results.cells_of(n), results.is_loose(n)
            if not (cells or is_loose or is_supposed or number in _CONSTANTS) and n.is_claim:
                unseen.append(n)
                continue
            exact = {cell.value for cell in cells}
            known = exact.pop() if len(exact) == 1 else number  # as exactly as it is known
            self.said.append(number / 100 if n.percent else known)
            is_looked_up = cells and n.digits > 1 and not (is_loose or speaks_of_others)
            if is_looked_up and self._is_misplaced(n, cells):
                yield n.text
        for n in unseen:
            if (value := self._derived_value(n)) is None:
                yield n.text
            else:
                self.said += [value, n.values[0].number]

    def _is_misplaced(self, n: Numeral, cells: list[Cell]) -> bool:
        """Whether ``n`` stands only in other rows than the ones that are named beside it."""
        beside: dict[int, set[int]] = {}
        columns = {(cell.table, cell.place) for cell in cells}
        for m in self._named_beside(n, columns):
            beside.setdefault(m.table, set()).add(m.row)
        if any(c.place < 0 or c.row in beside.get(c.table, (c.row,)) for c in cells):
            return False
        alone = (
            _derived_from_table(self._results.tables[t], rows, True) for t, rows in beside.items()
        )
        return self._derived_value(n, chain(*alone)) is None

    def _named_beside(self, n: Numeral, columns: set[tuple[int, int]]) -> list[Mention]:
        """The rows that are named last before ``n`` and first behind it, without a number of its
        ``columns`` between those on one side."""
        told = [
            m
            for m in self._numerals
            if any((cell.table, cell.place) in columns for cell in self._results.cells_of(m))
        ]
        order: list[Any] = sorted((*self._mentions, *told), key=lambda each: each.start)
        runs = [list(run) for _, run in groupby(order, key=type)]
        at = next(i for i, run in enumerate(runs) if n in run)
        found = [*chain(*runs[max(at - 1, 0) : at], *runs[at + 1 : at + 2])]
        others = chain(*(self._results.cells_of(m) for m in runs[at] if m != n))
        taken = {(cell.table, cell.row) for cell in others}
        return [] if any((m.table, m.row) in taken for m in found) else found

    def _derived_value(self, n: Numeral, among: Iterable[Derived] | None = None) -> float | None:
        """The first number ``among`` those that follow from what its sentence speaks of that ``n``
        is, per so many; ``None`` for none."""
        given = list(dict.fromkeys(self.said))[-6:]
        counts = [v for v in self.said if 1 < v < 400 and v == int(v)][-4:]
        per_year: tuple[float, ...] = (12.0, 1 / 12) if _YEARS.search(self.text) else ()
        by = 100 if n.percent else 1
        bounds = [(v.number / by, (0.51 * v.unit + 1e-9 * v.number) / by) for v in n.values]
        divisors: tuple[float, ...] = (1.0, *counts, *per_year)
        if n.percent:
            bounds, divisors = bounds[:1], divisors[:1]
        for is_ratio, value in among or chain(_derived_from(given, sum(given)), self._of_tables()):
            if self._results.derivations_left <= 0:  # more than can be derived in time is supported
                return n.values[0].number
            self._results.derivations_left -= 1
            if n.percent == is_ratio or not (n.percent or n.scaled):
                for divisor in divisors:
                    for number, slack in bounds:
                        if abs(abs(value) / divisor - number) <= slack:
                            return value / divisor
        return None

    def _of_tables(self) -> Iterator[Derived]:
        for t, table in enumerate(self._results.tables):
            yield from _derived_from_table(table, {m.row for m in self._mentions if m.table == t})


@lru_cache(maxsize=2_000)
def _form_of(label: str) -> re.Pattern[str]:
    """``label`` with endings; its first word may stand for all, and short capitals are names."""
    if label.casefold() in _NO_LABELS or (label.isdigit() and not is_year(label)):
        return re.compile("(?!)")
    forms = []
    for part in re.findall(r"\w+", label) or ["(?!)"]:
        is_name = len(part) <= 3 and part.isupper()
        ending = r"\w{0,3}" if part.isalpha() and len(part) > 2 else ""
        forms.append(f"(?-i:{part})" if is_name else part + ending)
    more = "".join(rf"\W+{form}" for form in forms[1:])
    optional = "?" if re.match(r"\w{4}", label) else ""
    return re.compile(rf"\b{forms[0]}\b(?:{more}\b){optional}", re.IGNORECASE)


def _floats(text: str) -> list[float]:
    """Every number of ``text``, sorted."""
    digits = text.encode(errors="replace").translate(_DIGITS)
    found: list[float] = []
    for token in set(digits.replace(b". ", b" ").replace(b", ", b" ").split()):
        try:
            found.append(float(token))
        except ValueError:  # several numbers, or one with separators
            each = token.decode().strip(".,") or "0"
            found += [value.number for value in numerals.readings(each)]
            found += map(float, re.findall(r"\d+(?:\.\d+)?", each))
    return sorted(found)


def _within(values: Sequence[Any], v: Value, key: Callable[[Any], float]) -> Any:
    """Some of ``values``, which are sorted, that are ``v`` rounded, or cut off."""
    number, slack = abs(v.number), 1e-9 * abs(v.number) + 1e-12
    low = bisect_left(values, number - v.unit / 2 - slack, key=key)
    high = bisect_right(values, number + v.unit * (1 - 1e-9) + slack, key=key)
    return values[low : min(high, low + 50)]


# -- printed results as tables


def tables(text: str) -> list[Table]:
    """The runs of lines with numbers in one result: printed text, or JSON whose texts are."""
    try:
        held = json.loads(text) if text[:1] in "{[" else text
    except (ValueError, RecursionError):
        held = text
    found: list[Table] = [[]]
    is_csv = False
    for line in islice(_lines(held), MAX_LINES):
        row = _row(line.replace(",", "  ") if is_csv else line)
        if row.numbers:
            found[-1].append(row)
        elif line.strip(" |:=+-\t"):
            found.append([])
            is_csv = "," in line and ", " not in line
    return [table for table in found if table]


def _lines(held: Any) -> Iterator[str]:
    match held:
        case dict():
            for key, value in held.items():
                is_number = isinstance(value, int | float)
                yield from (f"{key}  {value}",) if is_number else (key, *_lines(value))
        case [*values] if any(isinstance(each, dict | list) for each in values):
            yield from chain(*map(_lines, values))
        case [*values]:
            yield "  ".join(map(str, values))
        case _:
            yield from str(held).splitlines()


def _row(line: str) -> Row:
    parts = [part.strip(" *`") for part in _GAP.split(line)]
    is_aligned = len(parts) > 1 and any(map(_PRINTED.fullmatch, parts))
    if any(map(_TWO_NUMBERS.search, parts)):
        is_aligned = False
    if not is_aligned:  # words with numbers in them
        parts = [part.strip(" :=,") for part in _IN_WORDS.split(line)]
    labels: list[str] = []
    numbers: list[float] = []
    for at, part in enumerate(filter(None, parts)):
        number = _PRINTED.fullmatch(part)
        if number is None or (at < 2 and is_year(part)):  # the year of a row is its name
            labels.append(part)
        else:
            numbers.append(float(number[1].replace(",", "")))
    return Row(tuple(labels), tuple(numbers), is_aligned)


def _derived_from_table(table: Table, named: set[int], alone: bool = False) -> Iterator[Derived]:
    """What follows from a table: from its columns and its rows, of which those ``named`` are
    spoken of, none meaning all; the others are left out when these are ``alone``."""
    rows = [r for r in sorted(named) if r < MAX_ROWS] or list(range(min(len(table), MAX_ROWS)))
    columns: list[dict[int, float]] = [{} for _ in range(FEW)]
    for r, row in enumerate(table[:MAX_ROWS]):
        for column, value in zip(columns, row.numbers, strict=False):
            column[r] = value
    sums = []
    for column in filter(None, columns):
        chosen, total = [column[r] for r in rows if r in column], sum(column.values())
        sums.append(sum(chosen))
        yield from _derived_from(chosen, total)
        if named and not alone:
            near = column.values() if len(column) <= FEW else ()
            yield from _derived_from([*near, total - sum(chosen)], total)
    for numbers in (*(table[r].numbers for r in rows), sums):
        yield from _derived_from(numbers[:FEW], sum(numbers))


def _derived_from(values: Sequence[float], total: float) -> Iterator[Derived]:
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
