"""A clause that asks for a report: its title, and what it is to show.

The rule of the place: "report" is a thing to write, or what something is written as; the verb, as
in "report the mean", is not meant.
"""

from collections.abc import Sequence

from parsimony_kernel.offline.grammar.clauses import Publish, Report
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.publishing import asks_more, read_publish
from parsimony_kernel.offline.grammar.rules import Phrase
from parsimony_kernel.offline.words import fold

PHRASES = (
    Phrase(
        "plot mean horsepower by origin and publish it as a report titled 'Power by origin'",
        "writes a report that shows what was made",
        "published report",
        (
            "draw mean horsepower by origin and publish it as a report titled 'Power by origin'",
            "plot average horsepower per origin and save it as a report titled 'Power by origin'",
            "plot the mean horsepower by origin and save it as a report titled 'Power by origin'",
        ),
    ),
    Phrase(
        "make a report of the charts",
        "writes a report that shows what is there",
        "published report",
        (
            "write a report of the charts",
            "create a report with the charts",
            "build a report of all the charts",
        ),
    ),
    Phrase(
        "write a report called Power with the chart and the table",
        "shows what is named",
        "published report",
        (
            "make a report called Power with the chart and the table",
            "write a report named Power with the chart and the table",
            "create a report titled Power with the chart and the table",
        ),
    ),
    Phrase(
        "report about the cars with mean horsepower by origin and a histogram of weight",
        "computes what it shows, with a section for each",
        "published report",
        (
            "write a report on cars with mean horsepower by origin and a histogram of weight",
            "make a report called Cars: mean horsepower by origin; a histogram of weight",
            "create a report titled Cars showing mean horsepower by origin and a histogram of "
            "weight",
        ),
    ),
)

_LINKS = frozenset({"skip", "and", "comma", "as", "of", "where", "show", "to"})
_COMPUTES = frozenset(
    {"func", "by", "over_time", "freq", "vs", "kind", "top", "super", "adjective"}
)
_COMPARES = frozenset({"cmp", "comparative", "between", "lacks", "is"})
_THINGS = frozenset({"plot", "kind", "noun", "publish", "func", "refresh"})


def begins_report(items: Sequence[Item]) -> bool:
    """Whether ``items`` begin with a verb that a report can be the object of."""
    first = next((i for i in items if i.kind not in ("skip", "and", "comma")), None)
    return first is not None and (first.kind in ("publish", "make") or _is_write(first))


def read_report(items: Sequence[Item]) -> tuple[list[Item], Report] | None:
    """What has to be shown first, and the report; ``None`` when none is asked for."""
    at = next((n for n, item in enumerate(items) if item.kind == "report"), None)
    if at is None:
        return None
    found = _taken_apart(items, at)
    if found is None:
        return None
    content, topic, title, told = found
    if computes(content):
        shows = Publish(kinds=_kinds(content))
    else:
        content = content or topic
        shows = read_publish([i for i in content if i.kind != "file"])
        title, shows.title = title or shows.title, None
    shows.every = shows.every or not (shows.kinds or shows.target)
    shows.unsupported += told
    return content, Report(title, shows)


def composed(items: Sequence[Item]) -> tuple[list[Item], list[Item], list[Item]] | None:
    """What has to be computed for a report, what it is all about, and the report alone.

    ``None`` when none is asked for, or when it shows what is there.
    """
    at = next((n for n, item in enumerate(items) if item.kind == "report"), None)
    found = _taken_apart(items, at) if at is not None else None
    if at is None or found is None or not computes(found[0]):
        return None
    content, topic, title, told = found
    report = [Item("make", None, "make"), Item("skip", None, "a")]
    report += [Item("unsupported", None, text.split()[1]) for text in told]
    report.append(items[at])
    if title is not None:
        report += [Item("called", None, "called"), Item("quoted", None, title)]
    said = {word for i in content for word in fold(i.text)}
    known = {word for i in topic if i.kind != "skip" for word in fold(i.text)} <= said
    about = [] if known or not topic else [Item("where", "for", "for"), *topic]
    return content, about, report


def shows_more(items: Sequence[Item]) -> bool:
    """Whether ``items`` ask for a report and are saying what it shows."""
    at = next((n for n, item in enumerate(items) if item.kind == "report"), None)
    if at is None:
        return False
    found = _taken_apart(items, at)
    return found is not None and computes(found[0])


