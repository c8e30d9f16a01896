"""What may be used to resolve a statement, and a statement whose words are all resolved.

Values only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parsimony_kernel.offline.analysis import Except, Group, Keep
from parsimony_kernel.offline.grammar.clauses import Statement
from parsimony_kernel.offline.schema import Column


@dataclass
class Known:
    """What may be used: answers by question, values found by words, and counts by table.

    ``settled`` says that the rows were kept already, so that their conditions need no proof.
    """

    answers: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    nouns: frozenset[str] = frozenset()
    settled: bool = False


@dataclass
class Reading:
    """A statement whose words are all resolved."""

    statement: Statement
    wishes: list[tuple[str, list[Column]]] = field(default_factory=list)
    measures: list[Column] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    against: Column | None = None
    color: Column | None = None
    sort: Column | None = None
    rank_entity: Column | None = None
    rank_by: Column | None = None
    keeps: list[Keep] = field(default_factory=list)
    excepts: list[Except] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def filters(self) -> list[Keep | Except]:
        """All that the rows have to meet."""
        return [*self.keeps, *self.excepts]
