"""What is asked of missing values, once every word is resolved."""

import re

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.grammar.clauses import Condition, Mention, Statement
from parsimony_kernel.offline.lexicon.missing_values import says_anywhere
from parsimony_kernel.offline.missing import Ask, Declined, not_understood
from parsimony_kernel.offline.resolve.named import named_columns
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject, names_of
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import spoken

_MAX_FILLED = 40
_FILLINGS: dict[str, str | float] = {
    "the mean": "mean",
    "the median": "median",
    "0": 0,
    "the most common value": "common",
    "the value before it": "forward",
}
_TOLD = {
    "mean": "the mean",
    "median": "the median",
    "min": "the minimum",
    "max": "the maximum",
    "common": "the most common value",
    "forward": "the value before it",
    "backward": "the value after it",
    "linear": "a line between the values around it",
}
_OF_NUMBERS = frozenset({"mean", "median", "min", "max", "linear"})
_OF_GROUPS = frozenset({"mean", "median", "min", "max"})
# "rows where all values are missing", "columns with missing values"
_WHOLLY = re.compile(
    r"\b(?:everything|completely|entirely|fully|whole|entire|half|most|only one)\b"
    r"|\b(?:all|every|each)(?: the)? (?:columns?|values?|cells?|fields?)\b"
)
_OF_ROWS = re.compile(
    r"\b(?:rows?|records?|entries|observations|with|have|has|having|where|contain|containing)\b"
)
_ANY_COLUMN = re.compile(r"\b(?:any|some|one or more|either)(?: of the)? columns?\b")


def read_lacking(subject: Subject, reading: Reading) -> None:
    """Take out the condition that something is missing where it names no column.

    It keeps the rows that miss nothing, or those that miss something.
    """
    statement = reading.statement
    for condition in [c for c in statement.conditions if _names_no_column(subject, c)]:
        same = [c for c in statement.conditions if c.exclusion == condition.exclusion]
        others = [c for c in same if c is not condition and not _says_rows(subject, c)]
        if statement.missing is not None or (condition.exclusion and others):
            raise not_understood([condition.word])
        if condition.exclusion:
            statement.conditions = [c for c in statement.conditions if c not in same]
        statement.conditions = [c for c in statement.conditions if c is not condition]
        without = condition.negated != (condition.op == "present")
        statement.missing = "drop" if without != bool(condition.exclusion) else "rows"


def _names_no_column(subject: Subject, condition: Condition) -> bool:
    said = condition.lacks and says_anywhere(condition.word)
    return said and (not condition.values or _are_nouns(subject, condition))


def _says_rows(subject: Subject, condition: Condition) -> bool:
    """Whether it only says that rows are meant: "drop the cars …"."""
    alone = condition.left is None and condition.op is None
    return alone and _are_nouns(subject, condition)


def _are_nouns(subject: Subject, condition: Condition) -> bool:
    return all(
        isinstance(v, Mention) and subject.literal(v) is None and subject.is_noun(v.text)
        for v in condition.values
    )


def check_filling(reading: Reading) -> None:
    """Raise ``Declined`` where only some rows are to be filled, before any are kept."""
    if reading.statement.missing == "fill" and reading.filters:
        raise Declined(
            "I fill the missing values of a whole table.",
            [f"the request keeps only rows where {spoken(map(str, reading.filters))}"],
            ["Keep the rows in a request of their own, and fill the values of the result."],
        )


def missing_analysis(subject: Subject, reading: Reading) -> Analysis | None:
    """The analysis of missing values; none where the statement asks for none."""
    statement = reading.statement
    if statement.missing is None:
        return None
    reading.measures = named_columns(subject, reading)
    match statement.missing:
        case "fill":
            return _filled(subject, reading)
        case "count":
            return _counted(reading)
        case _:
            return _rows(reading)


def _counted(reading: Reading) -> Analysis:
    statement = reading.statement
    if {func for func, _ in reading.wishes} == {"count"}:
        # "how many horsepower values are missing"
        reading.measures += [c for _, found in reading.wishes for c in found]
        reading.wishes = []
    _alone(reading, "missing values are counted for each column", chart=True)
    if statement.chart not in (None, "auto", "bar"):
        raise Declined(
            "Missing values are drawn as bars.",
            [f"a {statement.chart} chart of missing values"],
            ["Ask for a bar chart of the missing values per column."],
        )
    columns = list(reading.measures)
    of = f" in {spoken(c.name for c in columns)}" if columns else " by column"
    return Analysis("missing", columns=columns, chart=statement.chart, words=f"missing values{of}")


