"""Groundedness: check a summary's statements against the results and actions of the run.

Numbers that no result supports are marked but shown. A name that exists nowhere, or a deed that
was not done, refuses the summary once. Anything with an innocent reading passes.

A number is supported if it occurs in a result (rounded, scaled or in another unit), or can be
derived from one table or from the numbers mentioned near it: sums, means, shares, differences,
ratios, squares and square roots. A number that occurs only in other rows or columns than those
named beside it is not supported. Decimal separators depend on the language, so every sensible
reading is tried.
"""

import re
import sys
import tomllib
from bisect import bisect_left, bisect_right
from calendar import month_name
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import getattr_static, unwrap
from itertools import chain, combinations, groupby, islice, permutations
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from parsimony_kernel.core.causes import CLAIM_UNOBSERVED
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.constraints import NEGATED, sentences

# Characters and lines of the newest results that are parsed as tables, and characters of all
# results that are scanned for numbers.
MAX_READ, MAX_LINES, MAX_LOOSE = 12_000, 600, 60_000
# Maximum numbers per sentence, last numbers remembered, and unsupported numbers per text.
MAX_NUMBERS, MAX_SAID, MAX_FOUND = 200, 6, 16
# Maximum numbers derived at once, values whose shares are derived, and values that are combined.
MAX_DERIVED, MANY, FEW = 6_000, 60, 8

TABLE = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
PATTERNS = {name: re.compile(pattern) for name, pattern in TABLE["patterns"].items()}
# Factor and offset that convert a number with a unit or scale to another one that a result may use.
# Not mm to cm: a factor of ten is the commonest slip.
_CONVERSIONS: dict[str, list[tuple[float, float]]] = TABLE["offsets"] | {
    word: [(float(size) / float(other), 0.0) for other in sizes if float(size) != float(other) / 10]
    for sizes in TABLE["units"].values()
    for size, words in sizes.items()
    for word in words.split()
}

# Column separators, and the signs in a number that are no digits.
_RULES, _GAP = dict.fromkeys(map(ord, "|│┆\t"), "  "), re.compile(r"\s{2,}")
_MONTH = re.compile(r"(?:19|20)\d\d-(0[1-9]|1[0-2])")
_SIGNS = str.maketrans("−", "-", ",$€£")

# (table, line): rows have line numbers from 0, columns negative ones, counted from the right.
# Tables are numbered from 1; prose with numbers has a negative table number.
Line = tuple[int, int]


class Cell(NamedTuple):
    """A number of a result, and its position."""

    row: Line
    column: Line
    value: float


class Mention(NamedTuple):
    """A row or column that a sentence names at ``start``."""

    start: int
    line: Line


class Numeral(NamedTuple):
    """A number in a text, with its readings: value and unit of the last digit; the plain one first.

    ``is_claim`` marks a number too exact to be anything but looked up or computed.
    """

    text: str
    start: int
    values: tuple[tuple[float, float], ...]
    is_claim: bool


# The numbers of a sentence, with their matching cells.
Shown = dict[Numeral, list[Cell]]


