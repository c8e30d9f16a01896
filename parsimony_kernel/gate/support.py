"""Which numbers of a text the results of a run support.

A number is supported as it stands in a result, rounded, scaled or in another unit, and as what
follows from one table, or from the numbers said beside it: sums, means, shares, differences,
ratios and squares. One that stands only in another row or column than those named beside it is
not.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, combinations, groupby, islice, permutations
from typing import Any, NamedTuple

from parsimony_kernel.gate.numerals import PATTERNS, Numeral, amounts, is_year, plain

# Characters of the newest results that are read as tables, and of those before them that are read
# for their numbers.
MAX_READ, MAX_LOOSE = 20_000, 80_000
# Numbers of a sentence, and of a text that are not found; lines of a result.
MAX_NUMBERS, MAX_FOUND, MAX_LINES = 200, 16, 600
# Numbers derived at once, and equal ones of them; values whose share is, and whose every sum is.
MAX_DERIVED, MAX_EQUAL, MANY, FEW = 6_000, 50, 60, 8

# A table, counted from 1, or numbers among words, below 0; and a row of it, or a column, counted
# from the right and below 0.
Line = tuple[int, int]
# The labels and the numbers of a line, and whether it is one of a table.
Row = tuple[list[str], list[str], bool]


class Cell(NamedTuple):
    """A number of a table, and where it stands."""

    value: float
    row: Line
    column: Line


# A number where nothing says what it is about.
_ANYWHERE = Cell(0.0, (0, 0), (0, -1))


class Mention(NamedTuple):
    """Where a sentence names a row or a column."""

    start: int
    line: Line


class Results:
    """What a run has shown.

    Args:
        texts: what tools answered, the newest last.
        words: what the person wrote and the code that ran, whose numbers count as shown.
    """

    def __init__(self, texts: Sequence[str], words: Iterable[str] = ()) -> None:
        read = sum(total <= MAX_READ for total in accumulate(map(len, reversed(texts))))
        older, newest = texts[: len(texts) - read], texts[len(texts) - read :]
        labels: list[tuple[str, Line]] = []
        self._cells: list[Cell] = []
        for table, (header, rows) in enumerate(chain(*map(_tables, newest)), start=1):
            for r, (names, numbers, is_table) in enumerate(rows):
                home = table if is_table else -table
                labels += ((name, (home, r)) for name in names)
                for at, number in enumerate(numbers, -len(numbers)):
                    if number:
                        value = float(re.sub("[,$€£]", "", number.replace("−", "-")))
                        self._cells.append(Cell(value, (home, r), (home, at)))
            labels += ((name, (table, at)) for at, name in enumerate(header, -len(header)))
        self._lines = _by_line(self._cells)
        self.labels = [(name, line) for name, line in labels if line in self._lines]
        loose = "\n".join((*words, *(name for name, _ in self.labels), *reversed(older)))
        digits = PATTERNS["digits"].findall(loose[:MAX_LOOSE].replace(",", ""))
        self._loose = sorted(map(float, {*digits}))
        self._shown: dict[float, list[Cell]] = defaultdict(list)
        for cell in self._cells:
            self._shown[abs(cell.value)].append(cell)
        self._sizes = sorted(self._shown)
        self._near: dict[frozenset[Cell], list[float]] = {}

    def cells_of(self, n: Numeral) -> list[Cell]:
        """The cells that ``n`` is when they are rounded, or cut off."""
        if _among(self._loose, n):
            return [_ANYWHERE]
        return [cell for size in _among(self._sizes, n) for cell in self._shown[size]]

    def part(self, mentions: Iterable[Mention]) -> set[Cell]:
        """The cells of the rows and columns that are named, or where they cross."""
        named = {m.line for m in mentions}
        cells = {cell for line in named for cell in self._lines[line]}
        crossing = {cell for cell in cells if cell.row in named and cell.column in named}
        tables = {cell.row[0] for cell in crossing}
        return crossing | {cell for cell in cells if cell.row[0] not in tables}

    @cached_property
    def derived(self) -> list[float]:
        """The sizes of what follows from the tables, sorted."""
        return _sizes(self._follow(self._cells))

    def near(self, n: Numeral, said: Sequence[float], part: Iterable[Cell]) -> list[float]:
        """What ``n`` is of the numbers that follow from those ``said`` last, or from a ``part``."""
        last, key = [*dict.fromkeys(said)][-6:], frozenset(part)
        if key not in self._near:  # a sentence asks for the same part again and again
            self._near[key] = _sizes(self._follow(sorted(key)))
        return _among(_sizes(_derive(last, sum(last))), n) or _among(self._near[key], n)

    def _follow(self, cells: Iterable[Cell]) -> Iterator[float]:
        """What follows from ``cells``: by column, by row, and from the sums of columns."""
        sums: dict[int, list[float]] = defaultdict(list)
        for line, on in sorted(_by_line(cells).items(), key=lambda each: each[0][1]):
            values = [cell.value for cell in on]
            if line[1] < 0:
                sums[line[0]].append(sum(values))
            yield from _derive(values, sum(cell.value for cell in self._lines[line]))
        for values in sums.values():
            yield from _derive(values, sum(values))


class Sentence:
    """What a sentence says of results: its numbers, and the rows and columns that it names."""

    def __init__(self, text: str, results: Results) -> None:
        lower = text.casefold()
        self.results = results
        self.mentions = [
            Mention(at.start(), line)
            for name, line in results.labels
            if name[:3].strip("/.").casefold() in lower
            for at in _form_of(name).finditer(text)
        ]
        self.shown = {n: results.cells_of(n) for n in islice(amounts(text), MAX_NUMBERS)}

    def is_misplaced(self, n: Numeral, said: Sequence[float]) -> bool:
        """Whether ``n`` stands only in other rows or columns than those named last before it and
        first behind it, and does not follow from them. Beside one of theirs it compares."""
        rows, beside = self._around(n, [m for m in self.mentions if m.line[1] >= 0])
        columns, _ = self._around(n, [m for m in self.mentions if m.line[1] < 0])
        tables = {m.line[0] for m in (*rows, *columns) if m.line[0] > 0}
        part = self.results.part((*rows, *columns))
        said = [*said, *(other.number for other in self.shown if other != n)]
        return (
            bool(self.shown[n])
            and all(cell.row[0] in tables for cell in self.shown[n])
            and part.isdisjoint(cell for each in beside for cell in self.shown[each])
            and not self.results.near(n, said, part)
        )

    def _around(self, n: Numeral, mentions: list[Mention]) -> tuple[list[Mention], list[Numeral]]:
        """The mentions last before ``n`` and first behind it, and the numbers between them."""
        order: list[Any] = sorted((*mentions, *self.shown), key=lambda each: each.start)
        runs = [[], *(list(run) for _, run in groupby(order, key=type)), []]
        at = next(i for i, run in enumerate(runs) if n in run)
        return [*runs[at - 1], *runs[at + 1]], runs[at]


def unsupported(text: str, results: Results) -> list[str]:
    """Find the numbers of a text that nothing supports.

    Args:
        text: a summary or a report, in English, German, French or Spanish.
        results: what the run has shown.

    Returns:
        The numbers, each once, in their order.
    """
    found: list[str] = []
    said: list[float] = []
    for words in PATTERNS["sentence"].split(plain(text)):
        sentence = Sentence(words, results)
        unseen = [n for n, cells in sentence.shown.items() if n.is_claim and not cells]
        seen = [n for n in sentence.shown if n not in unseen]
        if not PATTERNS["others"].search(words):
            found += (n.text for n in seen if sentence.is_misplaced(n, said))
        said += (n.number for n in seen)
        part = results.part(m for m in sentence.mentions if unseen and m.line[1] >= 0)
        for n in unseen * 2:  # what is said first may follow from what is said last
            values = _among(results.derived, n) or results.near(n, said, part)
            if n in unseen and values:
                unseen.remove(n)
                said += [values[0], n.number]
        found += (n.text for n in unseen if not PATTERNS["supposed"].search(words))
        del said[:-8]
        if len(found) > MAX_FOUND:
            break
    return list(dict.fromkeys(found))


@lru_cache(maxsize=2_000)
def _form_of(label: str) -> re.Pattern[str]:
    """``label`` with endings; its first word may stand for all."""
    words, vague = re.findall(r"[^\W_]+", label), PATTERNS["no_label"]
    if not words or vague.fullmatch(label) or (label.isdigit() and not is_year(label)):
        return re.compile("(?!)")
    first, *more = (rf"{word}[^\W_]{{0,3}}" for word in words)
    rest = "".join(rf"[\W_]+{form}" for form in more)
    optional = "?" * (len(words[0]) > 3 and not vague.fullmatch(words[0]))
    return re.compile(rf"(?<!\w){first}(?:{rest}){optional}(?!\w)", re.IGNORECASE)


def _tables(text: str) -> Iterator[tuple[list[str], list[Row]]]:
    """The header and the rows of each run of lines with numbers in one result, which is printed
    text, alone or within JSON."""
    header, rows = list[str](), list[Row]()
    lines = re.sub(r'\\n|": "|[{[]', "\n", text).replace("\\t", "\t").splitlines()
    for line in lines[:MAX_LINES]:
        is_csv = "," in line and not re.search(r"\s", line)
        spaced = re.sub(r"[|│┆\t]", "  ", line.replace(",", "  ") if is_csv else line)
        if PATTERNS["printed"].search(spaced):
            rows.append(_row(spaced))
        elif words := re.findall(r"[^\W_](?:\S|\s(?!\s))*", spaced):
            if rows:
                yield header, rows
                header, rows = [], []
            header = max(header, words, key=len)
    yield header, rows


def _row(line: str) -> Row:
    """Read a line of a table, or of words with numbers in them."""
    parts = [(part or "").strip(" :=,*`") for part in PATTERNS["printed"].split(line)]
    words, numbers = parts[::2], parts[1::2]
    labels = [each for part in words for each in re.split(r"\s{2,}", part) if each]
    is_spaced = "  " in line.strip()
    if is_spaced and not words[0] and len(numbers) > 1 and numbers[0].isdigit():
        labels.append(numbers.pop(0))  # the name of the row
        del words[0]
    return labels, numbers, is_spaced and not any(words[1:])


def _by_line(cells: Iterable[Cell]) -> dict[Line, list[Cell]]:
    lines: dict[Line, list[Cell]] = defaultdict(list)
    for cell in cells:
        lines[cell.column].append(cell)
        lines[cell.row].append(cell)
    return lines


def _derive(values: Sequence[float], whole: float) -> Iterator[float]:
    """What follows from numbers of one kind, which are a part of ``whole``."""
    whole = whole or 1.0
    for value in values[:MANY]:
        yield from (value / whole, value * value, abs(value) ** 0.5)
    sizes = range(2, len(values) + 1) if len(values) <= FEW else [len(values)]
    for some in chain(*(combinations(values, size) for size in sizes)):
        yield from (sum(some), sum(some) / whole, sum(some) / len(some))
    for a, b in permutations(values[:FEW], 2):
        ratio = a / (b or 1.0)
        yield from (a - b, ratio, ratio - 1)


def _sizes(values: Iterable[float]) -> list[float]:
    return sorted(abs(each) for each in islice(values, MAX_DERIVED) if abs(each) < 1e300)


def _among(sizes: Sequence[float], n: Numeral) -> list[float]:
    """Some of ``sizes``, which are sorted, that are ``n`` when they are rounded, or cut off."""
    found: list[float] = []
    for number, unit in n.values:
        low = bisect_left(sizes, abs(number) * (1 - 1e-9) - unit / 2)
        high = bisect_right(sizes, abs(number) * (1 + 1e-9) + unit)
        found += sizes[low:high][:MAX_EQUAL]
    return found
