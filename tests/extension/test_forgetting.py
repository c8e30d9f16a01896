"""What ``%agent forget`` and ``reset`` do, and an undo of a question, and what they say of it."""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_agent.commands import forget, redo, reset, undo
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.testing.scripted import ScriptedModel, call
from tests.session.session_steps import ASK, code, mine, turn

Start = Callable[..., NotebookSession]

DONE = call("return_done", summary="It is done.")
AREA = "async def area(width: int, height: int) -> int: return width * height"


def desk(session: NotebookSession) -> Any:
    """What of a call of a sub-command these need; ``left`` are the prompts that it closed."""
    left: dict[str, str] = {}
    turns, cells = SimpleNamespace(leave=left.__setitem__), SimpleNamespace(apart=nullcontext)
    return SimpleNamespace(session=session, name="%agent", turns=turns, user_cells=cells, left=left)


def statuses(session: NotebookSession) -> list[str]:
    return [each.status for each in session.turns()]


async def test_turn_is_forgotten_by_number(scripted: Start) -> None:
    session = scripted(DONE, DONE)
    await turn(session, "first", cell="a")
    await turn(session, "second", cell="b")
    said = forget(desk(session), "1")
    assert statuses(session) == ["forgotten", "done"]
    assert isinstance(said, str)
    assert said.startswith("Turn 1 is forgotten")
    for part in ("Variables, files", "stays on this disk", "jupyter parsimony purge"):
        assert part in said
    assert "question" not in said


@pytest.mark.parametrize(("ends", "why"), [(forget, "forgotten"), (undo, "undone")])
async def test_end_of_its_question_is_reported_and_closes_its_buttons(
    scripted: Start, ends: Callable[..., Any], why: str
) -> None:
    session = scripted(code("x = 1"), ASK)
    await turn(session, "sum it", cell="a")
    magics = desk(session)
    assert "Its question no longer waits." in str(ends(magics, "1"))
    assert magics.left == {session.turns()[0].run_id: f"The turn was {why}."}
    assert session.pending() == ()


async def test_redo_leaves_buttons_alone(scripted: Start) -> None:
    session = scripted(code("x = 1"), ASK)
    await turn(session, "sum it", cell="a")
    undo(desk(session), "1")
    magics = desk(session)
    assert "Its question waits again." in str(redo(magics, "1"))
    assert magics.left == {}


async def test_unknown_or_forgotten_turn_is_refused(scripted: Start) -> None:
    session = scripted(DONE)
    await turn(session, "first", cell="a")
    with pytest.raises(SessionError, match="no turn 7"):
        forget(desk(session), "7")
    forget(desk(session), "1")
    with pytest.raises(SessionError, match="forgotten already"):
        forget(desk(session), "1")


async def test_reset_previews_and_needs_yes(scripted: Start) -> None:
    session = scripted(DONE, DONE, ASK)
    await turn(session, "first", cell="a")
    await turn(session, "second", cell="b")
    await turn(session, "third", cell="c")
    await mine(session, AREA)
    session.tools.add("area")
    session.set_model(ScriptedModel([], name="another"))
    forget(desk(session), "1")
    said = str(reset(desk(session)))
    for part in ("would forget 2 turns ", "it is another now", "area", "%agent reset --yes"):
        assert part in said
    assert statuses(session) == ["forgotten", "done", "suspended"]
    assert (tuple(session.tools.added()), session.model_name) == (("area",), "another")
    said = str(reset(desk(session), yes=True))
    for part in ("2 turns forgotten", "The model is scripted.", "No longer tools: area."):
        assert part in said
    assert statuses(session) == ["forgotten"] * 3
    assert session.pending() == ()
    assert (tuple(session.tools.added()), session.model_name) == ((), "scripted")
    assert str(reset(desk(session), yes=True)).startswith("0 turns forgotten")
