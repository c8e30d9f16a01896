"""A clause that asks for several charts or tables is taken apart: a clause for each.

Taken apart are parts that each say how they are grouped or drawn, as in "plot A by x and B by y",
and lists of which every member is a chart: "histograms of A and B", "two charts: …". What is said
once for all of them, such as a filter at the end, goes with each.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reporting import composed
from parsimony_kernel.offline.lexicon.charts import APART, TOGETHER
from parsimony_kernel.offline.words import word_set

# What sets the members of a list apart that has a line or a semicolon for each.
LISTED = "listed"
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_APART = word_set("separate individual")
# "two separate individual charts": what says how many stands close to what is drawn.
_MOST_SAYING = 5
_PLURALS = word_set("charts plots graphs histograms scatterplots diagrams distributions")
_DRAWN = frozenset({"plot", "kind", "stacked"})
_LEAD = _DRAWN | {"skip", "show", "compare", "make", "of", "stop"}
_MARKS = frozenset({"by", "over_time", "vs"})
_TAIL = frozenset({"where", "time", "just", "not", "file", "color", "as"})
_NAMED = frozenset({"words", "column", "quoted"})
_COMPUTED = frozenset({"func", "freq", "top", "super", "adjective"})
_SUBJECT = _NAMED | _COMPUTED
# A clause with other words asks for something that is not put together from parts like these.
_KNOWN = _LEAD | _MARKS | _TAIL | _SUBJECT | frozenset(
    {
        "unit", "number", "date", "is", "cmp", "comparative", "suffix", "between", "to", "noun",
        "and", "comma",
    }
)  # fmt: skip


@dataclass
class _Head:
    """What stands before the parts: ``shared`` goes with each, ``drawn`` says how to draw."""

    shared: list[Item] = field(default_factory=list)
    drawn: list[Item] = field(default_factory=list)
    said: list[Item] = field(default_factory=list)
    number: int | None = None
    apart: bool = False

    @property
    def kind(self) -> str | None:
        """The kind of chart, if one was said."""
        return next((str(i.value) for i in self.drawn if i.kind == "kind"), None)

    @property
    def plural(self) -> bool:
        """Whether more than one chart was said."""
        return bool(self.drawn) and _last_word(self.drawn[-1]) in _PLURALS

    @property
    def single(self) -> bool:
        """Whether it names one chart, and is not the verb."""
        return bool(self.drawn) and not self.plural and self.drawn[-1].value != "verb"

    @property
    def lists(self) -> bool:
        """Whether every member of a list is a chart."""
        return self.apart or self.plural or self.number is not None or self.kind == "histogram"


def apart(items: Sequence[Item]) -> list[list[Item]]:
    """The clauses that ``items`` stand for, in order; most stand for one."""
    found = composed(items)
    if found is None:
        return _charts(items)
    content, topic, report = found
    parts = _charts(content)
    if len(parts) == 1 and not topic:
        return [list(items)]
    return [*([*part, *topic] for part in parts), report]


def announces(items: Sequence[Item]) -> bool:
    """Whether ``items`` begin by saying that several charts, or none yet, follow."""
    head, at = _head(items)
    return head.number is not None or head.apart or (bool(head.drawn) and at == len(items))


def _charts(items: Sequence[Item]) -> list[list[Item]]:
    whole = [list(items)]
    if any(i.value == LISTED for i in items):
        return _members(items)
    if any(i.value == TOGETHER for i in items) or {i.kind for i in items} - _KNOWN:
        return whole
    told = [i for i in items if i.kind == "plot" and i.value == APART]
    head, at = _head([i for i in items if i not in told])
    head.apart = head.apart or bool(told)
    head.said += told
    body = [i for i in items if i not in told][at:]
    parts = _parts(body)
    gathered = _grouped(parts, head, lists=False)
    by_marks = _told_apart(gathered, head)
    listed = _completed(_grouped(parts, head, lists=True), head) if head.lists else []
    if head.number is not None:
        fitting = [c for c in (by_marks, listed) if len(c) == head.number]
        if not fitting:
            refused = Item("unsupported", None, " ".join(i.text for i in head.said))
            return [[refused], _under(head, body)]
        return _finished(fitting[0], head)
    charts = listed or by_marks
    if head.apart and len(charts) < 2:
        refused = Item("unsupported", None, " ".join(i.text for i in head.said))
        return [[refused], _under(head, body)]
    one = _as_one(gathered) if len(gathered) > 1 and not charts else None
    if one is not None:
        return [_under(head, one)]
    return _finished(charts, head) if len(charts) > 1 else whole


def _members(items: Sequence[Item]) -> list[list[Item]]:
    """The members of a list that are set apart by more than commas."""
    head, at = _head(items)
    members: list[list[Item]] = [[]]
    for item in items[at:]:
        if item.value == LISTED:
            members.append([])
        else:
            members[-1].append(item)
    charts = [_under(_own_head(head, m), _without_separators(m)) for m in members if m]
    if head.number in (None, len(charts)):
        return charts
    return [[Item("unsupported", None, " ".join(i.text for i in head.said))], *charts]


def _under(head: _Head, body: Sequence[Item]) -> list[Item]:
    return [*head.shared, *head.drawn, *body]


# -- what stands before --------------------------------------------------------------------------


def _head(items: Sequence[Item]) -> tuple[_Head, int]:
    """What stands before the parts, and where they begin."""
    head = _Head()
    at = 0
    first = next((i for i in items if i.kind not in ("skip", "comma")), None)
    if first is not None and first.kind in ("where", "time"):
        # "for Japan, plot …"
        at = next((n for n, i in enumerate(items) if i.kind in ("plot", "kind")), 0)
        head.shared = [i for i in items[:at] if i.kind != "comma"]
    article = False
    while at < len(items):
        item = items[at]
        following = items[at + 1].kind if at + 1 < len(items) else None
        if _says_how_many(items[at : at + _MOST_SAYING]):
            words = item.text.casefold().split()
            number = item.value if item.kind == "number" else None
            head.number = next((_NUMBERS[w] for w in words if w in _NUMBERS), number) or head.number
            head.apart = head.apart or bool(_APART & set(words))
            head.said.append(item)
        elif item.kind == "by" and following == "of" and head.drawn:
            # "a histogram for each of A and B"
            head.apart = True
            head.said.append(item)
        elif item.kind == "freq" and following in _DRAWN:
            head.shared.append(item)
        elif item.kind in _DRAWN:
            verb = item.kind == "plot" and not article and following != "of"
            kept = Item(item.kind, "verb", item.text, item.start) if verb else item
            head.drawn.append(kept)
            head.said += [item] if head.said else []
        elif item.kind in ("show", "compare"):
            head.shared.append(item)
        elif item.kind not in _LEAD and not (head.drawn and _is_of(items[at:])):
            break
        article = item.kind == "skip" and item.text.casefold() in ("a", "an", "the", "single")
        at += 1
    return head, at


def _says_how_many(items: Sequence[Item]) -> bool:
    """Whether ``items`` begin with how many charts there are to be, or that they are separate."""
    drawn = next((at for at, item in enumerate(items) if at and item.kind in _DRAWN), 0)
    return drawn > 0 and all(map(_is_how_many, items[:drawn]))


def _is_how_many(item: Item) -> bool:
    if item.kind == "number":
        return isinstance(item.value, int) and 2 <= item.value <= 8
    return item.kind == "words" and set(item.text.casefold().split()) <= {*_NUMBERS, *_APART}


def _is_of(items: Sequence[Item]) -> bool:
    """Whether it is the "for" of "charts for the mean of A", which is no filter."""
    if items[0].kind != "where" or items[0].text.casefold() not in ("for", "with"):
        return False
    following = next((i.kind for i in items[1:] if i.kind != "skip"), None)
    computes = any(i.kind in ("func", "freq", "of") for i in items[1:])
    return following in ("func", "freq") or (following in _NAMED and not computes)


def _last_word(item: Item) -> str:
    return item.text.casefold().split()[-1]


# -- the parts -----------------------------------------------------------------------------------


def _parts(items: Sequence[Item]) -> list[list[Item]]:
    """What stands between commas and "and"; each part begins with what separates it."""
    parts: list[list[Item]] = [[]]
    for item in items:
        separates = item.kind == "comma" or (item.kind == "and" and item.text.casefold() != "or")
        if separates and any(i.kind not in ("and", "comma") for i in parts[-1]):
            parts.append([item])
        else:
            parts[-1].append(item)
    return parts


def _grouped(parts: Sequence[list[Item]], head: _Head, *, lists: bool) -> list[list[Item]]:
    """The parts put together, those of a chart in one; ``lists``: every member may be a chart."""
    has_func = any(i.kind == "func" for part in parts for i in part)
    charts: list[list[Item]] = []
    for part in parts:
        own = _without_separators(part)
        if not own:
            continue
        if not charts:
            charts.append(own)
        elif lists and own[0].kind == "by" and _is_marked(charts[-1]) and head.kind != "histogram":
            # "charts of A by x and by y"
            charts.append([*_subject(charts[-1]), *own])
        elif lists and head.kind == "scatter" and _is_another_axis(charts[-1], own):
            # "scatter plots of A vs B and C"
            versus = next(i for i in charts[-1] if i.kind == "vs")
            charts.append([*_subject(charts[-1]), versus, *own])
        elif _begins(own, charts[-1], unclear=_is_unclear(part) and has_func, lists=lists):
            charts.append(own)
        else:
            charts[-1] += part
    return charts


def _told_apart(charts: Sequence[list[Item]], head: _Head) -> list[list[Item]]:
    """The charts, where each says how it is grouped or drawn; else none, as they may be one."""
    if len(charts) < 2:
        return list(charts)
    *others, last = charts
    groupings = {_grouping(chart) for chart in charts}
    number = len({_grouping(c) for c in others}) > 1 and not head.drawn and _functions(last)
    if not all(_is_marked(c) for c in others) or not (_is_marked(last) or number):
        return []
    drawn = bool(head.drawn) or any(i.kind in ("plot", "kind") for c in charts for i in c)
    if not drawn and (len(groupings) == 1 or not all(_functions(c) for c in charts)):
        return []
    single = head.single and len(groupings) == 1 and head.kind != "scatter"
    return [] if single else list(charts)


def _as_one(charts: Sequence[list[Item]]) -> list[Item] | None:
    """ "A by x and B by x" as "A and B by x": what is grouped alike is one table or chart."""
    marks = {i.kind for c in charts for i in c if i.kind in (_MARKS | _TAIL | _COMPUTED)}
    if marks != {"by"} or len({_grouping(c) for c in charts}) > 1:
        return None
    if not all(_is_marked(c) for c in charts):
        return None
    *others, last = charts
    subjects = [i for c in others for i in (*_subject(c), Item("and", None, "and"))]
    return [*subjects, *last]


def _is_unclear(part: Sequence[Item]) -> bool:
    """Whether "… by x and y by z" may go on with what is grouped by: a comma says it does not."""
    return part[0].kind == "and" and not any(i.kind == "comma" for i in part[:2])


def _begins(part: Sequence[Item], before: Sequence[Item], *, unclear: bool, lists: bool) -> bool:
    """Whether ``part`` is a chart of its own, and not more of the one ``before``."""
    first = next((i for i in part if i.kind != "skip"), part[0])
    if first.kind in ("kind", "plot") and len(part) > 1:
        return True
    subject = _subject(part)
    if not any(i.kind in _SUBJECT for i in subject):
        return False
    if not _is_marked(before):
        return lists and not any(i.kind in _TAIL for i in before)
    if any(i.kind in _COMPUTED for i in subject):
        return True
    drawn = _kind_after_as(part) and any(i.kind == "kind" for i in before)
    strong = drawn or any(i.kind in ("over_time", "vs") for i in part)
    alike = _grouping(part) == _grouping(before)
    return strong or (any(i.kind == "by" for i in part) and (lists or alike or not unclear))


def _is_marked(chart: Sequence[Item]) -> bool:
    """Whether it says how it is grouped or drawn."""
    kinds = {i.kind for i in chart}
    return bool(kinds & (_MARKS | {"freq", "kind"})) or _kind_after_as(chart)


def _is_another_axis(chart: Sequence[Item], part: Sequence[Item]) -> bool:
    """Whether ``part`` names no more than something else to set against what ``chart`` shows."""
    bare = all(i.kind in (*_NAMED, "skip") for i in part)
    return bare and any(i.kind == "vs" for i in chart) and not any(i.kind in _TAIL for i in chart)


def _kind_after_as(items: Sequence[Item]) -> bool:
    at = next((n for n, i in enumerate(items) if i.kind == "as"), len(items))
    return any(i.kind in ("kind", "plot") for i in items[at:])


def _subject(items: Sequence[Item]) -> list[Item]:
    """What stands before it is said how to group, draw or filter."""
    return list(items[: _first(items, _MARKS | _TAIL)])


def _functions(items: Sequence[Item]) -> list[Item]:
    return [i for i in _subject(items) if i.kind in _COMPUTED]


def _grouping(chart: Sequence[Item]) -> tuple[str, ...]:
    """The words that it is grouped by, or drawn along."""
    at = _first(chart, _MARKS)
    end = _tail_at(chart)
    said = [i.text.casefold() for i in chart[at + 1 : end] if i.kind not in ("skip", "noun")]
    kinds = [i.kind for i in chart[at : at + 1] if i.kind != "by"]
    freqs = [str(i.value) for i in _subject(chart) if i.kind == "freq"]
    return (*kinds, *said, *freqs)


def _tail_at(chart: Sequence[Item]) -> int:
    at = _first(chart, _MARKS)
    at = 0 if at == len(chart) else at + 1
    return at + _first(chart[at:], _TAIL)


def _first(items: Sequence[Item], kinds: frozenset[str]) -> int:
    return next((n for n, i in enumerate(items) if i.kind in kinds), len(items))


def _without_separators(part: Sequence[Item]) -> list[Item]:
    at = _first(part, frozenset(i.kind for i in part) - {"and", "comma", "skip"})
    return list(part[at:])


# -- what they share -----------------------------------------------------------------------------


def _completed(charts: Sequence[list[Item]], head: _Head) -> list[list[Item]]:
    """The members of a list, each with what is said at the end, and the function before it."""
    if len(charts) < 2:
        return list(charts)
    last = charts[-1]
    rest = last[len(_subject(last)) :]
    functions: list[Item] = []
    made = []
    for number, chart in enumerate(charts, start=1):
        own = _functions(chart)
        named = any(i.kind in _NAMED for i in _subject(chart))
        if own and not named and all(i.value != "count" for i in own):
            # "the mean and the maximum of A"
            chart = [*chart, *(i for i in _subject(last) if i.kind not in _COMPUTED)]
        elif not own and named and not any(i.kind == "kind" for i in chart):
            chart = [*functions, *chart]
        functions = own or functions
        made.append(chart if _is_marked(chart) or number == len(charts) else [*chart, *rest])
    if head.kind == "scatter" and not all(any(i.kind == "vs" for i in c) for c in made):
        return []
    return made


def _finished(charts: Sequence[list[Item]], head: _Head) -> list[list[Item]]:
    """The charts with what is said once for all of them."""
    tail = _shared_tail(charts, head)
    return [
        _under(_own_head(head, chart), [*chart, *([] if chart is charts[-1] else tail)])
        for chart in charts
    ]


def _shared_tail(charts: Sequence[list[Item]], head: _Head) -> list[Item]:
    """What stands at the end of the last chart and at no other."""
    last = charts[-1]
    if any(_first(chart, _TAIL) < len(chart) for chart in charts[:-1]):
        elsewhere = any(i.kind == "file" for chart in charts[:-1] for i in chart)
        return [] if elsewhere else [i for i in last if i.kind == "file"]
    tail = last[_tail_at(last) :]
    at = _first(tail, frozenset({"as"}))
    for_all = not head.drawn or (at + 1 < len(tail) and _last_word(tail[-1]).endswith("s"))
    return tail if for_all else tail[:at]


def _own_head(head: _Head, chart: Sequence[Item]) -> _Head:
    """How ``chart`` is drawn: as it says itself, else as was said for all."""
    if any(i.kind in ("kind", "plot") for i in chart[:2]):
        return _Head(head.shared)
    counted = head.kind == "histogram" and (
        _functions(chart) or any(i.kind in ("vs", "over_time") for i in chart)
    )
    drawn = [Item("plot", None, "plot")] if counted else head.drawn
    return _Head(head.shared, [i for i in drawn if not (i.kind == "kind" and _kind_after_as(chart))]
                 or [Item("plot", None, "plot")] if drawn else [])  # fmt: skip