def _taken_apart(
    items: Sequence[Item], at: int
) -> tuple[list[Item], list[Item], str | None, list[str]] | None:
    """The content, the topic, the title and odd words of the report at ``at``, if it is one."""
    verbs = _verbs(items[:at])
    before, after = list(items[verbs:at]), list(items[at + 1 :])
    told = _cut_adjective(before)
    topic, after = _cut_topic(after)
    if not (topic or _is_object(items[:verbs], before, after)):
        return None
    title, rest = _cut_title(after)
    if title is not None and not topic:
        topic, rest = _cut_topic(rest)
    content = [*_without_links(before, at=-1), *_without_links(rest, at=0)]
    if _computes(topic):
        # "report on the mean of A by x"
        return [*topic, *content], [], title, told
    if title is None and topic and content:
        title = " ".join(i.text for i in topic if i.kind != "skip")
        title = title[:1].upper() + title[1:]
    quoted = all(i.kind in ("quoted", "skip") and i.value is None for i in topic)
    return content, [] if quoted and content else topic, title, told


def computes(content: Sequence[Item]) -> bool:
    """Whether what a report is to show has to be computed first."""
    kinds = {i.kind for i in content}
    return asks_more(content) or ("kind" in kinds and "words" in kinds)


def _kinds(content: Sequence[Item]) -> list[str]:
    drawn = any(i.kind in ("plot", "kind") for i in content)
    listed = any(i.text.casefold() in ("table", "tables", "dataset", "datasets") for i in content)
    return [kind for kind, asked in (("chart", drawn), ("dataset", listed and drawn)) if asked]


def _is_write(item: Item) -> bool:
    return item.kind == "unsupported" and item.text.casefold() == "write"


def _verbs(items: Sequence[Item]) -> int:
    """How many items at the beginning only say that something is to be done."""
    for index, item in enumerate(items):
        if item.kind not in ("skip", "and", "comma", "publish", "make", "show", "ref") and not (
            _is_write(item)
        ):
            return index
    return len(items)


def _cut_adjective(before: list[Item]) -> list[str]:
    """Take what stands between the article and the noun out of ``before``: what it says."""
    if before and before[-1].kind in ("words", "unsupported"):
        single = len(before) == 1 or before[-2].kind in ("skip", "as")
        if single:
            return [f"a {before.pop().text} report"]
    return []


def _is_object(verbs: Sequence[Item], before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Whether the report is something to make, and not a verb or a name."""
    last = next((i.kind for i in reversed(before) if i.kind != "skip"), None)
    makes = any(i.kind in ("publish", "make") or _is_write(i) for i in verbs)
    if last is None:
        following = next((i.kind for i in after if i.kind != "skip"), None)
        return makes or following in (None, "called", "as", "of", "where", "comma", "quoted")
    named = bool(before) and before[-1].kind == "skip"
    return last == "as" or (makes and named and last in ("and", "comma", "where"))


def _cut_topic(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """What the report is said to be about, and the other items."""
    if not items or items[0].text.casefold() not in ("about", "on"):
        return [], list(items)
    end = 1
    while end < len(items) and not _ends_topic(items[end:]):
        end += 1
    topic = _without_links(items[1:end], at=0)
    return topic, list(items[end:])


def _ends_topic(items: Sequence[Item]) -> bool:
    """Whether the topic ends here; a condition belongs to it: "days with wind over 8"."""
    if not _begins_content(items[0]):
        return items[0].kind in ("called", "as", "comma", "stop")
    end = next((n for n, i in enumerate(items[1:], 1) if _begins_content(i)), len(items))
    following = items[1:end]
    return _computes(following) or not any(i.kind in _COMPARES for i in following)


def _computes(items: Sequence[Item]) -> bool:
    return any(i.kind in _COMPUTES for i in items)


def _begins_content(item: Item) -> bool:
    """Whether what is shown follows: "with", "showing"."""
    low = item.text.casefold()
    return (item.kind, low) == ("where", "with") or (item.kind == "of" and "show" in low)


def _cut_title(items: Sequence[Item]) -> tuple[str | None, list[Item]]:
    """The title that ``items`` give, and the other items."""
    start = next((n for n, i in enumerate(items) if i.kind in ("called", "as")), None)
    if items and items[0].kind == "quoted":
        return items[0].text, list(items[1:])
    if start is None:
        return None, list(items)
    end = start + 1
    while end < len(items) and not _ends_title(items, end):
        end += 1
        if items[end - 1].kind == "quoted":
            break
    title = " ".join(i.text for i in items[start + 1 : end]) or None
    return title, [*items[:start], *items[end:]]


def _ends_title(items: Sequence[Item], at: int) -> bool:
    item = items[at]
    if _begins_content(item) or item.text.casefold() == "about":
        return True
    if item.kind not in ("and", "comma"):
        return False
    following = next((i.kind for i in items[at + 1 :] if i.kind not in ("skip", "and")), None)
    return following is None or following in _THINGS


def _without_links(items: Sequence[Item], *, at: int) -> list[Item]:
    kept = list(items)
    while kept and kept[at].kind in _LINKS:
        kept.pop(at)
    return kept
