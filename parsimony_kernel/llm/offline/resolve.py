"""A statement meets a table: every word becomes a column, a value or a question.

Nothing is computed and nothing is asked here: what is missing is raised as ``Ask``, ``LookFor``,
``CountDistinct`` or ``Declined``, and the planner turns that into a step.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.llm.offline import lexicon
from parsimony_kernel.llm.offline.analysis import Aggregate, Analysis, Group, Keep
from parsimony_kernel.llm.offline.columns import (
    candidates,
    near_values,
    ranked,
    same_value,
)
from parsimony_kernel.llm.offline.grammar import Condition, Mention, Rank, Statement
from parsimony_kernel.llm.offline.lexicon import ADDITIVE
from parsimony_kernel.llm.offline.schema import Column, Table
from parsimony_kernel.llm.offline.words import canonical, fold, singular, spoken, word_set

MAX_CHOICES = 8
STOP = "Stop here"
WHOLE_ROWS = "whole rows"

_GENERIC = word_set(
    "row record entry observation item day case sample time data point thing one result "
    "entrie different value number amounts instance"
)


class Missing(Exception):
    """Something must be known first."""


class Ask(Missing):
    """A person must say."""

    def __init__(self, question: str, choices: Sequence[str] = (), context: str = "") -> None:
        super().__init__(question)
        self.question, self.choices, self.context = question, tuple(choices), context


class LookFor(Missing):
    """The data must be searched for these words."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(dict.fromkeys(words))
        super().__init__(spoken(self.words))


class CountDistinct(Missing):
    """It must be known how many different values these columns have."""

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = tuple(dict.fromkeys(columns))
        super().__init__(spoken(self.columns))


class Declined(Missing):
    """It cannot be done; ``blockers`` say why and ``steps`` what would help."""

    def __init__(self, rationale: str, blockers: Sequence[str], steps: Sequence[str] = ()) -> None:
        super().__init__(rationale)
        self.rationale, self.blockers, self.steps = rationale, tuple(blockers), tuple(steps)


class Stopped(Missing):
    """The person said to stop."""


@dataclass
class Known:
    """What may be used: answers by question, values found by words, and counts by table.

    ``settled`` says that the rows were kept already, so that their conditions need no proof.
    """

    answers: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    distinct: Mapping[str, int] = field(default_factory=dict)
    nouns: frozenset[str] = frozenset()
    settled: bool = False


