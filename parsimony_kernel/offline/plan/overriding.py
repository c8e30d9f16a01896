"""What a statement names takes the place of what stood there in the one before."""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from parsimony_kernel.offline.columns import ranked
from parsimony_kernel.offline.grammar.clauses import Condition, Mention, Rank, Statement, Wish
from parsimony_kernel.offline.lexicon.vocabulary import LEXICON
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.fragments import NEAR, holders
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import canonical, fold

_ADDS = re.compile(r"^(?:and|also|then)\b(?! for)|\b(?:also|too|as well|break|split)\b")
_AS_TABLE = re.compile(r"\bas (?:a |the )?(?:table|numbers)\b")
_EQUALS = (None, "==", "between")


def readings(before: Statement, now: Statement, pool: Sequence[Column]) -> list[Statement]:
    """What ``now`` may mean, said of ``before``: several where a slot can be taken two ways.

    Raises ``Declined`` where it has no place.
    """
    found = [before]
    for step in (_replaced, _computed, _measured, _grouped, _ranked, _drawn):
        found = [made for known in found for made in step(deepcopy(known), now)]
    found = [made for known in found for made in _kept(known, now, pool)]
    for made in found:
        made.again, made.instead_of = False, []
    return found


def _replaced(made: Statement, now: Statement) -> Iterator[Statement]:
    """What "instead of" names must have been there."""
    texts = {*fold(made.text), *canonical(fold(made.text))}
    for words in now.instead_of:
        if _kind(words) == "func" and not made.wishes:
            # The function was not said, but taken.
            continue
        if not {*canonical(fold(words))} & texts and not set(fold(words)) & texts:
            raise _no_place(now, f"there was no {words!r}")
    yield made


def _computed(made: Statement, now: Statement) -> Iterator[Statement]:
    """Functions: with columns of their own, or applied to those that were there."""
    if not now.wishes:
        yield made
        return
    if made.correlation or made.missing:
        raise _no_place(now, "what came before computes something of its own")
    if any(w.of for w in now.wishes):
        if made.rank is not None or (made.measures and (made.against or made.describe)):
            raise _no_place(now, "what came before is not computed of one column")
        made.wishes, made.measures, made.distinct = deepcopy(now.wishes), [], False
        yield made
        return
    func = now.wishes[0].func
    if func in ("min", "max") and any(_kind(w) == "super" for w in now.text.split()):
        # "and the lowest?": of what was computed, where there are groups
        if made.rank is not None and not made.rank.implied:
            made.rank.ascending = func == "min"
            yield made
            return
        if made.rank is not None or made.groups:
            yield _ranking(made, Rank(1, func == "min"), now)
            return
    if made.rank is not None and len(now.wishes) == 1 and made.rank.func not in (None, "count"):
        made.rank.func = func
        yield made
        return
    of = list(dict.fromkeys(m for w in made.wishes if w.func != "count" for m in w.of))
    counts = all(w.func == "count" for w in now.wishes)
    of = of or ([] if made.against or made.describe else made.measures)
    if made.rank is not None or made.against or made.describe or not (of or counts):
        raise _no_place(now, "there is no column that it could be computed of")
    made.wishes = [Wish(w.func, [] if w.func == "count" else list(of)) for w in now.wishes]
    made.measures = []
    yield made


def _measured(made: Statement, now: Statement) -> Iterator[Statement]:
    """Columns that are named take the place of those that were measured."""
    measures = now.measures
    if now.against:
        made.against = now.against
    if not measures:
        yield made
        return
    adds = _adds(now)
    rank = made.rank
    if any(w.of for w in now.wishes):
        raise _no_place(now, f"{measures[0].text!r} stands beside what is computed")
    if made.correlation and len(made.measures) > len(measures) == 1:
        # "correlation of A and B", then "what about C": in place of either.
        for index in range(len(made.measures)):
            one = deepcopy(made)
            one.measures[index] = measures[0]
            yield one
    elif rank is not None:
        if rank.implied or not rank.by:
            raise _no_place(now, "what came before is ranked by something else")
        rank.by = measures
        yield made
    elif made.wishes:
        computed = [w for w in made.wishes if w.func != "count" or w.of]
        if not computed:
            raise _no_place(now, "what came before counts rows")
        if len({(w.func, tuple(w.of)) for w in computed}) > 1:
            same = len({w.func for w in computed}) == 1 or len({tuple(w.of) for w in computed}) == 1
            if not same:
                raise _no_place(now, "what came before computes several things")
        if adds:
            both = deepcopy(made)
            both.wishes += [Wish(computed[-1].func, list(measures))]
            yield both
        funcs = dict.fromkeys(w.func for w in computed)
        made.wishes = [Wish(f, list(measures)) for f in funcs]
        yield made
    elif made.sort and not made.measures:
        made.sort = measures
        yield made
    elif made.against and not now.against:
        # "scatter A vs B", then "what about C": on either side.
        other = deepcopy(made)
        other.against = measures
        made.measures = measures
        yield made
        yield other
    else:
        if adds:
            both = deepcopy(made)
            both.measures = [*made.measures, *measures]
            yield both
        made.measures = measures
        yield made


