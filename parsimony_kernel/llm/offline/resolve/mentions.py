"""Words in their places become columns: what is measured, grouped by, and drawn against."""

from parsimony_kernel.llm.offline.analysis import Group
from parsimony_kernel.llm.offline.columns import candidates
from parsimony_kernel.llm.offline.grammar.clauses import Mention
from parsimony_kernel.llm.offline.missing import Declined
from parsimony_kernel.llm.offline.resolve.reading import Reading
from parsimony_kernel.llm.offline.resolve.subject import Subject
from parsimony_kernel.llm.offline.resolve.values import explain, holding, keep_value, near_in
from parsimony_kernel.llm.offline.schema import Column
from parsimony_kernel.llm.offline.words import fold


def read_group(subject: Subject, mention: Mention, reading: Reading) -> Group:
    """What rows are grouped by."""
    literal = subject.literal(mention)
    if literal is not None:
        return group_by(subject, literal)
    if mention.unit is not None:
        named = [
            m.column
            for m in candidates(mention.unit, subject.table.columns)
            if m.score >= 90 and not m.column.is_date
        ]
        if len(named) == 1:
            if fold(named[0].name) != (mention.unit,):
                reading.notes.append(f"I grouped by the column {named[0].name!r}")
            return Group(named[0])
        column = subject.time_column()
        if column.is_year:
            if mention.unit != "year":
                raise Declined(
                    f"{column.name!r} holds years only.",
                    [f"there is no date to group by {mention.unit}"],
                )
            return Group(column)
        subject.day_order(column)
        return Group(column, mention.unit)
    if mention.text.casefold() == "time":
        return group_by(subject, subject.time_column())
    column, extra = subject.column(mention, reading.notes, subject.table.categories)
    explain(subject, extra, reading)
    return group_by(subject, column)


def group_by(subject: Subject, column: Column) -> Group:
    """A column as a group; a date column named after a unit is grouped by that unit."""
    words = fold(column.name)
    if column.is_date:
        subject.day_order(column)
        if len(words) == 1 and words[0] in ("year", "month", "quarter", "week"):
            return Group(column, words[0])
    return Group(column)


def read_wishes(subject: Subject, reading: Reading) -> None:
    """The columns of every function; one without its own shares those of the next."""
    statement = reading.statement
    shared: list[Mention] = []
    for wish in reversed(statement.wishes):
        if wish.of:
            shared = wish.of
        mentions = wish.of or ([] if wish.func == "count" else shared)
        columns: list[Column] = []
        for mention in mentions:
            column = _measured(subject, mention, reading, wish.func)
            if column is not None:
                columns.append(column)
        reading.wishes.insert(0, (wish.func, columns))


def _measured(subject: Subject, mention: Mention, reading: Reading, func: str) -> Column | None:
    literal = subject.literal(mention)
    if literal is not None:
        return literal
    if mention.unit is not None or subject.is_noun(mention.text):
        return None
    if func == "count" and not candidates(
        subject.without_nouns(mention.text), subject.table.columns
    ):
        text = subject.without_nouns(mention.text)
        keep_value(subject, text, reading)
        return None
    plausible = subject.table.columns if func in ("count", "nunique") else subject.table.numbers
    near = candidates(subject.without_nouns(mention.text), subject.table.columns)
    if func == "count" and not any(m.literal for m in near):
        reading.notes.append(f"I counted rows as {mention.text!r}")
        return None
    column, extra = subject.column(mention, reading.notes, plausible)
    explain(subject, extra, reading)
    return column


def read_measure(subject: Subject, mention: Mention, reading: Reading) -> None:
    """A column that is asked for, or a value that stands beside one."""
    if subject.is_noun(mention.text) and not mention.quoted:
        # The table's own name is the subject, even where a column is called the same.
        return
    literal = subject.literal(mention)
    if literal is not None:
        once(reading.measures, literal)
        return
    if mention.unit is not None:
        return
    text = subject.without_nouns(mention.text)
    searched = subject.searched()
    sampled = holding(text, searched, {c.name: c.samples for c in searched})
    near = candidates(text, subject.table.columns)
    asked = f"Which column of `{subject.table.name}` do you mean by {mention.text!r}?"
    if asked not in subject.known.answers and (sampled or (not near and searched)):
        looked = subject.known.values.get(text.casefold())
        statement = reading.statement
        other_measure = reading.measures or reading.wishes or statement.rank
        a_value = (
            looked is None
            or bool(other_measure)
            or not statement.chart
            or holding(text, searched, looked)
            or near_in(text, searched, looked)
        )
        if a_value:
            keep_value(subject, text, reading)
            return
    column, extra = subject.column(mention, reading.notes, subject.table.numbers)
    explain(subject, extra, reading)
    once(reading.measures, column)


def once(columns: list[Column], column: Column) -> None:
    """Add a column that is not there yet."""
    if column not in columns:
        columns.append(column)
