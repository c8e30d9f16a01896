"""A request is split into clauses, and each is read."""

from collections.abc import Iterable, Sequence

from parsimony_kernel.offline.grammar.clauses import Clause, Load, Report, Statement
from parsimony_kernel.offline.grammar.deriving import read_derive
from parsimony_kernel.offline.grammar.items import Item, read_items
from parsimony_kernel.offline.grammar.joining import read_join
from parsimony_kernel.offline.grammar.loading import read_load
from parsimony_kernel.offline.grammar.publishing import asks_more, cut_naming, read_publish
from parsimony_kernel.offline.grammar.refreshing import read_refresh
from parsimony_kernel.offline.grammar.reporting import computes, read_report
from parsimony_kernel.offline.grammar.several import apart
from parsimony_kernel.offline.grammar.splitting import split
from parsimony_kernel.offline.grammar.statement import read_statement
from parsimony_kernel.offline.words import Token


def parse(tokens: Sequence[Token], columns: Iterable[str] = ()) -> list[Clause]:
    """The clauses of a request, in order; ``columns`` are the names that count as one word."""
    return [
        clause
        for items in split(read_items(tokens, columns))
        for part in apart(items)
        for clause in _clauses(part)
    ]


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
    prepared = read_join(items) or read_derive(items)
    if prepared is not None:
        clause, rest = prepared
        return [clause, *(told for part in apart(rest) if part for told in _clauses(part))]
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
