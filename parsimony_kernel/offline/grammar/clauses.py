"""What a request can say, clause by clause.

What is in no clause's place is kept as ``unsupported`` and never dropped, since a request that is
half understood must not be half answered in silence.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mention:
    """Words that stand where a column, a value or a name is expected."""

    text: str
    column: str | None = None
    quoted: bool = False
    unit: str | None = None


@dataclass
class Condition:
    """One filter. Values are numbers, ``Mention`` or dates ``(year, month, day)`` of any length.

    Conditions of one ``exclusion`` say together which rows to leave out; the one that ``leads``
    stood right behind the word for it.
    """

    left: Mention | None = None
    op: str | None = None
    values: list[Any] = field(default_factory=list)
    negated: bool = False
    word: str = ""
    exclusion: int = 0
    leads: bool = False

    @property
    def lacks(self) -> bool:
        """Whether it asks if there is a value at all."""
        return self.op in ("missing", "present")

    @property
    def empty(self) -> bool:
        """Whether nothing was said yet."""
        return self.left is None and not self.values


@dataclass
class Wish:
    """An aggregate that is asked for: a function over what is mentioned after it."""

    func: str
    of: list[Mention] = field(default_factory=list)


@dataclass
class Rank:
    """Top or bottom rows; ``implied`` are the measures that an adjective stands for."""

    count: int
    ascending: bool
    entity: list[Mention] = field(default_factory=list)
    by: list[Mention] = field(default_factory=list)
    func: str | None = None
    implied: tuple[str, ...] = ()
    adjective: str = ""


@dataclass
class Load:
    """Files to load: by name or by words, and the variable's name if one was given."""

    files: list[str] = field(default_factory=list)
    words: list[Mention] = field(default_factory=list)
    name: str | None = None
    unsupported: list[str] = field(default_factory=list)


@dataclass
class Publish:
    """What to publish, under which title; empty ``kinds`` is whatever was made last."""

    kinds: list[str] = field(default_factory=list)
    title: str | None = None
    target: list[Mention] = field(default_factory=list)
    every: bool = False
    unsupported: list[str] = field(default_factory=list)


@dataclass
class Report:
    """A report to write, and what it is to show."""

    title: str | None
    shows: Publish

    @property
    def unsupported(self) -> list[str]:
        """What of it is not understood."""
        return self.shows.unsupported


@dataclass
class Refresh:
    """What is published and is to be made again.

    ``name`` is what it is called, without the word for its ``kind``, and ``words`` is all that was
    said. ``new_data`` accepts that sources have changed.
    """

    name: str = ""
    words: str = ""
    kind: str | None = None
    new_data: bool = False
    unsupported: list[str] = field(default_factory=list)


@dataclass
class Derive:
    """A column to compute from others, under a ``name`` of its own if one was given.

    ``expression`` is what was said of how; ``words`` name the table.
    """

    name: str | None = None
    expression: Any = None
    words: list[Mention] = field(default_factory=list)
    text: str = ""
    unsupported: list[str] = field(default_factory=list)


@dataclass
class Join:
    """Two tables to bring together by ``keys``, in the way of ``how``: inner, left, right, outer.

    Empty ``keys`` and no ``how`` were not said.
    """

    left: list[Mention] = field(default_factory=list)
    right: list[Mention] = field(default_factory=list)
    keys: list[Mention] = field(default_factory=list)
    how: str | None = None
    text: str = ""
    unsupported: list[str] = field(default_factory=list)


@dataclass
class Statement:
    """A question to a table.

    ``missing`` is what to do about missing values, and ``fill`` what to put there; ``correlation``
    is the way in which columns are correlated; ``again`` says that it goes on from what came
    before, in place of ``instead_of``.
    """

    text: str = ""
    verb: str = ""
    chart: str | None = None
    wishes: list[Wish] = field(default_factory=list)
    measures: list[Mention] = field(default_factory=list)
    groups: list[Mention] = field(default_factory=list)
    about: list[Mention] = field(default_factory=list)
    against: list[Mention] = field(default_factory=list)
    color: list[Mention] = field(default_factory=list)
    sort: list[Mention] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    rank: Rank | None = None
    over_time: bool = False
    describe: bool = False
    compare: bool = False
    distinct: bool = False
    ascending: bool | None = None
    head: tuple[str, int] | None = None
    bins: int | None = None
    stacked: bool = False
    refers_back: bool = False
    missing: str | None = None
    fill: str | float | None = None
    correlation: str | None = None
    again: bool = False
    instead_of: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether it asks for rows as they are."""
        return not (
            self.chart
            or self.wishes
            or self.groups
            or self.rank
            or self.sort
            or self.describe
            or self.distinct
            or self.head
            or self.over_time
            or self.against
            or self.compare
            or self.missing
            or self.correlation
            or any(m.column for m in [*self.measures, *self.about])
        )

    @property
    def has_structure(self) -> bool:
        """Whether it asks for something that only a table can tell."""
        return bool(
            self.chart
            or self.wishes
            or self.groups
            or self.rank
            or self.sort
            or self.head
            or self.describe
            or self.distinct
            or self.compare
            or self.files
            or self.over_time
            or self.missing
            or self.correlation
            or self.verb == "filter"
            or any(
                c.op or not all(isinstance(v, Mention) for v in c.values) for c in self.conditions
            )
        )

    @property
    def only_groups(self) -> bool:
        """Whether it says how to group, and neither what to compute nor of what."""
        return bool(self.groups) and not (
            self.verb
            or self.chart
            or self.wishes
            or self.measures
            or self.about
            or self.rank
            or self.distinct
            or self.compare
            or self.files
            or self.conditions
        )

    @property
    def bare_chart(self) -> bool:
        """Whether it only says how to draw what came before."""
        return self.chart is not None and not (
            self.wishes
            or self.measures
            or self.groups
            or self.rank
            or self.about
            or self.against
            or self.conditions
            or self.over_time
            or self.files
        )


Clause = Load | Derive | Join | Publish | Report | Refresh | Statement
