"""Numbers as people write them, with the units that turn one into another.

Separators are not assumed to be of one language: every reading that makes sense is given.
"""

import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple

WORDS: dict[str, Any] = tomllib.loads(
    (files(__package__) / "numbers.toml").read_text(encoding="utf-8")
)
# What a number before a scale, or a unit, is multiplied with to be as it may stand in a result,
# which may itself be in thousands; not mm to cm: ten times too much is the commonest slip.
_SCALES = {word: float(by) for by, words in WORDS["scales"].items() for word in words.split()}
_FACTORS = {
    word: [each for each in (1.0, 1e3, 1e6, 1e9) if each <= by] for word, by in _SCALES.items()
}
_FACTORS |= {
    unit: [size / other for other in sizes.values() if size / other != 0.1]
    for sizes in WORDS["units"].values()
    for unit, size in sizes.items()
}
_S = " \u00a0\u202f\u2009'’"
_NUMBER = re.compile(
    rf"(?<![^\W_])(?<![\w/][-.,/_])(?:[0-9]{{1,3}}(?:[{_S}][0-9]{{3}}(?![0-9]))+(?:[.,][0-9]+)?"
    rf"|\.?[0-9](?:[0-9]|[.,](?=[0-9])){{0,40}})(?:e[-+]?[0-9]{{1,2}}(?!\w))?"
)
_UNIT = re.compile(rf"[*_)]{{0,3}}[{_S}-]?(°?[^\W\d_][\w/²]*|)")
_POWER = re.compile(r"(?<=\d)\s?[×x*·]\s?10[\^*]*([-+]?\d{1,2})(?!\w)")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
# What is no amount: names of things, addresses, calls, dates, ordinals.
_AWAY = re.compile(
    r"`[^`\n]*[^\W\d_][^`\n]*`|\b[a-z][a-z0-9+.-]{1,12}://\S+|[^\W\d_]\([^()\n]{0,40}\)"
    r"|\b\d{4}[-/.]\d\d?(?:[-/.]\d\d?)?\b|\b\d\d?[./]\d\d?[./]\d{2,4}\b|\b\d\d?:\d\d(?::\d\d)?\b"
    rf"|\b\d{{1,3}}(?:st|nd|rd|th)\b|(?i:\b(?:{WORDS['words']['named']})\b\.?\s#?|#)\d[\d.]*"
)


def pattern(name: str) -> re.Pattern[str]:
    """Compile one of the patterns of words."""
    return re.compile(WORDS["words"][name], re.IGNORECASE)


PERCENT, _UNOBSERVED = pattern("percent"), pattern("unobserved")


class Numeral(NamedTuple):
    """A number in a text: its readings, each with the worth of its last digit, the plain one first.

    ``is_claim`` says whether it is too exact to be anything but looked up or computed.
    """

    text: str
    start: int
    values: tuple[tuple[float, float], ...]
    is_claim: bool

    @property
    def number(self) -> float:
        return self.values[0][0]


def plain(text: str) -> str:
    """``text`` with its powers of ten as programs write them."""
    return _POWER.sub(r"e\1", text.translate(_PLAIN))


def amounts(text: str) -> Iterator[Numeral]:
    """Find the amounts in a sentence: no years, durations, or parts of words.

    One that names a scale, or tells of shares, may mean all of its numbers by it.
    """
    is_of_shares = PERCENT.search(text) is not None
    scaled = max(re.split(r"\W+", text.lower()), key=lambda word: _SCALES.get(word, 1.0))
    bare = _AWAY.sub(lambda away: " " * len(away[0]), text)
    for found in _NUMBER.finditer(bare):
        given, rest = readings(found[0]), bare[found.end() :][:24]
        unit = _UNIT.match(rest)
        word = unit[1].lower() if unit else ""
        word = word if word in _FACTORS else word.split("/")[0]
        is_scaled, is_percent = word in _SCALES, bool(PERCENT.match(rest.lstrip(_S + "*_)-")))
        is_part = rest[:1].isalpha() and word not in _FACTORS
        is_date = is_year(found[0]) and not is_scaled
        if not given or is_part or is_date or _UNOBSERVED.fullmatch(word):
            continue
        factors = [1.0, *_FACTORS.get(word, ()), *[0.01] * is_of_shares]
        factors += () if is_scaled else _FACTORS.get(scaled, ()) if scaled in _SCALES else ()
        values = [(n * by, worth * by) for by in dict.fromkeys(factors) for n, worth in given]
        if word in ("°f", "fahrenheit"):
            values += [((n - 32) / 1.8, worth) for n, worth in given]
        elif word == "°c":
            values += [(n * 1.8 + 32, 2 * worth) for n, worth in given]
        digits = re.sub(r"\D", "", found[0].partition("e")[0]).lstrip("0")
        says = len(digits.rstrip("0") if given[0][1] >= 1 else digits)
        if says > 1 or is_percent:
            yield Numeral(found[0], found.start(), tuple(values), says > 2 or is_percent)


def readings(token: str) -> list[tuple[float, float]]:
    """The ways to read ``token``, each with the worth of its last digit; none for a version."""
    bare, _, power = re.sub(f"[{_S}]", "", token).partition("e")
    given = {}
    for mark, point in (",.", ".,"):
        grouped = rf"[1-9][0-9]{{0,2}}(?:\{mark}[0-9]{{2,3}})*\{mark}[0-9]{{3}}|[0-9]*"
        if re.fullmatch(rf"(?:{grouped})(?:\{point}[0-9]+)?", bare):
            whole, _, decimals = bare.replace(mark, "").partition(point)
            zeros = min(len(whole) - len(whole.rstrip("0")), max(0, len(whole) - 2))
            worth = 10.0 ** (-len(decimals) or zeros)
            given[float(f"{whole}.{decimals}")] = worth
    return [(n * 10.0 ** int(power or 0), w * 10.0 ** int(power or 0)) for n, w in given.items()]


def is_year(token: str) -> bool:
    """Whether ``token`` may be a year of our time."""
    return len(token) == 4 and token.isdigit() and 1900 <= int(token) <= 2100