class Results:
    """Numbers in the results of a run.

    Args:
        texts: tool results, the newest last.
        words: the person's messages and the code that ran; their numbers count as supported.
    """

    def __init__(self, texts: Sequence[str], words: Iterable[str] = ()) -> None:
        newest = "\nresult\n".join(reversed(texts))
        self._lines: dict[Line, list[Cell]] = defaultdict(list)
        self._read(newest[:MAX_READ])
        cells = {*chain(*self._lines.values())}
        self._by_size = sorted(cells, key=lambda cell: abs(cell.value))
        self._shown = [abs(cell.value) for cell in self._by_size]
        loose = PATTERNS["digits"].findall("\n".join((*words, newest))[:MAX_LOOSE].replace(",", ""))
        self._elsewhere = sorted([*map(float, {*loose}), *_sizes(self._follow(cells))])

    def _read(self, text: str) -> None:
        """Parse the lines with numbers of printed text, also inside JSON, into cells and labels."""
        labels, header, table = list[tuple[str, Line]](), list[str](), 1
        lines = re.sub(r'\\n|": "|[{[]', "\n", text).replace("\\t", "\t").splitlines()
        for r, line in enumerate(lines[:MAX_LINES]):
            is_csv = "," in line and not re.search(r"\s", line)
            spaced = (line.replace(",", "  ") if is_csv else line).translate(_RULES)
            parts = [(part or "").strip(" :=,*`") for part in PATTERNS["printed"].split(spaced)]
            if len(parts) == 1:
                header = max(header, re.findall(r"[^\W_](?:\S|\s(?!\s))*", spaced), key=len)
                continue
            if header:
                labels += ((name, (table + 1, at)) for at, name in enumerate(header, -len(header)))
                header, table = [], table + 1
            words, numbers = parts[::2], parts[1::2]
            home = table if "  " in spaced.strip() else -table
            if home > 0 and not words[0] and len(numbers) > 1 and numbers[0].isdigit():
                words.append(numbers.pop(0))  # an index: the row's label
            labels += ((n, (home, r)) for part in words for n in _GAP.split(part))
            for at, number in enumerate(numbers, -len(numbers)):
                if number:
                    cell = Cell((home, r), (home, at), float(number.translate(_SIGNS)))
                    self._lines[cell.row].append(cell)
                    self._lines[cell.column].append(cell)
        named = ((name, line) for name, line in labels if line in self._lines)
        self._labels = [each for each in named if not PATTERNS["no_label"].fullmatch(each[0])]

    def cells_of(self, n: Numeral) -> list[Cell]:
        """Return the cells that equal ``n`` when rounded or truncated.

        Without one, return placeholder cells of table 0 for equal numbers outside the tables or
        derived from a table.
        """
        cells = [self._by_size[at] for at in _among(self._shown, n)]
        found = [self._elsewhere[at] for at in _among(self._elsewhere, n)]
        return cells or [Cell((0, 0), (0, -1), value) for value in found]

    def part(self, mentions: Iterable[Mention]) -> set[Cell]:
        """Return the cells where the named rows and columns cross, else all cells of them."""
        named = {m.line for m in mentions}
        cells = {cell for line in named for cell in self._lines.get(line, ())}
        return {cell for cell in cells if cell.row in named and cell.column in named} or cells

    def follows(self, n: Numeral, earlier: Sequence[float], named: Collection[Mention]) -> bool:
        """Whether ``n`` can be derived from the ``named`` lines or the last ``earlier`` numbers."""
        spoken = _derive(earlier or [0.0], sum(earlier) or 1.0)
        sources = (self._follow(self.part(named)), spoken, self._within(named))
        return any(_among(_sizes(source), n) for source in sources)

    def _within(self, named: Collection[Mention]) -> Iterator[float]:
        """Yield sum, mean and shares of each column over rows with one label, such as a year."""
        rows = sorted(mention for mention in named if mention.line[1] >= 0)
        for _, alike in groupby(rows, key=lambda row: row.start):
            cells = sorted(self.part(alike), key=lambda cell: cell.column)
            for _, column in groupby(cells, key=lambda cell: cell.column):
                values = [cell.value for cell in column]
                whole = sum(values) or 1.0
                if values[1:]:
                    yield from (whole, whole / len(values), *(value / whole for value in values))

    def _follow(self, cells: Iterable[Cell]) -> Iterator[float]:
        """Yield numbers derived from ``cells``, by column and by row."""
        lines: dict[Line, list[float]] = defaultdict(list)
        for cell in sorted(cells):
            lines[cell.column].append(cell.value)
            lines[cell.row].append(cell.value)
        for (table, at), values in [*lines.items()]:
            if at < 0:
                lines[table, len(self._lines)].append(sum(values))
        # Columns first: there are few of them, and their sums are quoted most often.
        for line, values in sorted(lines.items(), key=lambda each: each[0][1]):
            whole = sum(cell.value for cell in self._lines.get(line, ()))
            yield from _derive(values, whole or sum(values) or 1.0)

    def mentions(self, text: str) -> Iterator[Mention]:
        """Yield the rows and columns that a sentence names."""
        lower = text.casefold()
        for name, line in self._labels:
            if name[:3].strip("/.").casefold() in lower or _MONTH.fullmatch(name):
                yield from (Mention(at.start(), line) for at in _form_of(name).finditer(text))


