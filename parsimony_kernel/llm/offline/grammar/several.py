"""A clause that asks for several charts is taken apart: one for each."""

from collections.abc import Sequence

from parsimony_kernel.llm.offline.grammar.items import Item


def apart(items: Sequence[Item]) -> list[list[Item]]:
    """The clauses that ``items`` stand for, in order; most stand for one."""
    return [list(items)]
