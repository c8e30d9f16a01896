"""``%agent code``: the code of a turn, handed over to the person who asked."""

from pathlib import Path
from typing import Any

from parsimony_agent.cell import working_folder
from parsimony_agent.desk import Desk, Told
from parsimony_agent.pending import TurnError
from parsimony_kernel.session.turns import SessionError, resolve_turn
from parsimony_kernel.storage import durable
from parsimony_kernel.view.escape import fenced, html_text, plain, unbroken
from parsimony_kernel.view.history import CodeStep, code_that_worked


def code(desk: Desk, named: str | None = None, *, cells: bool = False, to: str = "") -> Told:
    """Show the code that worked in a turn, the newest by default.

    With ``cells`` it is put into the next cell too, with ``to`` written into a new notebook, a
    cell for each step. ``TurnError`` when no code of the turn worked.
    """
    turn = resolve_turn(desk.session.turns(), named)
    steps = code_that_worked(desk.session.events(turn.turn_id))
    if not steps:
        raise TurnError(
            f"No code of turn {turn.ordinal} worked; {desk.magic} history {turn.ordinal} tells "
            "what happened."
        )
    if to:
        return _written(working_folder() / to, steps)
    whole = "\n\n".join(step.with_heading() for step in steps) + "\n"
    if cells:
        # A kernel can hand over one cell; editors and `jupytext` split it at its headings.
        desk.shell.set_next_input(whole)
    return _shown(whole)


def _shown(source: str) -> dict[str, Any]:
    return {
        "text/plain": plain(source).rstrip("\n"),
        "text/markdown": fenced(source, "python"),
        "text/html": f"<pre>{unbroken(html_text(source))}</pre>",
    }


def _written(place: Path, steps: tuple[CodeStep, ...]) -> str:
    import nbformat  # deferred: few ask for a file

    if place.suffix != ".ipynb":
        raise TurnError(f"{place.name!r} is no notebook: give it a name that ends with .ipynb.")
    document = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(step.with_heading()) for step in steps]
    )
    for number, cell in enumerate(document.cells, start=1):
        cell["id"] = f"step-{number}"
    try:
        is_made = durable.create(place, nbformat.writes(document).encode("utf-8", "replace"))
    except durable.StorageError as exc:
        raise SessionError(str(exc)) from exc
    if not is_made:
        raise TurnError(f"{place.name!r} exists already, and is left as it is: name another.")
    count = len(steps)
    return f"Written into {place.name}: {count} {'cell' if count == 1 else 'cells'}."
