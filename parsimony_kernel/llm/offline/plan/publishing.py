"""What was asked to be published is, once; what fails is said."""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.llm.offline.answers import choose
from parsimony_kernel.llm.offline.grammar.clauses import Publish
from parsimony_kernel.llm.offline.missing import Declined
from parsimony_kernel.llm.offline.plan.records import final_keeps, product_of, result_calls
from parsimony_kernel.llm.offline.plan.step import Product, Step, Work
from parsimony_kernel.llm.offline.plan.turn import Turn
from parsimony_kernel.llm.offline.words import fold, spoken


def _products(turn: Turn, work: Work) -> list[Product]:
    """What each task made, in the order of the tasks."""
    finals, results = final_keeps(turn), result_calls(turn)
    products = []
    for task in work.tasks:
        source = finals if finals and task.statement.is_plain else results
        if source:
            products.append(product_of(source.pop(0)))
    return products


def publish(turn: Turn, work: Work) -> Step | None:
    """The step that publishes what was not published yet."""
    if not work.publishing:
        return None
    products = _products(turn, work)
    calls: list[tuple[str, dict[str, Any]]] = []
    for clause, after, current in work.publishing:
        for kind, variable, title in _to_publish(turn, clause, products[:after], current):
            tool = "return_chart" if kind == "chart" else "return_dataset"
            if tool not in turn.tools:
                raise Declined(
                    f"There is no tool to publish a {kind} with; `{variable}` is in the notebook.",
                    [f"{tool} is not among the tools"],
                )
            before = [
                c
                for c in turn.transcript.calls
                if c.name == tool and c.arguments.get("variable") == variable
            ]
            if any(c.ok for c in before):
                continue
            if any(c.failed for c in before):
                last = before[-1]
                raise Declined(
                    f"`{variable}` is in the notebook, but publishing it failed.",
                    [f"{last.error_type}: {last.error_text}"[:300]],
                    ["Publish it again in a new request once that is settled."],
                )
            calls.append((tool, {"variable": variable, "title": title}))
    if not calls:
        return None
    names = spoken(f"`{arguments['variable']}`" for _, arguments in calls)
    return Step(f"I publish {names}.", tuple(calls))


def _to_publish(
    turn: Turn, publish: Publish, products: Sequence[Product], current: str | None
) -> list[tuple[str, str, str]]:
    named = _named_variable(turn, publish)
    if named is not None:
        kind = "chart" if named in turn.transcript.figures() else "dataset"
        return [(kind, named, publish.title or _spaced(named))]
    kinds = publish.kinds or (
        ["chart"] if products and products[-1].chart is not None else ["dataset"]
    )
    if not products and not publish.kinds and not current and turn.transcript.figures():
        kinds = ["chart"]
    found = []
    for kind in kinds:
        made = [
            (p.chart if kind == "chart" else p.table, p.title)
            for p in products
            if (p.chart if kind == "chart" else p.table) is not None
        ]
        chosen = made if publish.every else made[-1:]
        if not chosen:
            chosen = [_existing(turn, kind, current)]
        for variable, title in chosen:
            assert variable is not None
            found.append((kind, variable, publish.title or title))
    return found


def _named_variable(turn: Turn, publish: Publish) -> str | None:
    names = turn.transcript.names
    for mention in publish.target:
        for name in names:
            if fold(mention.text) == fold(name):
                return name
    return None


def _existing(turn: Turn, kind: str, current: str | None) -> tuple[str, str]:
    """A variable of before this turn that can be meant."""
    if kind == "dataset" and current is not None:
        return current, _spaced(current)
    names = turn.transcript.names
    pool = [n for n in names if n in (
        turn.transcript.figures() if kind == "chart" else turn.frames)]  # fmt: skip
    mine = [n for n in turn.transcript.mine if n in pool]
    if mine or len(pool) == 1:
        name = (mine or pool)[-1]
        return name, _spaced(name)
    if not pool:
        raise Declined(
            f"There is no {kind} to publish.",
            [f"no {kind} was made in this request, and none is in the notebook"],
            ["Ask for one first, for instance 'plot mean price by year and publish it'."],
        )
    question = f"Which {kind} should I publish?"
    chosen = choose(turn.answers, question, pool[:8])
    return chosen, _spaced(chosen)


def _spaced(name: str) -> str:
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]
