"""Which numbers of a text the results of a run support.

A number is supported as it stands in a result, rounded, scaled or in another unit, and as what
follows from one table, or from the numbers said beside it: sums, means, shares, differences,
ratios and squares. One that stands only in another row or column than those named beside it is
not.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain, combinations, groupby, islice, permutations
from math import inf
from typing import Any, NamedTuple

from parsimony_kernel.gate.numerals import PERCENT, Numeral, amounts, is_year, pattern, plain

# Characters of the newest results that are read as tables, and of those before them that are read
# for their numbers.
MAX_READ, MAX_LOOSE = 20_000, 80_000
# Lines of a result; numbers derived for one text; rows that are derived from, and values of which
# every sum is.
MAX_LINES, MAX_DERIVED, MAX_ROWS, FEW = 600, 12_000, 60, 8

SUPPOSED, _OTHERS, _YEARS = pattern("supposed"), pattern("others"), pattern("years")
_NO_LABEL, _EACH = pattern("no_label"), pattern("each")
_SENTENCE = re.compile(r"(?<!\s[A-Z]\.)(?<!^[A-Z]\.)(?<=[.!?])\s+(?=[^\da-z])|\n+|;\s")
_CLAUSE = re.compile(r"[,;]\s|\)")
_DIGITS = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PRINTED = re.compile(
    r"(?<![\w.,/:-])(?:[-+−]?[$€£]?([0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)%?|NaN|None|<NA>)"
    r"(?![\w/:-]|\.\d)"
)

# The row of a number in words, and of one without a label: it may be of any.
NOWHERE = -1

# Numbers by column, which is counted from the right, below 0, or among words from the left.
Row = dict[int, float]
# Plain numbers, ratios, and all that follow from others, each sorted.
Derived = list[list[float]]


class Cell(NamedTuple):
    """A number of a table, and where it stands."""

    value: float
    table: int
    row: int
    column: int


class Mention(NamedTuple):
    """Where a sentence names a line of a table: a row, or a column, which is below 0."""

    start: int
    end: int
    table: int
    line: int


class Results:
    """What a run has shown.

    Args:
        texts: what tools answered, the newest last.
        words: what the person wrote and the code that ran, whose numbers count as shown.
    """

    def __init__(self, texts: Sequence[str], words: Iterable[str] = ()) -> None:
        self.derivations_left = MAX_DERIVED
        read = sum(total <= MAX_READ for total in accumulate(map(len, reversed(texts))))
        older, newest = texts[: len(texts) - read], texts[len(texts) - read :]
        held = [table for text in newest for table in _tables(text)]
        self.tables = [[row for _, row in table] for table in held]
        self._names = [(name, t, at) for t, table in enumerate(held) for name, at in _names(table)]
        self._cells = sorted(
            Cell(abs(value), t, r if labels and at < 0 else NOWHERE, at)
            for t, table in enumerate(held)
            for r, (labels, row) in enumerate(table)
            for at, value in row.items()
        )
        loose = "\n".join((*words, *(name for name, *_ in self._names), *reversed(older)))
        digits = _DIGITS.findall(loose[:MAX_LOOSE].replace(",", ""))
        self._loose = sorted(map(float, {*digits}))

    def is_loose(self, n: Numeral) -> bool:
        """Whether ``n`` stands where nothing says what it is about."""
        return any(_within(self._loose, *v) for v in n.values)

    def cells_of(self, n: Numeral) -> list[Cell]:
        """The cells that ``n`` is when they are rounded, or cut off."""
        return [*chain(*(_within(self._cells, *v, key=lambda cell: cell[0]) for v in n.values))]

    def mentions(self, sentence: str) -> list[Mention]:
        """The rows and columns that ``sentence`` names."""
        lower = sentence.casefold()
        return [
            Mention(*at.span(), table, line)
            for name, table, line in self._names
            if name[:3].strip("/.").casefold() in lower
            for at in _form_of(name).finditer(sentence)
        ]

    def derive(self, *rows: Iterator[tuple[bool, float]]) -> Derived:
        """Sort what is derived, as far as there is time."""
        kinds: Derived = [[], []]
        for is_ratio, value in islice(chain(*rows), max(0, self.derivations_left)):
            self.derivations_left -= 1
            if abs(value) < inf:  # nor what is no number
                kinds[is_ratio].append(abs(value))
        return [*map(sorted, (*kinds, chain(*kinds)))]


def unsupported(text: str, results: Results) -> list[str]:
    """Find the numbers of a text that nothing supports.

    Args:
        text: a summary or a report, in English, German, French or Spanish.
        results: what the run has shown; at most ``MAX_DERIVED`` numbers are derived from it.

    Returns:
        The numbers, each once, in their order.
    """
    found: list[str] = []
    said: list[float] = []
    for sentence in _SENTENCE.split(plain(text)):
        found += _Sentence(sentence, results, said, PERCENT.search(text) is not None).unsupported()
        del said[:-8]
    return list(dict.fromkeys(found))


class _Sentence:
    """A sentence, with the numbers that were said before and are ``said`` in it."""

    def __init__(self, text: str, results: Results, said: list[float], is_share: bool) -> None:
        self.text, self.said, self._results = text, said, results
        self._mentions = results.mentions(text)
        self._numerals = [
            n
            for n in amounts(text, percent=is_share)
            if not any(m.start <= n.start < m.end for m in self._mentions)
        ]

    def unsupported(self) -> Iterator[str]:
        unseen = []
        for n in self._numerals:
            cells, is_loose = self._results.cells_of(n), self._results.is_loose(n)
            if n.is_claim and not (cells or is_loose or SUPPOSED.search(self.text)):
                unseen.append(n)
                continue
            if cells and n.digits > 1 and not is_loose and self._is_misplaced(n, cells):
                yield n.text
            self.said.append(n.number / 100 if n.kind == 1 else n.number)
        named = _by_table(m for m in self._mentions if m.line >= 0)
        tables = self._results.tables
        for _ in range(2 if unseen else 0):  # what is said first may follow from what is said last
            follows = (_follows(rows, named.get(t, ())) for t, rows in enumerate(tables))
            derived = self._derived(follows)
            for n in [*unseen]:
                if (value := self._value(n, derived)) is not None:
                    unseen.remove(n)
                    self.said += [value, n.number]
        yield from (n.text for n in unseen)

    def _is_misplaced(self, n: Numeral, cells: list[Cell]) -> bool:
        """Whether ``n`` stands only in other rows or columns than those named last before it and
        first behind it, and does not follow from them. Beside one of theirs it compares."""
        order: list[Any] = sorted((*self._mentions, *self._numerals), key=lambda each: each.start)
        runs = [[], *(list(run) for _, run in groupby(order, key=type)), []]
        at = next(i for i, run in enumerate(runs) if n in run)
        before, behind = runs[at - 1], runs[at + 1]
        near = [m for m in before if m.line >= 0]
        next_to = [m for m in behind if m.line >= 0]
        if near or not (next_to and _CLAUSE.search(self.text, n.start, next_to[0].start)):
            near += next_to
        rows = {} if _OTHERS.search(self.text) else _by_table(near)
        columns = _by_table(self._columns(n, before + behind))
        others = chain(*(self._results.cells_of(m) for m in runs[at] if m != n))

        def fits(cell: Cell) -> bool:
            is_of_column = cell.column in columns.get(cell.table, (cell.column,))
            is_of_row = cell.row in rows.get(cell.table, (cell.row,))
            return cell.row == NOWHERE or (is_of_row and is_of_column)

        if any(map(fits, cells)) or any(c.row in rows.get(c.table, ()) for c in others):
            return False
        parts = (
            _follows(_part(self._results.tables[t], rows.get(t), columns.get(t)))
            for t in {*rows, *columns}
        )
        return self._value(n, self._derived(parts)) is None

    def _columns(self, n: Numeral, mentions: Iterable[Mention]) -> list[Mention]:
        """Those ``mentions`` that name the column of ``n``: in its clause, no number between. A
        sentence may be about counted things, or tell so many of one for each other."""
        found = []
        for m in mentions:
            first, last = sorted((m.start, n.start))
            is_apart = any(first < o.start < last for o in self._numerals)
            if m.line < 0 and not is_apart and not _CLAUSE.search(self.text, first, last):
                column = (row.get(m.line, 0.0) for row in self._results.tables[m.table])
                if first == m.start and all(map(float.is_integer, column)):
                    return []
                found.append(m)
        return [] if n.kind == 1 or _EACH.search(self.text) else found

    def _derived(self, follows: Iterable[Iterator[tuple[bool, float]]]) -> Derived:
        """What follows from what was said last, and what ``follows`` from tables."""
        said = [*dict.fromkeys(self.said)][-6:]
        return self._results.derive(_derive(said), *follows)

    def _value(self, n: Numeral, derived: Derived) -> float | None:
        """The number, or ratio, that ``n`` is, also a month or a year of it; ``None`` for none."""
        if self._results.derivations_left <= 0:  # more than can be derived in time is supported
            return n.number
        if n.kind == 1:
            number, unit = n.values[0]
            found = _within(derived[1], number / 100, unit / 100, cut=0.51)
            return found[0] if found else None
        for by in (1.0, *(12.0, 1 / 12) * bool(_YEARS.search(self.text))):
            for number, unit in n.values:
                if found := _within(derived[n.kind], number * by, unit * by, cut=0.51):
                    return float(found[0]) / by
        return None


def _by_table(mentions: Iterable[Mention]) -> dict[int, set[int]]:
    """The lines that are named, by table."""
    named: dict[int, set[int]] = {}
    for m in mentions:
        named.setdefault(m.table, set()).add(m.line)
    return named


def _names(table: list[tuple[list[str], Row]]) -> Iterator[tuple[str, int]]:
    """What the rows, and the columns with numbers, of a table are called."""
    rows = {label for labels, row in table if row for label in labels}
    columns = {at for _, row in table for at in row}
    for r, (labels, row) in enumerate(table):
        for at, label in enumerate(labels, -len(labels)):
            if row:
                yield label, r
            elif at in columns and label not in rows:
                yield label, at


def _part(rows: list[Row], named: set[int] | None, columns: set[int] | None) -> list[Row]:
    """Some rows and columns of a table, ``None`` for all."""
    return [
        {at: value for at, value in row.items() if columns is None or at in columns}
        for r, row in enumerate(rows)
        if named is None or r in named
    ]


@lru_cache(maxsize=2_000)
def _form_of(label: str) -> re.Pattern[str]:
    """``label`` with endings; its first word may stand for all, and short capitals are names."""
    words = re.findall(r"[^\W_]+", label)
    if not words or _NO_LABEL.fullmatch(label) or (label.isdigit() and not is_year(label)):
        return re.compile("(?!)")
    forms = [
        f"(?-i:{word})" if len(word) <= 3 and word.isupper() else rf"{word}[^\W_]{{0,3}}"
        for word in words
    ]
    more = "".join(rf"[\W_]+{form}" for form in forms[1:])
    optional = "?" * (len(words[0]) > 3 and not _NO_LABEL.fullmatch(words[0]))
    return re.compile(rf"(?<!\w){forms[0]}(?:{more}){optional}(?!\w)", re.IGNORECASE)


def _within(
    values: Sequence[Any], number: float, unit: float, *, cut: float = 1.0, key: Any = None
) -> Sequence[Any]:
    """Some of ``values``, which are sorted, that are ``number`` when rounded, or when cut off."""
    number, slack = abs(number), 1e-9 * abs(number) + 1e-12
    low = bisect_left(values, number - unit / 2 - slack, key=key)
    high = bisect_right(values, number + unit * cut + slack, key=key)
    return values[low : min(high, low + 50)]


def _tables(text: str) -> list[list[tuple[list[str], Row]]]:
    """The runs of lines with numbers in one result: printed text, alone or within JSON."""
    found: list[list[tuple[list[str], Row]]] = [[]]
    lines = re.sub(r'\\n|": "|[{[]', "\n", text).replace("\\t", "\t").splitlines()
    for line in lines[:MAX_LINES]:
        is_csv = "," in line and not re.search(r"\s", line)
        spaced = re.sub(r"[|│┆\t]", "  ", line.replace(",", "  ") if is_csv else line)
        if _PRINTED.search(spaced):
            labels, row = _row(spaced)
            if found[-1] and found[-1][-1][1] and line[:1] == " ":  # an outer label is printed once
                outer = found[-1][-1][0]
                labels = outer[: max(0, len(outer) - len(labels))] + labels
            found[-1].append((labels, row))
        elif header := re.findall(r"[^\W_](?:\S|\s(?!\s))*", spaced):
            if not found[-1] or found[-1][-1][1]:
                found.append([(header, {})])
            elif len(header) > len(found[-1][0][0]):
                found[-1] = [(header, {})]
    return found


def _row(line: str) -> tuple[list[str], Row]:
    """The labels and numbers of a line: of a table, or words with numbers in them."""
    parts = [(part or "").strip(" :=,*`") for part in _PRINTED.split(line)]
    words, numbers = parts[::2], parts[1::2]
    labels = [each for part in words for each in re.split(r"\s{2,}", part) if each]
    is_numbered = not words[0] and any(words[1:2])
    if is_numbered or (len(numbers) > 1 and is_year(numbers[0])):  # the name of a row
        labels.append(numbers.pop(0))
        del words[:is_numbered]
    is_table = "  " in line.strip() and not any(words[1:])
    values = enumerate(numbers, -len(numbers) if is_table else 0)
    return labels, {at: float(each.replace(",", "")) for at, each in values if each}


def _follows(rows: list[Row], named: Iterable[int] = ()) -> Iterator[tuple[bool, float]]:
    """What follows from the columns and rows of a table, of which those ``named`` are spoken of,
    none meaning all."""
    rows = rows[:MAX_ROWS]
    chosen = [rows[r] for r in sorted(named) if r < len(rows)] or rows
    sums = []
    for place in islice(dict.fromkeys(chain(*rows)), FEW):
        column, some = ([row[place] for row in of if place in row] for of in (rows, chosen))
        sums.append(sum(some))
        yield from _derive(some, sum(column))
        if chosen is not rows and len(column) <= FEW:
            yield from _derive([*column, sum(column) - sum(some)], sum(column))
    for row in chosen:
        yield from _derive([*row.values()][:FEW])
    yield from _derive(sums)


def _derive(values: Sequence[float], total: float | None = None) -> Iterator[tuple[bool, float]]:
    """What follows from numbers of one kind, which are a part of ``total``; ratios are ``True``."""
    few, whole = len(values) <= FEW, total or sum(values) or 1.0
    ends = [*values[:1], *values[-1:], min(values, default=0.0), max(values, default=0.0)]
    for value in values:
        yield from ((True, value / whole), (False, value * value), (True, value * value))
        yield False, abs(value) ** 0.5
    some = (each for k in range(2, len(values) + 1) for each in combinations(values, k))
    sums = ((len(each), sum(each)) for each in some) if few else enumerate(accumulate(values), 1)
    for count, each in sums:
        yield from ((True, each / whole), (False, each), (False, each / count))
    for a, b in permutations(values if few else ends, 2):
        yield from ((False, a - b), (True, a - b), (True, (a - b) / 100))
        if b:
            yield from ((True, a / b), (True, a / b - 1))
