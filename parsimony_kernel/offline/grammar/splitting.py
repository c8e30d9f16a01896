"""Where one clause of a request ends and the next begins."""

from collections.abc import Iterator, Sequence

from parsimony_kernel.offline.grammar.filters import DROPS
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reporting import begins_report, shows_more
from parsimony_kernel.offline.grammar.several import LISTED, announces
from parsimony_kernel.offline.lexicon.vocabulary import ACTIONS


def split(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The items of a request, clause by clause."""
    items = _without_lists(items)
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
    if item.kind in ("kind", "plot") and (announces(clause) or shows_more(clause)):
        # "two charts: a histogram of A and a bar chart of B": they are taken apart together
        return False
    if item.kind == "kind":
        before = ("kind", "plot", "func", "load", "publish", "report", "file")
        named = item.value == "histogram" and any(i.kind == "correlation" for i in clause)
        return named or any(i.kind in before for i in clause)
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


def _without_lists(items: Sequence[Item]) -> list[Item]:
    """``items`` where a list behind a colon is one clause, however its members are set apart."""
    made: list[Item] = []
    listing = False
    number = 1
    at = 0
    while at < len(items):
        item = items[at]
        following = items[at + 1] if at + 1 < len(items) else None
        if item.kind != "stop" or following is None:
            made.append(item)
        elif not listing and item.text[0] == ":" and _opens_list(_last_clause(made)):
            listing = True
            opener = any(i.kind == "report" for i in _last_clause(made))
            made.append(Item("where", "with", "with") if opener else Item("skip", None, ":"))
        elif listing and _goes_on(item, following):
            made.append(Item("comma", LISTED, ","))
        else:
            listing = False
            made.append(item)
        at += 1
        if listing and item.kind == "stop" and at < len(items) and items[at].value == number:
            # "1. …"
            numbered = items[at].kind == "number"
            number += numbered
            at += numbered
            dotted = at < len(items) and items[at].kind == "stop" and items[at].text == "."
            at += numbered and dotted
    return made


def _last_clause(items: Sequence[Item]) -> list[Item]:
    at = next((n for n in range(len(items) - 1, -1, -1) if items[n].kind == "stop"), -1)
    return list(items[at + 1 :])


def _opens_list(clause: Sequence[Item]) -> bool:
    return announces(clause) or any(i.kind == "report" for i in clause)


def _goes_on(stop: Item, following: Item) -> bool:
    """Whether the list has another member behind ``stop``."""
    separates = stop.text == ";" or "\n" in stop.text
    return separates and following.kind not in ACTIONS - {"plot", "kind", "show"}
