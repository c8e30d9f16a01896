"""Numbers in a summary that were not observed.

A number counts as seen when it is one that was, rounded, cut off, scaled or in another unit, or
when it follows from two of those that its sentence speaks of. Years, dates, durations, versions,
labels, well-known constants and numbers of few digits are no claims.
"""

import re
from collections.abc import Collection, Iterator, Sequence

from parsimony_kernel.gate.derived_numbers import MAX_OPERANDS, follows
from parsimony_kernel.gate.numerals import SIGNIFICANT, SPACES, is_year, readings_of
from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.prose import ADDRESS, FILE, SPAN, SUPPOSED, Claim, shown
from parsimony_kernel.triage.constraints import sentences

MAX_DERIVED = 50

_NUMBER = re.compile(
    rf"\.?[0-9](?:[0-9]|[.,'’](?=[0-9])|[{SPACES}](?=[0-9]{{3}}(?![0-9]))){{0,40}}"
)
_EXPONENT = re.compile(
    r"[eE]([+-]?[0-9]{1,3})(?![0-9A-Za-z])"
    r"|[ \u00a0]?[×x*·⋅][ \u00a0]?10(?:\^|\*\*)\{?([+−-]?[0-9]{1,3})\}?"
    r"|[ \u00a0]?[×x*·⋅][ \u00a0]?10([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})"
)
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_AFTER = re.compile(r"[*_]{0,2}[ \u00a0\u202f-]?([A-Za-zµ%Å-ÿ]{1,14})")
_SCALES: dict[str, float] = {
    "k": 1e3, "thousand": 1e3, "thousands": 1e3, "tausend": 1e3, "tsd": 1e3,
    "m": 1e6, "mn": 1e6, "mm": 1e6, "million": 1e6, "millions": 1e6, "millionen": 1e6,
    "mio": 1e6, "b": 1e9, "g": 1e9, "bn": 1e9, "billion": 1e9, "billions": 1e9, "mrd": 1e9,
    "md": 1e9, "milliarde": 1e9, "milliarden": 1e9, "t": 1e12, "tn": 1e12, "trillion": 1e12,
}  # fmt: skip
_PREFIXED = re.compile(r"(?:[kKMGTmµcd]|Mi|Gi|Ki)(?:Wh?|g|m|B|b|V|A|Hz|J|Pa|l|L|s|t|cal|bit|byte)")
_POWERS = (1e-9, 1e-6, 1e-3, 1e-2, 1e3, 1e6, 1e9, 1e12)
_DURATIONS = frozenset({"ms", "s", "sec", "secs", "second", "seconds", "min", "mins", "minutes",
                        "minute", "µs", "sekunde", "sekunden", "minuten"})  # fmt: skip
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_PERCENT = re.compile(r"%|\bper ?cent|\bpct\b|prozent|\bshares?\b|\banteil", re.IGNORECASE)
_NUMBERED = re.compile(
    r"(?:\b(?:steps?|figures?|fig|tables?|turns?|cells?|pages?|sections?|chapters?|lines?|no|nr"
    r"|port|http|status|error|code|schritte?|abbildung|tabelle|zelle|seite|zeile)\.?|#)\s?$",
    re.IGNORECASE,
)
# What a number is a part of: a word, a name, a path, a call.
_ATTACHED = re.compile(r"[^\W_]$|[^\W_]_$|[^\W\d_][-./\\]$|[^\W\d_]\([^()]*$|\w\.$")
_VERSION = re.compile(
    r"\b(?:v|version|python|pandas|numpy|altair|release|iso|rfc|epsg|cp|utf|sha|latin)\.?[\s:]?$",
    re.IGNORECASE,
)
_TIMES = re.compile(
    r"\b[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}"
    r"(?:[T ][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?"
    r"|\b(?:19|20)[0-9]{2}[-/](?:0[1-9]|1[0-2])\b"
    r"|\b[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4}\b|\b[0-9]{1,2}/[0-9]{1,2}/[0-9]{2}\b"
    r"|\b[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?\b"
)
_QUOTED = re.compile(
    r"(?<!\w)'[^'\n]{1,200}'(?!\w)|\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|„[^“\n]{1,200}“"
)
_NUMERIC_SPAN = re.compile(rf"[-+−~≈±$€£]{{0,2}}\s?[0-9][0-9.,'’eE×^{SPACES}+-]*[%°\w/ ]{{0,8}}")
# Units of one quantity, and what turns one of them into another.
_UNITS = frozenset({"kg", "g", "lb", "lbs", "pound", "pounds", "oz", "ounce", "ounces", "km", "mi",
                    "mile", "miles", "meter", "meters", "metre", "metres", "ft", "foot", "feet",
                    "inch", "inches", "cm", "mm", "yd", "yards", "l", "liter", "liters", "litre",
                    "litres", "gal", "gallon", "gallons", "mph", "kmh", "mpg", "kcal", "kj", "h",
                    "hour", "hours", "day", "days", "week", "weeks", "month", "months", "stunden",
                    "tage", "wochen", "monate"})  # fmt: skip