def _rows(reading: Reading) -> Analysis:
    statement = reading.statement
    text = statement.text.casefold()
    column = re.search(r"\bcolumns?\b", _ANY_COLUMN.sub("", text))
    if _WHOLLY.search(text):
        raise _other_rows(text)
    asks = statement.missing == "rows" and statement.verb != "filter"
    if asks and not (statement.describe and not column) and (column or not _OF_ROWS.search(text)):
        # "missing values in cars", "which columns of cars have missing values"
        statement.describe = False
        return _counted(reading)
    if column:
        raise _other_rows(text)
    counts = [func for func, _ in reading.wishes] == ["count"] and statement.missing == "rows"
    if counts and not reading.wishes[0][1]:
        reading.wishes = []
    _alone(reading, "rows with missing values are kept or dropped as they are")
    named = list(reading.measures)
    what = f" in {spoken(c.name for c in named)}" if named else ""
    if statement.missing == "rows":
        return Analysis(
            "missing", columns=named, method="rows", words=f"rows that miss a value{what}"
        )
    return Analysis("dropna", columns=named, words=f"rows without missing values{what}")


def _other_rows(text: str) -> Declined:
    return Declined(
        "I keep or drop the rows with a missing value in any column.",
        [f"{text!r} asks for something else"],
        ["Say 'drop rows with missing values', or name the column that must not be missing."],
    )


def _filled(subject: Subject, reading: Reading) -> Analysis:
    statement = reading.statement
    _alone(reading, "missing values are filled in one way at a time", groups=True)
    method = _method(subject, statement)
    if reading.groups and method not in _OF_GROUPS:
        raise not_understood(f"by {g.label}" for g in reading.groups)
    named = list(reading.measures)
    for column in named:
        _check(column, method)
    columns = named or _fillable(subject, method)
    if not named:
        reading.notes.append(f"I filled {spoken(c.name for c in columns)}")
    if method in ("forward", "backward", "linear"):
        reading.notes.append("I took the rows in the order in which they stand")
    names = spoken(c.name for c in columns) if named else "values"
    text = _TOLD.get(str(method), str(method)) if isinstance(method, str) else f"{method:g}"
    by = f" by {spoken(g.label for g in reading.groups)}" if reading.groups else ""
    return Analysis(
        "fillna",
        columns=columns,
        groups=reading.groups,
        method=method,
        words=f"missing {names} filled with {text}{by}",
    )


def _method(subject: Subject, statement: Statement) -> str | float:
    if statement.fill is not None:
        return statement.fill
    table = subject.table.name
    question = f"What should the missing values of `{table}` be filled with?"
    return _FILLINGS[subject.choose(question, list(_FILLINGS))]


def _fits(column: Column, method: str | float) -> bool:
    """Whether a column can be filled so and stay what it is."""
    if not isinstance(method, str) or method in _OF_NUMBERS:
        return column.kind == "number"
    return column.is_text if method.startswith('"') else True


def _check(column: Column, method: str | float) -> None:
    if _fits(column, method):
        return
    held = "dates" if column.is_date else "numbers" if column.is_number else "text"
    raise Declined(
        f"{column.name!r} holds {held}{' as text' if column.kind == 'number_text' else ''}, so "
        f"what is missing cannot be filled with {_TOLD.get(str(method), str(method))}.",
        [f"the values of {column.name!r} would no longer be alike"],
        ["Fill with 'the most common value' or 'the previous value', or name another column."],
    )


def _fillable(subject: Subject, method: str | float) -> list[Column]:
    table = subject.table
    pool = table.numbers if _is_of_measures(method) else table.columns
    columns = [c for c in pool if _fits(c, method)]
    if (
        not table.whole
        or len(columns) > _MAX_FILLED
        or any(table.is_doubled(c.name) for c in columns)
    ):
        question = f"Which column of `{table.name}` should be filled?"
        answered = subject.answered(question, "what to fill")
        if answered is None:
            raise Ask(question, names_of(columns))
        _check(answered, method)
        return [answered]
    if not columns:
        raise Declined(
            f"`{table.name}` has no column that can be filled with "
            f"{_TOLD.get(str(method), str(method))}.",
            ["no column holds values of that kind"],
        )
    return columns


def _is_of_measures(method: str | float) -> bool:
    return not isinstance(method, str) or method in _OF_NUMBERS


def _alone(reading: Reading, why: str, *, chart: bool = False, groups: bool = False) -> None:
    """Raise ``Declined`` where more is asked than can be done of missing values at once."""
    statement = reading.statement
    more = (
        reading.wishes
        or (reading.groups and not groups)
        or (statement.chart is not None and not chart)
        or statement.rank
        or statement.describe
        or statement.distinct
        or statement.compare
        or statement.head
        or statement.over_time
        or statement.correlation
        or reading.against
        or reading.color
        or reading.sort
    )
    if more:
        raise Declined(
            f"I do not see what {statement.text!r} asks of missing values.",
            [f"{why}, and the request asks for more"],
            [
                "Say it in two requests: 'drop rows with missing values', then what to compute.",
                "For one column, name it: 'how many rows are missing horsepower by origin'.",
            ],
        )
