"""A statement is read against a table, word by word; nothing is computed."""

from copy import deepcopy

from parsimony_kernel.offline.grammar.clauses import Statement
from parsimony_kernel.offline.missing import LookFor, not_understood
from parsimony_kernel.offline.resolve.conditions import read_conditions
from parsimony_kernel.offline.resolve.mentions import (
    read_about,
    read_group,
    read_measure,
    read_wishes,
)
from parsimony_kernel.offline.resolve.missing_values import (
    check_filling,
    read_lacking,
)
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.resolve.superlatives import read_rank
from parsimony_kernel.offline.resolve.values import explain


def read(subject: Subject, statement: Statement) -> Reading:
    """The statement with its words resolved; raises ``Missing``."""
    reading = Reading(deepcopy(statement))
    read_lacking(subject, reading)
    read_conditions(subject, reading)
    _groups(subject, reading)
    read_wishes(subject, reading)
    # Not the statement as it came: a condition may have turned out to be a column.
    for mention in reading.statement.measures:
        read_measure(subject, mention, reading)
    for mention in reading.statement.about:
        read_about(subject, mention, reading)
    _rest(subject, reading)
    if subject.wanted:
        raise LookFor(subject.wanted)
    check_filling(reading)
    return reading


def _groups(subject: Subject, reading: Reading) -> None:
    for mention in reading.statement.groups:
        reading.groups.append(read_group(subject, mention, reading))


def _rest(subject: Subject, reading: Reading) -> None:
    statement = reading.statement
    for mention in statement.against[:1]:
        if mention.text.casefold() == "time" or mention.unit is not None:
            statement.over_time = True
        else:
            reading.against, extra = subject.column(mention, reading.notes, subject.table.numbers)
            explain(subject, extra, reading)
    for mention in statement.color[:1]:
        reading.color, _ = subject.column(mention, reading.notes, subject.table.categories)
    for mention in statement.sort[:1]:
        if mention.unit is not None and subject.literal(mention) is None:
            reading.sort = subject.time_column()
        else:
            reading.sort, _ = subject.column(mention, reading.notes, subject.table.numbers)
    left_over = [*statement.against[1:], *statement.color[1:], *statement.sort[1:]]
    if left_over:
        raise not_understood(m.text for m in left_over)
    if statement.rank is not None:
        read_rank(subject, statement.rank, reading)