_CONVERSIONS = (0.45359237, 28.349523125, 2.54, 0.3048, 1.609344, 0.9144, 3.785411784, 0.425143707,
                4.184, 7.0, 12.0, 16.0, 24.0, 60.0, 1_440.0, 3_600.0, 86_400.0)  # fmt: skip
# Of the calendar, of mathematics and statistics, of computers and of nature: nobody observes them.
_CONSTANTS = frozenset({365, 366, 360, 365.25, 3.14, 3.141, 3.142, 3.1416, 3.14159, 2.718, 2.71828,
                        1.618, 1.414, 0.693, 1.28, 1.282, 1.44, 1.64, 1.645, 1.96, 2.33, 2.326,
                        2.57, 2.576, 2.58, 1.4826, 0.6745, 68.3, 68.27, 95.4, 95.45, 99.7, 99.73,
                        99.9, 100, 0.975, 0.995, 0.999, 97.5, 99.5, 128, 255, 256, 512, 1_024,
                        2_048, 4_096, 8_192, 16_384, 32_767, 32_768, 65_535, 65_536, 1_048_576,
                        2_147_483_647, 1_440, 8_760, 86_400, 273.15, 459.67, 9.81,
                        299_792_458})  # fmt: skip
_WORD = re.compile(r"[^\W\d_]\w{0,60}")


def unseen_numbers(text: str, seen: Observation) -> Iterator[Claim]:
    """The numbers of ``text`` that were not seen; none when too much was."""
    if seen.is_too_much:
        return
    percent = bool(_PERCENT.search(text))
    tried = 0
    for sentence in sentences(text):
        if SUPPOSED.search(sentence):
            continue
        bare = _without_names(sentence)
        numbers = list(_NUMBER.finditer(bare))
        unseen = [
            found
            for found in numbers
            if sum(map(str.isdigit, found[0])) >= SIGNIFICANT
            and _is_claim(bare, found)
            and not _is_seen(bare, found, seen, percent=percent)
        ]
        if unseen and len(numbers) <= MAX_OPERANDS:
            tried += len(unseen)
            given = [found for found in numbers if found not in unseen]
            pools = _operands(sentence, bare, given, seen) if tried <= MAX_DERIVED else ()
            unseen = [
                found
                for found in unseen
                if tried <= MAX_DERIVED and not _is_derived(bare, found, pools, percent=percent)
            ]
        for found in unseen:
            yield Claim("number", shown(found[0]), "no such number was seen")


def _operands(
    sentence: str, bare: str, given: Sequence[re.Match[str]], seen: Observation
) -> list[Sequence[float]]:
    """The numbers that may be reckoned with: those the sentence gives or names, and those that
    were answered together."""
    spoken = {float(r) for each in given for reading in readings_of(each[0]) for r in reading}
    spoken |= {
        float(each[0]) * _power(bare[each.end() :])[0] for each in given if each[0].isdigit()
    }
    named = seen.labelled(_WORD.findall(sentence))
    return [[*sorted(spoken), *named], *seen.groups]