def unsupported(text: str, results: Results) -> list[str]:
    """Find the numbers of a text that no result supports.

    Args:
        text: a summary or a report, in English, German, French or Spanish.
        results: the results of the run.

    Returns:
        The numbers as written, each once, in order.
    """
    found, earlier = list[str](), list[float]()
    for words in PATTERNS["sentence"].split(text):
        mentions = [*results.mentions(words)]
        shown = {n: results.cells_of(n) for n in islice(_numerals(words), MAX_NUMBERS)}
        seen = [n.values[0][0] for n, cells in shown.items() if cells or not n.is_claim]
        exact = (cells[0].value for cells in shown.values() if cells and cells[0].row == (0, 0))
        earlier = [*dict.fromkeys((*earlier, *seen, *exact))][-MAX_SAID:]
        rows = [m for m in mentions if m.line[1] >= 0]
        excused = {what: PATTERNS[what].search(words) for what in ("others", "supposed")}
        for n, cells in shown.items():
            is_misplaced = cells and _is_misplaced(n, shown, mentions, earlier, results)
            is_unfounded = not cells and n.is_claim and not results.follows(n, earlier, rows)
            if (is_misplaced or is_unfounded) and not excused["others" if cells else "supposed"]:
                found.append(n.text)
        if len(found) > MAX_FOUND:
            break
    return list(dict.fromkeys(found))


def _is_misplaced(
    n: Numeral, shown: Shown, mentions: list[Mention], earlier: list[float], results: Results
) -> bool:
    """Whether ``n`` occurs only in other rows or columns than those named, and can't be derived.

    The named rows are those last before it and first behind it. A number beside one that is in the
    named part counts as a comparison and is fine.
    """
    sample: list[Any] = [*shown, *(m for m in mentions if m.line[1] >= 0)]
    in_order = groupby(sorted(sample, key=lambda each: each.start), key=type)
    runs = [[], *(list(run) for _, run in in_order), []]
    at = next(i for i, run in enumerate(runs) if n in run)
    named = [*(m for m in mentions if m.line[1] < 0), *runs[at - 1], *runs[at + 1]]
    tables, part = {m.line[0] for m in named if m.line[0] > 0}, results.part(named)
    return (
        all(cell.row[0] in tables for cell in shown[n])
        and part.isdisjoint(cell for each in runs[at] for cell in shown[each])
        and not results.follows(n, earlier, named)
    )


def _numerals(text: str) -> Iterator[Numeral]:
    """Find the amounts in a sentence, skipping years, durations and parts of words.

    Each may be in any scale or unit that the sentence names, or a percentage.
    """
    bare = PATTERNS["away"].sub(lambda away: " " * len(away[0]), text)
    units = {*PATTERNS["unit"].findall(bare.lower())}
    conversions = [(1.0, 0.0), *chain(*(_CONVERSIONS.get(unit, ()) for unit in units))]
    conversions += [(0.01, 0.0)] * bool(PATTERNS["percent"].search(text))
    for found in PATTERNS["number"].finditer(bare):
        given = [*dict.fromkeys(_readings(found[0]))]
        digits = len(re.sub(r"\D", "", found[0]).strip("0"))
        is_percent = PATTERNS["percent"].match(bare, found.end()) is not None
        is_claim = digits > 2 or is_percent
        if given and (digits > 1 or is_percent):
            # A short number may be a count (17 years), so no unit is applied to it.
            known = conversions if is_claim else conversions[:1]
            values = [(n * by + plus, worth * by) for by, plus in known for n, worth in given]
            yield Numeral(found[0], found.start(), tuple(values), is_claim)


def _readings(token: str) -> Iterator[tuple[float, float]]:
    """Yield the readings of ``token``: value and unit of the last digit; none for a version."""
    for mark, point in (",.", ".,"):
        grouping = rf"[\s'’]|(?<!\b0)\{mark}(?=(?:\d\d\{mark})*\d{{3}}(?!\d))"
        whole, _, decimals = re.sub(grouping, "", token).partition(point)
        if f"{whole}{decimals}".isdigit():
            zeros = min(len(whole) - len(whole.rstrip("0")), max(0, len(whole) - 2))
            yield float(f"{whole}.{decimals}"), 10.0 ** (-len(decimals) or zeros)


