"""Words of a person are matched to columns and values that exist.

One clear match is used, several are a question, none is a question with what is plausible.
Nothing is ever substituted in silence: a match that is not literal carries that fact.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz

from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import canonical, fold, singular

CLEAR = 75.0
MARGIN = 5.0


@dataclass(frozen=True)
class Match:
    """What words were taken for. ``extra`` are the words that the column does not account for."""

    column: Column
    score: float
    extra: tuple[str, ...] = ()

    @property
    def literal(self) -> bool:
        """Whether the words are the name, but for case and separators."""
        return self.score >= 100


def ranked(phrase: str, columns: Iterable[Column]) -> list[Match]:
    """The columns that ``phrase`` may mean, best first; empty when none is near."""
    words = fold(phrase)
    found = [match for column in columns if (match := _match(words, column)) is not None]
    return sorted(found, key=lambda match: -match.score)


def candidates(phrase: str, columns: Sequence[Column]) -> list[Match]:
    """The matches that cannot be told apart: one is clear, several are a question."""
    found = ranked(phrase, columns)
    if not found:
        return []
    best = found[0].score
    return [m for m in found if m.score > best - MARGIN]


def _match(words: tuple[str, ...], column: Column) -> Match | None:
    own = fold(column.name)
    if not words or not own:
        return None
    if words == own or tuple(map(singular, words)) == tuple(map(singular, own)):
        return Match(column, 100)
    mine, yours = canonical(own), canonical(words)
    if mine == yours or "".join(mine) == "".join(yours):
        return Match(column, 97)
    if len(words) == 1 and len(own) > 1 and words[0] == "".join(w[0] for w in own):
        return Match(column, 93)
    if all(any(alike(y, m) for m in mine) for y in yours):
        return Match(column, 90)
    if all(any(alike(y, m) for y in yours) for m in mine):
        extra = tuple(w for w, y in zip(words, yours, strict=True) if not _any_alike(y, mine))
        return Match(column, 84 + min(len(mine), 4), extra)
    ratio = fuzz.ratio("".join(yours), "".join(mine))
    return Match(column, ratio * 0.9) if ratio * 0.9 >= CLEAR else None


def _any_alike(word: str, others: Iterable[str]) -> bool:
    return any(alike(word, other) for other in others)


def same_value(words: str, value: str) -> bool:
    """Whether a person who writes ``words`` names ``value``, but for case."""
    return words.strip().casefold() == value.strip().casefold()


def near_values(words: str, values: Iterable[str], limit: int = 5) -> list[str]:
    """The values that ``words`` nearly name, best first."""
    low = words.strip().casefold()
    scored = []
    for value in dict.fromkeys(values):
        other = value.casefold()
        score = fuzz.ratio(low, other)
        short, long = sorted((low, other), key=len)
        if len(short) >= 3 and long.startswith(short):
            score = max(score, 85.0)
        elif len(low) >= 3 and low in other:
            score = max(score, 80.0)
        if score >= 70:
            scored.append((-score, value))
    return [value for _, value in sorted(scored)[:limit]]


def near_files(name: str, files: Iterable[str], limit: int = 4) -> list[str]:
    """The files whose names come near ``name``, best first."""
    low = name.casefold().replace("\\", "/").rpartition("/")[2]
    bare = low.rpartition(".")[0] or low
    scored = []
    for path in files:
        other = path.casefold().rpartition("/")[2]
        other_bare = other.rpartition(".")[0] or other
        score = fuzz.ratio(bare, other_bare)
        if len(bare) >= 4 and (bare in other_bare or other_bare in bare):
            score = max(score, 80.0)
        if score >= 70:
            scored.append((-score, path))
    best = min((score for score, _ in scored), default=0.0)
    return [path for score, path in sorted(scored)[:limit] if score < best + 15]
