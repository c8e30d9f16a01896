"""The columns that a statement names, also those that are called like a word for rows."""

from parsimony_kernel.offline.missing import not_understood
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold


def named_columns(subject: Subject, reading: Reading) -> list[Column]:
    """The columns in the place of a measure; raises ``Declined`` for a part of a date."""
    found = list(reading.measures)
    for mention in reading.statement.measures:
        column = subject.literal(mention)
        own_name = all(subject.table.speaks_of(word) for word in fold(mention.text))
        if column is None and mention.unit is not None:
            raise not_understood([mention.text])
        if column is not None and not own_name:
            found.append(column)
    return list(dict.fromkeys(found))