def _grouped(made: Statement, now: Statement) -> Iterator[Statement]:
    """Groups take the place of groups; "also by" and "and by" may add to them."""
    if now.color:
        made.color = now.color
    if now.over_time and not made.over_time:
        if any(m.unit is None for m in made.groups):
            alone = deepcopy(made)
            alone.groups, alone.over_time = [], True
            yield from _by(alone, now)
        made.over_time = True
    yield from _by(made, now)


def _by(made: Statement, now: Statement) -> Iterator[Statement]:
    if not now.groups:
        yield made
        return
    rank = made.rank
    flat = made.describe or made.missing or made.head is not None
    if flat or (rank is not None and rank.implied):
        raise _no_place(now, "what came before has no groups")
    if rank is not None:
        if any(m.unit for m in now.groups):
            if rank.func is None:
                raise _no_place(now, "what came before is ranked, not grouped")
            rank.entity = now.groups
            yield made
            return
        if rank.func is not None and rank.entity:
            # "which origin has the highest mean weight", then "now by year"
            other = deepcopy(made)
            other.rank = replace(rank, entity=now.groups)
            yield other
        rank.by = now.groups
        yield made
        return
    if made.sort and not (made.wishes or made.groups):
        made.sort = now.groups
        yield made
        return
    if made.chart == "scatter" and not made.wishes:
        made.color = now.groups
        yield made
        return
    if made.is_plain:
        raise _no_place(now, "what came before computes nothing")
    left = [g for g in made.groups if not _is_named(g, now.instead_of)]
    if now.instead_of and left != made.groups:
        made.groups = [*left, *now.groups]
        yield made
        return
    fresh = [g for g in now.groups if g not in made.groups]
    if _adds(now) and made.groups and fresh:
        both = deepcopy(made)
        both.groups = [*made.groups, *fresh]
        yield both
    if len(made.groups) > 1 and not now.instead_of:
        # "by month and weather", then "by week": of each group it may take the place.
        for index in range(len(made.groups)):
            one = deepcopy(made)
            one.groups[index : index + 1] = [g for g in now.groups if g not in one.groups]
            yield one
    made.groups = now.groups
    yield made


def _is_named(group: Mention, words: Sequence[str]) -> bool:
    own = {*canonical(fold(group.text)), *((group.unit,) if group.unit else ())}
    return any(set(canonical(fold(w))) & own for w in words)


def as_table(now: Statement) -> bool:
    """Whether it asks for a table in place of a chart."""
    return _AS_TABLE.search(now.text.casefold()) is not None


def _ranked(made: Statement, now: Statement) -> Iterator[Statement]:
    """How many, and in which order."""
    rank = now.rank
    if now.ascending is not None:
        if made.rank is not None and not made.rank.implied:
            made.rank.ascending = now.ascending
        elif made.sort:
            made.ascending = now.ascending
        else:
            raise _no_place(now, "what came before has no order")
    if now.sort:
        made.sort = now.sort
    if now.head is not None:
        made.head = now.head
    if rank is None:
        yield made
        return
    if made.rank is not None:
        same = made.rank.ascending == rank.ascending or not made.rank.implied
        if not same:
            raise _no_place(now, f"{made.rank.adjective!r} has no opposite that I know")
        made.rank.count, made.rank.ascending = rank.count or made.rank.count, rank.ascending
        yield made
        return
    yield _ranking(made, rank, now)


def _ranking(made: Statement, rank: Rank, now: Statement) -> Statement:
    """The groups that were computed, ranked by what was computed of them."""
    charted = made.chart not in (None, "auto", "bar")
    if made.rank is not None or len(made.wishes) != 1 or len(made.groups) != 1 or charted:
        raise _no_place(now, "what came before cannot be ranked")
    wish = made.wishes[0]
    made.rank = Rank(rank.count, rank.ascending, made.groups, wish.of, wish.func)
    made.wishes, made.groups = [], []
    return made


def _drawn(made: Statement, now: Statement) -> Iterator[Statement]:
    if now.chart is not None and not (now.chart == "auto" and made.chart):
        if made.describe or made.head is not None:
            raise _no_place(now, "what came before cannot be drawn")
        made.chart, made.stacked = now.chart, now.stacked
    made.stacked = made.stacked or now.stacked
    made.bins = now.bins or made.bins
    if as_table(now):
        made.chart, made.stacked = None, False
    if now.files:
        made.files = now.files
    yield made


# -- rows ----------------------------------------------------------------------------------------


