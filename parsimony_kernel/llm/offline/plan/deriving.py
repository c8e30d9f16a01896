"""Columns that are computed from others, before the tasks that use them."""

from parsimony_kernel.llm.offline.grammar.clauses import Derive
from parsimony_kernel.llm.offline.missing import not_understood
from parsimony_kernel.llm.offline.plan.step import Step, Work
from parsimony_kernel.llm.offline.plan.turn import Turn


def add_derive(turn: Turn, clause: Derive, current: str | None, work: Work) -> str:
    """Put ``clause`` into the work; returns the table that later statements are about."""
    raise not_understood([clause.text])


def derive(turn: Turn, work: Work) -> Step | None:
    """The step that adds a column that was asked for; none when all is done."""
    return None
