"""Names of variables and files in a summary that were not observed.

A name is a claim only where it is set as code; what is denied or supposed is none.
"""

import re
import sys
from collections.abc import Iterator

from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.gate.prose import (
    ADDRESS,
    FILE,
    NEGATED,
    SPACED_FILE,
    SPAN,
    SUPPOSED,
    Claim,
    sentences,
    shown,
)

_IDENTIFIER = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_FRAME_NAME = re.compile(r"df\d*|\w*_\w*")
_DOMAINS = frozenset({"com", "org", "net", "io", "gov", "eu", "de"})
_NICKNAMES = frozenset({"pd", "np", "alt", "plt", "pl", "sns", "px", "self"})


def unseen_names(text: str, seen: Observation) -> Iterator[Claim]:
    """The names of variables and columns in ``text`` that stand nowhere."""
    for sentence in sentences(text):
        if NEGATED.search(sentence) or SUPPOSED.search(sentence):
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
        whole = [each for each in spaced if SPACED_FILE.fullmatch(each)]
        for name in whole:
            bare = bare.replace(name, " ")
        for name in [*whole, *(found[0] for found in FILE.finditer(bare))]:
            # A span may be a path with spaces in it, or a command that ends with a path.
            if not any(seen.mentions(re.split(end, name)[-1]) for end in (r"[/\\]", r"[/\\\s]")):
                yield Claim("file", f"`{shown(name)}`", "no such file was seen")


def _is_unknown(name: str, seen: Observation) -> bool:
    if FILE.fullmatch(name):
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
