"""Words in their places become columns: what is measured, grouped by, and drawn against."""

import re

from parsimony_kernel.offline.analysis import Group
from parsimony_kernel.offline.columns import candidates
from parsimony_kernel.offline.grammar.clauses import Mention
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.resolve.values import explain, holding, keep_value, near_in
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, singular, word_set

_MANY = word_set("people crew staff team population fleet")
# Words for some of the rows, though no value is written like this.
_SOME_PEOPLE = word_set(
    "men women males females boys girls adults children kids survivors winners losers others rest"
)


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
    text = subject.without_nouns(mention.text)
    plausible = subject.table.columns if func in ("count", "nunique") else subject.table.numbers
    if func == "count" and not any(m.literal for m in candidates(text, subject.table.columns)):
        # Rows are counted that hold it, never all rows under its name.
        keep_value(subject, text, reading)
        return None
    column, extra = subject.column(mention, reading.notes, plausible)
    explain(subject, extra, reading)
    return column


def read_measure(subject: Subject, mention: Mention, reading: Reading) -> None:
    """A column that is asked for, or a value that stands beside one."""
    literal = subject.literal(mention)
    noun = subject.is_noun(mention.text) and not mention.quoted
    if noun and not (literal is not None and _is_measured(mention, literal, reading)):
        # The table's own name is the subject, even where a column is called the same.
        return
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


def _is_measured(mention: Mention, column: Column, reading: Reading) -> bool:
    """Whether a name that table and column share is the column: in a list, or alone in a chart."""
    statement = reading.statement
    if mention not in statement.measures:
        return False
    name = re.escape(mention.text)
    beside = rf"(?:,|&|\band(?: the)?) {name}(?!\w)|(?<!\w){name} (?:,|&|and\b)"
    if len(statement.measures) > 1:
        return re.search(beside, statement.text) is not None
    return statement.chart is not None and column.is_number and not statement.wishes


def read_about(subject: Subject, mention: Mention, reading: Reading) -> None:
    """What stands after "of": a column, a value, or another word for the rows."""
    named = mention.column is not None or mention.quoted or subject.is_noun(mention.text)
    if not named and _says_rows(mention.text, reading):
        text = subject.without_nouns(mention.text)
        searched = subject.searched()
        looked = subject.known.values.get(text.casefold())
        sampled = {c.name: c.samples for c in searched}
        unknown = not candidates(text, subject.table.columns) and not holding(
            text, searched, sampled
        )
        sought = looked is not None or not searched or subject.known.settled
        values = looked or {}
        found = holding(text, searched, values) or near_in(text, searched, values)
        if unknown and sought and not found:
            reading.notes.append(f"I took {text!r} to mean the rows of {subject.table.name}")
            return
    read_measure(subject, mention, reading)


def _says_rows(text: str, reading: Reading) -> bool:
    """Whether the words can stand for all rows: "of the victims", not "of the women"."""
    words = fold(text)
    if len(words) != 1 or text != text.casefold() or words[0] in _SOME_PEOPLE:
        return False
    several = singular(words[0]) != words[0] or words[0] in _MANY
    return several and f"of the {text}" in reading.statement.text


def once(columns: list[Column], column: Column) -> None:
    """Add a column that is not there yet."""
    if column not in columns:
        columns.append(column)
