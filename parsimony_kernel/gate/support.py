"""Which numbers of a text the results of a run support.

A number is supported as it stands in a result, rounded, scaled or in another unit, and as what
follows from the rows and numbers that its sentence speaks of. One that stands in a result only for
another row or column than it is said of is not.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from parsimony_kernel.gate import numerals
from parsimony_kernel.gate.numerals import SUPPOSED, Numeral, Value, is_year, pattern
from parsimony_kernel.gate.printed import Derived, Table, derived_from, derived_from_table, tables

# Characters of the newest results that are read as tables, and that are read for their numbers;
# what is older is only searched as text.
MAX_READ = 24_000
MAX_LOOSE = 150_000
# Numbers derived for one text.
MAX_DERIVED = 8_000
# Words between a number and the column that it is said of.
NEAR = 4
# Numbers said before, from which others are derived.
FEW_SAID = 6

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


class Cell(NamedTuple):
    """A number of a table."""

    value: float
    table: int
    row: int
    column: str


class Mention(NamedTuple):
    """Where a sentence names a row."""

    start: int
    end: int
    row: int


class Results:
    """What tools answered, the newest last, and the other ``words`` of the run."""

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
            Cell(abs(value), t, r, column)
            for t, table in enumerate(self.tables)
            for r, row in enumerate(table)
            for column, value in row.cells
        )

    def is_loose(self, n: Numeral) -> bool:
        """Whether ``n`` stands where nothing says what it is about."""
        if any(_within(self._loose, v, lambda each: each) for v in n.values):
            return True
        return f"{n.values[0].number:.12g}" in self._older

    def cells_of(self, n: Numeral) -> list[Cell]:
        """The cells that ``n`` is when they are rounded, or cut off."""
        found = (_within(self._cells, v, lambda cell: cell[0]) for v in n.values)
        return [*chain.from_iterable(found)]

    def mentions(self, sentence: str) -> dict[int, list[Mention]]:
        """The rows that ``sentence`` names, by table and in their order."""
        found: dict[int, list[Mention]] = {}
        lower = sentence.casefold()
        for t, table in enumerate(self.tables):
            labels = ((label, r) for r, row in enumerate(table) for label in row.labels)
            said = [
                Mention(*at.span(), r)
                for label, r in labels
                if label[:3].strip("/.").casefold() in lower
                for at in _form_of(label).finditer(sentence)
            ]
            if said:
                found[t] = sorted(said)
        return found


def unsupported(text: str, results: Results) -> list[str]:
    """The numbers of ``text`` that ``results`` do not support, as they are written."""
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
        self._matched: dict[Numeral, list[Cell]] = {}
        self._derived_of_tables: list[Derived] | None = None
        named = [range(m.start, m.end) for each in self._mentions.values() for m in each]
        scales = (numerals.SCALES.get(word, 1.0) for word in re.findall(r"[^\W\d_]+", text.lower()))
        bare = _AWAY.sub(lambda away: " " * len(away[0]), text)
        found = numerals.amounts(bare, scaled=max(scales, default=1.0), percent=is_share)
        self._numerals = [n for n in found if not any(n.start in each for each in named)]

    def unsupported(self) -> Iterator[str]:
        results, unseen = self._results, []
        is_supposed = bool(SUPPOSED.search(self.text))
        for n in self._numerals:
            number, cells, is_loose = n.values[0].number, results.cells_of(n), results.is_loose(n)
            if cells and n.digits > 1 and not is_loose:
                self._matched[n] = cells
            if not (cells or is_loose or is_supposed or number in _CONSTANTS) and n.is_claim:
                unseen.append(n)
            elif n.percent:
                self.said.append(number / 100)
            else:  # as exactly as it is known
                exact = {cell.value for cell in cells}
                self.said.append(exact.pop() if len(exact) == 1 else number)
        for n, cells in self._matched.items():
            if not _OTHERS.search(self.text) and self._is_misplaced(n, cells):
                yield n.text
        for n in unseen:
            if results.derivations_left <= 0:  # more than can be derived in time is supported
                return
            if (value := self._derived_value(n)) is None:
                yield n.text
            else:
                self.said += [value, n.values[0].number]

    def _is_misplaced(self, n: Numeral, cells: list[Cell]) -> bool:
        """Whether ``n`` stands only in other rows, or another column, than it is said of."""
        tables, beside = self._results.tables, dict[int, set[int]]()
        for cell in cells:
            rows = beside[cell.table] = self._rows_beside(n, cell)
            is_of_row = not rows or cell.row in rows or not cell.column
            if is_of_row and not self._is_of_other_column(n, cell):
                return False
        alone = (
            derived_from_table(tables[t], rows, alone=True) for t, rows in beside.items() if rows
        )
        return self._derived_value(n, chain(*alone)) is None

    def _rows_beside(self, n: Numeral, cell: Cell) -> set[int]:
        """The rows that are named last before ``n`` and first behind it; none where one of them has
        another number of the column between itself and ``n``."""
        mentions = self._mentions.get(cell.table, [])
        others = [
            (m.start, c.row)
            for m, cells in self._matched.items()
            for c in cells
            if m != n and (c.table, c.column) == (cell.table, cell.column)
        ]
        rows: set[int] = set()
        before = [m for m in reversed(mentions) if m.start < n.start]
        for run in (before, [m for m in mentions if m.start > n.start]):
            for m in run:
                low, high = sorted((m.start, n.start))
                between = [row for start, row in others if low < start < high]
                if m.row in between:
                    return set()
                if between and m is not run[0]:
                    break
                rows.add(m.row)
        return rows

    def _is_of_other_column(self, n: Numeral, cell: Cell) -> bool:
        """Whether the words beside ``n`` name another column of that row, and not its own."""
        if not any(abs(cell.value - v.number) <= v.unit for v in n.values[: n.plain]):
            return False
        own, end = _parts_of(cell.column), n.start + len(n.text)
        explained = {c.column for m, cells in self._matched.items() if m != n for c in cells}
        words = _words(self.text)
        near = [*_words(self.text[: n.start])[-NEAR:], *_words(self.text[end:])[:NEAR]]
        for column, _ in self._results.tables[cell.table][cell.row].cells:
            parts = _parts_of(column)
            is_said = column in explained or any(_is_in(each, words) for each in own - parts)
            is_named = parts - own and all(_is_in(each, near) for each in parts - own)
            if is_named and not is_said:
                return True
        return False

    def _derived_value(self, n: Numeral, among: Iterable[Derived] | None = None) -> float | None:
        """The first number ``among`` those that follow from what its sentence speaks of that ``n``
        is, per so many; ``None`` for none."""
        given = list(dict.fromkeys(self.said))[-FEW_SAID:]
        counts = [v for v in self.said if 1 < v < 400 and v == int(v)][-4:]
        per_year: tuple[float, ...] = (12.0, 1 / 12) if _YEARS.search(self.text) else ()
        by = 100 if n.percent else 1
        bounds = [(v.number / by, (0.51 * v.unit + 1e-9 * v.number) / by) for v in n.values]
        divisors: tuple[float, ...] = (1.0, *counts, *per_year)
        if n.percent:
            bounds, divisors = bounds[:1], divisors[:1]
        for is_ratio, value in among or chain(derived_from(given, sum(given)), self._of_tables()):
            self._results.derivations_left -= 1
            if n.percent == is_ratio or not (n.percent or n.scaled):
                for divisor in divisors:
                    for number, slack in bounds:
                        if abs(abs(value) / divisor - number) <= slack:
                            return value / divisor
        return None

    def _of_tables(self) -> list[Derived]:
        if self._derived_of_tables is None:
            found: list[Derived] = []
            beside: dict[int, list[float]] = {}
            for t, table in enumerate(self._results.tables):
                mentions = self._mentions.get(t, ())
                most = max(0, self._results.derivations_left - len(found))
                found += islice(derived_from_table(table, {m.row for m in mentions}), most)
                for m in mentions:  # what several tables say of one name
                    beside.setdefault(m.start, []).extend(v for _, v in table[m.row].cells)
            found += [v for each in beside.values() for v in derived_from(each[:8], sum(each))]
            self._derived_of_tables = found
        return self._derived_of_tables


def _is_in(part: str, words: Iterable[str]) -> bool:
    """Whether ``part``, or a word that begins with it, or it with that, is one of ``words``."""
    return any(word.startswith(part) or (len(word) > 3 and part.startswith(word)) for word in words)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


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


def _parts_of(column: str) -> frozenset[str]:
    words = frozenset(re.split(r"[\W_]+", column.casefold()))
    return frozenset(word for word in words if len(word) > 2) or words


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