@lru_cache(maxsize=2_000)
def _form_of(label: str) -> re.Pattern[str]:
    """Compile a pattern for ``label`` with inflections.

    An identifier or a date is also matched by its first word, and a month by its name.
    """
    words = [rf"{word}[^\W_]{{0,3}}" for word in re.findall(r"[^\W_]+", label)]
    short = rf"|{words[0]}" if re.match(r"[^\W_]{4,}_|(?:19|20)\d\d-\d\d", label) else ""
    if month := _MONTH.fullmatch(label):
        short += f"|{month_name[int(month[1])]}"
    form = r"[\W_]+".join(words) + short
    return re.compile(rf"(?<!\w)(?:{form})(?!\w)", re.IGNORECASE)


def _derive(values: Sequence[float], whole: float) -> Iterator[float]:
    """Yield numbers derived from values of one kind; ``whole`` is the total for shares."""
    for value in values[:MANY]:
        yield from (value / whole, value * value, abs(value) ** 0.5)
    sizes = range(2, len(values) + 1) if len(values) <= FEW else [len(values)]
    for some in chain(*(combinations(values, size) for size in sizes)):
        yield from (sum(some), sum(some) / whole, sum(some) / len(some))
    sample = {*values[:FEW], values[-1], max(values), min(values), sum(values) / len(values)}
    for a, b in permutations(sample, 2):
        yield from (a - b, a / (b or 1.0), a / (b or 1.0) - 1)


def _sizes(values: Iterable[float]) -> list[float]:
    return sorted(size for size in map(abs, islice(values, MAX_DERIVED)) if size < 1e300)


def _among(sizes: Sequence[float], n: Numeral) -> list[int]:
    """Return the indices in sorted ``sizes`` of values that equal ``n`` rounded or truncated."""
    found: list[int] = []
    for number, unit in n.values:
        low = bisect_left(sizes, abs(number) * (1 - 1e-9) - unit / 2)
        found += range(low, bisect_right(sizes, abs(number) * (1 + 1e-9) + unit))
    return found


MAX_TEXT, MAX_MARKS = 20_000, 8

_SAID = {"return_done": "summary", "return_report": "body"}
_LIBRARIES = ("pandas", "numpy", "altair", "polars")
_KINDS = ("DataFrame", "Series", "Chart", "LazyFrame")
_FORMS = [
    (re.compile(form.format(verb=verbs), re.IGNORECASE), deed)
    for form in TABLE["forms"].values()
    for deed, (verbs, _) in TABLE["deeds"].items()
]


@dataclass
class Seen:
    """Evidence of a run.

    Args:
        results: tool results, the oldest first.
        words: the person's messages, and the results of earlier turns.
        names: existing variables and columns.
        code: code that ran to its end; comments are removed.
        earlier: results of earlier turns, and published outputs.
        published: whether the run published an output.
        acted: whether a tool had an effect that no code shows.
        refused: whether a summary of this run was refused before.
        exists: whether a file of that name appeared in the working folder since the run began.
    """

    results: Sequence[str]
    words: Sequence[str] = ()
    names: Collection[str] = ()
    code: Sequence[str] = ()
    earlier: Sequence[str] = ()
    published: bool = False
    acted: bool = False
    refused: bool = False
    exists: Callable[[str], bool] = lambda path: False

    def __post_init__(self) -> None:
        self.code = [re.sub(r"#[^\n]*", "", each) for each in self.code]

    def did(self, deed: str, sentence: str) -> bool:
        """Whether the deed that ``sentence`` reports may have been done."""
        named = [*chain(*(PATTERNS[kind].findall(sentence) for kind in ("span", "file", "quoted")))]
        code = "\n".join(self.code)
        calls = set(re.findall(r"([^\W\d]\w*)\s*\(", code))
        is_kept = {*self.names} & {*named} or PATTERNS["memory"].search(sentence)
        return bool(
            self.acted
            or (self.published and deed in ("published", "saved"))
            or any(self.exists(name) or any(name in e for e in self.earlier) for name in named)
            or (deed == "saved" and is_kept)
            or (deed == "deleted" and not PATTERNS["files"].search(sentence))
            or re.search(r"^\s*[!%]", code, re.M)
            or any(re.fullmatch(TABLE["deeds"][deed][1], call) for call in calls)
            or calls & {*self.names}
        )


