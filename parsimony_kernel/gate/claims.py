"""What a summary claims, against what was observed in the run.

Names, numbers and deeds that stand nowhere in what the person said, the tools answered or the
code did. A true summary that is refused costs more than a false one that passes: whatever has an
innocent reading is no claim.
"""

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.taxonomy import FailureType

MAX_SUMMARY = 20_000
MAX_CLAIMS = 8
MAX_OBSERVED = 8_000_000
MAX_TEXT = 80

_SIGNIFICANT = 3


@dataclass(frozen=True)
class Claim:
    """Something a summary says. ``kind`` is name, file, number or deed."""

    kind: str
    text: str
    why: str


def claims_observed(
    observed: Callable[[], Iterable[str]],
    names: Callable[[], Collection[str]],
    published: Callable[[], bool],
    ran: Callable[[], bool] = lambda: True,
) -> Stage:
    """A run ends with a summary only of what it has observed.

    ``observed`` gives the texts of the run (what the person wrote, what tools answered, the code
    that ran), ``names`` the variables that exist, ``published`` whether anything was published and
    ``ran`` whether any code ran.
    """

    def stage(attempt: Attempt) -> Failure | None:
        summary = attempt.inputs.get("summary")
        if attempt.action != "return_done" or not isinstance(summary, str):
            return None
        seen = Observation(
            [text for text in observed() if not _is_refusal_of(attempt.action, text)],
            frozenset(names()) | frozenset(attempt.tools),
            published=published(),
            ran=ran(),
        )
        claims = unobserved(summary, seen)
        return _refusal(attempt.action, claims) if claims else None

    return stage


def unobserved(summary: str, seen: "Observation") -> list[Claim]:
    """The claims of ``summary`` that nothing observed supports, in the order of their kinds."""
    text = _FENCED.sub("\n", summary[:MAX_SUMMARY])
    found = [*_names(text, seen), *_files(text, seen), *_numbers(text, seen), *_deeds(text, seen)]
    return list(dict.fromkeys(found))


def _is_refusal_of(action: str, text: str) -> bool:
    """Whether ``text`` is the gate's own answer to ``action``, which repeats what was claimed."""
    return text.startswith("{") and f'"requested": "{action}"' in text[:300]


def _refusal(action: str, claims: Sequence[Claim]) -> Failure:
    told = claims[:MAX_CLAIMS]
    listed = "; ".join(f"{claim.text} ({claim.why})" for claim in told)
    more = f"; and {len(claims) - len(told)} more" if len(claims) > len(told) else ""
    reason = f"the summary claims what was not observed in this run: {listed}{more}"
    return Failure(
        FailureKind.no_progress,
        f"{action}: {reason}. Observe it with run_code, or leave it out. The run has not ended.",
        metadata={
            "refusal": RefusalError.validation_failed,
            "type": FailureType.HALLUCINATED_STATE,
            "envelope": {
                "reason": reason,
                "details": [
                    {"field": "summary", "kind": claim.kind, "claim": claim.text, "why": claim.why}
                    for claim in told
                ],
            },
        },
    )


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 1] + "…"


# -- what was observed ---------------------------------------------------------------------------

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
                values.update(float(r) for reading in _readings(token) for r in reading)
            values.update(float(token.replace(",", ".")) for token in set(_COMMA.findall(text)))
            for digits, scale in set(_SCALED.findall(text)):
                values.add(float(digits.replace(",", ".")) * _FACTORS[scale])
                values.add(float(digits.replace(",", "")) * _FACTORS[scale])
        return sorted(values)


def _within(values: Sequence[float], value: float, unit: float) -> bool:
    slack = 1e-12 * value + 1e-9 * unit
    at = bisect_left(values, value - unit / 2 - slack)
    return at < len(values) and values[at] < value + max(unit * (1 - 1e-9), slack)


# -- sentences -----------------------------------------------------------------------------------

