"""Which numbers of a text the results of a run support.

A number is supported as it stands in a result, rounded, scaled or in another unit, and as what
follows from the rows and numbers that its sentence speaks of. One that stands in a result only for
another row or column than it is said of is not.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from parsimony_kernel.gate import numerals
from parsimony_kernel.gate.derived import Derived, of_numbers, of_table
from parsimony_kernel.gate.numerals import Numeral, Value, is_year
from parsimony_kernel.gate.printed import Table, tables
from parsimony_kernel.gate.prose import SUPPOSED

# How much of the newest results is read as tables, and how much for its numbers: what is older is
# only looked through. How many numbers are derived for a text, and how many words may stand between
# a number and the column that it is said of.
MAX_READ = 24_000
MAX_LOOSE = 150_000
MAX_DERIVED = 8_000
NEAR = 4
FEW_SAID = 6

_SENTENCE = re.compile(r"(?<!\s[A-Z]\.)(?<!^[A-Z]\.)(?<=[.!?])\s+(?=[^\da-z])|\n+|;\s")
_AWAY = re.compile(
    r"`[^`\n]*[^\W\d_][^`\n]*`|\b[a-z][a-z0-9+.-]{1,12}://\S+|[^\W\d_]\([^()\n]{0,40}\)"
    r"|\b\d{4}[-/.]\d\d?(?:[-/.]\d\d?)?\b|\b\d\d?[./]\d\d?[./]\d{2,4}\b|\b\d\d?:\d\d(?::\d\d)?\b"
    rf"|\b\d{{1,3}}(?:st|nd|rd|th)\b|(?i:{numerals.pattern('named').pattern}\.?\s#?|#)\d[\d.]*"
)
_OTHERS, _YEARS = numerals.pattern("others"), numerals.pattern("years")
_PER = re.compile(r"\b(?:per|pro|par|por|je|each|every)\s+$", re.I)
_NO_LABELS = frozenset(numerals.WORDS["words"]["labels"].split())
_NO_COLUMNS = frozenset(numerals.WORDS["words"]["columns"].split())
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


@dataclass
class Results:
    """What tools answered, the newest last, and the other ``words`` of the run."""

    texts: Sequence[str]
    words: Iterable[str] = ()

    def __post_init__(self) -> None:
        self.left = MAX_DERIVED
        self.tables: list[Table] = []
        loose, read = list(self.words), 0
        self._rest = ""
        for text in reversed(self.texts):
            read += len(text)
            if read <= MAX_READ:
                self.tables += tables(text)
            elif read <= MAX_LOOSE:
                loose.append(text)
            else:
                self._rest += text
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
        if any(_within(self._loose, v, lambda each: each, cut=True) for v in n.values):
            return True
        return n.text in self._rest or f"{n.values[0].number:.12g}" in self._rest

    def at(self, values: Iterable[Value], *, cut: bool = False) -> list[Cell]:
        """The cells that one of ``values`` is when it is rounded, or cut off."""
        return [c for v in values for c in _within(self._cells, v, lambda each: each[0], cut=cut)]

    def mentions(self, sentence: str) -> dict[int, list[Mention]]:
        """The rows that ``sentence`` names, by table and in their order."""
        found: dict[int, list[Mention]] = {}
        lower = sentence.casefold()
        for t, table in enumerate(self.tables):
            labels = ((label, r) for r, row in enumerate(table) for label in row.labels)
            named = ((label, r) for label, r in labels if label[:3].strip("/.").casefold() in lower)
            said = [
                Mention(*at.span(), r)
                for label, r in named
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


@dataclass
class _Sentence:
    """A sentence, and the numbers that were said before."""

    text: str
    results: Results
    said: list[float]
    is_share: bool

    def __post_init__(self) -> None:
        self.mentions = self.results.mentions(self.text)
        self.matched: dict[Numeral, list[Cell]] = {}
        named = [range(m.start, m.end) for each in self.mentions.values() for m in each]
        words = re.findall(r"[^\W\d_]{2,}", self.text.lower())
        bare = _AWAY.sub(lambda away: " " * len(away[0]), self.text)
        scale = max((numerals.SCALES.get(word, 1.0) for word in words), default=1.0)
        found = numerals.amounts(bare, scaled=scale, percent=self.is_share)
        self.numerals = [each for each in found if not any(each.start in at for at in named)]

    def unsupported(self) -> Iterator[str]:
        unseen = []
        is_supposed = bool(SUPPOSED.search(self.text))
        for n in self.numerals:
            cells, loose = self.results.at(n.values), self.results.is_loose(n)
            number = n.values[0].number
            if cells and n.digits > 1 and not loose:
                self.matched[n] = cells
            if cells or loose or is_supposed or not n.is_claim or number in _CONSTANTS:
                number = cells[0].value if len({cell.value for cell in cells}) == 1 else number
                self.said.append(n.values[0].number / 100 if n.percent else number)
            else:
                unseen.append(n)
        for n, cells in self.matched.items():
            if self._is_of_another(n, cells):
                yield n.text
        for n in unseen:
            if self.results.left <= 0:  # Of more than can be derived in time everything is.
                return
            cut = self.results.at(n.values, cut=True)
            value = cut[0].value if cut else _near(n, self._derived(), self._divisors())
            if value is None:
                yield n.text
            else:
                self.said += [value, n.values[0].number]

    def _is_of_another(self, n: Numeral, cells: list[Cell]) -> bool:
        """Whether ``n`` stands only in other rows, or another column, than it is said of."""
        if _OTHERS.search(self.text):
            return False
        around = {cell: self._rows_around(n, cell) for cell in cells}
        fitting = {cell for cell, rows in around.items() if self._is_row(cell, rows)}
        columns = {cell.column for cell in fitting}
        if columns != {cell.column for cell in fitting if self._is_other_column(n, cell)}:
            return False
        tables = {cell.table: rows for cell, rows in around.items() if rows}
        beside = (of_table(self.results.tables[t], rows, alone=True) for t, rows in tables.items())
        return _near(n, self._derived() if n.digits < 3 else chain(*beside)) is None

    def _rows_around(self, n: Numeral, cell: Cell) -> set[int]:
        """The rows that are named last before ``n`` and first behind it; none where another number
        of the column is said of one of them."""
        mentions = self.mentions.get(cell.table, [])
        others = [
            (m.start, c.row)
            for m, cells in self.matched.items()
            for c in cells
            if m != n and (c.table, c.column) == (cell.table, cell.column)
        ]
        starts = [m.start for m in self.matched]
        is_first = bool(mentions) and min(starts) < mentions[0].start
        edges = [0, *(m.start for m in mentions), len(self.text)]
        split = sum(m.start < n.start for m in mentions)
        rows: set[int] = set()
        for run in (range(split - 1, -1, -1), range(split, len(mentions))):
            for at in run:
                m, first = mentions[at], mentions[run[0]]
                if any(min(m, first).start < start < max(m, first).start for start in starts):
                    break
                low = edges[at] if is_first else m.start
                high = m.start if is_first and at + 1 < len(mentions) else edges[at + 2]
                if any(low < start < high and row == m.row for start, row in others):
                    return set()
                rows.add(m.row)
        return rows

    def _is_row(self, cell: Cell, rows: set[int]) -> bool:
        table = self.results.tables[cell.table]
        own = table[cell.row].labels
        years = sorted(label for row in rows for label in table[row].labels if is_year(label))
        is_within = any(years[0] < each < years[-1] for each in own if years)
        is_named = not rows or cell.row in rows or is_within
        return is_named or not cell.column or _NO_LABELS.issuperset(own)

    def _is_other_column(self, n: Numeral, cell: Cell) -> bool:
        """Whether the words beside ``n`` name another column of that row, and not its own."""
        explained = {c.column for m, cells in self.matched.items() if m != n for c in cells}
        own, end = _parts_of(cell.column), n.start + len(n.text)
        is_plain = any(abs(cell.value - v.number) <= v.unit for v in n.values[: n.plain])
        for column, _ in self.results.tables[cell.table][cell.row].cells if is_plain else ():
            parts = _parts_of(column)
            is_said = column in explained or any(map(self._places, own - parts))
            if is_said or column in _NO_COLUMNS:
                continue
            places = [self._places(part) for part in parts - own]
            for start, stop in chain(*places) if all(places) else ():
                low, high = (stop, n.start) if stop <= n.start else (end, start)
                names = sum(low <= m.start < high for m in self.mentions.get(cell.table, ()))
                is_near = len(self.text[low:high].split()) <= NEAR + names
                is_next = not any(low < m.start < high for m in self.numerals)
                if is_near and is_next and not _PER.search(self.text[:start]):
                    return True
        return False

    def _places(self, part: str) -> list[tuple[int, int]]:
        """Where the sentence has ``part``, or a word that begins with it, or it with that."""
        return [
            word.span()
            for word in re.finditer(r"[^\W_]+", self.text.casefold())
            if word[0].startswith(part) or (len(word[0]) > 3 and part.startswith(word[0]))
        ]

    def _divisors(self) -> list[float]:
        """What a total may be said by: so many months, or the months of a year."""
        counts = [v for v in self.said if 1 < v < 400 and v == int(v)][-4:]
        return [1.0, *counts, *((12.0, 1 / 12) if _YEARS.search(self.text) else ())]

    def _derived(self) -> Iterator[Derived]:
        given = list(dict.fromkeys(self.said))[-FEW_SAID:]
        for each in chain(of_numbers(given, sum(given)), self._of_tables):
            self.results.left -= 1
            yield each

    @cached_property
    def _of_tables(self) -> list[Derived]:
        found: list[Derived] = []
        beside: dict[int, list[float]] = {}
        for t, table in enumerate(self.results.tables):
            mentions = self.mentions.get(t, ())
            rows = {m.row for m in mentions}
            found += islice(of_table(table, rows), max(0, self.results.left - len(found)))
            for m in mentions:  # what several tables say of one name
                beside.setdefault(m.start, []).extend(v for _, v in table[m.row].cells)
        found += (each for some in beside.values() for each in of_numbers(some[:8], sum(some)))
        return found


def _near(
    n: Numeral, candidates: Iterable[Derived], divisors: Sequence[float] = (1.0,)
) -> float | None:
    """The first of ``candidates`` that is ``n``; a share is a ratio, what is scaled is none."""
    by = 100 if n.percent else 1
    bounds = [(v.number / by, (0.51 * v.unit + 1e-9 * v.number) / by) for v in n.values]
    for is_ratio, value in candidates:
        if n.percent != is_ratio and (n.percent or n.scaled):
            continue
        for divisor in divisors if not n.percent else divisors[:1]:
            for number, slack in bounds if not n.percent else bounds[:1]:
                if abs(abs(value) / divisor - number) <= slack:
                    return value / divisor
    return None


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
    words = re.split(r"[\W_]+", column.casefold())
    said = frozenset(
        w for w in words if len(w) > 2 and w not in numerals.UNITS and w not in _NO_COLUMNS
    )
    return said or frozenset(words)


def _floats(text: str) -> list[float]:
    """Every number of ``text``, sorted."""
    digits = text.encode(errors="replace").translate(_DIGITS)
    tokens = set(digits.replace(b". ", b" ").replace(b", ", b" ").split())
    marked = {each for each in tokens if b"," in each or each.count(b".") > 1 or each == b"."}
    found = list(map(float, tokens - marked))
    for token in marked:
        each = token.decode().strip(".,") or "0"
        found += [value.number for value in numerals.readings(each)]
        found += map(float, re.findall(r"\d+(?:\.\d+)?", each))
    return sorted(found)


def _within(values: Sequence[Any], v: Value, key: Callable[[Any], float], *, cut: bool) -> Any:
    """Some of ``values``, which are sorted, that are ``v`` rounded, or cut off."""
    number, slack = abs(v.number), 1e-9 * abs(v.number) + 1e-12
    low = bisect_left(values, number - v.unit / 2 - slack, key=key)
    high = bisect_right(values, number + v.unit * (1 - 1e-9 if cut else 0.5) + slack, key=key)
    return values[low : min(high, low + 50)]
