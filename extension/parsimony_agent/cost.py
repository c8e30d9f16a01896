"""``%agent cost``: what the turns of a notebook have used."""

from parsimony_agent.desk import Desk, Told
from parsimony_agent.options import value_of
from parsimony_agent.tables import note, table
from parsimony_kernel.session.spending import Used, used
from parsimony_kernel.view.outline import cost_words

_HEAD = ("turn", "model", "calls", "tokens in", "cached", "tokens out", "cost", "time")
_CACHED = _HEAD.index("cached")


def cost(desk: Desk) -> Told:
    """What each turn has used of its model, those that were replaced among them, and the sum;
    where the notebook has a budget, what of it is spent."""
    session = desk.session
    turns = [(turn, used(session.events(turn.turn_id))) for turn in session.turns()]
    rows = [_row(str(turn.ordinal), turn.model, each) for turn, each in turns]
    if len(rows) > 1:
        rows.append(_row("all", "", sum((each for _, each in turns), Used())))
    head: tuple[str, ...] = _HEAD
    if not any(each.cached_tokens for _, each in turns):
        head, *rows = (each[:_CACHED] + each[_CACHED + 1 :] for each in (_HEAD, *rows))
    told = table(head, rows, empty="No turn of this notebook has asked a model yet.")
    budget: float | None = value_of(desk.settings, "notebook_budget")
    if budget is None:
        return told
    return [told, note(_of_budget(session.spent_usd(), budget, any(e.unpriced for _, e in turns)))]


def _of_budget(spent: float, budget: float, some_unpriced: bool) -> str:
    said = f"Spent in this notebook: {cost_words(spent) if spent else 'nothing'} of "
    said += f"{cost_words(budget)}, its notebook_budget."
    if some_unpriced:
        said += " Calls without a known price are not counted."
    if spent >= budget:
        said += " No turn begins until it is raised."
    return said


def _row(turn: str, model: str, spent: Used) -> tuple[str, ...]:
    return (
        turn,
        model,
        f"{spent.calls:,}",
        f"{spent.prompt_tokens:,}",
        f"{spent.cached_tokens:,}",
        f"{spent.completion_tokens:,}",
        _price(spent),
        f"{spent.seconds:.0f} s",
    )


def _price(spent: Used) -> str:
    unknown = spent.calls > 0 and spent.unpriced == spent.calls
    return cost_words(None if unknown else spent.cost_usd, partial=spent.unpriced > 0)
