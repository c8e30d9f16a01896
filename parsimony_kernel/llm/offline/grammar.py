"""A request becomes clauses: what is loaded, kept, computed, drawn, published.

Schema-free but for one thing: names of columns, where they are known, are read as one word. What
is in no clause's place is kept as ``unsupported`` and never dropped, since a request that is half
understood must not be half answered in silence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.llm.offline import lexicon
from parsimony_kernel.llm.offline.words import Token, fold, singular


@dataclass(frozen=True)
class Mention:
    """Words that stand where a column, a value or a name is expected."""

    text: str
    column: str | None = None
    quoted: bool = False
    unit: str | None = None


@dataclass
class Condition:
    """One filter. Values are numbers, ``Mention`` or dates ``(year, month, day)`` of any length."""

    left: Mention | None = None
    op: str | None = None
    values: list[Any] = field(default_factory=list)
    negated: bool = False
    word: str = ""

    @property
    def empty(self) -> bool:
        return self.left is None and not self.values


@dataclass
class Wish:
    """An aggregate that is asked for: a function over what is mentioned after it."""

    func: str
    of: list[Mention] = field(default_factory=list)


@dataclass
class Rank:
    """Top or bottom rows; ``implied`` are the measures that an adjective stands for."""

    count: int
    ascending: bool
    entity: list[Mention] = field(default_factory=list)
    by: list[Mention] = field(default_factory=list)
    func: str | None = None
    implied: tuple[str, ...] = ()
    adjective: str = ""


@dataclass
class Load:
    """Files to load: by name or by words, and the variable's name if one was given."""

    files: list[str] = field(default_factory=list)
    words: list[Mention] = field(default_factory=list)
    name: str | None = None
    unsupported: list[str] = field(default_factory=list)


@dataclass
class Publish:
    """What to publish, under which title; empty ``kinds`` is whatever was made last."""

    kinds: list[str] = field(default_factory=list)
    title: str | None = None
    target: list[Mention] = field(default_factory=list)
    every: bool = False
    unsupported: list[str] = field(default_factory=list)


@dataclass
class Statement:
    """A question to a table."""

    text: str = ""
    verb: str = ""
    chart: str | None = None
    wishes: list[Wish] = field(default_factory=list)
    measures: list[Mention] = field(default_factory=list)
    groups: list[Mention] = field(default_factory=list)
    about: list[Mention] = field(default_factory=list)
    against: list[Mention] = field(default_factory=list)
    color: list[Mention] = field(default_factory=list)
    sort: list[Mention] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    rank: Rank | None = None
    over_time: bool = False
    describe: bool = False
    compare: bool = False
    distinct: bool = False
    ascending: bool | None = None
    head: tuple[str, int] | None = None
    bins: int | None = None
    stacked: bool = False
    refers_back: bool = False
    files: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    @property
    def bare_filter(self) -> bool:
        """Whether it keeps rows and asks nothing of them."""
        return bool(self.conditions) and not (
            self.chart
            or self.wishes
            or self.groups
            or self.rank
            or self.sort
            or self.describe
            or self.distinct
            or self.head
            or self.over_time
        )

    @property
    def bare_chart(self) -> bool:
        """Whether it only says how to draw what came before."""
        return self.chart is not None and not (
            self.wishes
            or self.measures
            or self.groups
            or self.rank
            or self.about
            or self.against
            or self.conditions
            or self.over_time
            or self.files
        )


Clause = Load | Publish | Statement


@dataclass
class Item:
    kind: str
    value: Any
    text: str
    start: int = 0


def parse(tokens: Sequence[Token], columns: Iterable[str] = ()) -> list[Clause]:
    """The clauses of a request, in order.

    ``columns`` are the names that count as one word.
    """
    known: dict[tuple[str, ...], str] = {}
    for column in columns:
        known.setdefault(fold(column), column)
        known.setdefault(tuple(map(singular, fold(column))), column)
    known.pop((), None)
    clauses: list[Clause] = []
    for items in _split(_items(tokens, known)):
        clauses += _clauses(items)
    return clauses


# -- items ---------------------------------------------------------------------------------------

