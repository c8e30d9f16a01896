"""Numbers as people and programs write them, with the units that turn one into another.

Separators are not assumed to be of one language: every reading that makes sense is given.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, NamedTuple

WORDS: dict[str, Any] = tomllib.loads(
    (files(__package__) / "numbers.toml").read_text(encoding="utf-8")
)
SCALES = {word: float(by) for by, words in WORDS["scales"].items() for word in words.split()}
UNITS: dict[str, list[float]] = WORDS["units"]
SPACES = " \u00a0\u202f\u2009'’"


def pattern(name: str) -> re.Pattern[str]:
    """One of the words of ``name``."""
    return re.compile(rf"\b(?:{'|'.join(WORDS['words'][name].split())})\b", re.IGNORECASE)


# Sentences about what could be, or what the person may do, report nothing.
SUPPOSED = re.compile(WORDS["words"]["supposed"], re.IGNORECASE)
PERCENT = re.compile(rf"%|per cent|pour ?cent|por ciento|{pattern('percent').pattern}", re.I)
_NUMBER = re.compile(
    rf"(?<![^\W_])(?<![\w/][-.,/_])(?:[0-9]{{1,3}}(?:[{SPACES}][0-9]{{3}}(?![0-9]))+(?:[.,][0-9]+)?"
    r"|\.?[0-9](?:[0-9]|[.,](?=[0-9])){0,40})"
)
_POWER = re.compile(
    r"[eE]([+-]?[0-9]{1,3})(?![\w])|\s?[×x*·]\s?10(?:\^|\*\*)?([-+−⁻⁺]?[0-9⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})"
)
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_WORD = re.compile(rf"[*_)]{{0,3}}[{SPACES}-]?(°?[^\W\d_][\w/²³]*|%|°)")


class Value(NamedTuple):
    """A number, give or take half of ``unit``, the worth of its last digit."""

    number: float
    unit: float


class Numeral(NamedTuple):
    """A number in a text. ``values`` are its readings, the plain ones first; ``digits`` counts
    those that say something."""

    text: str
    start: int
    values: tuple[Value, ...]
    digits: int
    percent: bool
    scaled: bool

    @property
    def is_claim(self) -> bool:
        """Whether it says enough to be asked for."""
        is_exact = self.scaled or not self.text.isdigit()
        return self.digits > 2 or self.percent or (self.digits > 1 and is_exact)


def amounts(text: str, *, scaled: float = 1.0, percent: bool = False) -> Iterable[Numeral]:
    """The numbers of ``text`` that are amounts: no years, no durations, no parts of words.

    ``scaled`` and ``percent`` say that the text tells of all its numbers in a scale, or a share.
    """
    for found in _NUMBER.finditer(text):
        plain, rest = readings(found[0]), text[found.end() : found.end() + 24]
        factor = 1.0
        if power := _POWER.match(rest):
            exponent = int((power[1] or power[2]).translate(_PLAIN))
            factor, rest = 10.0 ** max(-300, min(300, exponent)), rest[power.end() :]
        unit = _WORD.match(rest)
        word = unit[1].lower() if unit else ""
        word = word if word in UNITS else word.split("/")[0]
        scale = SCALES.get(word, 0.0)
        is_part = rest[:1].isalpha() and not scale and word not in UNITS
        is_time = is_year(found[0]) and not scale and factor == 1.0
        if not plain or is_part or is_time or word in WORDS["words"]["seconds"].split():
            continue
        is_percent = bool(PERCENT.match(rest.lstrip(SPACES + "*_)-")))
        factors = [1.0, *UNITS.get(word, ()), *([0.01] if percent or is_percent else ())]
        step = scale or scaled
        while step > 1:  # A result may itself be in thousands.
            factors.append(step)
            step /= 1e3
        if found[0].endswith("000"):
            factors.append(1e-3)
        values = [Value(v.number * f * factor, v.unit * f * factor) for f in factors for v in plain]
        if word in ("°f", "fahrenheit", "f"):
            values += [Value((v.number - 32) / 1.8, v.unit) for v in plain]
        elif word == "°c":
            values += [Value(v.number * 1.8 + 32, 2 * v.unit) for v in plain]
        digits = re.sub(r"\D", "", found[0]).lstrip("0")
        said = len(digits.rstrip("0") if plain[0].unit >= 1 else digits)
        yield Numeral(found[0], found.start(), tuple(values), said, is_percent, scale > 0)


def readings(token: str) -> list[Value]:
    """The ways to read ``token``; none when it is no number, such as a version."""
    bare = re.sub(f"[{SPACES}]", "", token)
    marks = re.sub(r"\d", "", bare)
    grouped = re.fullmatch(
        r"[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}", bare
    )
    given = [re.sub(r"\D", "", bare)] if grouped else []
    if len(marks) < 2:
        given.append(bare.replace(",", "."))
    elif marks[-1] not in marks[:-1] and len(set(marks)) == 2:
        given.append(bare.replace(marks[0], "").replace(marks[-1], "."))
    return [_value(each) for each in given]


def _value(plain: str) -> Value:
    whole, point, decimals = plain.partition(".")
    zeros = len(whole) - len(whole.rstrip("0"))
    exponent = -len(decimals) if point else max(0, min(zeros, len(whole) - 2))
    return Value(float(plain), 10.0**exponent)


def is_year(token: str) -> bool:
    """Whether ``token`` may be a year of our time."""
    return len(token) == 4 and token.isdigit() and 1900 <= int(token) <= 2100
