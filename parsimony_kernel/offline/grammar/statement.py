"""One clause is read as a statement: each item meets its rule.

An item without a rule is kept as unsupported.
"""

from collections.abc import Mapping, Sequence

from parsimony_kernel.offline.grammar import (
    again,
    correlating,
    filters,
    measures,
    missing_values,
    ranks,
    subjects,
)
from parsimony_kernel.offline.grammar.clauses import Rank, Statement
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import Rule

_RULES = (
    *subjects.RULES,
    *filters.RULES,
    *measures.RULES,
    *ranks.RULES,
    *missing_values.RULES,
    *correlating.RULES,
    *again.RULES,
)
RULES: Mapping[str, Rule] = {rule.kind: rule for rule in _RULES}
# Words that say nothing by themselves.
SILENT = frozenset({"skip", "make", "noun", "and", "comma"})
_RANKS = frozenset({"top", "head", "super", "adjective"})
_BEFORE_A_VERB = frozenset({"words", "column", "quoted", "unit", "skip", "is", "of"})


def read_statement(items: Sequence[Item]) -> Statement:
    """What ``items`` ask of a table."""
    reader = Reader()
    reader.made.text = " ".join(i.text for i in items)
    items = missing_values.cut_filling(reader, items)
    for index, item in enumerate(items):
        after = [i for i in items[index + 1 :] if i.kind not in ("skip", "comma")]
        following = after[0] if after else None
        rule = RULES.get(item.kind)
        if item.kind == "and":
            filters.read_or(reader, item, after)
        elif item.kind in _RANKS and filters.refuse_ranked(reader, item):
            continue
        if rule is not None:
            rule.apply(reader, item, following)
        elif item.kind not in SILENT:
            reader.made.unsupported.append(item.text)
        if item.kind not in ("skip", "comma"):
            reader.previous = item.kind
        if item.kind not in _BEFORE_A_VERB:
            reader.fresh = None
    reader.close()
    if reader.asks_when:
        _ask_when(reader.made)
    return reader.made


def _ask_when(made: Statement) -> None:
    """ "The highest price, and when": the row that has it tells both."""
    if made.rank is not None and not made.wishes and not made.groups:
        return
    wish = made.wishes[0] if len(made.wishes) == 1 else None
    if wish is None or wish.func not in ("min", "max") or made.groups or made.rank or not wish.of:
        made.unsupported.append("when")
        return
    made.rank = Rank(1, wish.func == "min", by=wish.of)
    made.wishes = []
