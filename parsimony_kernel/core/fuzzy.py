"""Fuzzy matching of names: typos, inflected forms, and the column that a name may mean.

Compares words, not only letters; columns that cannot be told apart are all returned.
"""

import re
import unicodedata
from collections.abc import Iterable

from rapidfuzz import fuzz, process

NEAR = 60.0
MAX_COMPARED = 2_000
MAX_SAID = 20_000

_CLEAR = 75.0
_MARGIN = 5.0
_ENOUGH = 85.0


def alike(a: str, b: str) -> bool:
    """Return whether one is a prefix of the other, or they differ by hardly more than a typo.

    Short words match only if equal.
    """
    if a == b:
        return True
    short, long = sorted((a, b), key=len)
    if re.fullmatch(f"(?:un|in|im|ir|il|non|dis|de){re.escape(short)}", long):
        return False
    if len(short) >= 4 and long.startswith(short):
        return True
    return len(short) >= 5 and fuzz.ratio(a, b) >= _ENOUGH


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` was probably meant to be."""
    found = process.extractOne(name, list(known), score_cutoff=NEAR)
    return None if found is None else str(found[0])


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a clause with the name that was probably meant, or with the names there are."""
    names = list(known)
    if likely := nearest(name, names):
        return f"did you mean {likely!r}?"
    return f"there are {', '.join(names)}" if names else "there is none yet"


def near_columns(name: str, columns: Iterable[str]) -> list[str]:
    """Return the columns that ``name`` may mean, best first; several if they cannot be told
    apart.
    """
    scored = [(_nearness(name, column), column) for column in list(columns)[:MAX_COMPARED]]
    best = max((score for score, _ in scored), default=0.0)
    if best < _CLEAR:
        return []
    scored.sort(key=lambda each: -each[0])
    return [column for score, column in scored if score > best - _MARGIN]


def is_said(name: str, text: str) -> bool:
    """Return whether every word of ``name`` occurs in ``text`` in some form."""
    asked, spoken = words_of(name), set(words_of(text, MAX_SAID))
    return bool(asked) and all(
        word in spoken or any(alike(word, each) for each in spoken) for word in asked
    )


def words_of(name: str, limit: int = 200) -> tuple[str, ...]:
    """Split a name: ``temp_max`` and ``TempMax`` are both ``("temp", "max")``."""
    spread = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", unicodedata.normalize("NFKC", name[:limit]))
    return tuple(re.findall(r"[^\W_]+", spread.casefold()))


def _nearness(name: str, column: str) -> float:
    asked, own = words_of(name), words_of(column)
    if not asked or not own:
        return 0.0
    if "".join(asked) == "".join(own):
        return 100.0
    if all(any(alike(a, o) for o in own) for a in asked):
        return 92.0
    if all(any(alike(a, o) for a in asked) for o in own):
        return 88.0
    return fuzz.ratio("".join(asked), "".join(own)) * 0.95
