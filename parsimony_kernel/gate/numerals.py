"""Numbers as people write them, with the units that turn one into another.

Separators are not assumed to be of one language: every reading that makes sense is given.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple

TABLE: dict[str, Any] = tomllib.loads(
    (files(__package__) / "groundedness.toml").read_text(encoding="utf-8")
)
PATTERNS = {name: re.compile(pattern) for name, pattern in TABLE["patterns"].items()}
# What a number beside a unit, or a scale, is multiplied with, and what is added, to be as it may
# stand in a result; not mm to cm: ten times too much is the commonest slip.
_CONVERSIONS: dict[str, list[tuple[float, float]]] = TABLE["offsets"] | {
    word: [(float(size) / float(other), 0.0) for other in sizes if float(size) != float(other) / 10]
    for sizes in TABLE["units"].values()
    for size, words in sizes.items()
    for word in words.split()
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")


class Numeral(NamedTuple):
    """A number in a text: its readings, each with the worth of its last digit, the plain one first.

    ``is_claim`` says whether it is too exact to be anything but looked up or computed.
    """

    text: str
    start: int
    number: float
    values: tuple[tuple[float, float], ...]
    is_claim: bool


def amounts(text: str) -> Iterator[Numeral]:
    """Find the amounts in a sentence: no years, durations, or parts of words.

    Each may be meant in any scale or unit that the sentence names, or as a share.
    """
    bare = PATTERNS["away"].sub(lambda away: " " * len(away[0]), text)
    named = PATTERNS["unit"].findall(bare.lower())
    units = {part for unit in named for part in (unit, *unit.split("/"))}
    conversions = [(1.0, 0.0), *chain(*(_CONVERSIONS.get(unit, ()) for unit in units))]
    conversions += [(0.01, 0.0)] * bool(PATTERNS["percent"].search(text))
    for found in PATTERNS["number"].finditer(bare):
        given, glued = readings(found[0]), PATTERNS["unit"].match(bare.lower(), found.end())
        is_part = glued is not None and glued[0].partition("/")[0] not in _CONVERSIONS
        if not given or is_part or is_year(found[0]):
            continue
        digits = re.sub(r"\D", "", found[0].partition("e")[0]).lstrip("0")
        says = len(digits.rstrip("0") if given[0][1] >= 1 else digits)
        is_percent = bool(
            PATTERNS["percent"].match(bare[found.end() :].lstrip(" \u00a0\u202f*_)-"))
        )
        if says > 1 or is_percent:
            values = [(n * by + plus, worth * by) for by, plus in conversions for n, worth in given]
            is_claim = says > 2 or is_percent
            yield Numeral(found[0], found.start(), given[0][0], tuple(values), is_claim)


def readings(token: str) -> list[tuple[float, float]]:
    """The ways to read ``token``, each with the worth of its last digit; none for a version."""
    bare, _, power = re.sub(r"[\s'’]", "", token).partition("e")
    given = {}
    for mark, point in (",.", ".,"):
        grouped = rf"[1-9][0-9]{{0,2}}(?:\{mark}[0-9]{{2,3}})*\{mark}[0-9]{{3}}|[0-9]*"
        if re.fullmatch(rf"(?:{grouped})(?:\{point}[0-9]+)?", bare):
            whole, _, decimals = bare.replace(mark, "").partition(point)
            zeros = min(len(whole) - len(whole.rstrip("0")), max(0, len(whole) - 2))
            exponent = int(power or 0)
            number = float(f"{whole}.{decimals}e{exponent}")
            given[number] = 10.0 ** (exponent + (-len(decimals) or zeros))
    return [*given.items()]


def plain(text: str) -> str:
    """``text`` with its powers of ten as programs write them."""
    return PATTERNS["power"].sub(r"e\1", text.translate(_SUPERSCRIPTS))


def is_year(token: str) -> bool:
    """Whether ``token`` may be a year of our time."""
    return len(token) == 4 and token.isdigit() and 1900 <= int(token) <= 2100
