"""A clause that asks for a column that is computed from others."""

from collections.abc import Sequence

from parsimony_kernel.llm.offline.grammar.clauses import Derive
from parsimony_kernel.llm.offline.grammar.items import Item
from parsimony_kernel.llm.offline.grammar.rules import Phrase

PHRASES: tuple[Phrase, ...] = ()
# The kinds of items that only such a clause has a place for.
KINDS: frozenset[str] = frozenset()


def read_derive(items: Sequence[Item]) -> tuple[Derive, list[Item]] | None:
    """The clause and the items that go on from it; none where ``items`` are of another kind."""
    return None