_EXPLICIT = frozenset({"by", "func", "of", "vs", "color", "sort_by", "plot", "kind"})
_NEEDS_PLACE = frozenset(
    {
        "func", "freq", "unit", "by", "where", "of", "to", "cmp", "time", "between", "ref", "is",
        "not", "as", "head", "top", "noun", "direction", "suffix",
    }
)  # fmt: skip
_CONNECTS = frozenset({"and", "by", "per", "for", "over", "in", "from"})
_COMPARES = frozenset({"is", "above", "below", "between", "over", "under", "after", "before"})


def _items(tokens: Sequence[Token], columns: Mapping[tuple[str, ...], str]) -> list[Item]:
    items: list[Item] = []
    longest = min(max((len(k) for k in columns), default=1), 8)
    at = 0
    while at < len(tokens):
        item, used = _item(tokens, at, columns, longest, items)
        at += used
        last = items[-1] if items else None
        if item.kind == "words" and last is not None and last.kind == "words":
            last.text = f"{last.text} {item.text}"
        else:
            items.append(item)
    return items


def _item(
    tokens: Sequence[Token],
    at: int,
    columns: Mapping[tuple[str, ...], str],
    longest: int,
    before: Sequence[Item],
) -> tuple[Item, int]:
    token = tokens[at]
    if token.kind == "quoted":
        column = columns.get(fold(token.bare))
        return Item("quoted", column, token.bare, token.start), 1
    if token.kind == "op":
        op = {"=": "==", "≥": ">=", "≤": "<=", "≠": "!=", "<>": "!="}.get(token.text, token.text)
        return Item("cmp", op, token.text, token.start), 1
    if token.kind == "comma":
        return Item("comma" if token.text == "," else "and", None, token.text, token.start), 1
    column, length = _column_at(tokens, at, columns, longest)
    if token.kind == "word":
        entry, used = _entry_at(tokens, at)
        if column is not None and (
            entry is None
            or length > used
            or (length == used and _is_column_here(entry[0], tokens, at, used, before))
        ):
            text = " ".join(t.text for t in tokens[at : at + length])
            return Item("column", column, text, token.start), length
        if entry is not None:
            text = " ".join(t.text for t in tokens[at : at + used])
            return Item(entry[0], entry[1], text, token.start), used
        return Item("words", None, token.text, token.start), 1
    if column is not None and token.kind != "number":
        return Item("column", column, token.text, token.start), length
    if token.kind == "number":
        return Item("number", token.number, token.text, token.start), 1
    return Item(token.kind, token.bare, token.bare, token.start), 1


def _column_at(
    tokens: Sequence[Token], at: int, columns: Mapping[tuple[str, ...], str], longest: int
) -> tuple[str | None, int]:
    found: tuple[str | None, int] = (None, 0)
    words: tuple[str, ...] = ()
    for count, token in enumerate(tokens[at : at + longest], start=1):
        if token.kind not in ("word", "number"):
            break
        words += fold(token.text if token.text != token.text.upper() else token.low)
        name = columns.get(words) or columns.get(tuple(map(singular, words)))
        if name is not None:
            found = (name, count)
    return found


def _entry_at(tokens: Sequence[Token], at: int) -> tuple[lexicon.Entry | None, int]:
    words: list[str] = []
    for token in tokens[at : at + lexicon.LONGEST]:
        if token.kind != "word":
            break
        words.append(token.low)
    for length in range(len(words), 0, -1):
        phrase = tuple(words[:length])
        if phrase in lexicon.LEXICON:
            return lexicon.LEXICON[phrase], length
        if phrase in lexicon.ADJECTIVES:
            return ("adjective", lexicon.ADJECTIVES[phrase]), length
    whole = tokens[at].text.casefold()
    if (whole,) in lexicon.LEXICON:
        return lexicon.LEXICON[(whole,)], 1
    return None, 0


def _is_column_here(
    kind: str, tokens: Sequence[Token], at: int, used: int, before: Sequence[Item]
) -> bool:
    previous = next((i for i in reversed(before) if i.kind not in ("skip",)), None)
    following = tokens[at + used] if at + used < len(tokens) else None
    if kind in ("skip", "and"):
        # A column called "a" is one where nothing follows that the article could belong to.
        alone = following is None or following.kind != "word" or following.low in _CONNECTS
        return kind == "skip" and alone and bool(previous and previous.kind in _EXPLICIT)
    if kind in _NEEDS_PLACE:
        compared = following is not None and (following.kind == "op" or following.low in _COMPARES)
        listed = (
            previous is not None
            and previous.kind in ("and", "comma")
            and len(before) > 1
            and before[-2].kind == "column"
        )
        named = previous is not None and (
            previous.kind in _EXPLICIT or previous.text.casefold() == "over"
        )
        return compared or listed or named
    return previous is not None and previous.kind not in ("stop",)


