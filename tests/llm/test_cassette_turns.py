"""A notebook's turns, recorded in one place and replayed in another."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.events import (
    AgentEvent,
    LLMCallCompleted,
    RunCompleted,
    RunStarted,
    ToolEvent,
)
from parsimony_kernel.llm.cassette_mode import SAVED_BY, CassetteMode, mode_in
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError, TurnOptions
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call
from tests.scenarios.loops import gather

RECORD = {"PARSIMONY_CASSETTE": "record"}
REPLAY = {"PARSIMONY_CASSETTE": "replay"}

LOAD = call("run_code", code="import pandas as pd\nsales = pd.read_csv('data/sales.csv')\nsales")
ADD = call("run_code", code="total = int(sales['amount'].sum())\ntotal")
DONE = call("return_done", summary="The total is 3.")


class Notebooks:
    """Opens sessions of one notebook, each in a kernel and a folder of its own."""

    def __init__(self, folder: Path, scripted: Callable[..., NotebookSession]) -> None:
        self._folder = folder
        self._scripted = scripted

    def place(self, name: str, like: Path | None = None) -> Path:
        folder = self._folder / name
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\n")
        if like is not None:
            (folder / "cassettes").mkdir()
            for file in (like / "cassettes").iterdir():
                (folder / "cassettes" / file.name).write_bytes(file.read_bytes())
        return folder

    async def recorded(self) -> Path:
        """A place with a recording of one turn, which loads the sales."""
        here = self.place("here")
        await gather(self.open(here, [LOAD, DONE], RECORD).turn("load the sales", cell_key="a"))
        return here

    def open(
        self,
        folder: Path,
        steps: Sequence[Step] | str = (),
        mode: dict[str, str] | None = None,
        notebook: str = "sales.ipynb",
    ) -> NotebookSession:
        return self._scripted(
            folder=folder,
            notebook=notebook,
            model=steps if isinstance(steps, str) else ScriptedModel(steps, "provider/model"),
            environ={"PARSIMONY_WORKSPACE": str(folder), **(mode or {})},
        )


@pytest.fixture
def notebooks(tmp_path: Path, scripted: Callable[..., NotebookSession]) -> Notebooks:
    return Notebooks(tmp_path, scripted)


def told(events: Sequence[AgentEvent]) -> list[Any]:
    """What of the events is the same in every run: who, what was run, and what came of it."""
    kept: list[Any] = []
    for event in events:
        match event:
            case RunStarted(request=request, model=model):
                kept.append((request, model))
            case LLMCallCompleted(model=model, prompt_tokens=tokens):
                kept.append((model, tokens))
            case ToolEvent(completed=True, arguments=arguments, ok=ok):
                kept.append((arguments, ok))
            case RunCompleted(summary=summary):
                kept.append(summary)
    return kept


async def test_recorded_turns_replay_elsewhere_without_key(notebooks: Notebooks) -> None:
    here = notebooks.place("here")
    session = notebooks.open(here, [LOAD, DONE, ADD, DONE], RECORD)
    first = await gather(session.turn("load the sales", cell_key="a"))
    second = await gather(session.turn("add them up", cell_key="b"))
    assert [path.name for path in (here / "cassettes").iterdir()] == ["sales.yaml"]

    there = notebooks.place("there", here)
    again = notebooks.open(there, "openai/gpt-5", REPLAY)
    assert told(await gather(again.turn("load the sales", cell_key="x"))) == told(first)
    assert told(await gather(again.turn("add them up", cell_key="y"))) == told(second)
    assert again.executor.variables()["total"] == 3


DRAW = call("run_code", code="import altair as alt\nalt.Chart(sales).mark_bar().encode(x='region')")


@pytest.mark.parametrize("figures", [True, False])
async def test_picture_is_recorded_by_digest(notebooks: Notebooks, figures: bool) -> None:
    options = TurnOptions(share_figures=figures)
    here = notebooks.place("here")
    session = notebooks.open(here, [LOAD, DRAW, DONE], RECORD)
    session._model.sees_pictures = True  # type: ignore[union-attr]
    live = await gather(session.turn("draw them", cell_key="a", options=options))
    recorded = (here / "cassettes" / "sales.yaml").read_text()
    assert ("as drawn (picture " in recorded) is figures
    assert len(recorded) < 6_000

    again = notebooks.open(notebooks.place("there", here), "openai/gpt-5", REPLAY)
    replayed = await gather(again.turn("draw them", cell_key="x", options=options))
    assert told(replayed) == told(live)


async def test_earlier_kernels_leave_no_trace(notebooks: Notebooks) -> None:
    here = notebooks.place("here")
    before = notebooks.open(here, [LOAD, DONE, ADD, DONE])
    await gather(before.turn("load the sales", cell_key="a"))
    await gather(before.turn("add them up", cell_key="b"))
    session = notebooks.open(here, [LOAD, DONE], RECORD)
    await gather(session.turn("load the sales", cell_key="a"))
    again = notebooks.open(notebooks.place("there", here), "offline", REPLAY)
    events = await gather(again.turn("load the sales", cell_key="x"))
    assert isinstance(events[-1], RunCompleted)


async def test_miss_ends_turn_with_difference(notebooks: Notebooks) -> None:
    here = await notebooks.recorded()
    there = notebooks.place("there", here)
    (there / "data" / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\nwest,9\n")
    again = notebooks.open(there, "offline", REPLAY)
    with pytest.raises(SessionError) as raised:
        await gather(again.turn("load the sales", cell_key="x"))
    assert "cassettes/sales.yaml" in str(raised.value)
    assert any(line.startswith("-") and "2 rows" in line for line in str(raised.value).split("\n"))
    assert any(line.startswith("+") and "3 rows" in line for line in str(raised.value).split("\n"))
    (turn,) = again.turns()
    assert turn.status == "cancelled"
    assert "the recording has no answer" in repr(again.events(turn.run_id)[-1])


@pytest.mark.parametrize(
    ("notebook", "told"),
    [("other.ipynb", "cassettes/other.yaml is not beside"), ("untitled", "JPY_SESSION_NAME")],
)
async def test_replay_without_recording_explains_how_to_record(
    notebooks: Notebooks, notebook: str, told: str
) -> None:
    session = notebooks.open(notebooks.place("here"), "offline", REPLAY, notebook)
    with pytest.raises(SessionError, match=told):
        await gather(session.turn("load the sales", cell_key="a"))
    assert session.turns() == ()


@pytest.mark.parametrize("mode", [RECORD, REPLAY])
async def test_broken_recording_is_reported_first(
    notebooks: Notebooks, mode: dict[str, str]
) -> None:
    here = notebooks.place("here")
    (here / "cassettes").mkdir()
    (here / "cassettes" / "sales.yaml").write_text("<<<<<<< HEAD\n")
    session = notebooks.open(here, [LOAD, DONE], mode)
    with pytest.raises(SessionError, match="record the notebook again"):
        await gather(session.turn("load the sales", cell_key="a"))
    assert session.turns() == ()
    assert (here / "cassettes" / "sales.yaml").read_text() == "<<<<<<< HEAD\n"


async def test_cell_naming_another_model_is_told(notebooks: Notebooks) -> None:
    here = await notebooks.recorded()
    again = notebooks.open(here, "offline", REPLAY)
    asking = again.turn("load the sales", cell_key="a", options=TurnOptions(model="openai/gpt-5"))
    with pytest.raises(SessionError, match=r"with 'provider/model'.*asks for 'openai/gpt-5'"):
        await gather(asking)
    same = TurnOptions(model="provider/model")
    events = await gather(again.turn("load the sales", cell_key="a", options=same))
    assert isinstance(events[-1], RunCompleted)


async def test_environment_replay_overrides_cell(notebooks: Notebooks) -> None:
    here = await notebooks.recorded()
    before = (here / "cassettes" / "sales.yaml").read_bytes()
    again = notebooks.open(here, "openai/gpt-5", REPLAY)
    options = TurnOptions(cassette=CassetteMode.record)
    events = await gather(again.turn("load the sales", cell_key="a", options=options))
    assert isinstance(events[-1], RunCompleted)
    assert (here / "cassettes" / "sales.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("saved_by", "usual", "named", "runs"),
    [
        ("offline", "openai/gpt-5", None, "offline"),
        ("offline", "openai/gpt-5", "openai/gpt-5", None),
        ("openai/gpt-5", "offline", None, None),
        ("", "offline", None, None),
        ("", [DONE], None, "provider/model"),
    ],
)
async def test_compared_cell_without_recording_runs_on_its_model_or_fails(
    notebooks: Notebooks,
    saved_by: str,
    usual: Sequence[Step] | str,
    named: str | None,
    runs: str | None,
    tmp_path: Path,
) -> None:
    (tmp_path / "saved-by").write_text(saved_by)
    compared = {**REPLAY, SAVED_BY: str(tmp_path / "saved-by")}
    session = notebooks.open(notebooks.place("here"), usual, compared)
    turn = session.turn("load data/sales.csv", cell_key="a", options=TurnOptions(model=named))
    if runs is None:
        with pytest.raises(
            SessionError, match=r"^No recording for this cell; record it with [^\n]+$"
        ):
            await gather(turn)
        assert session.turns() == ()
    else:
        events = await gather(turn)
        assert told(events)[0] == ("load data/sales.csv", runs)
        assert isinstance(events[-1], RunCompleted)


async def test_cell_records_and_replays_alone(notebooks: Notebooks) -> None:
    here = notebooks.place("here")
    recording = TurnOptions(cassette=CassetteMode.record)
    session = notebooks.open(here, [LOAD, DONE, ADD, DONE])
    await gather(session.turn("load the sales", cell_key="a", options=recording))
    await gather(session.turn("add them up", cell_key="b"))
    assert "add them up" not in (here / "cassettes" / "sales.yaml").read_text()
    again = notebooks.open(here, "openai/gpt-5")
    replaying = TurnOptions(cassette=CassetteMode.replay)
    events = await gather(again.turn("load the sales", cell_key="a", options=replaying))
    assert isinstance(events[-1], RunCompleted)


async def test_notebook_model_needs_no_key_in_replay(notebooks: Notebooks) -> None:
    folder = notebooks.place("here")
    with pytest.raises(SessionError, match="API key"):
        notebooks.open(folder).set_model("openai/gpt-5")
    session = notebooks.open(folder, "offline", REPLAY)
    session.set_model("openai/gpt-5")
    assert session.model_name == "openai/gpt-5"


@pytest.mark.parametrize(
    ("said", "meant"), [("", "off"), ("off", "off"), (" Replay ", "replay"), ("record", "record")]
)
def test_environment_variable_sets_mode(said: str, meant: str) -> None:
    assert mode_in({"PARSIMONY_CASSETTE": said}) == meant
    assert mode_in({}) is CassetteMode.off


async def test_unknown_mode_lists_valid_ones(notebooks: Notebooks) -> None:
    session = notebooks.open(notebooks.place("here"), [DONE], {"PARSIMONY_CASSETTE": "play"})
    with pytest.raises(SessionError, match="'play'; it takes one of record, replay, off"):
        await gather(session.turn("load the sales", cell_key="a"))
