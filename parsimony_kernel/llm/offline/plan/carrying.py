"""What a request carries over from those before it."""

from collections.abc import Sequence

from parsimony_kernel.llm.offline.grammar.clauses import Clause, Statement
from parsimony_kernel.llm.offline.missing import Declined
from parsimony_kernel.llm.offline.phrases import help_steps
from parsimony_kernel.llm.offline.plan.turn import Turn


def carry(turn: Turn, clauses: Sequence[Clause], columns: Sequence[str]) -> list[Clause]:
    """The clauses made whole; ``columns`` are the names that count as one word.

    Raises ``Declined`` for "now by week": it says how to group, and nothing to compute.
    """
    first = clauses[0] if clauses else None
    if isinstance(first, Statement) and first.only_groups and not first.unsupported:
        raise Declined(
            f"{first.text!r} does not say what to compute.",
            ["the offline model does not carry a request over from the one before"],
            ["Say it whole, for instance: 'mean temp_max by week'.", *help_steps(short=True)],
        )
    return list(clauses)