_FENCED = re.compile(r"```[ \t]*[A-Za-z][^\n]{0,80}\n.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s")
_NEGATED = re.compile(
    r"\b(?:not|no|never|nothing|none|neither|nor|without|cannot|missing|lacks?|unknown|instead"
    r"|nicht|kein\w*|nichts|ohne|nie|fehl\w*)\b|n[’']t\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:could|would|can|may|might|should|shall|if|unless|whether|next step|suggest\w*|try"
    r"|consider\w*|for example|such as|want|ready to|könnte\w*|kann|können|würde\w*|sollte\w*"
    r"|wenn|falls|ob|möchte\w*)\b|\be\.g\.|\bz\. ?B\.",
    re.IGNORECASE,
)
_EARLIER = re.compile(
    r"\b(?:already|earlier|previous(?:ly)?|before|bereits|schon|früher|zuvor)\b", re.IGNORECASE
)


def _sentences(text: str) -> Iterator[str]:
    return (part for part in _SENTENCE.split(text) if part.strip())


# -- names and files -----------------------------------------------------------------------------

_SPAN = re.compile(r"(?<!`)(`{1,2})([^`\n]{1,200})\1(?!`)")
_IDENTIFIER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_FRAME_NAME = re.compile(r"df\d*|\w*_\w*")
_SUFFIXES = r"csv|tsv|parquet|feather|xlsx?|jsonl?|html|png|svg|pdf|pkl|arrow|geojson"
_FILE = re.compile(
    rf"(?<![\w./\\~-])[\w./\\~-]{{0,200}}\w\.(?:{_SUFFIXES})(?![\w-]|\.\w)", re.IGNORECASE
)
_SPACED_FILE = re.compile(rf".{{1,190}}\.(?:{_SUFFIXES})", re.IGNORECASE)
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,12}://[^\s)>\]]+", re.IGNORECASE)
_DOMAINS = frozenset({"com", "org", "net", "io", "gov", "eu", "de"})
_NICKNAMES = frozenset({"pd", "np", "alt", "plt", "pl", "sns", "px", "self"})


def _names(text: str, seen: Observation) -> Iterator[Claim]:
    for sentence in _sentences(text):
        if _NEGATED.search(sentence) or _SUPPOSED.search(sentence):
            continue
        for span in _SPAN.finditer(sentence):
            name = re.sub(r"\([^()]*\)$|\[[^\[\]]*\]$", "", span[2].strip())
            if _IDENTIFIER.fullmatch(name) and _is_unknown(name, seen):
                yield Claim("name", f"`{_shown(name)}`", "no such name was seen")


def _is_unknown(name: str, seen: Observation) -> bool:
    if _FILE.fullmatch(name):
        return False
    root, _, rest = name.partition(".")
    if not rest and not _FRAME_NAME.fullmatch(name):
        return False
    if root in seen.names or root in _NICKNAMES or root in sys.modules or rest in _DOMAINS:
        return False
    return not (seen.mentions(name) or (rest and seen.mentions(root)) or _is_of_a_library(name))


def _is_of_a_library(name: str) -> bool:
    modules = [each for each in map(sys.modules.get, ("pandas", "numpy", "altair")) if each]
    types = [getattr(each, "DataFrame", None) for each in modules]
    return any(name in vars(each) for each in modules) or any(hasattr(t, name) for t in types if t)


def _files(text: str, seen: Observation) -> Iterator[Claim]:
    for sentence in _sentences(text):
        if _NEGATED.search(sentence) or _SUPPOSED.search(sentence):
            continue
        bare = _ADDRESS.sub(" ", sentence)
        spaced = [span[2].strip() for span in _SPAN.finditer(bare)]
        whole = [each for each in spaced if _SPACED_FILE.fullmatch(each)]
        for name in whole:
            bare = bare.replace(name, " ")
        for name in [*whole, *(found[0] for found in _FILE.finditer(bare))]:
            # A span may be a path with spaces in it, or a command that ends with a path.
            if not any(seen.mentions(re.split(end, name)[-1]) for end in (r"[/\\]", r"[/\\\s]")):
                yield Claim("file", f"`{_shown(name)}`", "no such file was seen")


# -- numbers -------------------------------------------------------------------------------------

