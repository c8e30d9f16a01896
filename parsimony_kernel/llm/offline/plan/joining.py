"""Tables that are brought together, before the tasks that use them."""

from parsimony_kernel.llm.offline.grammar.clauses import Join
from parsimony_kernel.llm.offline.missing import not_understood
from parsimony_kernel.llm.offline.plan.step import Step, Work
from parsimony_kernel.llm.offline.plan.turn import Turn


def add_join(turn: Turn, clause: Join, current: str | None, work: Work) -> str:
    """Put ``clause`` into the work; returns the table that later statements are about."""
    raise not_understood([clause.text])


def join(turn: Turn, work: Work) -> Step | None:
    """The step that brings two tables together; none when all is done."""
    return None
