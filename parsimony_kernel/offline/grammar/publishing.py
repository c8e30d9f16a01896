"""A clause that names what to publish, and under which title."""

from collections.abc import Sequence

from parsimony_kernel.offline.grammar.clauses import Mention, Publish
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.rules import Phrase

PHRASES = (
    Phrase(
        "publish the chart as 'Power by origin'",
        "publishes a chart that was made",
        "published chart",
        (
            "save the chart as 'Power by origin'",
            "export the chart as 'Power by origin'",
            "publish the chart called 'Power by origin'",
        ),
    ),
    Phrase(
        "save the mean weight by origin as a dataset called Weights",
        "publishes a table",
        "published dataset",
        (
            "publish the mean weight by origin as a dataset called Weights",
            "save the average weight per origin as a dataset named Weights",
            "store the mean weight by origin as a dataset called Weights",
        ),
    ),
)


_PUBLISH_WORDS = frozenset(
    {
        "publish",
        "called",
        "as",
        "ref",
        "noun",
        "plot",
        "kind",
        "skip",
        "and",
        "comma",
        "quoted",
        "make",
        "where",
        "of",
        "to",
        "show",
    }
)


def read_publish(items: Sequence[Item]) -> Publish:
    """What to publish."""
    publish = Publish()
    naming = False
    title: list[str] = []
    for item in items:
        if item.kind in ("as", "called"):
            naming = True
        elif item.kind in ("and", "comma"):
            naming = False
        elif item.kind == "quoted":
            title = [item.text]
            naming = False
        elif item.kind in ("plot", "kind"):
            _once(publish.kinds, "chart")
        elif item.kind == "noun":
            words = item.text.casefold()
            if not words.startswith(("csv", "excel", "json", "spreadsheet", "file", "parquet")):
                _once(publish.kinds, "dataset") if words not in ("everything",) else None
            else:
                publish.unsupported.append(f"a {item.text} of your own")
        elif item.kind in ("words", "column", "unit", "func", "number") and naming:
            title.append(item.text)
        elif item.kind in ("words", "column"):
            publish.target.append(Mention(item.text, item.value))
        elif item.kind in ("file", "report", "unsupported"):
            publish.unsupported.append(item.text)
        elif item.kind not in _PUBLISH_WORDS and naming:
            title.append(item.text)
    if not publish.kinds and any(
        i.text.casefold() in ("results", "everything", "both") for i in items
    ):
        publish.kinds = ["dataset", "chart"]
    publish.every = any(
        word in {"charts", "plots", "figures", "datasets", "tables", "all", "both", "everything"}
        for item in items
        for word in item.text.casefold().split()
    )
    publish.title = " ".join(title) or None
    return publish


def asks_more(items: Sequence[Item]) -> bool:
    """Whether the items ask for something to be computed first."""
    rest, _ = cut_naming(items)
    return any(
        i.kind in ("func", "by", "over_time", "freq", "top", "super", "adjective", "cmp", "vs")
        for i in rest
    ) or any(i.kind == "column" for i in rest)


def cut_naming(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """The items before a title is given, and those from there."""
    for index, item in enumerate(items):
        if item.kind in ("as", "called"):
            return list(items[:index]), list(items[index:])
    return list(items), []


def _once(kinds: list[str], kind: str) -> None:
    if kind not in kinds:
        kinds.append(kind)
