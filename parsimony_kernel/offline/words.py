"""Text becomes tokens and comparable words.

Owns what "the same word" means. Everything here is linear in the length of its input.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["word", "number", "date", "quoted", "file", "op", "stop", "comma"]

DATA_SUFFIXES = ("csv", "tsv", "txt", "parquet", "pq", "xlsx", "xls", "json", "jsonl", "ndjson")

_TOKEN = re.compile(
    r"""
      (?P<quoted>"[^"\n]{1,200}"|“[^”\n]{1,200}”|`[^`\n]{1,200}`|(?<!\w)'[^'\n]{1,200}'(?!\w)
        |(?<!\w)‘[^’\n]{1,200}’)
    | (?P<file>(?:(?<!\w)(?:/|(?:\.{1,2}/)+|[A-Za-z]:[\\/]))?
        [\w~][\w\-./\\~]{0,250}\.(?:csv|tsv|txt|parquet|pq|xlsx?|jsonl?|ndjson)(?!\w|\.\w))
    | (?P<date>\d{4}-\d{1,2}(?:-\d{1,2})?(?![\w-]))
    | (?P<number>[$€£]?-?\d(?:\d|,(?=\d)){0,30}(?:\.\d{1,30})?(?:%|[kKmM](?!\w))?(?!\w))
    | (?P<op>>=|<=|==|!=|<>|[<>=≥≤≠])
    | (?P<stop>[.;?!:\n]+)
    | (?P<comma>[,&+])
    | (?P<word>[^\W\d][\w]*(?:['’][a-z]+)?|\d+\w+)
    """,
    re.VERBOSE | re.IGNORECASE,
)


_SIGNS = frozenset("-−–*×/÷()^")


@dataclass(frozen=True)
class Token:
    """A piece of a request: ``text`` as it was written, ``start`` its place.

    ``before`` is what stands between it and the last token, where that holds signs of arithmetic.
    """

    kind: Kind
    text: str
    start: int = 0
    before: str = ""

    @property
    def low(self) -> str:
        """The text without quotes, possessives and case."""
        return re.sub(r"['’]s$", "", self.bare.casefold()).replace("’", "'")

    @property
    def bare(self) -> str:
        """The text without quotes."""
        return self.text[1:-1] if self.kind == "quoted" else self.text

    @property
    def number(self) -> float | int:
        """The value of a number; thousands, ``k``, ``m`` and currency signs are understood."""
        digits = self.text.strip("$€£%").replace(",", "")
        factor = {"k": 1_000, "m": 1_000_000}.get(digits[-1:].lower(), 1)
        value = float(digits.rstrip("kKmM")) * factor
        return int(value) if value.is_integer() else value


def tokenize(text: str, names: Iterable[str] = ()) -> list[Token]:
    """The tokens of ``text``. Each of ``names`` (files with odd names) is one token where it is."""
    spans: list[tuple[int, int]] = []
    low = text.casefold()
    if len(low) == len(text):
        for name in sorted(set(names), key=len, reverse=True):
            at = low.find(name.casefold())
            if name and at >= 0 and not any(a < at + len(name) and at < b for a, b in spans):
                spans.append((at, at + len(name)))
    tokens: list[Token] = []
    position = 0
    for start, end in sorted(spans):
        if start and text[start - 1] in "\"'`/\\":
            continue
        tokens += _scan(text, position, start)
        tokens.append(Token("file", text[start:end], start))
        position = end
    return [*tokens, *_scan(text, position, len(text))]


def _scan(text: str, start: int, end: int) -> Iterable[Token]:
    last = start
    for match in _TOKEN.finditer(text, start, end):
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        gap = text[last : match.start()]
        before = gap if _SIGNS & set(gap) else ""
        last = match.end()
        token = Token(kind, match.group(), match.start(), before)
        if kind == "quoted" and is_data_file(token.bare):
            token = Token("file", token.bare, match.start(), before)
        yield token


def is_data_file(name: str) -> bool:
    """Whether the name ends like a file of a known format."""
    return name.casefold().rpartition(".")[2] in DATA_SUFFIXES and "." in name


def stem_of(path: str) -> str:
    """``data/Sales 2020.xlsx`` is ``Sales 2020``."""
    name = path.replace("\\", "/").rpartition("/")[2]
    return name.rpartition(".")[0] or name


@lru_cache(maxsize=4096)
def fold(name: str) -> tuple[str, ...]:
    """The words of a name: ``temp_max`` and ``TempMax`` are both ``("temp", "max")``."""
    text = unicodedata.normalize("NFKC", name[:300])
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return tuple(re.sub(r"[\W_]+", " ", text.casefold()).split())


def singular(word: str) -> str:
    """A plain singular: enough to see that ``countries`` is ``country``."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


# Short forms and everyday words that stand for the same measured thing.
_SAME = {
    "temperature": "temp",
    "qty": "quantity",
    "amt": "amount",
    "hp": "horsepower",
    "precip": "precipitation",
    "rain": "precipitation",
    "rainfall": "precipitation",
    "dept": "department",
    "pct": "percent",
    "percentage": "percent",
    "yr": "year",
    "lat": "latitude",
    "lon": "longitude",
    "lng": "longitude",
    "accel": "acceleration",
}


def canonical(words: Iterable[str]) -> tuple[str, ...]:
    """``words`` as singulars, short forms unified."""
    return tuple(_SAME.get(singular(word), singular(word)) for word in words)


def slug(text: str, limit: int = 40) -> str:
    """``text`` as the inner part of an identifier."""
    return "_".join(fold(text))[:limit].strip("_")


def word_set(text: str) -> frozenset[str]:
    """The words of ``text``."""
    return frozenset(text.split())


def spoken(items: Iterable[str], last: str = "and") -> str:
    """``a, b and c``."""
    listed = list(items)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}"
