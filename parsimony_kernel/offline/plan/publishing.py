"""What was asked to be published is, once; what fails is said."""

import re
from collections.abc import Sequence
from dataclasses import replace

from parsimony_kernel.analysis.read import read
from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.grammar.clauses import Publish
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.records import final_keeps, product_of, result_calls
from parsimony_kernel.offline.plan.step import Exhibit, Product, Step, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.transcript import Call
from parsimony_kernel.offline.words import fold, spoken


def publish(turn: Turn, work: Work) -> Step | None:
    """The step that publishes what was not published yet, also what reports are to show."""
    wanted: dict[tuple[str, str], Exhibit] = {}
    for exhibit in [*_asked(turn, work), *(e for n in range(len(work.reports))
                                           for e in shown(turn, work, n))]:  # fmt: skip
        wanted.setdefault((exhibit.tool, exhibit.variable), exhibit)
    waiting = [exhibit for exhibit in wanted.values() if not is_published(turn, exhibit)]
    if not waiting:
        return None
    calls = tuple((e.tool, {"variable": e.variable, "title": e.title}) for e in waiting)
    return Step(f"I publish {spoken(f'`{e.variable}`' for e in waiting)}.", calls)


def shown(turn: Turn, work: Work, number: int) -> list[Exhibit]:
    """What the report of that number is to show."""
    report, after, current = work.reports[number]
    made = _products(turn, work)[:after]
    _check_target(turn, report.shows)
    if made and not (report.shows.kinds or report.shows.target):
        # A number is told in words.
        found = [("chart", p.chart, p) if p.chart else ("dataset", p.table, p) for p in made]
        return [Exhibit(kind, name, p.title, p.base) for kind, name, p in found if name]
    return _exhibits(turn, report.shows, made, current, every=report.shows.every)


def publications(turn: Turn, exhibit: Exhibit) -> list[Call]:
    """The calls that published ``exhibit``, or tried to."""
    return [
        c
        for c in turn.transcript.calls
        if c.name == exhibit.tool and c.arguments.get("variable") == exhibit.variable
    ]


def is_published(turn: Turn, exhibit: Exhibit) -> bool:
    """Whether ``exhibit`` is published; raises ``Declined`` where it cannot be."""
    if exhibit.tool not in turn.tools:
        raise Declined(
            f"There is no tool to publish a {exhibit.kind} with; `{exhibit.variable}` is in the "
            "notebook.",
            [f"{exhibit.tool} is not among the tools"],
        )
    before = publications(turn, exhibit)
    if any(c.ok for c in before):
        return True
    if any(c.failed for c in before):
        last = before[-1]
        raise Declined(
            f"`{exhibit.variable}` is in the notebook, but publishing it failed.",
            [f"{last.error_type}: {last.error_text}"[:300]],
            ["Publish it again in a new request once that is settled."],
        )
    return False


def _products(turn: Turn, work: Work) -> list[Product]:
    """What each task made, in the order of the tasks."""
    finals, results = final_keeps(turn), result_calls(turn)
    products = []
    for task in work.tasks:
        source = finals if finals and task.statement.is_plain else results
        if source:
            products.append(replace(product_of(source.pop(0)), base=task.table))
    return products


def _asked(turn: Turn, work: Work) -> list[Exhibit]:
    """What is to be published for itself."""
    products = _products(turn, work)
    return [
        exhibit
        for clause, after, current in work.publishing
        for exhibit in _exhibits(turn, clause, products[:after], current)
    ]


def _exhibits(
    turn: Turn,
    publish: Publish,
    products: Sequence[Product],
    current: str | None,
    *,
    every: bool = False,
) -> list[Exhibit]:
    """What is meant; ``every`` is for all that the notebook has, where nothing was made."""
    named = _named_variable(turn, publish)
    if named is not None:
        kind = "chart" if named in turn.transcript.figures() else "dataset"
        return [Exhibit(kind, named, publish.title or _title_of(turn, named))]
    kinds = publish.kinds or (
        ["chart"] if products and products[-1].chart is not None else ["dataset"]
    )
    if not products and not publish.kinds and not current and turn.transcript.figures():
        kinds = ["chart"]
    found = []
    for kind in kinds:
        made = [
            Exhibit(kind, name, publish.title or p.title, p.base)
            for p in products
            if (name := p.chart if kind == "chart" else p.table) is not None
        ]
        chosen = made if publish.every else made[-1:]
        if not chosen:
            names = _existing(turn, kind, current, every=every and bool(publish.kinds))
            chosen = [Exhibit(kind, n, publish.title or _title_of(turn, n)) for n in names]
        found += chosen
    return found


def _named_variable(turn: Turn, publish: Publish) -> str | None:
    names = turn.transcript.names
    for mention in publish.target:
        for name in names:
            if fold(mention.text) == fold(name):
                return name
    return None


def _check_target(turn: Turn, publish: Publish) -> None:
    """Raise ``Declined`` for what a report is to show and what is not there."""
    if publish.target and _named_variable(turn, publish) is None:
        words = spoken((repr(m.text[:80]) for m in publish.target[:4]), "or")
        raise Declined(
            f"There is no chart or table called {words} to show in a report.",
            [f"nothing in the notebook is called {words}"],
            ["Name a variable, or say 'the chart', 'the charts' or 'the table'."],
        )


def _existing(turn: Turn, kind: str, current: str | None, *, every: bool) -> list[str]:
    """The variables of before this turn that can be meant: one, or all of the kind."""
    if kind == "dataset" and current is not None:
        return [current]
    names = turn.transcript.names
    pool = [n for n in names if n in (
        turn.transcript.figures() if kind == "chart" else turn.frames)]  # fmt: skip
    mine = [n for n in turn.transcript.mine if n in pool]
    if every and pool:
        return mine or pool
    if mine or len(pool) == 1:
        return [(mine or pool)[-1]]
    if not pool:
        raise Declined(
            f"There is no {kind} to publish.",
            [f"no {kind} was made in this request, and none is in the notebook"],
            ["Ask for one first, for instance 'plot mean price by year and publish it'."],
        )
    return [choose(turn.answers, f"Which {kind} should I publish?", pool[:8])]


def _title_of(turn: Turn, name: str) -> str:
    """The title under which a variable was published before, else its name in words."""
    told = re.compile(rf"`{re.escape(name)}` as ('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")\.")
    for text in reversed(turn.transcript.earlier):
        found = told.findall(text)
        if found:
            return "".join(read(found[-1]).strings)
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]
