"""How well the rules do on the labelled corpus."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from parsimony_kernel.core.taxonomy import FailureType
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


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def report(part: Part, shape: Shape) -> str:
    """The table of one part."""
    pairs = answers(part, shape)
    lines = [f"{part} part, {shape}: {len(pairs)} entries"]
    rows = [
        *((kind.value, figures) for kind, figures in by_type(pairs).items()),
        ("all but unknown", of_decisions(pairs)),
    ]
    lines.append(f"  {'type':<20}{'true':>6}{'said':>6}{'right':>6}{'precision':>11}{'recall':>9}")
    for name, f in rows:
        lines.append(
            f"  {name:<20}{f.true:>6}{f.said:>6}{f.right:>6}"
            f"{_percent(f.precision):>11}{_percent(f.recall):>9}"
        )
    return "\n".join(lines)