def _without_names(sentence: str) -> str:
    text = SPAN.sub(
        lambda s: f" {s[2]} " if _NUMERIC_SPAN.fullmatch(s[2].strip()) else " ` ", sentence
    )
    text = _QUOTED.sub(lambda q: " ' " if re.search(r"[^\W\d_]{2}", q[0]) else q[0], text)
    return _TIMES.sub(" ", FILE.sub(" ", ADDRESS.sub(" ", text)))


def _is_claim(text: str, found: re.Match[str]) -> bool:
    token, start, end = found[0], found.start(), found.end()
    before, after = text[max(0, start - 24) : start], text[end : end + 24]
    if _ATTACHED.search(before) or _VERSION.search(before):
        return False
    if token.isdigit() and _NUMBERED.search(before):
        return False
    attached = re.match(r"[^\W\d_]*", after)
    letters = attached[0] if attached else ""
    if letters and not _EXPONENT.match(after) and re.match(r"\d", after[len(letters) :]):
        return False
    if letters.lower() in _ORDINALS:
        return False
    following = _AFTER.match(after)
    word = following[1] if following else ""
    if word.lower() in _DURATIONS:
        return False
    if is_year(token) and word.lower() not in _SCALES:
        return False
    return not any(len(each) == 1 and float(each[0]) in _CONSTANTS for each in readings_of(token))


def _is_seen(text: str, found: re.Match[str], seen: Observation, *, percent: bool) -> bool:
    readings = readings_of(found[0])
    power, scales = _scales(text, found, percent=percent)
    return not readings or any(
        all(_is_number_seen(plain, power, scales, seen) for plain in reading)
        for reading in readings
    )


def _is_derived(
    text: str, found: re.Match[str], pools: Sequence[Sequence[float]], *, percent: bool
) -> bool:
    power, scales = _scales(text, found, percent=percent)
    for reading in readings_of(found[0]):
        if len(reading) == 1:
            value, unit, _ = _measured(reading[0])
            for each in (power * scale for scale in scales):
                if any(follows(value * each, unit * each, pool) for pool in pools):
                    return True
    return False


def _scales(text: str, found: re.Match[str], *, percent: bool) -> tuple[float, set[float]]:
    """The power of ten that is written behind a number, and what else may turn it into a seen."""
    power, rest = _power(text[found.end() : found.end() + 24])
    scales = {1.0, 0.01} if percent else {1.0}
    following = _AFTER.match(rest)
    word = following[1] if following else ""
    if (scale := _SCALES.get(word.lower())) is not None:
        scales.add(scale)
    if _PREFIXED.fullmatch(word):
        scales.update(_POWERS)
    if word.lower() in _UNITS:
        scales.update(_CONVERSIONS)
        scales.update(1 / each for each in _CONVERSIONS)
    return power, scales


def _power(after: str) -> tuple[float, str]:
    found = _EXPONENT.match(after)
    if found is None:
        return 1.0, after
    exponent = int((found[1] or found[2] or found[3]).translate(_SUPERSCRIPT))
    return 10.0 ** min(max(exponent, -300), 300), after[found.end() :]


def _is_number_seen(plain: str, power: float, scales: Collection[float], seen: Observation) -> bool:
    value, unit, digits = _measured(plain)
    if digits < SIGNIFICANT:
        return True
    return any(seen.holds(value * power * each, unit * power * each) for each in scales)


def _measured(plain: str) -> tuple[float, float, int]:
    """A number's value, the unit of its last digit, and how many digits are significant."""
    whole, _, decimals = plain.partition(".")
    digits = (whole + decimals).lstrip("0")
    significant = digits if decimals else digits.rstrip("0")
    unit = 10.0 ** (-len(decimals) if decimals else len(digits) - len(significant))
    return float(plain), unit, len(significant)
