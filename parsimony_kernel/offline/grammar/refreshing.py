"""A clause that names something published that is to be made again."""

from collections.abc import Sequence

from parsimony_kernel.offline.grammar.clauses import Refresh
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.rules import Phrase

PHRASES = (
    Phrase(
        "refresh the report 'Power by origin'",
        "makes what is published again",
        "refreshed",
        (
            "please refresh the report 'Power by origin'",
            "now refresh the report 'Power by origin'",
            "could you refresh the report 'Power by origin'",
        ),
    ),
    Phrase(
        "refresh 'Power by origin' with the new data",
        "the same, though its files have changed",
        "refreshed",
        (
            "refresh 'Power by origin' with the changed data",
            "refresh 'Power by origin' using the new data",
            "refresh 'Power by origin' on the new data",
        ),
    ),
)

_KINDS = {"report": "report", "plot": "chart", "kind": "chart", "noun": "dataset"}
_EDGES = frozenset({"skip", "ref", "and", "comma"})


def read_refresh(items: Sequence[Item]) -> Refresh:
    """What to refresh; ``items`` are those after the verb."""
    refresh = Refresh(new_data=any(i.kind == "new_data" for i in items))
    said = [i for i in items if i.kind != "new_data"]
    refresh.unsupported = [i.text for i in said if i.kind == "unsupported"]
    said = _without_edges(said, _EDGES)
    refresh.words = _text(said)
    for at in (0, -1):
        if said and refresh.kind is None and _is_kind(said[at]):
            refresh.kind = _KINDS[said[at].kind]
            said = said[1:] if at == 0 else said[:-1]
    named = _without_edges(said, _EDGES | {"called"})
    quoted = next((i.text for i in named if i.kind == "quoted"), None)
    refresh.name = _text(named) if quoted is None else quoted
    if quoted is not None:
        refresh.unsupported += [i.text for i in named if i.kind != "quoted"]
    return refresh


def _is_kind(item: Item) -> bool:
    if item.kind == "noun":
        return item.text.casefold() in ("data", "dataset", "table")
    return item.kind in _KINDS


def _without_edges(items: Sequence[Item], kinds: frozenset[str]) -> list[Item]:
    kept = list(items)
    while kept and kept[0].kind in kinds:
        kept.pop(0)
    while kept and kept[-1].kind in kinds:
        kept.pop()
    return kept


def _text(items: Sequence[Item]) -> str:
    return " ".join(i.text for i in items)
