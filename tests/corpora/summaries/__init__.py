"""Summaries of real results: true ones, and ones with an invention.

A result is what code printed over the files of this repository. ``kind`` says what a true summary
does with it (sums, shares, other units, another language …), and how an invented one goes wrong;
``wrong`` are the numbers that no result supports, as the summary writes them. A case whose result
is ``held_out`` was not looked at while the check was written.
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Result:
    """What ``code`` printed, and the variables and columns that were bound then."""

    code: str
    text: str
    names: list[str]


@dataclass(frozen=True)
class Case:
    """One summary of one result. ``did`` names what was done besides: published."""

    id: str
    result: str
    kind: str
    request: str
    summary: str
    wrong: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)

    @property
    def held_out(self) -> bool:
        return sorted(RESULTS).index(self.result) % 3 == 1


def _results() -> Iterator[tuple[str, Result]]:
    given = tomllib.loads((FOLDER / "results.toml").read_text(encoding="utf-8"))
    for name, fields in given.items():
        yield name, Result(**fields)


RESULTS = dict(_results())


def load(name: Literal["true", "invented"]) -> list[Case]:
    """Read one of both lists."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Case(**json.loads(line)) for line in lines]
