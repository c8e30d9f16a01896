"""Which clauses of a request are understood; the others are declined or, by consent, left out.

Nothing that was asked is dropped in silence.
"""

from collections.abc import Sequence

from parsimony_kernel.offline.columns import candidates, near_values
from parsimony_kernel.offline.grammar.clauses import (
    Clause,
    Load,
    Mention,
    Publish,
    Report,
    Statement,
)
from parsimony_kernel.offline.missing import STOP, Ask, Declined, Stopped
from parsimony_kernel.offline.phrases import help_steps
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, singular, spoken, stem_of

DO_THE_REST = "Do the rest"


def supported(turn: Turn, clauses: Sequence[Clause]) -> list[Clause]:
    """The clauses to be done; raises ``Missing`` where some are not understood."""
    loads = any(isinstance(c, Load) for c in clauses)
    odd: list[str] = []
    kept: list[Clause] = []
    for clause in clauses:
        strange = [word for word in clause.unsupported if not _is_column(turn, word)]
        if isinstance(clause, Statement) and not strange:
            strange = [] if loads or _speaks_of_data(turn, clause) else [clause.text]
        if strange:
            odd += strange
        else:
            kept.append(clause)
    useful = [c for c in kept if not isinstance(c, Publish | Report)]
    if not odd and kept:
        return kept
    shown = spoken(repr(o[:80]) for o in odd[:4]) or repr(turn.transcript.request[:80])
    if not useful:
        raise Declined(
            f"The offline model does not know how to do this: {shown}.",
            [f"{o[:80]!r} is outside of what the offline model understands" for o in odd[:4]]
            or ["no request that it knows"],
            help_steps(),
        )
    question = f"I do not know how to do {shown}. Shall I do the rest without it?"
    reply = turn.answers.get(question)
    if reply is None:
        raise Ask(question, [DO_THE_REST, STOP])
    if not reply.casefold().startswith(("do", "yes", "ok", "go", "1", "sure", "please")):
        raise Stopped
    turn.tell([f"Left out, as agreed: {shown}"])
    return kept


def _is_column(turn: Turn, word: str) -> bool:
    return any(fold(c.name) == fold(word) for t in turn.tables.values() for c in t.columns)


def _speaks_of_data(turn: Turn, statement: Statement) -> bool:
    """Whether anything in it speaks of data rather than of the world at large."""
    if statement.has_structure:
        return True
    words = {singular(w) for w in fold(statement.text)}
    subjects = [*turn.frames, *map(stem_of, turn.files)]
    if any({singular(w) for w in fold(s)} & words for s in subjects):
        return True
    if words & {"data", "dataset", "table", "row", "record", "everything"}:
        return True
    # "the meaning of life" is not about life, even where a column is called so.
    mentions = statement.measures or statement.about
    values = [v for c in statement.conditions for v in c.values if isinstance(v, Mention)]
    pool = [c for table in turn.tables.values() for c in table.columns]
    seen = [s for c in pool if c.is_text for s in c.samples]
    return any(m.column or _names_one(m.text, pool) for m in [*mentions, *values]) or any(
        near_values(m.text, seen, 1) for m in values
    )


def _names_one(text: str, pool: Sequence[Column]) -> bool:
    """Whether a column accounts for most of the words."""
    return any(2 * len(m.extra) <= len(fold(text)) for m in candidates(text, pool))
