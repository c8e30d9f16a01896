"""Which names of a namespace code may change in place: what its text says, and what it reaches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.analysis.cell import Cell
from parsimony_kernel.lineage.kinds.plain import changes_arguments, is_bound
from parsimony_kernel.lineage.reach import used_through


@dataclass(frozen=True)
class Suspects:
    """Names of a namespace.

    Args:
        likely: those whose objects the code changes, as far as can be told.
        others: those that it only uses.
    """

    likely: frozenset[str]
    others: frozenset[str]


def suspects(what: Cell, bound: Mapping[str, Any]) -> Suspects:
    """What of ``bound`` code that says ``what`` may change, by name."""
    used, theirs = used_through(what.reads | what.may_mutate, bound)
    if what.changes_any:
        return Suspects(frozenset(bound), frozenset())
    if what.changes_all or theirs or any(changes_arguments(bound[name]) for name in used):
        return Suspects(frozenset(used), frozenset())
    likely = {name for name in used if name in what.may_mutate or is_bound(bound[name])}
    return Suspects(frozenset(likely), frozenset(used - likely))