def _kept(made: Statement, now: Statement, pool: Sequence[Column]) -> Iterator[Statement]:
    """Conditions take the place of those of the same column and stand beside the others."""
    if not now.conditions:
        yield made
        return
    above = max((c.exclusion for c in made.conditions), default=0)
    fresh = [
        replace(_with_left(c, made, now), exclusion=c.exclusion + above if c.exclusion else 0)
        for c in now.conditions
    ]
    gone: list[Condition] = []
    unclear: list[Condition] = []
    for old in made.conditions:
        clashes = {_clash(old, new, pool) for new in fresh}
        if "replaced" in clashes:
            gone.append(old)
        elif "unclear" in clashes:
            unclear.append(old)
    left = [c for c in made.conditions if c not in gone]
    if made.compare and len(gone) == 1 and len(fresh) == 1:
        # "compare 2012 and 2013", then "and 2014?"
        both = deepcopy(made)
        values = [*gone[0].values, *fresh[0].values]
        both.conditions = [*left, replace(gone[0], values=values)]
        yield both
    if unclear:
        other = deepcopy(made)
        other.conditions = [*(c for c in left if c not in unclear), *fresh]
        yield other
    made.conditions = [*left, *fresh]
    yield made


def _with_left(condition: Condition, made: Statement, now: Statement) -> Condition:
    """A number without a column is compared as the one number before was."""
    values = [v for v in condition.values if not isinstance(v, Mention)]
    if (
        not values
        and condition.values
        and all(isinstance(v, Mention) and v.unit for v in condition.values)
    ):
        raise _no_place(now, "it does not say which rows")
    if condition.left is not None or _is_time(condition) or not values:
        return condition
    compared = [c for c in made.conditions if c.left is not None and not _is_time(c)]
    if len(compared) == 1:
        return replace(condition, left=compared[0].left)
    if made.wishes or made.groups or made.rank:
        # "only those above 20" may speak of what was computed.
        raise _no_place(now, "it does not say which column is compared")
    return condition


def _clash(old: Condition, new: Condition, pool: Sequence[Column]) -> str:
    """Whether ``new`` takes the place of ``old``: replaced, beside, or unclear."""
    mine, yours = _subjects(new, pool), _subjects(old, pool)
    if mine and yours and not mine & yours:
        return "beside"
    if not (mine and yours):
        timed = "the time" in (mine | yours)
        words = all(isinstance(v, Mention) for v in (new if not mine else old).values)
        return "beside" if timed and words else "unclear"
    negated = bool(new.exclusion or new.negated) != bool(old.exclusion or old.negated)
    if new.lacks or old.lacks or (negated and new.values != old.values):
        return "unclear"
    if "the time" in mine and _is_month(new.values) != _is_month(old.values):
        return "unclear"
    if new.exclusion or new.negated:
        return "replaced" if new.values == old.values else "unclear"
    if new.op in _EQUALS or old.op in _EQUALS:
        return "replaced"
    return "replaced" if new.op[:1] == (old.op or "")[:1] else "unclear"


def _subjects(condition: Condition, pool: Sequence[Column]) -> frozenset[str]:
    """The columns that a condition is about, as far as can be told."""
    if _is_time(condition):
        return frozenset({"the time"})
    named = [condition.left] if condition.left else []
    named += [v for v in condition.values if isinstance(v, Mention)] if condition.lacks else []
    if named:
        return frozenset(_column(m, pool) for m in named)
    words = [v for v in condition.values if isinstance(v, Mention) and v.unit is None]
    found = [holders(m, pool) for m in words]
    if not words or any(len(f) != 1 for f in found):
        return frozenset()
    return frozenset(f[0] for f in found)


def _column(mention: Mention, pool: Sequence[Column]) -> str:
    near = ranked(mention.text, pool)
    if mention.column is None and near and near[0].score >= NEAR:
        mention = Mention(near[0].column.name, near[0].column.name)
    name = mention.column or " ".join(canonical(fold(mention.text)))
    return "the time" if any(c.name == name and (c.is_date or c.is_year) for c in pool) else name


def _is_time(condition: Condition) -> bool:
    left = condition.left
    if left is not None:
        return left.unit is not None
    return bool(condition.values) and all(
        isinstance(v, tuple) or (isinstance(v, int) and 1000 <= v < 3000) for v in condition.values
    )


def _is_month(values: Sequence[Any]) -> bool:
    return all(isinstance(v, tuple) and v[0] is None for v in values)


def _kind(word: str) -> str:
    return LEXICON.get((word.casefold(),), ("", None))[0]


def _adds(now: Statement) -> bool:
    return _ADDS.search(now.text.casefold()) is not None and not now.instead_of


def _no_place(now: Statement, blocker: str) -> Declined:
    return Declined(
        f"I do not see how {now.text!r} goes on from the request before.",
        [blocker],
        ["Say it whole, for instance: 'mean temp_max by week'."],
    )
