"""The state of reading one statement, and what every rule may do to it."""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.offline.grammar.clauses import Condition, Mention, Rank, Statement
from parsimony_kernel.offline.lexicon.missing_values import says_anywhere


class Reader:
    """A statement in the making; ``role`` says what the next words are."""

    def __init__(self) -> None:
        self.made = Statement()
        self.role = "measure"
        self.condition: Condition | None = None
        self.number: int | float | None = None
        self.fresh: tuple[list[Mention], Mention] | None = None
        self.taken: tuple[list[Mention], Mention, Condition | None] | None = None
        self.asks_when = False
        self.previous = ""
        self.sorting = False
        self.exclusion = 0
        self.excludes_all = False
        self._exclusions = 0

    def mention(self, mention: Mention) -> None:
        """Put a mention where the words before it say that it belongs."""
        condition = self.condition
        if (
            condition is not None
            and condition.values
            and condition.left is None
            and condition.op not in (None, "==", "!=")
            and self.previous == "number"
        ):
            condition.left = mention
            self.number = None
            return
        if condition is not None and self._is_left_after_all(condition, mention):
            return
        if self.role == "filter":
            if condition is None:
                condition = self.open(Condition())
            if self.previous == "number" and condition.op is None and _are_sizes(condition.values):
                condition.left, condition.op, self.number = mention, "==", None
                return
            if condition.op is not None and len(condition.values) and condition.left is not None:
                if isinstance(condition.values[-1], Mention) and self.previous in ("and", "comma"):
                    condition.values.append(mention)
                    self.fresh = (condition.values, mention)
                    return
                condition = self.open(Condition())
            condition.values.append(mention)
            self.fresh = (condition.values, mention)
            return
        if self.number is not None and self.previous == "number" and self.role == "measure":
            # "8 cylinder cars": a number right before a column is a value of it
            self.made.conditions.append(Condition(mention, "==", [self.number], word="number"))
            self.number = None
            return
        target = self.target()
        target.append(mention)
        self.fresh = (target, mention)

    def _is_left_after_all(self, condition: Condition, mention: Mention) -> bool:
        """Whether ``mention`` is compared, and not what stood before: "cars have over 6 doors"."""
        if self.taken is None or condition.left is not self.taken[1] or condition.left.column:
            return False
        numeric = condition.op not in (None, "==") and bool(condition.values)
        if mention.column is None or self.previous != "number" or not numeric:
            return False
        listed, subject, before = self.taken
        listed.append(subject)
        if before is not None and listed is before.values:
            # "cars from Japan have over 6 doors": Japan is a condition of its own
            self.made.conditions.append(before)
        condition.left, self.taken, self.number = mention, None, None
        return True

    def target(self) -> list[Mention]:
        """The list that the next mention belongs to."""
        made = self.made
        if self.role == "entity":
            return made.rank.entity if made.rank is not None else made.measures
        if self.role == "rank" and made.rank is not None:
            return made.rank.by
        if self.role == "measure" and made.wishes:
            return made.wishes[-1].of
        return {
            "group": made.groups,
            "about": made.about,
            "against": made.against,
            "color": made.color,
            "sort": made.sort,
        }.get(self.role, made.measures)

    def is_subject(self) -> bool:
        """Whether the words before a verb say what is asked for."""
        return self.made.verb == "which"

    def open(self, condition: Condition) -> Condition:
        """Begin a condition."""
        before = self.condition
        if before is not None and before.empty and before.negated and not before.leads:
            # "where not missing …": what was negated is said only now
            condition.negated = not condition.negated
        if self.role != "filter":
            self.exclusion = 0
        self.close()
        condition.exclusion = self.exclusion
        self.condition = condition
        self.role = "filter"
        return condition

    def exclude(self, condition: Condition) -> Condition:
        """Begin to say which rows to leave out."""
        self.open(condition)
        condition.negated = condition.leads = True
        condition.exclusion = self.exclude_more()
        self.excludes_all = condition.word == "drop"
        return condition

    def exclude_more(self) -> int:
        """Further conditions leave rows out by themselves, as after "or"."""
        self._exclusions += 1
        self.exclusion = self._exclusions
        return self.exclusion

    def close(self) -> None:
        """End the condition that is open; a number without a place is unsupported."""
        condition = self.condition
        anywhere = condition is not None and condition.lacks and says_anywhere(condition.word)
        if condition is not None and (anywhere or not condition.empty):
            self.made.conditions.append(condition)
        elif condition is not None and condition.lacks and not self.made.describe:
            self.made.unsupported.append(condition.word)
        self.condition = None
        if self.number is not None:
            self.made.unsupported.append(str(self.number))
            self.number = None

    def take_left(self) -> Mention | None:
        """The mention that stood last, taken out of its place to be compared."""
        if self.fresh is None:
            return None
        listed, mention = self.fresh
        self.taken = (listed, mention, self.condition)
        if mention in listed:
            listed.remove(mention)
        if self.condition is not None and self.condition.empty:
            self.condition = None
        self.fresh = None
        return mention

    def value(self, value: Any) -> None:
        """Add a value to the condition that is open."""
        condition = self.condition
        if condition is None:
            condition = self.open(Condition())
        condition.values.append(value)

    def rank(self, ascending: bool) -> Rank:
        """The ranking, begun if there was none."""
        if self.made.rank is None:
            # 0 stands for "not said"
            count = int(self.number) if self.number is not None else 0
            self.made.rank = Rank(count, ascending)
        self.number = None
        self.condition = None if self.condition and self.condition.empty else self.condition
        return self.made.rank


def _are_sizes(values: Sequence[Any]) -> bool:
    """Whether ``values`` are numbers that are no years: what "4 and 6 cylinders" begins with."""
    return bool(values) and all(
        isinstance(value, int | float) and not 1000 <= value < 3000 for value in values
    )