@dataclass
class Reading:
    """A statement whose words are all resolved."""

    statement: Statement
    wishes: list[tuple[str, list[Column]]] = field(default_factory=list)
    measures: list[Column] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    against: Column | None = None
    color: Column | None = None
    sort: Column | None = None
    rank_entity: Column | None = None
    rank_rows: bool = False
    rank_by: Column | None = None
    keeps: list[Keep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def is_stop(reply: str) -> bool:
    """Whether a reply says to do nothing more."""
    return reply.strip().casefold().rstrip(".!") in {
        "stop", "stop here", "cancel", "no", "never mind", "nevermind", "abort", "quit", "nothing",
    }  # fmt: skip


class Resolver:
    """Resolves statements against one table."""

    def __init__(self, table: Table, known: Known) -> None:
        self.table, self.known = table, known
        self.wanted: list[str] = []

    # -- words to columns ------------------------------------------------------------------------

    def read(self, statement: Statement) -> Reading:
        """The statement with its words resolved; raises ``Missing``."""
        reading = Reading(deepcopy(statement))
        self._conditions(reading)
        self._groups(reading)
        self._wishes(reading)
        for mention in [*statement.measures, *statement.about]:
            self._measure(mention, reading)
        self._rest(reading)
        if self.wanted:
            raise LookFor(self.wanted)
        return reading

    def _is_noun(self, text: str) -> bool:
        words = [singular(w) for w in fold(text)]
        return all(w in _GENERIC or w in self.known.nouns or self.table.speaks_of(w) for w in words)

    def _without_nouns(self, text: str) -> str:
        words = fold(text)
        kept = [w for w in words if not self._is_noun(w)]
        return " ".join(kept) if kept and len(kept) < len(words) else text

    def _checked(self, column: Column) -> Column:
        if self.table.is_doubled(column.name):
            raise Declined(
                f"`{self.table.name}` has several columns named {column.name!r}.",
                [f"the column name {column.name!r} is not unique"],
                [f"Rename the columns of `{self.table.name}` so that each name occurs once."],
            )
        return column

    def _literal(self, mention: Mention) -> Column | None:
        name = mention.column
        if name is None and mention.quoted:
            name = next((c.name for c in self.table.columns if c.name == mention.text), None)
        found = self.table.column(name) if name is not None else None
        return None if found is None else self._checked(found)

    def column(
        self, mention: Mention, notes: list[str], plausible: Sequence[Column]
    ) -> tuple[Column, tuple[str, ...]]:
        """The column that is meant, and the words that it leaves unexplained."""
        literal = self._literal(mention)
        if literal is not None:
            return literal, ()
        question = f"Which column of `{self.table.name}` do you mean by {mention.text!r}?"
        answered = self._answered(question, mention.text)
        if answered is not None:
            return answered, ()
        found = self._candidates(mention.text, plausible)
        if len(found) == 1:
            match = found[0]
            self._checked(match.column)
            if not match.literal:
                notes.append(f"I took {mention.text!r} to mean the column {match.column.name!r}")
            return match.column, match.extra
        if found:
            raise Ask(
                question, [m.column.name for m in found][:MAX_CHOICES], "Several columns fit."
            )
        raise Ask(question, _names(plausible or self.table.columns), "No column has that name.")

    def _candidates(self, text: str, plausible: Sequence[Column]) -> list:  # type: ignore[type-arg]
        found = candidates(text, self.table.columns)
        if not found or found[0].extra:
            found = candidates(self._without_nouns(text), self.table.columns) or found
        if len(found) > 1 and plausible:
            # Among equals, only what can stand in this place is a candidate.
            names = {c.name for c in plausible}
            found = [m for m in found if m.column.name in names] or found
        return found

    def _answered(self, question: str, phrase: str) -> Column | None:
        asked = question
        found: list[Column] = []
        for _ in range(3):
            reply = self.known.answers.get(asked)
            if reply is None:
                if asked != question:
                    raise Ask(asked, _names(found or self.table.columns))
                return None
            if is_stop(reply):
                raise Stopped(phrase)
            exact = [c for c in self.table.columns if same_value(reply, c.name)]
            near = candidates(_bare_reply(reply), self.table.columns)
            found = exact or [m.column for m in near if not m.extra]
            if len(found) == 1:
                return self._checked(found[0])
            asked = (
                f"{reply[:80]!r} fits {'several columns' if found else 'no column'} of "
                f"`{self.table.name}`. Which column do you mean by {phrase!r}?"
            )
        raise Declined(
            f"I could not find out which column is meant by {phrase!r}.",
            [f"no column of `{self.table.name}` is meant by {phrase!r}"],
            [f"Use one of these names: {spoken(_names(self.table.columns), 'or')}."],
        )

    def choose(self, question: str, options: Sequence[str], context: str = "") -> str:
        """The option that the person chose; raises ``Ask`` until one was."""
        asked = question
        for _ in range(3):
            reply = self.known.answers.get(asked)
            if reply is None:
                raise Ask(asked, options, context)
            if is_stop(reply):
                raise Stopped(question)
            for option in options:
                if same_value(reply, option):
                    return option
            near = near_values(reply, options)
            if len(near) == 1:
                return near[0]
            asked = f"{reply[:80]!r} is none of the choices. {question}"
        raise Declined(
            "The answers fit none of the choices.", [question], ["Say it in the request instead."]
        )

    # -- filters ---------------------------------------------------------------------------------

    def _conditions(self, reading: Reading) -> None:
        for condition in reading.statement.conditions:
            self._condition(condition, reading)

    def _condition(self, condition: Condition, reading: Reading) -> None:
        condition = self._without_subject(condition)
        values = condition.values
        words = [v for v in values if isinstance(v, Mention)]
        if condition.left is None and len(words) == len(values):
            self._named_values(words, condition, reading)
            return
        if words and condition.left is None:
            words = [w for w in words if not self._is_noun(w.text)]
            if words:
                raise _not_understood(w.text for w in words)
            condition = replace(condition, values=[v for v in values if not isinstance(v, Mention)])
        column = self._left(condition, reading)
        if column is None:
            return
        keep = self._compared(column, condition, reading)
        if keep is not None:
            reading.keeps.append(keep)

    def _without_subject(self, condition: Condition) -> Condition:
        """The condition without a left side that only names the table: "weather after …"."""
        left = condition.left
        if left is None or left.quoted or not self._is_noun(left.text):
            return condition
        literal = self._literal(left)
        in_time = bool(condition.values) and all(_is_time_value(v) for v in condition.values)
        if literal is None or (in_time and literal.is_text):
            return replace(condition, left=None)
        return condition

    def _left(self, condition: Condition, reading: Reading) -> Column | None:
        values = condition.values
        if condition.left is not None:
            dates = any(isinstance(v, tuple) for v in values)
            numbers = any(isinstance(v, int | float) for v in values)
            plausible = self.table.dates if dates else self.table.numbers if numbers else ()
            if not values:
                raise Declined(
                    f"I do not see what {condition.left.text!r} is compared with.",
                    [f"no value follows {condition.left.text!r}"],
                )
            if condition.left.unit and self._literal(condition.left) is None:
                return self._time_column(reading)
            column, _ = self.column(condition.left, reading.notes, plausible)
            return column
        if all(_is_time_value(v) for v in values):
            return self._time_column(reading)
        number = next((v for v in values if isinstance(v, int | float)), None)
        phrase = f"{condition.op or 'equal to'} {number}"
        question = f"Which column of `{self.table.name}` should be {phrase}?"
        found = self._answered(question, phrase)
        if found is None:
            raise Ask(question, _names(self.table.numbers))
        return found

    def _time_column(self, reading: Reading) -> Column:
        options = self.table.dates or self.table.years
        if len(options) == 1:
            return self._checked(options[0])
        if not options:
            raise Declined(
                f"`{self.table.name}` has no column with dates or years.",
                ["the request speaks of time, and no column holds dates"],
                ["Name the column that holds the date, or convert it with pd.to_datetime."],
            )
        question = f"Which column of `{self.table.name}` is the date to go by?"
        found = self._answered(question, "the date")
        if found is None:
            raise Ask(question, _names(options), "Several columns hold dates.")
        return found

    def _compared(self, column: Column, condition: Condition, reading: Reading) -> Keep | None:
        op = condition.op or "=="
        values = condition.values
        words = [v for v in values if isinstance(v, Mention)]
        if words:
            if not (column.is_text or column.is_date or column.kind == "number_text"):
                raise Declined(
                    f"{column.name!r} holds numbers, and {words[0].text!r} is none.",
                    [f"{words[0].text!r} cannot be compared with the column {column.name!r}"],
                )
            found = [self._value(w.text, [column], reading, demanded=True) for w in words]
            if any(f is None for f in found):
                return None
            negated = "not in" if condition.negated else "in"
            return Keep(column, negated, tuple(v for f in found if f for v in f[1]))
        if column.is_date:
            return self._dated(column, op, values, condition)
        if any(isinstance(v, tuple) for v in values):
            values = [v[0] if isinstance(v, tuple) and v[0] is not None else v for v in values]
            if not column.is_year or any(isinstance(v, tuple) for v in values):
                raise Declined(
                    f"{column.name!r} holds no dates.", [f"{column.name!r} is not a date column"]
                )
        numbers = tuple(v for v in values if isinstance(v, int | float))
        if column.is_text:
            found_values = self._value(str(numbers[0]), [column], reading, demanded=True)
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

    def _dated(self, column: Column, op: str, values: list[Any], condition: Condition) -> Keep:
        self._day_order(column)
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
            case "!=":
                raise Declined("Leaving out a month is not understood.", ["a negated date"])
            case ">" | "<=":
                return Keep(column, op, (_end(first),))
            case _:
                return Keep(column, op, (_start(first),))

    def _day_order(self, column: Column) -> None:
        if column.day_first_unclear:
            self.day_first(column)

    def day_question(self, column: Column) -> str:
        """What is asked when dates read both ways."""
        return f"Are the dates in {column.name!r} day first or month first?"

    def day_first(self, column: Column) -> bool:
        """Whether the person said that the dates of ``column`` begin with the day."""
        context = f"{column.samples[0]!r} reads both ways." if column.samples else ""
        options = ["month first", "day first"]
        return self.choose(self.day_question(column), options, context) == options[1]

    def _named_values(
        self, words: Sequence[Mention], condition: Condition, reading: Reading
    ) -> None:
        by_column: dict[str, list[str]] = {}
        for mention in words:
            if self._is_noun(mention.text) and not mention.quoted:
                continue
            literal = self._literal(mention)
            if literal is not None and condition.negated:
                reading.notes.append(f"I left no column out, so {literal.name!r} is still there")
                continue
            if literal is not None and not mention.quoted:
                reading.statement.measures.append(mention)
                continue
            text = mention.text if mention.quoted else self._without_nouns(mention.text)
            sampled = _holding(
                text, self._searched(), {c.name: c.samples for c in self._searched()}
            )
            if not sampled and not condition.negated and not mention.quoted:
                near = ranked(text, self.table.columns)
                if near and near[0].score >= 86 and not near[0].extra:
                    reading.statement.measures.append(mention)
                    continue
            found = self._value(text, self._searched(), reading, demanded=True)
            if found is not None:
                by_column.setdefault(found[0].name, []).extend(found[1])
        for name, values in by_column.items():
            column = self.table.column(name)
            if column is not None:
                op = "not in" if condition.negated else "in"
                reading.keeps.append(Keep(column, op, tuple(dict.fromkeys(values))))

    def _searched(self) -> list[Column]:
        return [c for c in self.table.columns if c.is_text][:20]

    def _value(
        self, text: str, pool: Sequence[Column], reading: Reading, *, demanded: bool
    ) -> tuple[Column, list[str]] | None:
        """The column that holds the value ``text``, and the value as it is written there."""
        if pool and pool[0].is_date:
            raise Declined(
                f"{text!r} is not read as a date.", [f"{text!r} is no year and no ISO date"],
                ["Write dates like 2012-06-30, months like June 2012, or a year."],
            )  # fmt: skip
        found = _holding(text, pool, {c.name: c.samples for c in pool})
        looked = self.known.values.get(text.casefold())
        question = f"What should {text!r} stand for in `{self.table.name}`?"
        answered = self._answered_value(self.known.answers.get(question, ""), pool)
        if answered is not None:
            return answered
        if len(found) != 1:
            if looked is None:
                if self.known.settled:
                    return (pool[0], [text]) if pool else None
                if not pool:
                    raise Declined(
                        f"`{self.table.name}` has no text column in which to look for {text!r}.",
                        [f"no column can hold {text!r}"],
                    )
                self.wanted.append(text)
                return None
            found = _holding(text, pool, looked)
        if len(found) == 1:
            column, values = found[0]
            if not any(same_value(text, v) for v in values):
                reading.notes.append(f"I took {text!r} to mean {values[0]!r}")
            return column, values
        if found:
            options = {f"{c.name} is {v[0]}": (c, v) for c, v in found}
            return options[self.choose(question, list(options), "Several columns hold it.")]
        near = self._near(text, pool, looked or {})
        if demanded and not near:
            few = {c.name: list((looked or {}).get(c.name, ())) for c in pool}
            shown = [
                f"{name} holds {spoken(values[:6])}" for name, values in few.items() if values
            ][:3]
            near = {
                f"{name} is {v}": (other, [v])
                for name, values in few.items()
                if (other := self.table.column(name)) is not None and len(values) <= 12
                for v in values[:MAX_CHOICES]
            }
            context = f"No column holds it. {'; '.join(shown)}." if shown else "No column holds it."
        else:
            context = "No column holds exactly this; these come near."
        options = dict(list(near.items())[:MAX_CHOICES])
        return options[self.choose(question, [*options, STOP], context)]

    def _answered_value(
        self, reply: str, pool: Sequence[Column]
    ) -> tuple[Column, list[str]] | None:
        for column in pool:
            prefix = f"{column.name} is "
            if reply.startswith(prefix):
                return column, [reply.removeprefix(prefix)]
        return None

    def _near(
        self, text: str, pool: Sequence[Column], looked: Mapping[str, Sequence[str]]
    ) -> dict[str, tuple[Column, list[str]]]:
        return {
            f"{c.name} is {v}": (c, [v])
            for c in pool
            for v in near_values(text, [*looked.get(c.name, ()), *c.samples])
        }

    # -- the other places ------------------------------------------------------------------------

    def _groups(self, reading: Reading) -> None:
        for mention in reading.statement.groups:
            reading.groups.append(self._group(mention, reading))

    def _group(self, mention: Mention, reading: Reading) -> Group:
        literal = self._literal(mention)
        if literal is not None:
            return self._as_group(literal)
        if mention.unit is not None:
            named = [
                m.column
                for m in candidates(mention.unit, self.table.columns)
                if m.score >= 90 and not m.column.is_date
            ]
            if len(named) == 1:
                if fold(named[0].name) != (mention.unit,):
                    reading.notes.append(f"I grouped by the column {named[0].name!r}")
                return Group(named[0])
            column = self._time_column(reading)
            if column.is_year:
                if mention.unit != "year":
                    raise Declined(
                        f"{column.name!r} holds years only.",
                        [f"there is no date to group by {mention.unit}"],
                    )
                return Group(column)
            self._day_order(column)
            return Group(column, mention.unit)
        if mention.text.casefold() == "time":
            return self._as_group(self._time_column(reading))
        column, extra = self.column(mention, reading.notes, self.table.categories)
        self._explain(extra, mention, reading)
        return self._as_group(column)

    def _as_group(self, column: Column) -> Group:
        words = fold(column.name)
        if column.is_date:
            self._day_order(column)
            if len(words) == 1 and words[0] in ("year", "month", "quarter", "week"):
                return Group(column, words[0])
        return Group(column)

    def _explain(self, extra: Sequence[str], mention: Mention, reading: Reading) -> None:
        """Words beside a column's name must be a value of the data, or be asked about."""
        words = [w for w in extra if not self._is_noun(w)]
        if not words:
            return
        self._keep_value(" ".join(words), reading)

    def _keep_value(self, text: str, reading: Reading) -> None:
        """Keep the rows that hold a value named beside the measure: "the price of A and B"."""
        found = self._value(text, self._searched(), reading, demanded=True)
        if found is None:
            return
        for index, keep in enumerate(reading.keeps):
            if keep.column == found[0] and keep.op == "in" and keep.beside:
                values = tuple(dict.fromkeys([*keep.values, *found[1]]))
                reading.keeps[index] = replace(keep, values=values)
                return
        reading.keeps.append(Keep(found[0], "in", tuple(found[1]), beside=True))

    def _wishes(self, reading: Reading) -> None:
        statement = reading.statement
        shared: list[Mention] = []
        for wish in reversed(statement.wishes):
            if wish.of:
                shared = wish.of
            mentions = wish.of or ([] if wish.func == "count" else shared)
            columns: list[Column] = []
            for mention in mentions:
                column = self._measured(mention, reading, wish.func)
                if column is not None:
                    columns.append(column)
            reading.wishes.insert(0, (wish.func, columns))

    def _measured(self, mention: Mention, reading: Reading, func: str) -> Column | None:
        literal = self._literal(mention)
        if literal is not None:
            return literal
        if mention.unit is not None or self._is_noun(mention.text):
            return None
        if func == "count" and not candidates(
            self._without_nouns(mention.text), self.table.columns
        ):
            text = self._without_nouns(mention.text)
            self._keep_value(text, reading)
            return None
        plausible = self.table.columns if func in ("count", "nunique") else self.table.numbers
        near = candidates(self._without_nouns(mention.text), self.table.columns)
        if func == "count" and not any(m.literal for m in near):
            reading.notes.append(f"I counted rows as {mention.text!r}")
            return None
        column, extra = self.column(mention, reading.notes, plausible)
        self._explain(extra, mention, reading)
        return column

    def _measure(self, mention: Mention, reading: Reading) -> None:
        if self._is_noun(mention.text) and not mention.quoted:
            # The table's own name is the subject, even where a column is called the same.
            return
        literal = self._literal(mention)
        if literal is not None:
            _once(reading.measures, literal)
            return
        if mention.unit is not None:
            return
        text = self._without_nouns(mention.text)
        searched = self._searched()
        sampled = _holding(text, searched, {c.name: c.samples for c in searched})
        near = candidates(text, self.table.columns)
        asked = f"Which column of `{self.table.name}` do you mean by {mention.text!r}?"
        if asked not in self.known.answers and (sampled or (not near and searched)):
            looked = self.known.values.get(text.casefold())
            statement = reading.statement
            other_measure = reading.measures or reading.wishes or statement.rank
            a_value = (
                looked is None
                or bool(other_measure)
                or not statement.chart
                or _holding(text, searched, looked)
                or self._near(text, searched, looked)
            )
            if a_value:
                self._keep_value(text, reading)
                return
        column, extra = self.column(mention, reading.notes, self.table.numbers)
        self._explain(extra, mention, reading)
        _once(reading.measures, column)

    def _rest(self, reading: Reading) -> None:
        statement = reading.statement
        for mention in statement.against[:1]:
            if mention.text.casefold() == "time" or mention.unit is not None:
                statement.over_time = True
            else:
                reading.against, extra = self.column(mention, reading.notes, self.table.numbers)
                self._explain(extra, mention, reading)
        for mention in statement.color[:1]:
            reading.color, _ = self.column(mention, reading.notes, self.table.categories)
        for mention in statement.sort[:1]:
            if mention.unit is not None and self._literal(mention) is None:
                reading.sort = self._time_column(reading)
            else:
                reading.sort, _ = self.column(mention, reading.notes, self.table.numbers)
        left_over = [*statement.against[1:], *statement.color[1:], *statement.sort[1:]]
        if left_over:
            raise _not_understood(m.text for m in left_over)
        if statement.rank is not None:
            self._ranked(statement.rank, reading)

    def _ranked(self, rank: Rank, reading: Reading) -> None:
        if rank.count == 0:
            plural = any(singular(w) != w for m in rank.entity for w in fold(m.text)[-1:])
            rank.count = 5 if plural else 1
            if plural:
                reading.notes.append("No number was named, so I show 5")
        entities = [m for m in rank.entity if m.column or m.unit or not self._is_noun(m.text)]
        measures = [m for m in rank.by if not self._is_noun(m.text) or m.column]
        if rank.by and not measures and rank.func is None:
            rank.func = "count"
        for mention in entities[:1]:
            self._entity(mention, reading)
        for mention in entities[1:]:
            self._measure(mention, reading)
        if rank.implied and not measures:
            reading.rank_by = self._implied(rank, reading)
        for mention in measures[:1]:
            column, extra = self.column(mention, reading.notes, self.table.numbers)
            self._explain(extra, mention, reading)
            if column.is_text and reading.rank_entity is None and rank.func is None:
                reading.rank_entity = column
            else:
                reading.rank_by = column
        if measures[1:]:
            raise _not_understood(m.text for m in measures[1:])

    def _entity(self, mention: Mention, reading: Reading) -> None:
        literal = self._literal(mention)
        if literal is not None:
            reading.rank_entity = literal
            return
        if mention.unit is not None:
            reading.groups.append(self._group(mention, reading))
            return
        question = f"What does {mention.text!r} rank: which column of `{self.table.name}`?"
        near = candidates(mention.text, self.table.columns)
        if len(near) == 1:
            reading.rank_entity = near[0].column
            if not near[0].literal:
                reading.notes.append(
                    f"I took {mention.text!r} to mean the column {near[0].column.name!r}"
                )
            self._explain(near[0].extra, mention, reading)
            return
        searched = self._searched()
        text = self._without_nouns(mention.text)
        if _holding(text, searched, {c.name: c.samples for c in searched}):
            self._keep_value(text, reading)
            return
        options = [*_names([m.column for m in near] or self.table.texts), WHOLE_ROWS]
        choice = self.choose(question, options)
        if choice == WHOLE_ROWS:
            reading.rank_rows = True
        else:
            reading.rank_entity = self.table.column(choice)

    def _implied(self, rank: Rank, reading: Reading) -> Column:
        question = f"By which column of `{self.table.name}` is {rank.adjective!r} to be judged?"
        answered = self._answered(question, rank.adjective)
        if answered is not None:
            return answered
        for measure in rank.implied:
            pool = (
                [c for c in self.table.columns if c.is_date or c.is_year]
                if measure in ("date", "year")
                else list(self.table.numbers)
            )
            found = pool if measure == "date" else [m.column for m in candidates(measure, pool)]
            if len(found) == 1:
                reading.notes.append(f"I judged {rank.adjective!r} by {found[0].name!r}")
                return found[0]
            if found:
                raise Ask(question, _names(found), "Several columns fit.")
        raise Ask(question, _names(self.table.numbers), "No column says so by its name.")

    # -- columns to an analysis ------------------------------------------------------------------

    def decide(self, reading: Reading) -> Analysis:
        """What to compute and how to draw it; raises ``Missing``."""
        made = self._decide(reading)
        made.notes = [*reading.notes, *made.notes]
        return made

    def _decide(self, reading: Reading) -> Analysis:
        statement = reading.statement
        if statement.unsupported:
            raise _not_understood(statement.unsupported)
        if statement.describe:
            return Analysis("describe", columns=reading.measures)
        if statement.head is not None and not (reading.wishes or reading.groups):
            side, count = statement.head
            return Analysis("head", limit=count, tail=side == "tail", columns=reading.measures)
        if statement.rank is not None:
            return self._rank_analysis(statement.rank, reading)
        self._complete_groups(reading)
        if reading.wishes:
            return self._aggregated(reading)
        if statement.distinct and reading.measures:
            return self._counted(reading, reading.measures[0])
        if reading.groups or (statement.compare and reading.measures):
            return self._default_aggregate(reading)
        if statement.chart is not None or statement.over_time or reading.against is not None:
            return self._drawn(reading)
        columns = list(reading.measures)
        if reading.sort is not None or columns:
            if columns and reading.sort is not None:
                _once(columns, reading.sort)
            return Analysis(
                "rows",
                columns=columns,
                sort=reading.sort,
                ascending=bool(statement.ascending) if statement.ascending is not None else False,
            )
        return Analysis("head", limit=5)

    def _complete_groups(self, reading: Reading) -> None:
        statement = reading.statement
        if reading.wishes or reading.groups:
            if reading.color is not None and all(
                g.column.name != reading.color.name for g in reading.groups
            ):
                reading.groups.append(self._as_group(reading.color))
            if statement.over_time and not any(g.is_time for g in reading.groups):
                reading.groups.insert(0, self._as_group(self._time_column(reading)))
            if reading.against is not None:
                reading.groups.insert(0, self._as_group(reading.against))
        if statement.compare and not reading.groups:
            several = [k for k in reading.keeps if k.op == "in" and len(k.values) > 1]
            if several:
                reading.groups.append(Group(several[0].column))

    def _aggregated(self, reading: Reading) -> Analysis:
        statement = reading.statement
        aggregates: list[Aggregate] = []
        notes: list[str] = []
        for func, columns in reading.wishes:
            if func == "count":
                aggregates += self._counts(reading, columns, notes)
                continue
            chosen = columns or reading.measures
            if not chosen:
                chosen = [self._any_measure(func)]
            for column in chosen:
                if func != "nunique" and not column.is_number:
                    column = self._numeric_instead(column, func)
                aggregates.append(Aggregate(func, column))
        aggregates = list(dict.fromkeys(aggregates))
        if not aggregates:
            return self._counted(reading, reading.groups[0].column)
        extra = [c for c in reading.measures if all(c != a.column for a in aggregates)]
        if extra and not reading.groups and all(a.column is None for a in aggregates):
            reading.groups += [self._as_group(c) for c in extra]
            extra = []
        if extra and all(a.column is not None for a in aggregates):
            extra_texts = [c for c in extra if c.is_text]
            if extra_texts and not reading.groups:
                reading.groups += [self._as_group(c) for c in extra_texts]
                notes.append(f"I grouped by {spoken(c.name for c in extra_texts)}")
                extra = [c for c in extra if not c.is_text]
        if extra and all(a.column is not None for a in aggregates):
            raise _not_understood(c.name for c in extra)
        if not reading.groups:
            if statement.chart is not None:
                reading.groups.append(self._any_group(aggregates[0]))
            else:
                return Analysis("scalar", aggregates=aggregates, notes=notes)
        return self._grouped(reading, aggregates, notes)

    def _numeric_instead(self, column: Column, func: str) -> Column:
        kind = "dates" if column.is_date else "text"
        question = f"{column.name!r} holds {kind}. Which column should I take the {_word(func)} of?"
        answered = self._answered(question, f"the {_word(func)}")
        if answered is None:
            raise Ask(question, _names(self.table.numbers))
        return answered

    def _counts(
        self, reading: Reading, columns: Sequence[Column], notes: list[str]
    ) -> list[Aggregate]:
        if not columns:
            return [Aggregate("count")]
        column = columns[0]
        if any(g.column == column for g in reading.groups):
            return [Aggregate("count")]
        if not reading.groups and (reading.statement.chart is not None or not column.is_number):
            each = f"the rows for each {column.name}"
            distinct = f"the different values of {column.name}"
            if (
                reading.statement.chart is not None
                or self.choose(f"What should I count: {each}, or {distinct}?", [each, distinct])
                == each
            ):
                reading.groups.append(self._as_group(column))
                return [Aggregate("count")]
            return [Aggregate("nunique", column)]
        options = {"the rows": Aggregate("count")}
        if column.is_number:
            options[f"the total of {column.name}"] = Aggregate("sum", column)
        options[f"the different values of {column.name}"] = Aggregate("nunique", column)
        question = f"How should I count {column.name!r}?"
        return [options[self.choose(question, list(options))]]

    def _counted(self, reading: Reading, column: Column) -> Analysis:
        reading.groups = reading.groups or [self._as_group(column)]
        return self._grouped(reading, [Aggregate("count")], [])

    def _default_aggregate(self, reading: Reading) -> Analysis:
        measures = [
            c
            for c in reading.measures
            if c.is_number and all(c.name != g.column.name for g in reading.groups)
        ]
        texts = [c for c in reading.measures if not c.is_number]
        if texts and not measures:
            reading.groups = [*reading.groups, *(self._as_group(c) for c in texts)]
            notes = ["No measure was named, so I counted rows"]
            return self._grouped(reading, [Aggregate("count")], notes)
        if texts:
            raise _not_understood(c.name for c in texts)
        if not reading.groups:
            reading.groups.append(self._any_group(Aggregate("mean", measures[0])))
        if not measures:
            notes = ["No measure was named, so I counted rows"]
            return self._grouped(reading, [Aggregate("count")], notes)
        aggregates, notes = [], []
        for column in measures:
            func = "sum" if is_additive(column) else "mean"
            aggregates.append(Aggregate(func, column))
            notes.append(f"No function was named, so I took the {_word(func)} of {column.name!r}")
        return self._grouped(reading, aggregates, notes)

    def _grouped(self, reading: Reading, aggregates: list[Aggregate], notes: list[str]) -> Analysis:
        statement = reading.statement
        groups = list({(g.column.name, g.unit): g for g in reading.groups}.values())
        if len({g.column.name for g in groups}) < len(groups) and any(
            g.unit is None for g in groups
        ):
            # "by month over time" names one column twice: the coarser reading is meant
            groups = [g for g in groups if g.unit is not None or not g.column.is_date]
        chart = statement.chart
        if chart is not None:
            if len(groups) > 2:
                raise Declined(
                    "A chart shows two groupings at most.",
                    [f"the request groups by {spoken(g.label for g in groups)}"],
                    ["Ask for the table, or name two groupings."],
                )
            if chart == "histogram":
                raise Declined(
                    "A histogram shows single values, not groups.",
                    [f"the request groups by {spoken(g.label for g in groups)}"],
                    ["Ask for a bar chart, or leave the grouping out."],
                )
            groups = sorted(groups, key=lambda g: not g.is_time)
            if chart in ("auto", "scatter"):
                chart = "line" if groups[0].is_time and chart == "auto" else chart
                chart = "bar" if chart == "auto" else chart
        if chart is not None and len(groups) == 2 and len(aggregates) > 1:
            raise Declined(
                "A chart with two groupings shows one measure.",
                [f"the request names {spoken(a.label for a in aggregates)}"],
                ["Ask for one measure at a time."],
            )
        made = Analysis(
            "aggregate",
            aggregates=aggregates,
            groups=groups,
            chart=chart,
            ascending=aggregates[0].func == "min",
            notes=notes,
        )
        if reading.sort is not None:
            by_group = any(g.column == reading.sort for g in groups)
            if not by_group and all(a.column != reading.sort for a in aggregates):
                raise _not_understood([f"sorted by {reading.sort.name}"])
            made.sort = reading.sort if by_group else None
            made.descending = statement.ascending is False
        if statement.ascending is not None:
            made.ascending = statement.ascending
        made.stacked = statement.stacked
        if statement.rank is not None:
            # The extreme of all groups is read off the whole, sorted table.
            made.limit = statement.rank.count if statement.rank.count > 1 else None
            made.ascending = statement.rank.ascending
        return made

    def _rank_analysis(self, rank: Rank, reading: Reading) -> Analysis:
        statement = reading.statement
        entity, by = reading.rank_entity, reading.rank_by
        if reading.wishes and (reading.groups or entity is not None):
            if entity is not None and not reading.groups:
                reading.groups.append(self._as_group(entity))
            return self._aggregated(reading)
        measures = [c for c in reading.measures if c != by]
        if by is None and rank.func != "count":
            if len(measures) == 1 and measures[0].is_number:
                by, measures = measures[0], []
            elif entity is not None and entity.is_number:
                by, entity = entity, None
            elif entity is None and not reading.groups and not statement.chart:
                return Analysis("head", limit=rank.count, tail=rank.ascending)
            else:
                by = self._any_measure("top values", f"rank {entity.name}" if entity else "rank")
        if measures and entity is None:
            entity, measures = measures[0], measures[1:]
        if measures:
            raise _not_understood(c.name for c in measures)
        groups = reading.groups or ([self._as_group(entity)] if entity is not None else [])
        if rank.func == "count" and not groups and by is not None:
            groups, by = [self._as_group(by)], None
        if rank.func == "count":
            if not groups:
                raise Declined("I do not see what to count.", ["no column is named to count by"])
            reading.groups = groups
            return self._grouped(reading, [Aggregate("count")], [])
        assert by is not None
        if by.is_text:
            raise Declined(
                f"{by.name!r} holds text and gives no order of size.",
                [f"{by.name!r} is not a measure"],
                [f"Rank by one of {spoken(_names(self.table.numbers), 'or')}."],
            )
        # What is one row each is ranked row by row.
        each = entity or (groups[0].column if groups and groups[0].unit == "day" else None)
        each = each if rank.func is None and not is_additive(by) else None
        if not groups or (each is not None and self._is_unique(each)):
            if statement.chart is not None and entity is None:
                raise Declined(
                    "A chart of single rows needs a column that names them.",
                    ["no column is named that labels the bars"],
                )
            columns = [c for c in (entity, by) if c is not None] if statement.chart else []
            return Analysis(
                "rows",
                columns=columns,
                sort=by,
                limit=rank.count,
                ascending=rank.ascending,
                chart="bar" if statement.chart else None,
            )
        func, notes = rank.func, []
        if func is None:
            if is_additive(by):
                func = "sum"
                notes.append(f"I ranked by the total of {by.name!r}")
            else:
                func = self._rank_function(by, groups[0])
        reading.groups = groups
        return self._grouped(reading, [Aggregate(func, by)], notes)

    def _rank_function(self, by: Column, group: Group) -> str:
        options = {
            f"mean {by.name}": "mean",
            f"total {by.name}": "sum",
            f"maximum {by.name}": "max",
            f"minimum {by.name}": "min",
        }
        choice = self.choose(
            f"Each {group.label} has several rows. By what should I rank them?", list(options)
        )
        return options[choice]

    def _is_unique(self, column: Column) -> bool:
        count = self._distinct([column.name])[column.name]
        return self.table.rows is not None and count >= self.table.rows

    def _distinct(self, names: Sequence[str]) -> Mapping[str, int]:
        if any(name not in self.known.distinct for name in names):
            raise CountDistinct(names)
        return self.known.distinct

    def _any_measure(self, func: str, what: str = "") -> Column:
        options = self.table.numbers
        question = (
            f"By which column of `{self.table.name}` should I {what}?"
            if what
            else f"Which column of `{self.table.name}` should I take the {_word(func)} of?"
        )
        answered = self._answered(question, f"the {_word(func)}")
        if answered is not None:
            return answered
        if not options:
            raise Declined(
                f"`{self.table.name}` has no numeric column.", ["there is nothing to measure"]
            )
        raise Ask(question, _names(options))

    def _any_group(self, aggregate: Aggregate) -> Group:
        question = f"By which column of `{self.table.name}` should I draw the {aggregate.label}?"
        reply = _bare_reply(self.known.answers.get(question, "")).casefold().split()
        unit = lexicon.LEXICON.get(tuple(reply[-1:]), ("", None))
        if len(reply) == 1 and unit[0] == "unit" and self.table.dates:
            return Group(self.table.dates[0], unit[1])
        answered = self._answered(question, "the grouping")
        if answered is not None:
            return self._as_group(answered)
        raise Ask(question, _names(self.table.categories))

    # -- charts of single rows -------------------------------------------------------------------

    def _drawn(self, reading: Reading) -> Analysis:
        statement = reading.statement
        measures, against = list(reading.measures), reading.against
        chart = statement.chart or "auto"
        if not measures:
            if chart == "auto" and against is None and reading.color is None:
                options = [*self.table.numbers, *self.table.texts]
                question = f"Which column of `{self.table.name}` should I plot?"
            else:
                options = [*self.table.numbers]
                question = f"Which column of `{self.table.name}` should the {chart} chart show?"
            answered = self._answered(question, "the column to plot")
            if answered is None:
                raise Ask(question, _names(options))
            measures = [answered]
        if against is not None:
            return self._against(reading, measures, against, chart)
        if chart == "scatter":
            return self._scatter(reading, measures)
        numbers = [c for c in measures if c.is_number]
        others = [c for c in measures if not c.is_number]
        if chart == "histogram" or (chart == "auto" and not numbers):
            if len(measures) > 1:
                raise _not_understood(c.name for c in measures[1:])
            return self._one(reading, measures[0])
        if others and numbers:
            dated = [c for c in others if c.is_date]
            if dated and len(others) == 1:
                return self._line(reading, numbers, dated[0])
            reading.groups += [self._as_group(c) for c in others]
            reading.measures = numbers
            return self._default_aggregate(reading)
        if chart == "bar":
            if others:
                return self._one(reading, others[0])
            reading.groups.append(self._any_group(Aggregate("mean", numbers[0])))
            return self._default_aggregate(reading)
        if statement.over_time or chart == "line":
            return self._line(reading, numbers, self._x_axis(reading))
        if len(self.table.dates) == 1:
            date = self.table.dates[0]
            if len(numbers) != 2 or self._is_unique(date):
                return self._line(reading, numbers, date)
        if len(numbers) == 2:
            return self._scatter(reading, numbers)
        if len(numbers) > 2:
            raise Declined(
                "I do not see how to draw these columns together.",
                [f"the request names {spoken(c.name for c in numbers)}"],
                ["Name two of them for a scatter plot, or one for a histogram."],
            )
        return self._one(reading, numbers[0])

    def _one(self, reading: Reading, column: Column) -> Analysis:
        if column.is_number and not column.is_year:
            if reading.color is not None:
                raise Declined(
                    "A histogram is drawn in one colour.", ["colour by column in a histogram"]
                )
            return Analysis(
                "histogram",
                columns=[column],
                chart="histogram",
                bins=min(max(reading.statement.bins or 20, 1), 200),
            )
        reading.groups.append(self._as_group(column))
        reading.statement.chart = "auto"
        return self._grouped(reading, [Aggregate("count")], [])

    def _x_axis(self, reading: Reading) -> Column:
        if self.table.dates or self.table.years:
            return self._time_column(reading)
        question = f"Which column of `{self.table.name}` should run along the x axis?"
        answered = self._answered(question, "the x axis")
        if answered is None:
            raise Ask(question, _names(self.table.numbers))
        return answered

    def _against(
        self, reading: Reading, measures: list[Column], against: Column, chart: str
    ) -> Analysis:
        if against.is_date:
            return self._line(reading, measures, against)
        if against.is_number and measures[0].is_number and chart != "bar":
            return self._scatter(reading, [against, measures[0]])
        groups, numbers = (
            ([against], measures) if measures[0].is_number else (measures[:1], [against])
        )
        reading.groups += [self._as_group(c) for c in groups]
        reading.measures = numbers
        return self._default_aggregate(reading)

    def _scatter(self, reading: Reading, columns: list[Column]) -> Analysis:
        if len(columns) == 1:
            question = (
                f"Which column of `{self.table.name}` should {columns[0].name!r} be set against?"
            )
            answered = self._answered(question, "the other axis")
            if answered is None:
                options = [c for c in self.table.numbers if c != columns[0]]
                raise Ask(question, _names(options))
            columns = [answered, columns[0]]
        if len(columns) > 2:
            raise _not_understood(c.name for c in columns[2:])
        return Analysis("scatter", columns=columns, color=reading.color, chart="scatter")

    def _line(self, reading: Reading, measures: list[Column], x: Column) -> Analysis:
        if not x.is_date and not x.is_year and x.is_text:
            reading.groups.append(self._as_group(x))
            reading.measures = measures
            return self._default_aggregate(reading)
        if x.is_date:
            self._day_order(x)
        texts = [c.name for c in self.table.texts]
        color, notes = reading.color, []
        if color is not None or len(measures) > 1:
            return Analysis("line", columns=measures, x=x, color=color, chart="line")
        if not texts and not x.is_year and self.table.rows is None:
            return Analysis("line", columns=measures, x=x, chart="line")
        counts = self._distinct([x.name, *texts[:10]])
        rows = self.table.rows or 0
        if counts[x.name] >= rows:
            return Analysis("line", columns=measures, x=x, chart="line")
        # Several rows share a date: one line through all of them would be nonsense.
        entities = [
            t for t in texts[:10] if 1 < counts[t] <= 12 and counts[t] * counts[x.name] >= rows
        ]
        if len(entities) == 1:
            color = self.table.column(entities[0])
            notes.append(f"I drew one line per {entities[0]}, since its rows share their dates")
            return Analysis("line", columns=measures, x=x, color=color, chart="line", notes=notes)
        options = {f"mean {measures[0].name} per {x.name}": ""} | {
            f"one line per {name}": name for name in entities
        }
        if len(options) == 1:
            notes.append(
                f"Several rows share a {x.name}, so I took the mean of {measures[0].name!r}"
            )
            choice = next(iter(options))
        else:
            choice = self.choose(
                f"Several rows of `{self.table.name}` share a {x.name}. What should I draw?",
                list(options),
            )
        if options[choice]:
            color = self.table.column(options[choice])
            return Analysis("line", columns=measures, x=x, color=color, chart="line")
        reading.groups = [Group(x)]
        reading.statement.chart = "line"
        return self._grouped(reading, [Aggregate("mean", measures[0])], notes)


def _bare_reply(reply: str) -> str:
    """A reply without the words around the column that it names."""
    words = reply.strip().strip(".!").split()
    around = ("the", "a", "by", "per", "each", "column", "please", "use", "take")
    while len(words) > 1 and words[0].casefold() in around:
        words = words[1:]
    while len(words) > 1 and words[-1].casefold() in ("column", "please"):
        words = words[:-1]
    return " ".join(words)


def is_additive(column: Column) -> bool:
    """Whether a total of the column says something."""
    return bool(ADDITIVE & set(canonical(fold(column.name)))) and not (
        {"mean", "average", "per", "price", "rate"} & set(fold(column.name))
    )


def _word(func: str) -> str:
    return {"sum": "total", "nunique": "number of different values"}.get(func, func)


def _names(columns: Iterable[Column]) -> list[str]:
    return list(dict.fromkeys(c.name for c in columns))[:MAX_CHOICES]


def _once(columns: list[Column], column: Column) -> None:
    if column not in columns:
        columns.append(column)


def _holding(
    text: str, pool: Sequence[Column], values: Mapping[str, Sequence[str]]
) -> list[tuple[Column, list[str]]]:
    """The columns among whose known values is ``text``, with the value as it is written."""
    found = []
    for column in pool:
        known = dict.fromkeys(values.get(column.name, ()))
        if same := [v for v in known if same_value(text, v)]:
            found.append((column, same))
    if found:
        return found
    # A plural names the same value; anything further away is a question.
    one = singular(text.casefold())
    for column in pool:
        known = dict.fromkeys(values.get(column.name, ()))
        if alike := [v for v in known if len(v) > 2 and singular(v.casefold()) == one]:
            found.append((column, alike))
    return found


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


def _not_understood(words: Iterable[str]) -> Declined:
    listed = list(words)
    return Declined(
        f"I did not understand {spoken(repr(w) for w in listed)}.",
        [f"{w!r} is outside of what the offline model understands" for w in listed],
    )
