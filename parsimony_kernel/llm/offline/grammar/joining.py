"""A clause that asks for two tables to be brought together."""

from collections.abc import Sequence

from parsimony_kernel.llm.offline.grammar.clauses import Join
from parsimony_kernel.llm.offline.grammar.items import Item
from parsimony_kernel.llm.offline.grammar.rules import Phrase

PHRASES: tuple[Phrase, ...] = ()
# The kinds of items that only such a clause has a place for.
KINDS: frozenset[str] = frozenset()


def read_join(items: Sequence[Item]) -> tuple[Join, list[Item]] | None:
    """The clause and the items that go on from it; none where ``items`` are of another kind."""
    return None
