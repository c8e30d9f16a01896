"""The values of planning: a step, and a turn taken apart into sources, tasks and publications."""

from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.offline.grammar.clauses import (
    Derive,
    Join,
    Publish,
    Refresh,
    Report,
    Statement,
)
from parsimony_kernel.offline.resolve.reading import Reading


@dataclass(frozen=True)
class Step:
    """What to say and which tools to call."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass(frozen=True)
class Source:
    """A file and the variable that it is read into."""

    path: str
    name: str


@dataclass
class Task:
    """A statement, the table that it is about, and where its rows come from."""

    statement: Statement
    table: str
    base: str = ""
    narrowed: str = ""
    reading: Reading | None = None


@dataclass(frozen=True)
class Prepared:
    """A table that is made for the tasks: ``name``, ``made_of`` others.

    ``column`` is the one that is new in it.
    """

    clause: Derive | Join
    made_of: tuple[str, ...]
    name: str
    column: str | None = None


@dataclass
class Product:
    """What a statement made, and of which table."""

    table: str | None
    chart: str | None
    title: str
    base: str | None = None


@dataclass(frozen=True)
class Exhibit:
    """A chart or a dataset that is published; ``base`` is the table that it was made of now."""

    kind: str
    variable: str
    title: str
    base: str | None = None

    @property
    def tool(self) -> str:
        """The tool that publishes it."""
        return f"return_{self.kind}"


@dataclass
class Work:
    """A turn taken apart: sources to load, tables to prepare, tasks to do, what to publish.

    What is published and reported stands with the number of tasks before it.
    """

    sources: list[Source] = field(default_factory=list)
    preparing: list[Prepared] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    publishing: list[tuple[Publish, int, str | None]] = field(default_factory=list)
    reports: list[tuple[Report, int, str | None]] = field(default_factory=list)
    refreshing: list[Refresh] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def made(self) -> list[str]:
        """The tables that are loaded or prepared for the tasks, in order."""
        return [*(s.name for s in self.sources), *(p.name for p in self.preparing)]