# -- clauses -------------------------------------------------------------------------------------


def _split(items: Sequence[Item]) -> Iterable[list[Item]]:
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
        return any(i.kind in ("kind", "plot", "func", "load", "publish", "file") for i in clause)
    if item.kind == "not":
        return item.text.casefold() in ("remove", "drop", "exclude", "leave out", "omit")
    if item.kind == "plot" and any(i.kind == "publish" for i in clause):
        # "save the table and the chart" names a second thing, it does not draw one
        following = items[at + 1].kind if at + 1 < len(items) else "stop"
        return following not in ("stop", "as", "called", "and", "comma")
    if item.kind == "describe" and item.text.casefold() in ("statistics", "stats", "summary"):
        return False
    return item.kind in lexicon.ACTIONS


_PUBLISH_WORDS = frozenset(
    {"publish", "called", "as", "ref", "noun", "plot", "kind", "skip", "and", "comma", "quoted",
     "make", "where", "of", "to", "show"}
)  # fmt: skip


def _clauses(items: list[Item]) -> list[Clause]:
    kinds = [item.kind for item in items]
    if "publish" in kinds:
        at = kinds.index("publish")
        before, after = items[:at], items[at + 1 :]
        told = [i for i in before if i.kind not in ("skip", "and", "comma", "show", "make", "ref")]
        content = _asks_more(after)
        if content:
            rest, naming = _cut_naming(after)
            statement = _Reader().read([*before, *rest])
            publish = _read_publish(naming)
            has_chart = isinstance(statement, Statement) and statement.chart is not None
            publish.kinds = publish.kinds or (["chart"] if has_chart else ["dataset"])
            return [statement, publish]
        found: list[Clause] = [_Reader().read(told)] if told else []
        return [*found, _read_publish(after)]
    if "load" in kinds:
        at = kinds.index("load")
        told = [i for i in items[:at] if i.kind not in ("skip", "and", "comma", "show", "make")]
        load, rest = _read_load(items[at + 1 :])
        load.unsupported += [i.text for i in told if i.kind not in ("noun", "ref")]
        return [load, _Reader().read(rest)] if rest else [load]
    told = [i for i in items if i.kind not in ("skip", "where", "noun", "comma", "of", "make")]
    if told and all(i.kind == "file" for i in told):
        return [Load(files=[i.text for i in told])]
    statement = _Reader().read(items)
    return [statement] if _says_something(statement, items) else []


def _says_something(statement: Statement, items: Iterable[Item]) -> bool:
    return any(i.kind not in ("skip", "and", "comma", "make", "to", "as") for i in items)


def _asks_more(items: Sequence[Item]) -> bool:
    rest, _ = _cut_naming(items)
    return any(
        i.kind in ("func", "by", "over_time", "freq", "top", "super", "adjective", "cmp", "vs")
        for i in rest
    ) or any(i.kind == "column" for i in rest)


