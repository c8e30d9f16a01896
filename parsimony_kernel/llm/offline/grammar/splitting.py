"""Where one clause of a request ends and the next begins."""

from collections.abc import Iterator, Sequence

from parsimony_kernel.llm.offline.grammar.filters import DROPS
from parsimony_kernel.llm.offline.grammar.items import Item
from parsimony_kernel.llm.offline.grammar.reporting import begins_report
from parsimony_kernel.llm.offline.lexicon.vocabulary import ACTIONS


def split(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The items of a request, clause by clause."""
    clause: list[Item] = []
    for index, item in enumerate(items):
        if item.kind == "stop" or (
            item.kind in ("and", "comma", "to") and _begins_clause(items, index + 1, clause)
        ):
            if clause:
                yield clause
            clause = []
        else:
            clause.append(item)
    if clause:
        yield clause


def _begins_clause(items: Sequence[Item], at: int, clause: Sequence[Item]) -> bool:
    while at < len(items) and items[at].kind in ("skip", "and", "comma"):
        at += 1
    if at >= len(items):
        return False
    item = items[at]
    if item.kind == "kind":
        before = ("kind", "plot", "func", "load", "publish", "report", "file")
        return any(i.kind in before for i in clause)
    if item.kind == "not":
        return item.text.casefold() in DROPS
    if item.kind == "report" and items[at - 1].kind == "skip" and begins_report(clause):
        return False
    if item.kind == "plot" and any(i.kind in ("publish", "report") for i in clause):
        # "save the table and the chart" names a second thing, it does not draw one
        following = items[at + 1].kind if at + 1 < len(items) else "stop"
        return following not in ("stop", "as", "called", "and", "comma")
    if item.kind == "describe" and item.text.casefold() in ("statistics", "stats", "summary"):
        return False
    return item.kind in ACTIONS
