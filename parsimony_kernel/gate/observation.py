"""What was observed in a run: its texts, and what can be asked of them.

Answers lean towards yes: a number is held when some reading of some text comes to it.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from parsimony_kernel.gate.numerals import readings_of

MAX_OBSERVED = 8_000_000

_HASH = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{32,}")
_PLAIN = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+")
_GROUPED = re.compile(
    r"(?<![0-9.])[0-9]{1,3}(?:,[0-9]{2}){0,4}(?:[,'’_\u00a0\u202f\u2009 ][0-9]{3}){1,6}(?![0-9])"
    r"(?:\.[0-9]+)?"
    r"|(?<![0-9])[0-9]{1,3}(?:\.[0-9]{3}){1,6}(?![0-9])(?:,[0-9]+)?"
)
_COMMA = re.compile(r"(?<![0-9])[0-9]+,[0-9]+")
_SCALED = re.compile(
    r"(?<![0-9])([0-9]+(?:[.,][0-9]+)?)[ \u00a0]?(%|percent|thousand|million|billion|[kKMB]\b)"
)
_FACTORS = {
    "%": 1e-2, "percent": 1e-2, "k": 1e3, "K": 1e3, "thousand": 1e3,
    "M": 1e6, "million": 1e6, "B": 1e9, "billion": 1e9,
}  # fmt: skip
_WRITING = re.compile(
    r"\.to_(?:csv|parquet|excel|json|html|pickle|feather|sql|markdown|latex|stata|hdf|orc|file|xml)"
    r"\s*\(|\.write\w*\s*\(|\.sink_\w+\s*\(|\.save\w*\s*\(|\bsavez?\w*\s*\(|\bdump\s*\("
    r"|\bopen\s*\([^)\n]{0,200}[\"'][wax]b?\+?[\"']|\bshutil\.\w+\s*\("
)


class Observation:
    """The texts of a run, and what can be asked of them."""

    def __init__(
        self,
        texts: Iterable[str],
        names: Collection[str],
        *,
        published: bool = False,
        ran: bool = True,
    ) -> None:
        self.texts = list(texts)
        self.names = names
        self.published = published
        self.ran = ran
        self.is_too_much = sum(map(len, self.texts)) > MAX_OBSERVED

    def mentions(self, text: str) -> bool:
        """Whether ``text`` stands in it as it is written."""
        return any(text in each for each in self.texts)

    @cached_property
    def wrote(self) -> bool:
        """Whether code calls something that writes a file."""
        return any(_WRITING.search(text) for text in self.texts)

    def holds(self, value: float, unit: float) -> bool:
        """Whether a number was seen that is ``value`` rounded, or cut off, to ``unit``."""
        return _within(self._plain, value, unit) or _within(self._other, value, unit)

    @cached_property
    def _clean(self) -> list[str]:
        return [_HASH.sub(" ", text) for text in self.texts]

    @cached_property
    def _plain(self) -> list[float]:
        found: set[str] = set()
        for text in self._clean:
            found.update(_PLAIN.findall(text))
        return sorted(map(float, found))

    @cached_property
    def _other(self) -> list[float]:
        """Numbers that are written with separators, as percentages or with a scale."""
        values: set[float] = set()
        for text in self._clean:
            for token in set(_GROUPED.findall(text)):
                values.update(float(r) for reading in readings_of(token) for r in reading)
            values.update(float(token.replace(",", ".")) for token in set(_COMMA.findall(text)))
            for digits, scale in set(_SCALED.findall(text)):
                values.add(float(digits.replace(",", ".")) * _FACTORS[scale])
                values.add(float(digits.replace(",", "")) * _FACTORS[scale])
        return sorted(values)


def _within(values: Sequence[float], value: float, unit: float) -> bool:
    slack = 1e-12 * value + 1e-9 * unit
    at = bisect_left(values, value - unit / 2 - slack)
    return at < len(values) and values[at] < value + max(unit * (1 - 1e-9), slack)
