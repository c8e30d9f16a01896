"""Which numbers of a text the results of a run support.

A number is supported as it stands in a result, rounded, scaled or in another unit, and as what
follows from one table, or from the numbers said beside it: sums, means, shares, differences,
ratios and squares. One that stands only in another row or column than those named beside it is
not.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, combinations, groupby, islice, permutations
from math import isfinite
from typing import Any, NamedTuple

from parsimony_kernel.gate.numerals import Numeral, amounts, is_year, pattern, plain

# Characters of the newest results that are read as tables, and of those before them that are read
# for their numbers.
MAX_READ, MAX_LOOSE = 20_000, 80_000
# Numbers of a sentence; lines of a result; numbers derived for one text; rows that are derived
# from, and values of a column and of a row of which every sum is.
MAX_NUMBERS, MAX_LINES, MAX_DERIVED, MAX_ROWS, FEW, FEW_COLUMNS = 200, 600, 12_000, 60, 8, 5

SUPPOSED, _OTHERS, _NO_LABEL = pattern("supposed"), pattern("others"), pattern("no_label")
_SENTENCE = re.compile(r"(?<!\s[A-Z]\.)(?<!^[A-Z]\.)(?<=[.!?])\s+(?=[^\da-z])|\n+|;\s")
_DIGITS = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PRINTED = re.compile(
    r"(?<![\w.,/:-])(?:[-+−]?[$€£]?([0-9][0-9,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)%?|NaN|None|<NA>)"
    r"(?![\w/:-]|\.\d)"
)

# The row of a number in words, and of one without a label: it may be of any.
NOWHERE = -1

# Numbers by column, which is counted from the right, below 0, or among words from the left.
Row = dict[int, float]
# Some rows of tables, by table.
Parts = dict[int, list[Row]]
# A row with its labels; that of a header has no numbers.
Line = tuple[list[str], Row]


class Cell(NamedTuple):
    """A number of a table, and where it stands."""

    value: float
    table: int
    row: int
    column: int


# A number where nothing says what it is about.
_ANYWHERE = Cell(0.0, -1, NOWHERE, 0)


class Mention(NamedTuple):
    """Where a sentence names a line of a table: a row, or a column, which is below 0."""

    start: int
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
        loose = "\n".join((*words, *(name for name, *_ in self._names), *reversed(older)))
        digits = {*_DIGITS.findall(loose[:MAX_LOOSE].replace(",", ""))}
        self._loose = sorted(map(float, digits))
        self._cells = sorted(
            Cell(abs(value), t, r if at < 0 else NOWHERE, at)
            for t, table in enumerate(self.tables)
            for r, row in enumerate(table)
            for at, value in row.items()
        )

    def cells_of(self, n: Numeral) -> list[Cell]:
        """The cells that ``n`` is when they are rounded, or cut off."""
        if any(_within(self._loose, *v) for v in n.values):
            return [_ANYWHERE]
        return [*chain(*(_within(self._cells, *v, key=lambda cell: cell[0]) for v in n.values))]

    def mentions(self, sentence: str) -> list[Mention]:
        """The rows and columns that ``sentence`` names."""
        lower = sentence.casefold()
        return [
            Mention(at.start(), table, line)
            for name, table, line in self._names
            if name[:3].strip("/.").casefold() in lower
            for at in _form_of(name).finditer(sentence)
        ]

    def counts(self, m: Mention) -> bool:
        """Whether ``m`` names a column of whole numbers."""
        rows = self.tables[m.table]
        return m.line < 0 and all(row.get(m.line, 0.0).is_integer() for row in rows)

    def parts(self, mentions: Iterable[Mention]) -> Parts:
        """The named rows and columns by table, all where none is named; other rows are empty."""
        named: dict[int, set[int]] = {}
        for m in mentions:
            named.setdefault(m.table, set()).add(m.line)
        return {table: _part(self.tables[table], lines) for table, lines in named.items()}

    @cached_property
    def _derived(self) -> list[float]:
        """What follows from the tables."""
        return self._sorted(chain(*map(_follows, self.tables, self.tables)))

    def value_of(
        self, n: Numeral, said: Sequence[float], parts: Parts, *, anywhere: bool
    ) -> float | None:
        """The number that ``n`` is among those that follow from what was ``said`` last, from
        ``parts`` of tables, or from anything that was shown; ``None`` for none.

        More than can be derived in time is supported.
        """
        follow = (_follows(rows, self.tables[table]) for table, rows in parts.items())
        near = self._sorted(chain(_derive([*dict.fromkeys(said)][-6:]), *follow))
        derived = (near, self._derived) if anywhere else (near,)
        if self.derivations_left <= 0:
            return n.number
        return next(chain(*(_within(each, *v) for each in derived for v in n.values)), None)

    def _sorted(self, follows: Iterable[float]) -> list[float]:
        found = [abs(each) for each in islice(follows, max(0, self.derivations_left))]
        self.derivations_left -= len(found)
        return sorted(filter(isfinite, found))


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
        mentions, unseen = results.mentions(sentence), []
        shown = {n: results.cells_of(n) for n in islice(amounts(sentence), MAX_NUMBERS)}
        for n, cells in shown.items():
            if n.is_claim and not cells:
                unseen.append(n)
                continue
            if _is_misplaced(n, shown, mentions, results, said) and not _OTHERS.search(sentence):
                found.append(n.text)
            said.append(n.number)
        spoken_of = results.parts(m for m in mentions if m.line >= 0) if unseen else {}
        for n in (*unseen, *unseen):  # what is said first may follow from what is said last
            value = results.value_of(n, said, spoken_of, anywhere=True)
            if n in unseen and value is not None:
                unseen.remove(n)
                said += [value, n.number]
        found += (n.text for n in unseen if not SUPPOSED.search(sentence))
        del said[:-8]
    return list(dict.fromkeys(found))


def _is_misplaced(
    n: Numeral,
    shown: Mapping[Numeral, Sequence[Cell]],
    mentions: Sequence[Mention],
    results: Results,
    said: Sequence[float],
) -> bool:
    """Whether ``n`` stands only in other rows or columns than those named last before it and
    first behind it, and does not follow from them. Beside one of theirs it compares."""
    before, numbers, behind = _around(n, shown, [m for m in mentions if m.line >= 0])
    subjects, _, columns = _around(n, shown, [m for m in mentions if m.line < 0])
    # "Orders of DHL are worth …": a column of counts tells what is spoken of.
    columns += (m for m in subjects if not results.counts(m))
    taken = {(c.table, c.column) for other, cells in shown.items() for c in cells if other != n}
    columns = [m for m in columns if m[1:] not in taken]  # not another number's column
    parts = results.parts((*before, *behind, *columns))

    def is_of(cell: Cell) -> bool:
        return cell.table in parts and cell.column in parts[cell.table][cell.row]

    cells = shown[n]
    if not cells or any(c.row == NOWHERE or c.table not in parts for c in cells):
        return False
    if any(is_of(cell) for each in numbers for cell in shown[each]):
        return False
    return results.value_of(n, said, parts, anywhere=False) is None


def _around(
    n: Numeral, shown: Iterable[Numeral], mentions: Sequence[Mention]
) -> tuple[list[Mention], list[Numeral], list[Mention]]:
    """The mentions last before ``n``, the numbers between, and the mentions first behind it."""
    order: list[Any] = sorted((*mentions, *shown), key=lambda each: each.start)
    runs = [[], *(list(run) for _, run in groupby(order, key=type)), []]
    at = next(i for i, run in enumerate(runs) if n in run)
    return runs[at - 1], runs[at], runs[at + 1]


def _part(rows: list[Row], lines: set[int]) -> list[Row]:
    named, columns = {e for e in lines if e >= 0}, {e for e in lines if e < 0}
    return [
        {at: value for at, value in row.items() if at in (columns or row)}
        if r in named or not named
        else {}
        for r, row in enumerate(rows)
    ]


def _names(table: list[Line]) -> Iterator[tuple[str, int]]:
    """What the rows, and the columns with numbers, of a table are called."""
    columns = {at for _, row in table for at in row}
    for r, (labels, row) in enumerate(table):
        for at, label in enumerate(labels, -len(labels)):
            if row or at in columns:
                yield label, r if row else at


@lru_cache(maxsize=2_000)
def _form_of(label: str) -> re.Pattern[str]:
    """``label`` with endings; its first word may stand for all."""
    words = re.findall(r"[^\W_]+", label)
    if not words or _NO_LABEL.fullmatch(label) or (label.isdigit() and not is_year(label)):
        return re.compile("(?!)")
    first, *more = (rf"{word}[^\W_]{{0,3}}" for word in words)
    rest = "".join(rf"[\W_]+{form}" for form in more)
    optional = "?" * (len(words[0]) > 3 and not _NO_LABEL.fullmatch(words[0]))
    return re.compile(rf"(?<!\w){first}(?:{rest}){optional}(?!\w)", re.IGNORECASE)


def _within(values: Sequence[Any], number: float, unit: float, *, key: Any = None) -> Sequence[Any]:
    """Some of ``values``, which are sorted, that are ``number`` when rounded, or when cut off."""
    number, slack = abs(number), 1e-9 * abs(number) + 1e-12
    low = bisect_left(values, number - unit / 2 - slack, key=key)
    high = bisect_right(values, number + unit + slack, key=key)
    return values[low : min(high, low + 50)]


def _tables(text: str) -> list[list[Line]]:
    """The runs of lines with numbers in one result: printed text, alone or within JSON."""
    found: list[list[Line]] = [[]]
    lines = re.sub(r'\\n|": "|[{[]', "\n", text).replace("\\t", "\t").splitlines()
    for line in lines[:MAX_LINES]:
        is_csv = "," in line and not re.search(r"\s", line)
        spaced = re.sub(r"[|│┆\t]", "  ", line.replace(",", "  ") if is_csv else line)
        if _PRINTED.search(spaced):
            found[-1].append(_row(spaced))
        elif header := re.findall(r"[^\W_](?:\S|\s(?!\s))*", spaced):
            if not found[-1] or found[-1][-1][1]:
                found.append([(header, {})])
            elif len(header) > len(found[-1][0][0]):
                found[-1] = [(header, {})]
    return found


def _row(line: str) -> Line:
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


def _follows(rows: list[Row], table: list[Row]) -> Iterator[float]:
    """What follows from the columns and rows of a table, or of a part of it."""
    rows = [*filter(None, rows)][:MAX_ROWS]
    sums = []
    for at in dict.fromkeys(chain(*rows)):
        column = [row[at] for row in rows if at in row]
        yield from _derive(column, sum(row.get(at, 0.0) for row in table))
        sums.append(sum(column))
    for few in (*([*row.values()][:FEW_COLUMNS] for row in rows), sums):
        yield from _derive(few)


def _derive(values: Sequence[float], total: float = 0.0) -> Iterator[float]:
    """What follows from numbers of one kind, which are a part of ``total``."""
    whole = total or sum(values) or 1.0
    for value in values:
        yield from (value / whole, value * value, abs(value) ** 0.5)
    sizes = range(2, len(values) + 1) if len(values) <= FEW else [len(values)]
    for some in chain(*(combinations(values, size) for size in sizes)):
        yield from (sum(some), sum(some) / whole, sum(some) / len(some))
    for a, b in permutations(values[:FEW], 2):
        yield a - b
        if b:
            yield from (a / b, a / b - 1)
