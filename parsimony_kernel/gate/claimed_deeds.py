"""Deeds that a summary reports and that were not done in the run.

Publishing and writing need something published or written; any work needs code that ran.
"""

import re
from collections.abc import Iterator

from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.prose import (
    EARLIER,
    FILE,
    NEGATED,
    SPAN,
    SUPPOSED,
    Claim,
    sentences,
    shown,
)

_SUBJECT = r"(?:^|[,:]\s+|\b(?:and|then)\s+|\b(?:I|We|we)(?:[’']ve| have)?\s+)"
_OBJECT = (
    r"(?=(?:the|a|an|this|these|it|them|both|all|two|three|my|your|its|one|everything)\b|[`\"'“*])"
)
_PUT_OUT = re.compile(
    rf"{_SUBJECT}(?:(?:also|then|successfully|finally)\s+)?(published|saved|exported)\s+{_OBJECT}"
    r"|\b(?:is|are|was|were|been)\s+(?:(?:now|also|successfully|both|all|then)\s+){0,2}"
    r"(published|saved|exported|written(?=\s+(?:to|into)\b))\b"
    r"(?!\s+(?:by|from|every|each|daily|weekly|monthly|yearly)\b"
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


def undone_deeds(text: str, seen: Observation) -> Iterator[Claim]:
    """The sentences of ``text`` that report what was not done."""
    for sentence in sentences(text):
        plain = sentence.strip().lstrip("-*•#> ")
        if (found := _PUT_OUT.search(plain)) and _is_asserted(plain, found):
            verb = next(group for group in found.groups() if group).lower()
            kept = verb in ("saved", "written", "gespeichert") and _is_kept(plain, seen)
            if _THING.search(plain) and not (kept or seen.published or seen.wrote):
                yield Claim("deed", f"“{shown(plain)}”", "nothing was published or written")
        if not seen.ran and (found := _WORKED.search(plain)) and _is_asserted(plain, found):
            yield Claim("deed", f"“{shown(plain)}”", "no code ran")


def _is_kept(sentence: str, seen: Observation) -> bool:
    """Whether something is said to be in a variable rather than in a file."""
    if FILE.search(sentence):
        return False
    spans = {span[2].strip() for span in SPAN.finditer(sentence)}
    return bool(spans & set(seen.names)) or bool(_IN_MEMORY.search(sentence))


def _is_asserted(sentence: str, found: re.Match[str]) -> bool:
    before, after = sentence[max(0, found.start() - 80) : found.end()], sentence[found.end() :]
    if any(each.search(before) for each in (NEGATED, SUPPOSED, EARLIER)):
        return False
    return not re.match(r"\s*(?:nothing|no|none|neither)\b", after) and not EARLIER.search(after)