def _cut_naming(items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    for index, item in enumerate(items):
        if item.kind in ("as", "called"):
            return list(items[:index]), list(items[index:])
    return list(items), []


def _read_publish(items: Sequence[Item]) -> Publish:
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
        elif item.kind in ("file", "unsupported"):
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


def _once(kinds: list[str], kind: str) -> None:
    if kind not in kinds:
        kinds.append(kind)


def _read_load(items: Sequence[Item]) -> tuple[Load, list[Item]]:
    load = Load()
    naming = False
    for index, item in enumerate(items):
        if item.kind in ("as", "called"):
            naming = True
        elif item.kind == "file":
            load.files.append(item.text)
        elif item.kind in ("words", "column", "quoted") and naming:
            load.name = item.text
            naming = False
        elif item.kind in ("words", "column", "quoted"):
            load.words.append(Mention(item.text))
        elif (
            item.kind == "where"
            and item.value in ("in", "from", "for")
            and (not load.files and (not load.words or _file_follows(items, index + 1)))
        ):
            continue
        elif item.kind not in ("skip", "noun", "and", "comma", "of", "ref", "unit"):
            return load, list(items[index:])
    return load, []


def _file_follows(items: Sequence[Item], at: int) -> bool:
    for item in items[at:]:
        if item.kind == "file":
            return True
        if item.kind not in ("skip", "noun"):
            return False
    return True


# -- statements ----------------------------------------------------------------------------------


class _Reader:
    """Walks the items of one clause; each marker says what the next words are."""

    def __init__(self) -> None:
        self.made = Statement()
        self.role = "measure"
        self.condition: Condition | None = None
        self.number: int | float | None = None
        self.fresh: tuple[list[Mention], Mention] | None = None
        self.previous = ""
        self.sorting = False

    def read(self, items: Sequence[Item]) -> Statement:
        self.made.text = " ".join(i.text for i in items)
        for index, item in enumerate(items):
            following = next(
                (i for i in items[index + 1 :] if i.kind not in ("skip", "comma")), None
            )
            handler = getattr(self, f"_on_{item.kind}", None)
            if handler is None:
                if item.kind not in ("skip", "make"):
                    self.made.unsupported.append(item.text)
            else:
                handler(item, following)
            if item.kind not in ("skip", "comma"):
                self.previous = item.kind
            if item.kind not in ("words", "column", "quoted", "unit", "skip", "is", "of"):
                self.fresh = None
        self._close()
        return self.made

    # words

    def _on_words(self, item: Item, following: Item | None) -> None:
        low = item.text.casefold()
        month = lexicon.MONTHS.get(low)
        if month and self.condition is not None and not self.condition.values:
            self.condition.values.append((None, month))
            return
        if low in ("bins", "bin", "buckets") and self.number is not None:
            self.made.bins, self.number = int(self.number), None
            if self.condition is not None and self.condition.empty:
                self.condition = None
            return
        self._mention(Mention(item.text))

    def _on_column(self, item: Item, following: Item | None) -> None:
        self._mention(Mention(item.text, item.value))

    def _on_quoted(self, item: Item, following: Item | None) -> None:
        self._mention(Mention(item.text, item.value, quoted=True))

    def _on_unit(self, item: Item, following: Item | None) -> None:
        self.fresh = None
        if self.role == "group":
            self._mention(Mention(item.text, unit=item.value))
        elif self.role == "filter" and following is not None and following.kind == "number":
            return
        elif self.made.head is not None and self.previous == "number":
            side = "first" if self.made.head[0] == "head" else "last"
            self.made.unsupported.append(f"{side} {self.made.head[1]} {item.text}")
        elif self.made.wishes and self.made.wishes[-1].func == "count":
            return
        elif self.role in ("entity", "rank") or self.made.distinct or self._is_subject():
            self._mention(Mention(item.text, unit=item.value))
        elif following is not None and following.kind in ("where", "cmp", "just", "time"):
            return
        else:
            self._mention(Mention(item.text, unit=item.value))

    def _is_subject(self) -> bool:
        return self.made.verb == "which"

    def _mention(self, mention: Mention) -> None:
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
        if self.role == "filter":
            if condition is None:
                condition = self._open(Condition())
            if self.previous == "number" and condition.op is None and _are_sizes(condition.values):
                condition.left, condition.op, self.number = mention, "==", None
                return
            if condition.op is not None and len(condition.values) and condition.left is not None:
                if isinstance(condition.values[-1], Mention) and self.previous in ("and", "comma"):
                    condition.values.append(mention)
                    self.fresh = (condition.values, mention)
                    return
                condition = self._open(Condition())
            condition.values.append(mention)
            self.fresh = (condition.values, mention)
            return
        if self.number is not None and self.previous == "number" and self.role == "measure":
            # "8 cylinder cars": a number right before a column is a value of it
            self.made.conditions.append(Condition(mention, "==", [self.number], word="number"))
            self.number = None
            return
        target = self._target()
        target.append(mention)
        self.fresh = (target, mention)

    def _target(self) -> list[Mention]:
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

    # verbs

    def _on_show(self, item: Item, following: Item | None) -> None:
        self.made.verb = self.made.verb or "show"

    def _on_describe(self, item: Item, following: Item | None) -> None:
        self.made.describe = True

    def _on_group(self, item: Item, following: Item | None) -> None:
        self.made.verb = self.made.verb or "group"

    def _on_compare(self, item: Item, following: Item | None) -> None:
        self.made.compare = True

    def _on_distinct(self, item: Item, following: Item | None) -> None:
        self.made.distinct = True

    def _on_plot(self, item: Item, following: Item | None) -> None:
        self.made.chart = self.made.chart or "auto"
        self._close()
        if not self.made.measures and not self.made.wishes:
            self.role = "measure"

    def _on_kind(self, item: Item, following: Item | None) -> None:
        if self.made.chart not in (None, "auto", item.value):
            self.made.unsupported.append(f"{item.text} beside a {self.made.chart} chart")
        self.made.chart = item.value
        self._close()
        if self.role != "measure" and not self.made.measures and not self.made.wishes:
            self.role = "measure"

    def _on_stacked(self, item: Item, following: Item | None) -> None:
        self.made.stacked = True
        self.made.chart = "bar" if self.made.chart in (None, "auto") else self.made.chart

    def _on_comparative(self, item: Item, following: Item | None) -> None:
        op, measure = item.value
        if self.fresh is None and self.condition is not None and self.condition.op is None:
            self.condition = None
        self._open(Condition(left=Mention(measure), op=op))

    def _on_which(self, item: Item, following: Item | None) -> None:
        if not self.made.measures and not self.made.wishes and self.made.chart is None:
            self.made.verb = "which"

    def _on_sort(self, item: Item, following: Item | None) -> None:
        self.sorting = True

    def _on_sort_by(self, item: Item, following: Item | None) -> None:
        self._close()
        self.role = "sort"

    def _on_direction(self, item: Item, following: Item | None) -> None:
        self.made.ascending = item.value == "asc"

    def _on_noun(self, item: Item, following: Item | None) -> None:
        return

    def _on_ref(self, item: Item, following: Item | None) -> None:
        self.made.refers_back = True

    def _on_file(self, item: Item, following: Item | None) -> None:
        self.made.files.append(item.text)
        if self.condition is not None and self.condition.empty:
            self.condition = None

    def _on_as(self, item: Item, following: Item | None) -> None:
        if following is None or following.kind not in ("kind", "plot", "unsupported", "ref"):
            self._close()
            self.role = "as"

    def _on_called(self, item: Item, following: Item | None) -> None:
        self.made.unsupported.append(item.text)

    def _on_unsupported(self, item: Item, following: Item | None) -> None:
        self.made.unsupported.append(item.text)

    def _on_load(self, item: Item, following: Item | None) -> None:
        self.made.unsupported.append(item.text)

    def _on_to(self, item: Item, following: Item | None) -> None:
        if self.condition is not None and self.condition.values:
            self.condition.op = "between"

    def _on_comma(self, item: Item, following: Item | None) -> None:
        return

    def _on_and(self, item: Item, following: Item | None) -> None:
        return

    # aggregates

    def _on_func(self, item: Item, following: Item | None) -> None:
        made = self.made
        if self.role == "rank" and made.rank is not None and made.rank.func is None:
            made.rank.func = item.value
            return
        if made.verb == "which" and made.rank is None and made.measures:
            pass
        self._close()
        made.wishes.append(Wish(item.value))
        self.role = "measure"

    def _on_freq(self, item: Item, following: Item | None) -> None:
        self.made.groups.append(Mention(item.text, unit=item.value))

    def _on_by(self, item: Item, following: Item | None) -> None:
        self._close()
        rank = self.made.rank
        if self.sorting and not self.made.sort:
            self.role = "sort"
            return
        if rank is not None and not rank.by and not rank.implied:
            self.role = "rank"
        elif rank is not None and rank.by and not rank.entity and item.text.casefold() == "by":
            # "the 10 largest countries by population": what stood before is what is ranked
            rank.entity, rank.by = rank.by, []
            self.role = "rank"
        else:
            self.role = "group"

    def _on_color(self, item: Item, following: Item | None) -> None:
        self._close()
        self.role = "color"

    def _on_vs(self, item: Item, following: Item | None) -> None:
        self._close()
        self.role = "against"

    def _on_of(self, item: Item, following: Item | None) -> None:
        if self.role == "filter":
            return
        self._close()
        made = self.made
        empty = (
            not made.measures if not made.wishes else not made.wishes[-1].of
        ) and made.rank is None
        if (self.role in ("measure",) and not empty) or self.role in ("group", "color", "against"):
            self.role = "about"

    def _on_over_time(self, item: Item, following: Item | None) -> None:
        self.made.over_time = True
        self._close()

    # ranks

    def _on_top(self, item: Item, following: Item | None) -> None:
        self._rank(item.value == "asc")
        self.role = "entity"

    def _on_head(self, item: Item, following: Item | None) -> None:
        self.made.head = (item.value, 5)

    def _on_adjective(self, item: Item, following: Item | None) -> None:
        direction, measures = item.value
        rank = self._rank(direction == "asc")
        rank.implied, rank.adjective = measures, item.text
        self.role = "entity"

    def _on_super(self, item: Item, following: Item | None) -> None:
        made = self.made
        if item.value == "common":
            rank = self._rank(False)
            rank.func = "count"
            if made.measures:
                rank.entity, made.measures = made.measures, []
            self.role = "entity"
            return
        ascending = item.value == "asc"
        last = made.conditions[-1] if made.conditions else None
        if self.previous == "where" and last is not None and last.word == "number":
            # "the 5 cars with the highest price": the number counts what is ranked
            made.conditions.pop()
            self.number = last.values[0]
            made.measures = [*made.measures, last.left] if last.left else made.measures
        after_with = self.condition is not None and self.condition.empty
        named = made.measures and (made.verb == "which" or after_with)
        if self.number is not None or named or self.previous == "top":
            rank = self._rank(ascending)
            if made.measures:
                rank.entity, made.measures = made.measures, []
            self.role = "rank"
        elif made.rank is not None:
            made.rank.ascending = ascending
            self.role = "rank"
        else:
            self._close()
            made.wishes.append(Wish("min" if ascending else "max"))
            self.role = "measure"

    def _rank(self, ascending: bool) -> Rank:
        if self.made.rank is None:
            # 0 stands for "not said"
            count = int(self.number) if self.number is not None else 0
            self.made.rank = Rank(count, ascending)
        self.number = None
        self.condition = None if self.condition and self.condition.empty else self.condition
        return self.made.rank

    # filters

    def _open(self, condition: Condition) -> Condition:
        self._close()
        self.condition = condition
        self.role = "filter"
        return condition

    def _close(self) -> None:
        if self.condition is not None and not self.condition.empty:
            self.made.conditions.append(self.condition)
        self.condition = None
        if self.number is not None:
            self.made.unsupported.append(str(self.number))
            self.number = None

    def _on_where(self, item: Item, following: Item | None) -> None:
        if self.number is not None and self.previous == "number":
            self.number, kept = None, self.number
            self._open(Condition(word=item.value))
            self.number = kept
            return
        if self.condition is not None and self.condition.empty and self.condition.negated:
            return
        kept_number, self.number = self.number, None
        self._open(Condition(word=item.value))
        self.number = kept_number

    def _on_just(self, item: Item, following: Item | None) -> None:
        if following is not None and following.kind in ("where", "cmp", "time", "number"):
            return
        if following is not None and following.kind in ("func", "top", "noun", "super"):
            return
        self._open(Condition(word="only"))

    def _on_only(self, item: Item, following: Item | None) -> None:
        self.made.verb = "filter"
        self._open(Condition(word="only"))

    def _on_filter_to(self, item: Item, following: Item | None) -> None:
        self.made.verb = "filter"
        self._open(Condition(word="only"))

    def _on_not(self, item: Item, following: Item | None) -> None:
        condition = self.condition
        if condition is not None and self.previous in ("is", "where") and not condition.op:
            condition.negated = True
            return
        if condition is not None and condition.op == "==" and not condition.values:
            condition.negated = True
            return
        left = None
        verb = item.text.casefold().startswith(("is ", "are ", "not"))
        if verb and (following is None or following.kind != "where"):
            left = self._take_left()
        self._open(Condition(left=left, op="==" if left else None, negated=True, word="not"))
        if self.condition is not None:
            self.condition.negated = True

    def _on_is(self, item: Item, following: Item | None) -> None:
        if following is None or following.kind not in (
            "words",
            "column",
            "quoted",
            "number",
            "not",
        ):
            return
        left = self._take_left()
        if left is not None:
            word = self.condition.word if self.condition is not None else ""
            self._open(Condition(left=left, op="==", word=word))

    def _on_cmp(self, item: Item, following: Item | None) -> None:
        if item.text.casefold() == "over" and following is not None:
            # "over 150" compares; "over the months" and "over year" name the x axis.
            if following.kind == "unit":
                self._on_by(item, following)
                return
            if following.kind in ("column", "words", "quoted"):
                self._on_vs(item, following)
                return
        left = self._take_left()
        if item.value == "==" and left is None:
            self.made.unsupported.append(item.text)
            return
        keep, self.number = self.number, None
        negated = item.value == "!="
        self._open(Condition(left=left, op="==" if negated else item.value, negated=negated))
        self.number = keep

    def _on_time(self, item: Item, following: Item | None) -> None:
        # "temp_max after 2014" measures temp_max; "where date after 2014" compares date.
        mention = self.fresh[1] if self.fresh is not None else None
        compared = self.role == "filter" or item.text.casefold().startswith("is ")
        named = mention is not None and (mention.column is not None or mention.unit is not None)
        left = self._take_left() if compared and named else None
        self._open(Condition(left=left, op=item.value, word="time"))

    def _on_between(self, item: Item, following: Item | None) -> None:
        made = self.made
        year = following is not None and (
            following.kind == "date"
            or (following.kind == "number" and 1000 <= float(following.value) < 3000)
        )
        measured = self.role == "measure" and bool(made.wishes or made.chart)
        left = None if year and measured else self._take_left()
        if following is not None and following.kind in ("number", "date"):
            self._open(Condition(left=left, op="between"))
        elif following is not None and following.kind in ("column", "words"):
            self._on_by(item, following) if self.made.wishes else self._open(Condition())

    def _on_suffix(self, item: Item, following: Item | None) -> None:
        last = self.condition or (self.made.conditions[-1] if self.made.conditions else None)
        if last is not None and last.values:
            last.op = item.value

    def _take_left(self) -> Mention | None:
        if self.fresh is None:
            return None
        listed, mention = self.fresh
        if mention in listed:
            listed.remove(mention)
        if self.condition is not None and self.condition.empty:
            self.condition = None
        self.fresh = None
        return mention

    def _on_date(self, item: Item, following: Item | None) -> None:
        parts = tuple(int(p) for p in str(item.value).split("-"))
        self._value(parts)

    def _on_number(self, item: Item, following: Item | None) -> None:
        made, condition = self.made, self.condition
        if self.role == "filter" and condition is not None:
            if condition.values and _lacks_year(condition.values[-1]):
                condition.values[-1] = (int(item.value), *condition.values[-1][1:])
                return
            if following is not None and following.text.casefold() in ("bins", "bin", "buckets"):
                self.number = item.value
                return
            if following is not None and following.kind == "super":
                self.number = item.value
                return
            alone = len(condition.values) == 1 and isinstance(condition.values[0], Mention)
            if alone and condition.op is None and not 1000 <= item.value < 3000:
                # "with a horsepower of 150"
                condition.left, condition.op = condition.values.pop(), "=="
            self._value(item.value)
            if condition.op is None and condition.word not in ("in", "for", "from", "time"):
                self.number = item.value
            return
        if made.head is not None and self.previous == "head":
            made.head = (made.head[0], int(item.value))
            return
        if self.previous == "top" and made.rank is not None:
            made.rank.count = int(item.value)
            return
        if following is not None and following.kind == "suffix":
            listed = self._target() if self.role != "about" else self.made.measures
            if not listed and self.made.measures:
                listed = self.made.measures
            if listed:
                self._open(Condition(left=listed.pop(), op=">=", values=[item.value]))
                return
        self.number = item.value

    def _value(self, value: Any) -> None:
        condition = self.condition
        if condition is None:
            condition = self._open(Condition())
        condition.values.append(value)


def _are_sizes(values: Sequence[Any]) -> bool:
    """Whether ``values`` are numbers that are no years: what "4 and 6 cylinders" begins with."""
    return bool(values) and all(
        isinstance(value, int | float) and not 1000 <= value < 3000 for value in values
    )


def _lacks_year(value: Any) -> bool:
    return isinstance(value, tuple) and value[0] is None
