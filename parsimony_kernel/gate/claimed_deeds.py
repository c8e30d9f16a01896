"""Deeds that a summary reports and that were not done in the run.

Publishing and writing need something published or written; any work needs code that ran. What
somebody else did, or did at some other time, is no deed of the run.
"""

import re
from collections.abc import Iterator
from itertools import islice

from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.prose import EARLIER, FILE, SPAN, SUPPOSED, Claim, shown
from parsimony_kernel.gate.written import Writing
from parsimony_kernel.triage.constraints import NEGATED, sentences

MAX_VERBS = 20
_NEAR = 120

_VERB = re.compile(
    r"\b(?:(published|saved|exported|written)|(veröffentlicht|gespeichert|exportiert))\b", re.I
)
_THING = (
    r"(?:charts?|plots?|graphs?|figures?|tables?|data ?sets?|reports?|files?|frames?|dataframes?"
    r"|results?|csv|it|they|them|both|everything|`[^`\n]{1,100}`)"
)
_ANY_THING = re.compile(
    rf"\b{_THING}\b|`|\b(?:diagramm|tabelle|datei|datens|daten|bericht|ergebnis|grafik)", re.I
)
_ALSO = r"(?:(?:also|now|then|both|all|successfully|finally)\s+){0,2}"
_BETWEEN = r"(?:(?!(?:in|of|on|for|from|at|by|with|to|that|which)\b)[\w`.-]{1,40}\s+){0,3}?"
# Before the verb: the agent itself, what it joins on to, or the thing that it was done to.
_AGENT = re.compile(rf"(?:^|\b(?:I|We|we)(?:[’']ve|\s+have)?\s+){_ALSO}$")
_JOINED = re.compile(rf"(?:[,:]\s+|\b(?:and|then)\s+){_ALSO}$")
_OWN = re.compile(r"(?:I|We)\b|(?:all )?done\b|\w+ed\b|(?:built|drew|wrote|made|read|ran)\b", re.I)
_PASSIVE = re.compile(
    rf"(?:^|[,;:]\s+|\band\s+){_BETWEEN}{_THING}\s+(?:is|are|was|were|ha(?:s|ve) been)\s+{_ALSO}$",
    re.I,
)
_NOUN = re.compile(rf"^{_BETWEEN}{_THING}\s+$", re.I)
_GERMAN = re.compile(r"\b(?:wurden?|ist|sind|habe)\b(?P<between>[^,:]{0,100})$", re.I)
# Behind the verb: what shows that a thing was put somewhere, and what shows that it was not now.
_OBJECT = re.compile(
    r"\s+(?:(?:the|a|an|this|these|it|them|both|all|two|three|my|your|its|one|everything)\b"
    r"|[`\"'“*])",
    re.I,
)
_LABEL = re.compile(r"[*_]{0,3}\s?:[*_]{0,3}\s{0,3}(?!none|nothing|no\b|\d)\S", re.I)
_PUT = re.compile(
    r"\W*$|[,.;)]|\s+and\b|\s+(?:to|into|under|at)\b(?!\s+the\s+(?:left|right|top|bottom)\b)"
    r"|\s+as\s+(?:an?\s+)?(?:[`\"'“]|[\w./-]{1,100}\.[a-z]{2,7}\b|(?:csv|html|png|pdf|excel)\b)"
    r"|\s+(?:in|on)\s+(?:[`\"'“]|disk\b|[\w./-]{1,100}\.[a-z]{2,7}\b"
    r"|(?:the|a|your)\s+(?:new\s+)?(?:file|folder|workspace|notebook|variable|column)\b)",
    re.I,
)
_INTO = re.compile(r"\s+(?:to|into)\b")
_DATED = re.compile(
    r"\b(?:in (?:the )?(?:early |late )?(?:19|20)\d\d|on \d{1,2}\b|(?:am|im Jahr) \d)"
    r"|^\s+(?:19|20)\d\d",
    re.I,
)
_BY_OTHERS = re.compile(r"\b(?:by\s+(?:the|a|an|[A-Z])|according)\b|\b(?:von|vom|durch)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b|\bam \d")
_IN_MEMORY = re.compile(
    r"\b(?:variable\w*|memory|namespace|notebook|columns?|spalte\w*|dataframe)\b", re.IGNORECASE
)
_WORKED = re.compile(
    r"(?:^|\b(?:I|We|we)(?:[’']ve| have)?\s+|\bha(?:s|ve) been\s+)(?:now\s+|successfully\s+)?"
    r"(?:loaded|plotted|computed|calculated|cleaned|created|drew|drawn|filtered|merged|aggregated"
    r"|trained|fitted|analy[sz]ed|imported|renamed|removed|converted)\b(?!\s+(?:(?:the|your|this|a"
    r"|an|my)\s+)?(?:questions?|requests?|problems?|messages?|tasks?|wording|plan|outline|list"
    r"|options?|answers?|draft|examples?)\b)",
    re.IGNORECASE,
)