def groundedness(seen: Callable[[], Seen], *, strict: bool = False) -> Stage:
    """Build a stage that marks unsupported statements in a summary or a report.

    Args:
        seen: returns the evidence of the run so far.
        strict: whether unsupported numbers, too, refuse a summary once.
    """

    def stage(attempt: Attempt) -> Failure | None:
        text = attempt.inputs.get(_SAID.get(attempt.action, ""))
        if not isinstance(text, str):
            return None
        held, is_report = seen(), attempt.action == "return_report"
        text = PATTERNS["fenced"].sub("\n", text[:MAX_TEXT])
        shown = held.results, [*held.words, *held.code]
        numbers = unsupported(text, Results(*shown)) if re.search(r"\d", text) else []
        unfounded = [] if is_report else [*unknown_names(text, held), *undone_deeds(text, held)]
        marks = [*unfounded, *numbers][:MAX_MARKS]
        if not (unfounded or (numbers and strict)) or held.refused or is_report:
            attempt.not_found.extend(marks)
            return None
        claims = marks if strict else unfounded[:MAX_MARKS]
        reason = f"The summary says what this run has not shown: {'; '.join(claims)}"
        return CLAIM_UNOBSERVED.failure(
            f"{reason}. Look with run_code, or leave it out; said again, it is shown with a mark. "
            "The run has not ended.",
            envelope={"reason": reason, "not_found": marks},
        )

    return stage


def without_marks(answer: str) -> str:
    """Remove the stage's marks from ``answer``: a marked statement is no evidence."""
    return re.sub(r'"not_found": ?\[[^\]]*\]', "", answer)


def was_refused(answer: str) -> bool:
    """Whether ``answer`` is this stage's refusal of a summary."""
    is_refusal = answer.startswith('{"error"') and '"requested": "return_done"' in answer[:300]
    return is_refusal and '"not_found"' in answer


def unknown_names(text: str, seen: Seen) -> Iterator[str]:
    """Yield the names of variables and columns in ``text`` that exist nowhere."""
    known = "\n".join((*seen.results, *seen.words, *seen.code))
    loaded = tuple(each for each in _LIBRARIES if each in sys.modules)
    for sentence in _stated(text, "setting"):
        for span in PATTERNS["span"].findall(sentence):
            name = re.sub(r"\([^()]*\)$|\[[^\[\]]*\]$", "", span.strip())
            root = name.partition(".")[0]
            is_known = root in seen.names or root in sys.modules or root in known
            is_name = PATTERNS["name"].fullmatch(name) and not PATTERNS["file"].fullmatch(name)
            if is_name and not is_known and name not in _library_names(loaded):
                yield f"`{name}`"


@lru_cache(maxsize=8)
def _library_names(loaded: tuple[str, ...]) -> frozenset[str]:
    """Collect functions, methods and parameters of the loaded libraries, importing nothing."""
    modules = [sys.modules[each] for each in loaded]
    kinds = [vars(module)[kind] for module in modules for kind in _KINDS if kind in vars(module)]
    held = [(name, getattr_static(e, name, None)) for e in (*modules, *kinds) for name in dir(e)]
    codes = (getattr(unwrap(f), "__code__", None) for _, f in held if callable(f))
    known = (code.co_varnames for code in codes if isinstance(code, CodeType))
    return frozenset(name for name, _ in held).union(*known)


def undone_deeds(text: str, seen: Seen) -> Iterator[str]:
    """Yield the sentences of ``text`` that report a deed that was not done."""
    for sentence in _stated(text, "earlier"):
        if not all(seen.did(deed, sentence) for form, deed in _FORMS if form.search(sentence)):
            yield f"“{sentence[:80]}”"


def _stated(text: str, unless: str) -> Iterator[str]:
    """Yield the sentences of ``text`` that assert something.

    Negated and hypothetical sentences, and those that match the pattern ``unless``, are skipped.
    """
    for sentence in sentences(text):
        plain = sentence.strip().lstrip("-*•#>_~ ✅✓")
        if not any(e.search(plain) for e in (NEGATED, PATTERNS["supposed"], PATTERNS[unless])):
            yield plain
