"""What is ranked, and by what."""

from parsimony_kernel.offline.columns import candidates
from parsimony_kernel.offline.grammar.clauses import Mention, Rank
from parsimony_kernel.offline.missing import Ask, not_understood
from parsimony_kernel.offline.resolve.mentions import read_group, read_measure
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject, names_of
from parsimony_kernel.offline.resolve.values import explain, holding, keep_value
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, singular

WHOLE_ROWS = "whole rows"


def read_rank(subject: Subject, rank: Rank, reading: Reading) -> None:
    """Resolve what is ranked, and the measure that an adjective means."""
    if rank.count == 0:
        plural = any(singular(w) != w for m in rank.entity for w in fold(m.text)[-1:])
        rank.count = 5 if plural else 1
        if plural:
            reading.notes.append("No number was named, so I show 5")
    entities = [m for m in rank.entity if m.column or m.unit or not subject.is_noun(m.text)]
    measures = [m for m in rank.by if not subject.is_noun(m.text) or m.column]
    if rank.by and not measures and rank.func is None:
        rank.func = "count"
    for mention in entities[:1]:
        _entity(subject, mention, reading)
    for mention in entities[1:]:
        read_measure(subject, mention, reading)
    entity = reading.rank_entity
    if rank.implied and not measures and entity is not None and entity.is_number:
        reading.rank_entity, reading.rank_by = None, entity
    elif rank.implied and not measures:
        reading.rank_by = _implied(subject, rank, reading)
    for mention in measures[:1]:
        column, extra = subject.column(mention, reading.notes, subject.table.numbers)
        explain(subject, extra, reading)
        if column.is_text and reading.rank_entity is None and rank.func is None:
            reading.rank_entity = column
        else:
            reading.rank_by = column
    if measures[1:]:
        raise not_understood(m.text for m in measures[1:])


def _entity(subject: Subject, mention: Mention, reading: Reading) -> None:
    literal = subject.literal(mention)
    if literal is not None:
        reading.rank_entity = literal
        return
    if mention.unit is not None:
        reading.groups.append(read_group(subject, mention, reading))
        return
    question = f"What does {mention.text!r} rank: which column of `{subject.table.name}`?"
    near = candidates(mention.text, subject.table.columns)
    if len(near) == 1:
        reading.rank_entity = near[0].column
        if not near[0].literal:
            reading.notes.append(
                f"I took {mention.text!r} to mean the column {near[0].column.name!r}"
            )
        explain(subject, near[0].extra, reading)
        return
    searched = subject.searched()
    text = subject.without_nouns(mention.text)
    if holding(text, searched, {c.name: c.samples for c in searched}):
        keep_value(subject, text, reading)
        return
    options = [*names_of([m.column for m in near] or subject.table.texts), WHOLE_ROWS]
    choice = subject.choose(question, options)
    if choice != WHOLE_ROWS:
        reading.rank_entity = subject.table.column(choice)


def _implied(subject: Subject, rank: Rank, reading: Reading) -> Column:
    question = f"By which column of `{subject.table.name}` is {rank.adjective!r} to be judged?"
    answered = subject.answered(question, rank.adjective)
    if answered is not None:
        return answered
    for measure in rank.implied:
        pool = (
            [c for c in subject.table.columns if c.is_date or c.is_year]
            if measure in ("date", "year")
            else list(subject.table.numbers)
        )
        found = pool if measure == "date" else [m.column for m in candidates(measure, pool)]
        if len(found) == 1:
            reading.notes.append(f"I judged {rank.adjective!r} by {found[0].name!r}")
            return found[0]
        if found:
            raise Ask(question, names_of(found), "Several columns fit.")
    raise Ask(question, names_of(subject.table.numbers), "No column says so by its name.")