def undone_deeds(text: str, seen: Observation) -> Iterator[Claim]:
    """The sentences of ``text`` that report what was not done."""
    for sentence in sentences(text):
        plain = sentence.strip().lstrip("-*•#>_~ ✅✓")
        if _reports_output(plain) and not _is_supported(plain, seen):
            yield Claim("deed", f"“{shown(plain)}”", "nothing was published or written")
        if not seen.ran and (found := _WORKED.search(plain)) and _is_asserted(plain, found):
            yield Claim("deed", f"“{shown(plain)}”", "no code ran")


def _reports_output(sentence: str) -> bool:
    """Whether the agent is said to have published or written something."""
    if not _ANY_THING.search(sentence):
        return False
    verbs = islice(_VERB.finditer(sentence), MAX_VERBS)
    return any(_is_own(sentence, verb) and _is_asserted(sentence, verb) for verb in verbs)


def _is_own(sentence: str, verb: re.Match[str]) -> bool:
    start, end = verb.span()
    # What was cut off is a word: the rest does not begin the sentence.
    before = sentence[:start] if start <= _NEAR else "… " + sentence[start - _NEAR : start]
    after = sentence[end : end + _NEAR]
    if _DATED.search(after):
        return False
    if verb[2]:
        german = _GERMAN.search(before)
        between = german["between"] if german else ""
        return german is not None and not (_BY_OTHERS.search(between) or _YEAR.search(between))
    if verb[1].lower() == "written":
        return bool(_PASSIVE.search(before) and _INTO.match(after) and _PUT.match(after))
    if _OBJECT.match(after) and (
        _AGENT.search(before) or (_JOINED.search(before) and _OWN.match(sentence))
    ):
        return True
    if not before and _LABEL.match(after):
        return True
    if _BY_OTHERS.search(after):
        return False
    if _PASSIVE.search(before) and _PUT.match(after):
        return True
    return bool(_NOUN.search(before) and re.match(r"\W*$|\s+(?:to|as|under|at)\b", after))


def _is_supported(sentence: str, seen: Observation) -> bool:
    files = [found[0] for found in FILE.finditer(sentence)]
    spans = [span[2].strip() for span in SPAN.finditer(sentence)]
    if seen.published or (not files and _is_in_memory(sentence, spans, seen)):
        return True
    named = dict.fromkeys((*files, *spans, *re.findall(r"['\"“]([^'\"”]{2,100})['\"”]", sentence)))
    # A variable of that name is there whether or not it was written.
    outside = [name for name in islice(named, MAX_VERBS) if name not in seen.names]
    return seen.written is not Writing.nothing or any(map(seen.has_file, outside))


def _is_in_memory(sentence: str, spans: list[str], seen: Observation) -> bool:
    if re.search(r"\b(?:published|exported|veröffentlicht|exportiert)\b", sentence, re.IGNORECASE):
        return False
    return any(span in seen.names for span in spans) or bool(_IN_MEMORY.search(sentence))


def _is_asserted(sentence: str, found: re.Match[str]) -> bool:
    before, after = sentence[max(0, found.start() - 80) : found.end()], sentence[found.end() :]
    if any(each.search(before) for each in (NEGATED, SUPPOSED, EARLIER)):
        return False
    return not re.match(r"\s*(?:nothing|no|none|neither)\b", after) and not EARLIER.search(after)
