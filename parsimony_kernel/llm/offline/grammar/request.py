"""A request is split into clauses, and each is read."""

from collections.abc import Iterable, Sequence

from parsimony_kernel.llm.offline import lexicon
from parsimony_kernel.llm.offline.grammar.clauses import Clause, Load, Report, Statement
from parsimony_kernel.llm.offline.grammar.items import Item, read_items
from parsimony_kernel.llm.offline.grammar.loading import read_load
from parsimony_kernel.llm.offline.grammar.publishing import asks_more, cut_naming, read_publish
from parsimony_kernel.llm.offline.grammar.refreshing import read_refresh
from parsimony_kernel.llm.offline.grammar.reporting import begins_report, computes, read_report
from parsimony_kernel.llm.offline.grammar.statement import read_statement
from parsimony_kernel.llm.offline.words import Token


def parse(tokens: Sequence[Token], columns: Iterable[str] = ()) -> list[Clause]:
    """The clauses of a request, in order; ``columns`` are the names that count as one word."""
    return [clause for items in _split(read_items(tokens, columns)) for clause in _clauses(items)]


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
        before = ("kind", "plot", "func", "load", "publish", "report", "file")
        return any(i.kind in before for i in clause)
    if item.kind == "not":
        return item.text.casefold() in ("remove", "drop", "exclude", "leave out", "omit")
    if item.kind == "report" and items[at - 1].kind == "skip" and begins_report(clause):
        return False
    if item.kind == "plot" and any(i.kind in ("publish", "report") for i in clause):
        # "save the table and the chart" names a second thing, it does not draw one
        following = items[at + 1].kind if at + 1 < len(items) else "stop"
        return following not in ("stop", "as", "called", "and", "comma")
    if item.kind == "describe" and item.text.casefold() in ("statistics", "stats", "summary"):
        return False
    return item.kind in lexicon.ACTIONS


def _clauses(items: list[Item]) -> list[Clause]:
    kinds = [item.kind for item in items]
    first = next((n for n, kind in enumerate(kinds) if kind not in ("skip", "and", "comma")), 0)
    if kinds[first] == "refresh":
        return [read_refresh(items[first + 1 :])]
    if "refresh" in kinds:
        return _clauses(_without_verb(items))
    found_report = read_report(items)
    if found_report is not None:
        return _with_content(*found_report)
    if "publish" in kinds:
        at = kinds.index("publish")
        before, after = items[:at], items[at + 1 :]
        told = [i for i in before if i.kind not in ("skip", "and", "comma", "show", "make", "ref")]
        content = asks_more(after)
        if content:
            rest, naming = cut_naming(after)
            statement = read_statement([*before, *rest])
            publish = read_publish(naming)
            has_chart = isinstance(statement, Statement) and statement.chart is not None
            publish.kinds = publish.kinds or (["chart"] if has_chart else ["dataset"])
            return [statement, publish]
        found: list[Clause] = [read_statement(told)] if told else []
        return [*found, read_publish(after)]
    if "load" in kinds:
        at = kinds.index("load")
        told = [i for i in items[:at] if i.kind not in ("skip", "and", "comma", "show", "make")]
        load, rest = read_load(items[at + 1 :])
        load.unsupported += [i.text for i in told if i.kind not in ("noun", "ref")]
        return [load, read_statement(rest)] if rest else [load]
    told = [i for i in items if i.kind not in ("skip", "where", "noun", "comma", "of", "make")]
    if told and all(i.kind == "file" for i in told):
        return [Load(files=[i.text for i in told])]
    statement = read_statement(items)
    return [statement] if _says_something(items) else []


def _with_content(content: Sequence[Item], report: Report) -> list[Clause]:
    """What has to be computed or loaded for a report, and the report."""
    if computes(content):
        return [read_statement(content), report]
    files = [i.text for i in content if i.kind == "file"]
    return [Load(files=files), report] if files else [report]


def _without_verb(items: Sequence[Item]) -> list[Item]:
    """``items`` where "refresh" is a word as any other, as in "mean refresh rate"."""
    plain: list[Item] = []
    for item in items:
        word = Item("words", None, item.text, item.start) if item.kind == "refresh" else item
        if word.kind == "words" and plain and plain[-1].kind == "words":
            last = plain.pop()
            word = Item("words", None, f"{last.text} {word.text}", last.start)
        plain.append(word)
    return plain


def _says_something(items: Iterable[Item]) -> bool:
    return any(i.kind not in ("skip", "and", "comma", "make", "to", "as") for i in items)
