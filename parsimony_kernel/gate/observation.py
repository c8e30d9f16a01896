"""What was observed in a run: its texts, and what can be asked of them.

Answers lean towards yes: a number is held when some reading of some text comes to it, and of
more than can be read in time everything is.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property

from parsimony_kernel.gate.numerals import readings_of
from parsimony_kernel.gate.written import Writing, without_comments, written

MAX_OBSERVED = 500_000
MAX_LOOKED_FOR = 100
MAX_SHORT = 8
MAX_SHORT_ANSWER = 4_000
MAX_ANSWER = 50_000
MAX_GROUPS = 60

_HASH = re.compile(r"\b[0-9a-fA-F]{32,}")
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+")
_GROUPED = re.compile(
    r"[0-9]{1,3}(?:,[0-9]{2}){0,4}(?:[,'’_\u00a0\u202f\u2009 ][0-9]{3}){1,6}(?![0-9])(?:\.[0-9]+)?"
)
_POINTED = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3}){1,6}(?![0-9])(?:,[0-9]+)?")
_SEPARATORS = dict.fromkeys(map(ord, ",'’_\u00a0\u202f\u2009 "))
_COMMA = re.compile(r"[0-9]+,[0-9]+")
_SCALED = re.compile(
    r"(?<![0-9])([0-9]++(?:[.,][0-9]++)?)[ \u00a0]?(%|percent|thousand|million|billion|[kKMB]\b)"
)
_FACTORS = {
    "%": 1e-2, "percent": 1e-2, "k": 1e3, "K": 1e3, "thousand": 1e3,
    "M": 1e6, "million": 1e6, "B": 1e9, "billion": 1e9,
}  # fmt: skip
_LABELLED = re.compile(
    r"(?<!\w)([^\W\d]\w{0,60})[\"'`*]{0,2}"
    r"((?:[ \t:=|,]{1,40}+-?[0-9][0-9.,]{0,30}+(?![\w-])){1,4}+)"
)
_LIST = re.compile(r"\[([^\[\]]{3,300})\]")
_TOKEN = re.compile(r"[0-9](?:[0-9]|[.,](?=[0-9]))*")
_COUNTS = ("rows", "count", "length", "len", "n")


class Observation:
    """The texts of a run, and what can be asked of them.

    Args:
        texts: what the person wrote, the tools answered and earlier turns came to.
        names: the variables and columns that exist.
        code: the code that ran to its end.
        earlier: what earlier turns came to, and what is published.
        exists: whether a file of that name has come into the working folder since the run began.
        published: whether the run published something.
        ran: whether any tool has worked.
    """

    def __init__(
        self,
        texts: Iterable[str],
        names: Collection[str],
        *,
        code: Iterable[str] = (),
        earlier: Iterable[str] = (),
        exists: Callable[[str], bool] = lambda path: False,
        published: bool = False,
        ran: bool = True,
    ) -> None:
        self.names = names
        self.published = published
        self.ran = ran
        self._texts = list(texts)
        self._code = [without_comments(each) for each in code]
        self._earlier = list(earlier)
        self._exists = exists
        self._looked_for: dict[str, bool] = {}
        self._files: dict[str, bool] = {}
        self.is_too_much = sum(map(len, (*self._texts, *self._code))) > MAX_OBSERVED

    def mentions(self, text: str) -> bool:
        """Whether ``text`` stands in it as it is written."""
        if self.is_too_much:
            return True
        if text not in self._looked_for:
            if len(self._looked_for) >= MAX_LOOKED_FOR:
                return True
            self._looked_for[text] = text in self._whole
        return self._looked_for[text]

    def has_file(self, path: str) -> bool:
        """Whether ``path`` is a file that came in this run, or a name known from an earlier one."""
        if path not in self._files:
            if len(self._files) >= MAX_LOOKED_FOR:
                return True
            self._files[path] = self._exists(path) or self._is_earlier(path)
        return self._files[path]

    def _is_earlier(self, name: str) -> bool:
        return any(name in each for each in self._earlier)

    @cached_property
    def written(self) -> Writing:
        """What the code may have written outside."""
        return written(self._code)

    def holds(self, value: float, unit: float) -> bool:
        """Whether a number was seen that is ``value`` rounded, or cut off, to ``unit``."""
        return _within(self._plain, value, unit) or _within(self._other, value, unit)

    def labelled(self, words: Iterable[str]) -> list[float]:
        """The numbers that stand right behind one of ``words``, or count what there is."""
        keys = {word.casefold() for word in words}.union(_COUNTS)
        return [value for key in sorted(keys) for value in self._labelled.get(key, ())]

    @cached_property
    def groups(self) -> list[list[float]]:
        """Numbers that were answered together: the newest lists and short answers."""
        found: list[list[float]] = []
        for text in reversed(self._texts):
            if len(found) >= MAX_GROUPS:
                break
            listed = [each.split(",") for each in _LIST.findall(text[:MAX_ANSWER])]
            short = [_PLAIN.findall(text)] if len(text) <= MAX_SHORT_ANSWER else []
            for each in (*short, *listed):
                values = {
                    float(token) for item in each if _PLAIN.fullmatch(token := item.strip(' "'))
                }
                if 1 < len(values) <= MAX_SHORT:
                    found.append(sorted(values))
        return found[:MAX_GROUPS]

    @cached_property
    def _whole(self) -> str:
        return "\n".join((*self._texts, *self._code))

    @cached_property
    def _clean(self) -> str:
        return _HASH.sub(" ", self._whole)

    @cached_property
    def _plain(self) -> list[float]:
        return sorted(map(float, set(_PLAIN.findall(self._clean))))

    @cached_property
    def _other(self) -> list[float]:
        """Numbers that are written with separators, as percentages or with a scale."""
        text = self._clean
        grouped = _lines(_GROUPED.findall(text)).translate(_SEPARATORS)
        pointed = _lines(_POINTED.findall(text)).replace(".", "").replace(",", ".")
        commas = _lines(_COMMA.findall(text)).replace(",", ".")
        values = {float(each) for lines in (grouped, pointed, commas) for each in lines.split()}
        for digits, scale in set(_SCALED.findall(text)):
            values.add(float(digits.replace(",", ".")) * _FACTORS[scale])
            values.add(float(digits.replace(",", "")) * _FACTORS[scale])
        return sorted(values)

    @cached_property
    def _labelled(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        # Tools answer in JSON, where the lines of a table are one text.
        lines = self._clean.replace("\\n", "\n").replace("\\t", " ").replace('\\"', '"')
        for label, numbers in set(_LABELLED.findall(lines)):
            held = found.setdefault(label.casefold(), [])
            for token in _TOKEN.findall(numbers) if len(held) < MAX_SHORT else ():
                held.extend(float(r) for each in readings_of(token)[:2] for r in each)
        return found


def _lines(tokens: Iterable[str]) -> str:
    return "\n".join(set(tokens))


def _within(values: Sequence[float], value: float, unit: float) -> bool:
    slack = 1e-12 * value + 1e-9 * unit
    at = bisect_left(values, value - unit / 2 - slack)
    return at < len(values) and values[at] < value + max(unit * (1 - 1e-9), slack)