_SPACES = "\u00a0\u202f\u2009 "
_NUMBER = re.compile(
    rf"\.?[0-9](?:[0-9]|[.,'’](?=[0-9])|[{_SPACES}](?=[0-9]{{3}}(?![0-9]))){{0,40}}"
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
_NUMERIC_SPAN = re.compile(rf"[-+−~≈±$€£]{{0,2}}\s?[0-9][0-9.,'’eE×^{_SPACES}+-]*[%°\w/ ]{{0,8}}")
# Constants of the calendar, of angles and of mathematics, which nobody has to observe.
_CONSTANTS = frozenset({"365", "366", "360", "365.25", "273.15", "3.14", "3.1416", "2.718", "99.9",
                        "100.0", "100.00"})  # fmt: skip


def _numbers(text: str, seen: Observation) -> Iterator[Claim]:
    if seen.is_too_much:
        return
    percent = bool(_PERCENT.search(text))
    for sentence in _sentences(text):
        if _SUPPOSED.search(sentence):
            continue
        bare = _without_names(sentence)
        for found in _NUMBER.finditer(bare):
            if _is_claim(bare, found) and not _is_seen(bare, found, seen, percent=percent):
                yield Claim("number", _shown(found[0]), "no such number was seen")


def _without_names(sentence: str) -> str:
    text = _SPAN.sub(
        lambda s: f" {s[2]} " if _NUMERIC_SPAN.fullmatch(s[2].strip()) else " ` ", sentence
    )
    text = _QUOTED.sub(lambda q: " ' " if re.search(r"[^\W\d_]{2}", q[0]) else q[0], text)
    return _TIMES.sub(" ", _FILE.sub(" ", _ADDRESS.sub(" ", text)))


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
    return not (_is_year(token) and word.lower() not in _SCALES) and token not in _CONSTANTS


def _is_year(token: str) -> bool:
    return len(token) == 4 and token.isdigit() and 1900 <= int(token) <= 2100


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
    readings = _readings(found[0])
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
    if len(significant) < _SIGNIFICANT:
        return True
    unit = 10.0 ** (-len(decimals) if decimals else len(digits) - len(significant))
    value = float(plain)
    return any(seen.holds(value * power * each, unit * power * each) for each in scales)


def _readings(token: str) -> list[tuple[str, ...]]:
    """The ways to read ``token``, each one number or several; none when it is no number.

    Points, commas, spaces and apostrophes stand for decimals in one language, for thousands in
    another, and between the members of a list.
    """
    parts = re.split(f"['’_{_SPACES}]", token)
    if len(parts) > 1:
        joined = _joined(parts)
        apart = [_readings(part) for part in parts]
        separate = _without_years(number for each in apart if each for number in each[0])
        return [*([(joined,)] if joined else []), *([separate] if separate else [])]
    points, commas = token.count("."), token.count(",")
    if token.startswith("."):
        return [("0" + token,)] if points == 1 and not commas else []
    if not points and not commas:
        return [(token,)]
    if points and commas:
        last = max(token.rfind("."), token.rfind(","))
        grouping = "," if token[last] == "." else "."
        grouped = _joined(token[:last].split(grouping))
        if grouped and token.count(token[last]) == 1:
            return [(f"{grouped}.{token[last + 1 :]}",)]
        return [tuple(each for each in token.split(",") if each.count(".") < 2)]
    separator = "." if points else ","
    groups = token.split(separator)
    grouped = _joined(groups)
    readings: list[tuple[str, ...]] = [(grouped,)] if grouped else []
    if len(groups) == 2:
        listed = separator == "," and all(len(each) >= _SIGNIFICANT for each in groups)
        return [
            *readings,
            (f"{groups[0]}.{groups[1]}",),
            *([_without_years(groups)] if listed else []),
        ]
    # Three parts with points that are no thousands are a version or a date.
    return readings if separator == "." else [*readings, _without_years(groups)]


def _without_years(numbers: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in numbers if not _is_year(each))


def _joined(groups: Sequence[str]) -> str | None:
    """The number that groups of digits make, by thousands or as in India."""
    first, *rest = groups
    if not rest:
        return first if first.isdigit() else None
    last = rest[-1].partition(".")[0]
    sizes = {len(each) for each in rest[:-1]}
    if first.startswith("0") or not 1 <= len(first) <= 3 or len(last) != 3:
        return None
    return "".join(groups) if sizes <= {3} or sizes == {2} else None


# -- deeds ---------------------------------------------------------------------------------------

_SUBJECT = r"(?:^|[,:]\s+|\b(?:and|then)\s+|\b(?:I|We|we)(?:[’']ve| have)?\s+)"
_OBJECT = (
    r"(?=(?:the|a|an|this|these|it|them|both|all|two|three|my|your|its|one|everything)\b|[`\"'“*])"
)
_PUT_OUT = re.compile(
    rf"{_SUBJECT}(?:(?:also|then|successfully|finally)\s+)?(published|saved|exported)\s+{_OBJECT}"
    r"|\b(?:is|are|was|were|been)\s+(?:(?:now|also|successfully|both|all|then)\s+){0,2}"
    r"(published|saved|exported|written(?=\s+(?:to|into)\b))\b(?!\s+(?:by|from|every|each|daily|weekly|monthly|yearly)\b"
    r"|\s+in\s+(?:19|20)[0-9])"
    r"|^\W*(published|saved|exported)\W*:\W*(?!\s|none|nothing|no\b)"
    r"|^\W*(?:the\s+)?(?:[\w`]+\s+){0,3}?(?:chart|plot|data ?set|table|file|report|results?|figure"
    r"|data|`[^`]{1,100}`)\s+(published|saved|exported|written)(?=\s+(?:to|as|under|at)\b|\W*$)"
    r"|\b(?:wurden?|ist|sind|habe)\b[^,:]{0,120}?\b(veröffentlicht|gespeichert|exportiert)\b",
    re.IGNORECASE,
)
_THING = re.compile(
    r"\b(?:charts?|plots?|graphs?|figures?|tables?|data ?sets?|reports?|files?|frames?|dataframes?"
    r"|results?|csv|it|they|them|everything|diagramm\w*|tabellen?|datei\w*|datens\w+|bericht\w*"
    r"|ergebnis\w*|grafik\w*)\b|`",
    re.IGNORECASE,
)
_IN_MEMORY = re.compile(
    r"\b(?:variable\w*|memory|namespace|notebook|columns?|spalte\w*|dataframe)\b", re.IGNORECASE
)
_WORKED = re.compile(
    r"(?:^\W*|\b(?:I|We|we)(?:[’']ve| have)?\s+|\bha(?:s|ve) been\s+)(?:now\s+|successfully\s+)?"
    r"(loaded|plotted|computed|calculated|cleaned|created|drew|drawn|filtered|merged|aggregated"
    r"|trained|fitted|analy[sz]ed|imported|renamed|removed|converted)\b",
    re.IGNORECASE,
)


def _deeds(text: str, seen: Observation) -> Iterator[Claim]:
    for sentence in _sentences(text):
        plain = sentence.strip().lstrip("-*•#> ")
        if (found := _PUT_OUT.search(plain)) and _is_asserted(plain, found):
            verb = next(group for group in found.groups() if group).lower()
            kept = verb in ("saved", "written", "gespeichert") and _is_kept(plain, seen)
            if _THING.search(plain) and not (kept or seen.published or seen.wrote):
                yield Claim("deed", f"“{_shown(plain)}”", "nothing was published or written")
        if not seen.ran and (found := _WORKED.search(plain)) and _is_asserted(plain, found):
            yield Claim("deed", f"“{_shown(plain)}”", "no code ran")


def _is_kept(sentence: str, seen: Observation) -> bool:
    """Whether something is said to be in a variable rather than in a file."""
    if _FILE.search(sentence):
        return False
    spans = {span[2].strip() for span in _SPAN.finditer(sentence)}
    return bool(spans & set(seen.names)) or bool(_IN_MEMORY.search(sentence))


def _is_asserted(sentence: str, found: re.Match[str]) -> bool:
    before, after = sentence[max(0, found.start() - 80) : found.end()], sentence[found.end() :]
    if any(each.search(before) for each in (_NEGATED, _SUPPOSED, _EARLIER)):
        return False
    return not re.match(r"\s*(?:nothing|no|none|neither)\b", after) and not _EARLIER.search(after)
