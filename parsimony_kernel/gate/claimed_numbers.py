"""Numbers in a summary that were not observed.

A number counts as seen when it is one that was, rounded, cut off or scaled. Years, dates,
durations, versions, labels and numbers of few digits are no claims.
"""

import re
from collections.abc import Collection, Iterator

from parsimony_kernel.gate.numerals import SIGNIFICANT, SPACES, is_year, readings_of
from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.prose import ADDRESS, FILE, SPAN, SUPPOSED, Claim, sentences, shown

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
# Constants of the calendar, of angles and of mathematics, which nobody has to observe.
_CONSTANTS = frozenset({"365", "366", "360", "365.25", "273.15", "3.14", "3.1416", "2.718", "99.9",
                        "100.0", "100.00"})  # fmt: skip


def unseen_numbers(text: str, seen: Observation) -> Iterator[Claim]:
    """The numbers of ``text`` that were not seen; none when too much was."""
    if seen.is_too_much:
        return
    percent = bool(_PERCENT.search(text))
    for sentence in sentences(text):
        if SUPPOSED.search(sentence):
            continue
        bare = _without_names(sentence)
        for found in _NUMBER.finditer(bare):
            if _is_claim(bare, found) and not _is_seen(bare, found, seen, percent=percent):
                yield Claim("number", shown(found[0]), "no such number was seen")


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
    return not (is_year(token) and word.lower() not in _SCALES) and token not in _CONSTANTS


def _is_seen(text: str, found: re.Match[str], seen: Observation, *, percent: bool) -> bool:
    after = text[found.end() : found.end() + 24]
    power, rest = _power(after)
    scales = {1.0, 0.01} if percent else {1.0}
    following = _AFTER.match(rest)
    word = following[1] if following else ""
    if (scale := _SCALES.get(word.lower())) is not None:
        scales.add(scale)
    if _PREFIXED.fullmatch(word):
        scales.update(_POWERS)
    readings = readings_of(found[0])
    return not readings or any(
        all(_is_number_seen(plain, power, scales, seen) for plain in reading)
        for reading in readings
    )


def _power(after: str) -> tuple[float, str]:
    found = _EXPONENT.match(after)
    if found is None:
        return 1.0, after
    exponent = int((found[1] or found[2] or found[3]).translate(_SUPERSCRIPT))
    return 10.0 ** min(max(exponent, -300), 300), after[found.end() :]


def _is_number_seen(plain: str, power: float, scales: Collection[float], seen: Observation) -> bool:
    whole, _, decimals = plain.partition(".")
    digits = (whole + decimals).lstrip("0")
    significant = digits if decimals else digits.rstrip("0")
    if len(significant) < SIGNIFICANT:
        return True
    unit = 10.0 ** (-len(decimals) if decimals else len(digits) - len(significant))
    value = float(plain)
    return any(seen.holds(value * power * each, unit * power * each) for each in scales)
