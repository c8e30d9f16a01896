"""How well the rules do on the labelled corpus."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from parsimony_kernel.core.kinds import FailureType
from parsimony_kernel.triage.classify import RulesClassifier

from .labelled import Entry, Part, Shape, entries


@dataclass(frozen=True)
class Figures:
    """Counts for one type. ``None`` where there is nothing to divide by."""

    right: int = 0
    said: int = 0
    true: int = 0

    @property
    def precision(self) -> float | None:
        return self.right / self.said if self.said else None

    @property
    def recall(self) -> float | None:
        return self.right / self.true if self.true else None


@cache
def answers(part: Part, shape: Shape) -> list[tuple[Entry, FailureType]]:
    """Each entry of ``part`` with what the rules say."""
    return [
        (entry, RulesClassifier(constraints=entry.constraints).judge(entry.steps(shape)))
        for entry in entries(part)
    ]


def by_type(pairs: Iterable[tuple[Entry, FailureType]]) -> dict[FailureType, Figures]:
    """The figures of each type that is in the corpus or was said."""
    pairs = list(pairs)
    right = Counter(said for entry, said in pairs if entry.label is said)
    says = Counter(said for _, said in pairs)
    true = Counter(entry.label for entry, _ in pairs)
    return {
        kind: Figures(right[kind], says[kind], true[kind])
        for kind in FailureType
        if says[kind] or true[kind]
    }


def of_decisions(pairs: Iterable[tuple[Entry, FailureType]]) -> Figures:
    """All types but ``UNKNOWN`` taken together."""
    each = [f for kind, f in by_type(pairs).items() if kind is not FailureType.UNKNOWN]
    return Figures(*(sum(getattr(f, name) for f in each) for name in ("right", "said", "true")))


def report(part: Part, shape: Shape) -> str:
    """The figures of one part, a line for each type."""
    pairs = answers(part, shape)
    figures = {kind.value: each for kind, each in by_type(pairs).items()}
    rows = {**figures, "all but unknown": of_decisions(pairs)}.items()
    lines = (f"  {kind}: {each.precision} {each.recall} of {each.true}" for kind, each in rows)
    return "\n".join((f"{part} part, {shape}, precision and recall", *lines))
