"""Conditions become rows to keep: by a value, a number, or a time."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from parsimony_kernel.offline.analysis import Except, Keep
from parsimony_kernel.offline.columns import candidates, ranked
from parsimony_kernel.offline.grammar.clauses import Condition, Mention
from parsimony_kernel.offline.missing import Ask, Declined, not_understood
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject, names_of
from parsimony_kernel.offline.resolve.values import find_value, holding
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import spoken

_OPPOSITES = {
    "in": "not in", "not in": "in", "!=": "==", "missing": "present", "present": "missing",
}  # fmt: skip


def read_conditions(subject: Subject, reading: Reading) -> None:
    """Turn the conditions of the statement into rows to keep."""
    for exclusion, conditions in groupby(reading.statement.conditions, lambda c: c.exclusion):
        if exclusion:
            _exclude(subject, list(conditions), reading)
        else:
            for condition in conditions:
                _condition(subject, condition, reading)


def _exclude(subject: Subject, conditions: Sequence[Condition], reading: Reading) -> None:
    """Leave out the rows that meet all of ``conditions``.

    Behind "drop" that is all that follows. Behind "except" it is all that follows words for the
    rows, as in "except the cars from Japan", and otherwise what stands right behind it.
    """
    first, *rest = conditions
    rest = [c for c in rest if c.op is not None or not _says_rows_only(subject, c)]
    only_rows = _says_rows_only(subject, first)
    columns = [v for v in first.values if isinstance(v, Mention) and _is_column(subject, v)]
    if first.leads and columns and rest:
        raise _unclear(reading, f"{columns[0].text!r} is a column")
    if first.leads and only_rows and not rest:
        raise _unclear(reading, "no rows are named")
    if first.leads and not (rest and (first.word == "drop" or only_rows)):
        _condition(subject, first, reading)
        for condition in rest:
            _condition(subject, condition, reading)
        return
    said = replace(first, negated=first.negated != first.leads)
    _invert(subject, [said, *rest], reading)


def _is_column(subject: Subject, mention: Mention) -> bool:
    return subject.literal(mention) is not None and not subject.is_noun(mention.text)


def _says_rows_only(subject: Subject, condition: Condition) -> bool:
    words = [v for v in condition.values if isinstance(v, Mention) and not v.quoted]
    alone = condition.left is None and len(words) == len(condition.values)
    return alone and all(subject.is_noun(w.text) for w in words)


def _invert(subject: Subject, conditions: Sequence[Condition], reading: Reading) -> None:
    found = Reading(reading.statement, notes=reading.notes)
    for condition in conditions[:-1]:
        if condition.negated and condition.values and _says_rows_only(subject, condition):
            raise _unclear(reading, "a condition is negated twice")
    for condition in conditions:
        alone = condition.left is None and condition.op is None
        for value in list(condition.values) if alone else ():
            column = subject.literal(value) if isinstance(value, Mention) else None
            if column is not None and _is_column(subject, value):
                # "drop the cars with horsepower": those that have one
                condition = replace(condition, values=[v for v in condition.values if v != value])
                found.keeps.append(Keep(column, "present", ()))
        if condition.values or condition.left is not None:
            _condition(subject, condition, found)
    match found.filters:
        case [] if subject.wanted:
            return
        case []:
            raise _unclear(reading, "no rows are named")
        case [Keep(op=op) as keep] if op in _OPPOSITES:
            reading.keeps.append(replace(keep, op=_OPPOSITES[op], beside=False))
        case [Except(keeps)]:
            reading.keeps += keeps
        case _ if found.excepts:
            raise _unclear(reading, "a condition is negated twice")
        case _:
            reading.excepts.append(Except(tuple(found.keeps)))


def _unclear(reading: Reading, blocker: str) -> Declined:
    return Declined(
        f"I do not see which rows {reading.statement.text!r} leaves out.",
        [blocker],
        ["Say which rows to keep."],
    )


def _condition(subject: Subject, condition: Condition, reading: Reading) -> None:
    if condition.negated and (condition.lacks or condition.op not in (None, "==")):
        _invert(subject, [replace(condition, negated=False)], reading)
        return
    if condition.lacks:
        _lacking(subject, condition, reading)
        return
    condition = _without_subject(subject, condition)
    values = condition.values
    words = [v for v in values if isinstance(v, Mention)]
    if condition.left is None and len(words) == len(values):
        _named_values(subject, words, condition, reading)
        return
    if words and condition.left is None:
        words = [w for w in words if not subject.is_noun(w.text)]
        if words and (condition.op is not None or condition.negated):
            raise not_understood(w.text for w in words)
        # "days in 2014 with snow": each is a condition
        _named_values(subject, words, condition, reading)
        condition = replace(condition, values=[v for v in values if not isinstance(v, Mention)])
    column = _left(subject, condition, reading)
    if column is None:
        return
    keep = _compared(subject, column, condition, reading)
    if keep is not None:
        reading.keeps.append(keep)


def _lacking(subject: Subject, condition: Condition, reading: Reading) -> None:
    """Keep the rows without a value, or with one, in every column that is named."""
    columns: list[Column] = []
    for value in condition.values:
        near = candidates(value.text, subject.table.columns) if isinstance(value, Mention) else []
        literal = subject.literal(value) if isinstance(value, Mention) else None
        if literal is None and (not near or near[0].extra):
            said = value.text if isinstance(value, Mention) else str(value)
            raise Declined(
                f"I do not see which column of `{subject.table.name}` is meant by {said!r}.",
                [f"no column is called {said!r}"],
                [f"Name one of {spoken(names_of(subject.table.columns), 'or')}."],
            )
        columns.append(literal or subject.column(value, reading.notes, ())[0])
    reading.keeps += [Keep(c, condition.op or "missing", ()) for c in columns]


def _without_subject(subject: Subject, condition: Condition) -> Condition:
    """The condition without a left side that only names the table: "weather after …"."""
    left = condition.left
    if left is None or left.quoted or not subject.is_noun(left.text):
        return condition
    literal = subject.literal(left)
    in_time = bool(condition.values) and all(_is_time_value(v) for v in condition.values)
    if literal is None or (in_time and literal.is_text):
        return replace(condition, left=None)
    return condition


def _left(subject: Subject, condition: Condition, reading: Reading) -> Column | None:
    values = condition.values
    if condition.left is not None:
        dates = any(isinstance(v, tuple) for v in values)
        numbers = any(isinstance(v, int | float) for v in values)
        plausible = subject.table.dates if dates else subject.table.numbers if numbers else ()
        if not values:
            raise Declined(
                f"I do not see what {condition.left.text!r} is compared with.",
                [f"no value follows {condition.left.text!r}"],
            )
        if condition.left.unit and subject.literal(condition.left) is None:
            return subject.time_column()
        column, _ = subject.column(condition.left, reading.notes, plausible)
        return column
    if all(_is_time_value(v) for v in values):
        return subject.time_column()
    number = next((v for v in values if isinstance(v, int | float)), None)
    phrase = f"{condition.op or 'equal to'} {number}"
    question = f"Which column of `{subject.table.name}` should be {phrase}?"
    found = subject.answered(question, phrase)
    if found is None:
        raise Ask(question, names_of(subject.table.numbers))
    return found


def _compared(
    subject: Subject, column: Column, condition: Condition, reading: Reading
) -> Keep | None:
    op = condition.op or "=="
    values = condition.values
    words = [v for v in values if isinstance(v, Mention)]
    if words:
        if not (column.is_text or column.is_date or column.kind == "number_text"):
            raise Declined(
                f"{column.name!r} holds numbers, and {words[0].text!r} is none.",
                [f"{words[0].text!r} cannot be compared with the column {column.name!r}"],
            )
        found = [find_value(subject, w.text, [column], reading, demanded=True) for w in words]
        if any(f is None for f in found):
            return None
        negated = "not in" if condition.negated else "in"
        return Keep(column, negated, tuple(v for f in found if f for v in f[1]))
    if column.is_date:
        return _dated(subject, column, op, values, condition)
    if any(isinstance(v, tuple) for v in values):
        values = [v[0] if isinstance(v, tuple) and v[0] is not None else v for v in values]
        if not column.is_year or any(isinstance(v, tuple) for v in values):
            raise Declined(
                f"{column.name!r} holds no dates.", [f"{column.name!r} is not a date column"]
            )
    numbers = tuple(v for v in values if isinstance(v, int | float))
    if column.is_text:
        found_values = find_value(subject, str(numbers[0]), [column], reading, demanded=True)
        if found_values is None:
            return None
        return Keep(column, "not in" if condition.negated else "in", tuple(found_values[1]))
    if op == "between":
        if len(numbers) != 2:
            raise Declined("'between' needs two numbers.", ["one end of the range is missing"])
        return Keep(column, op, (min(numbers), max(numbers)))
    if op == "==" and len(numbers) > 1:
        return Keep(column, "not in" if condition.negated else "in", numbers)
    return Keep(column, "!=" if condition.negated and op == "==" else op, numbers[:1])


def _dated(
    subject: Subject, column: Column, op: str, values: list[Any], condition: Condition
) -> Keep:
    subject.day_order(column)
    if condition.negated and op == "==":
        op = "!="
    parts: list[tuple[Any, ...]] = [v if isinstance(v, tuple) else (v,) for v in values]
    if all(len(p) == 1 for p in parts):
        years = tuple(int(p[0]) for p in parts)
        if op == "between":
            return Keep(column, op, (min(years), max(years)), "year")
        if op in ("==", "!=") and len(years) > 1:
            return Keep(column, "in" if op == "==" else "not in", years, "year")
        return Keep(column, op, years[:1], "year")
    if parts[0][0] is None:
        return Keep(column, op, (int(parts[0][1]),), "month")
    if op == "between" and len(parts) == 2:
        return Keep(column, op, (_start(parts[0]), _end(parts[1])))
    first = parts[0]
    match op:
        case "==" if len(first) == 3:
            return Keep(column, "between", (_start(first), _end(first)))
        case "==":
            return Keep(column, "between", (_start(first), _end(first)))
        case ">" | "<=":
            return Keep(column, op, (_end(first),))
        case _:
            return Keep(column, op, (_start(first),))


def _named_values(
    subject: Subject, words: Sequence[Mention], condition: Condition, reading: Reading
) -> None:
    by_column: dict[str, list[str]] = {}
    for mention in words:
        if subject.is_noun(mention.text) and not mention.quoted:
            continue
        literal = subject.literal(mention)
        column_itself = "column" in reading.statement.text.casefold()
        if literal is not None and condition.word == "without" and not column_itself:
            reading.keeps.append(Keep(literal, "missing", ()))
            continue
        if literal is not None and condition.negated:
            reading.notes.append(f"I left no column out, so {literal.name!r} is still there")
            continue
        if literal is not None and not mention.quoted:
            reading.statement.measures.append(mention)
            continue
        text = mention.text if mention.quoted else subject.without_nouns(mention.text)
        sampled = holding(text, subject.searched(), {c.name: c.samples for c in subject.searched()})
        if not sampled and not condition.negated and not mention.quoted:
            near = ranked(text, subject.table.columns)
            if near and near[0].score >= 86 and not near[0].extra:
                reading.statement.measures.append(mention)
                continue
        found = find_value(subject, text, subject.searched(), reading, demanded=True)
        if found is not None:
            by_column.setdefault(found[0].name, []).extend(found[1])
    for name, values in by_column.items():
        column = subject.table.column(name)
        if column is not None:
            op = "not in" if condition.negated else "in"
            reading.keeps.append(Keep(column, op, tuple(dict.fromkeys(values))))


def _is_time_value(value: object) -> bool:
    return isinstance(value, tuple) or (isinstance(value, int) and 1000 <= value <= 2999)


def _start(parts: tuple[int, ...]) -> str:
    year, month, day = (*parts, 1, 1)[:3] if len(parts) < 3 else parts
    return f"{year:04d}-{month:02d}-{day:02d}"


def _end(parts: tuple[int, ...]) -> str:
    """The last day of a month or the day itself, up to midnight."""
    if len(parts) == 3:
        return f"{_start(parts)} 23:59:59"
    year, month = (*parts, 12)[:2]
    last = [31, 29 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 28, 31, 30, 31, 30,
            31, 31, 30, 31, 30, 31][month - 1]  # fmt: skip
    return f"{year:04d}-{month:02d}-{last} 23:59:59"
