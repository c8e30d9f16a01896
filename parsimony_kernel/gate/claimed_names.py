"""Names of variables and files in a summary that were not observed.

A name is a claim only where it is set as code; what is denied or supposed is none.
"""

import re
import sys
from collections.abc import Iterator

from parsimony_kernel.gate.library_names import is_of_a_library
from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.prose import ADDRESS, FILE, SPACED_FILE, SPAN, SUPPOSED, Claim, shown
from parsimony_kernel.gate.written import Writing
from parsimony_kernel.triage.constraints import NEGATED, sentences

_IDENTIFIER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_FRAME_NAME = re.compile(r"df\d*|\w*_\w*")
_DOMAINS = frozenset({"com", "org", "net", "io", "gov", "eu", "de"})
_NICKNAMES = frozenset({"pd", "np", "alt", "plt", "pl", "sns", "px", "self"})
_SETTING = re.compile(
    r"\b(?:defaults?|parameters?|arguments?|options?|keywords?|settings?|voreinstell\w*)\b",
    re.IGNORECASE,
)
_STORED = re.compile(
    r"\b(?:saved?|stored|exported|published|written|wrote|created|generated|produced|made"
    r"|gespeichert|exportiert|veröffentlicht|erstellt)\b",
    re.IGNORECASE,
)


def unseen_names(text: str, seen: Observation) -> Iterator[Claim]:
    """The names of variables and columns in ``text`` that stand nowhere."""
    for sentence in sentences(text):
        if any(each.search(sentence) for each in (NEGATED, SUPPOSED, _SETTING)):
            continue
        for span in SPAN.finditer(sentence):
            name = re.sub(r"\([^()]*\)$|\[[^\[\]]*\]$", "", span[2].strip())
            if _IDENTIFIER.fullmatch(name) and _is_unknown(name, seen):
                yield Claim("name", f"`{shown(name)}`", "no such name was seen")


def unseen_files(text: str, seen: Observation) -> Iterator[Claim]:
    """The names of files in ``text`` that stand nowhere."""
    for sentence in sentences(text):
        if NEGATED.search(sentence) or SUPPOSED.search(sentence):
            continue
        bare = ADDRESS.sub(" ", sentence)
        spaced = [span[2].strip() for span in SPAN.finditer(bare)]
        whole = dict.fromkeys(each for each in spaced if SPACED_FILE.fullmatch(each))
        bare = SPAN.sub(_without_spaced_file, bare)
        for name in dict.fromkeys((*whole, *(found[0] for found in FILE.finditer(bare)))):
            if not _is_known_file(name, seen) and not _is_of_a_helper(sentence, seen):
                yield Claim("file", f"`{shown(name)}`", "no such file was seen")


def _without_spaced_file(span: re.Match[str]) -> str:
    return " " if SPACED_FILE.fullmatch(span[2].strip()) else span[0]


def _is_known_file(name: str, seen: Observation) -> bool:
    # A span may be a path with spaces in it, or a command that ends with a path.
    ends = (re.split(end, name)[-1] for end in (r"[/\\]", r"[/\\\s]"))
    return any(map(seen.mentions, ends)) or seen.has_file(name)


def _is_of_a_helper(sentence: str, seen: Observation) -> bool:
    """Whether a call that does not say where it writes may have made the file."""
    return bool(_STORED.search(sentence)) and seen.written is Writing.unseen


def _is_unknown(name: str, seen: Observation) -> bool:
    if FILE.fullmatch(name):
        return False
    root, _, rest = name.partition(".")
    if not rest and not _FRAME_NAME.fullmatch(name):
        return False
    if root in seen.names or root in _NICKNAMES or root in sys.modules or rest in _DOMAINS:
        return False
    return not (is_of_a_library(name) or seen.mentions(name) or (rest and seen.mentions(root)))
