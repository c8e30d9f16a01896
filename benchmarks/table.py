"""The table that a benchmark prints: its figures, and how they are written."""

import json
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

HEADS = ("", "at", "median", "spread", "baseline", "ratio", "growth")


@dataclass(frozen=True)
class Row:
    """One figure. ``items`` is what it grows with; 1 for a figure per item, 0 for none."""

    section: str
    at: str
    unit: str
    samples: Sequence[float]
    baseline: str = ""
    floor: Sequence[float] = ()
    items: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def floor_median(self) -> float | None:
        return statistics.median(self.floor) if self.floor else None

    @property
    def ratio(self) -> float | None:
        """To the baseline; ``None`` without one, or when it is nothing at all."""
        return self.median / self.floor_median if self.floor_median else None

    def growth(self, first: "Row") -> float | None:
        """Per item, in proportion to ``first``."""
        if not self.items:
            return None
        return (self.median / self.items) / (first.median / first.items)


def written(value: float | None, unit: str = "") -> str:
    """Three digits that say something, or a dash."""
    if value is None:
        return "–"
    if unit == "modules":
        return f"{value:.0f} {unit}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{digits}f} {unit}".rstrip()


def spread(row: Row) -> str:
    """The least and the most, unless they are the same."""
    low, high = min(row.samples), max(row.samples)
    return "–" if low == high else f"{written(low)} to {written(high, row.unit)}"


def cells(row: Row, first: Row) -> list[str]:
    """The row as the table shows it; the section is named in its ``first`` row only."""
    floor = row.floor_median
    return [
        row.section if row is first else "",
        row.at,
        written(row.median, row.unit),
        spread(row),
        "–" if floor is None else f"{row.baseline} {written(floor, row.unit)}",
        written(row.ratio),
        written(row.growth(first)),
    ]


def values(row: Row, first: Row) -> dict[str, Any]:
    """The row as JSON shows it."""
    return {
        "section": row.section,
        "at": row.at,
        "unit": row.unit,
        "median": row.median,
        "low": min(row.samples),
        "high": max(row.samples),
        "baseline": row.baseline,
        "baseline_median": row.floor_median,
        "ratio": row.ratio,
        "growth": row.growth(first),
    }


def show(rows: Iterable[Row], *, rounds: int, as_json: bool) -> None:
    """Print ``rows`` as Markdown, each when it is there, or all of them as JSON."""
    if not as_json:
        print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    firsts: dict[str, Row] = {}
    kept: list[dict[str, Any]] = []
    for row in rows:
        first = firsts.setdefault(row.section, row)
        if as_json:
            kept.append(values(row, first))
        else:
            print(f"| {' | '.join(cells(row, first))} |", flush=True)
    if as_json:
        about = {"python": platform.python_version(), "cpus": os.cpu_count()}
        print(json.dumps({**about, "rounds": rounds, "rows": kept}, indent=2))
