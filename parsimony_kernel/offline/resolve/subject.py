"""The table that a statement is about, with what is known of it.

One clear column is used, several are a question, none is a question too. The wording of a question
is its identity: an answer is found again by it.
"""

from collections.abc import Iterable, Mapping, Sequence

from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.columns import Match, candidates, same_value
from parsimony_kernel.offline.grammar.clauses import Mention
from parsimony_kernel.offline.missing import Ask, CountDistinct, Declined, Stopped, is_stop
from parsimony_kernel.offline.resolve.reading import Known
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import fold, singular, spoken, word_set

MAX_CHOICES = 8


_GENERIC = word_set(
    "row record entry observation item day case sample time data point thing one result "
    "entrie different value number amounts instance"
)


class Subject:
    """One table and what is known; ``wanted`` collects words that must be looked for in it."""

    def __init__(self, table: Table, known: Known) -> None:
        self.table, self.known = table, known
        self.wanted: list[str] = []

    def is_noun(self, text: str) -> bool:
        """Whether the words only say what a row of the table is."""
        words = [singular(w) for w in fold(text)]
        return all(w in _GENERIC or w in self.known.nouns or self.table.speaks_of(w) for w in words)

    def without_nouns(self, text: str) -> str:
        """``text`` without the words for a row; all of it if nothing else is left."""
        words = fold(text)
        kept = [w for w in words if not self.is_noun(w)]
        return " ".join(kept) if kept and len(kept) < len(words) else text

    def checked(self, column: Column) -> Column:
        """The column, if its name is its own."""
        if self.table.is_doubled(column.name):
            raise Declined(
                f"`{self.table.name}` has several columns named {column.name!r}.",
                [f"the column name {column.name!r} is not unique"],
                [f"Rename the columns of `{self.table.name}` so that each name occurs once."],
            )
        return column

    def literal(self, mention: Mention) -> Column | None:
        """The column that is named as it is written."""
        name = mention.column
        if name is None and mention.quoted:
            name = next((c.name for c in self.table.columns if c.name == mention.text), None)
        found = self.table.column(name) if name is not None else None
        return None if found is None else self.checked(found)

    def column(
        self, mention: Mention, notes: list[str], plausible: Sequence[Column]
    ) -> tuple[Column, tuple[str, ...]]:
        """The column that is meant, and the words that it leaves unexplained."""
        literal = self.literal(mention)
        if literal is not None:
            return literal, ()
        question = f"Which column of `{self.table.name}` do you mean by {mention.text!r}?"
        answered = self.answered(question, mention.text)
        if answered is not None:
            return answered, ()
        found = self.candidates(mention.text, plausible)
        if len(found) == 1:
            match = found[0]
            self.checked(match.column)
            if not match.literal:
                notes.append(f"I took {mention.text!r} to mean the column {match.column.name!r}")
            return match.column, match.extra
        if found:
            raise Ask(
                question, [m.column.name for m in found][:MAX_CHOICES], "Several columns fit."
            )
        raise Ask(question, names_of(plausible or self.table.columns), "No column has that name.")

    def candidates(self, text: str, plausible: Sequence[Column]) -> list[Match]:
        """The columns that ``text`` may mean here."""
        found = candidates(text, self.table.columns)
        if not found or found[0].extra:
            found = candidates(self.without_nouns(text), self.table.columns) or found
        if len(found) > 1 and plausible:
            # Among equals, only what can stand in this place is a candidate.
            names = {c.name for c in plausible}
            found = [m for m in found if m.column.name in names] or found
        return found

    def answered(self, question: str, phrase: str) -> Column | None:
        """The column that the person named in reply, ``None`` before the question was put."""
        asked = question
        found: list[Column] = []
        for _ in range(3):
            reply = self.known.answers.get(asked)
            if reply is None:
                if asked != question:
                    raise Ask(asked, names_of(found or self.table.columns))
                return None
            if is_stop(reply):
                raise Stopped(phrase)
            exact = [c for c in self.table.columns if same_value(reply, c.name)]
            near = candidates(bare_reply(reply), self.table.columns)
            found = exact or [m.column for m in near if not m.extra]
            if len(found) == 1:
                return self.checked(found[0])
            asked = (
                f"{reply[:80]!r} fits {'several columns' if found else 'no column'} of "
                f"`{self.table.name}`. Which column do you mean by {phrase!r}?"
            )
        raise Declined(
            f"I could not find out which column is meant by {phrase!r}.",
            [f"no column of `{self.table.name}` is meant by {phrase!r}"],
            [f"Use one of these names: {spoken(names_of(self.table.columns), 'or')}."],
        )

    def choose(self, question: str, options: Sequence[str], context: str = "") -> str:
        """The option that the person chose; raises ``Ask`` until one was."""
        return choose(self.known.answers, question, options, context)

    def time_column(self) -> Column:
        """The column that tells the time."""
        options = self.table.dates or self.table.years
        if len(options) == 1:
            return self.checked(options[0])
        if not options:
            raise Declined(
                f"`{self.table.name}` has no column with dates or years.",
                ["the request speaks of time, and no column holds dates"],
                ["Name the column that holds the date, or convert it with pd.to_datetime."],
            )
        question = f"Which column of `{self.table.name}` is the date to go by?"
        found = self.answered(question, "the date")
        if found is None:
            raise Ask(question, names_of(options), "Several columns hold dates.")
        return found

    def day_order(self, column: Column) -> None:
        """Ask for the order of day and month where both are possible."""
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

    def searched(self) -> list[Column]:
        """The columns that may hold a value that is named."""
        return [c for c in self.table.columns if c.is_text][:20]

    def distinct(self, names: Sequence[str]) -> Mapping[str, int]:
        """How many different values columns have."""
        if any(name not in self.known.distinct for name in names):
            raise CountDistinct(names)
        return self.known.distinct

    def is_unique(self, column: Column) -> bool:
        """Whether every row has a value of its own."""
        count = self.distinct([column.name])[column.name]
        return self.table.rows is not None and count >= self.table.rows


def bare_reply(reply: str) -> str:
    """A reply without the words around the column that it names."""
    words = reply.strip().strip(".!").split()
    around = ("the", "a", "by", "per", "each", "column", "please", "use", "take")
    while len(words) > 1 and words[0].casefold() in around:
        words = words[1:]
    while len(words) > 1 and words[-1].casefold() in ("column", "please"):
        words = words[:-1]
    return " ".join(words)


def names_of(columns: Iterable[Column]) -> list[str]:
    """The names of columns, as choices."""
    return list(dict.fromkeys(c.name for c in columns))[:MAX_CHOICES]
