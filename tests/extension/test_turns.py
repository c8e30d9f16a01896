"""Turns in cells, after clicks and after answers, whose model plays a script."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_agent.arguments import CellRequest
from parsimony_agent.cell import Cells
from parsimony_agent.controls import StopButton
from parsimony_agent.magics import AgentMagics
from parsimony_agent.pending import QuestionPending, QuestionUnanswered, TurnError, TurnStopped
from parsimony_agent.publisher import Displays, outlet_of
from parsimony_agent.settings import ParsimonyAgent
from parsimony_agent.turns import Turns
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import Completion, Delta, ModelRequest
from parsimony_kernel.core.choices import APPROVAL, labels_of
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls
from tests.extension.output_area import OutputArea

WIDGET = "application/vnd.jupyter.widget-view+json"
DONE = call("return_done", summary="Finished as asked.")


def asks(question: str, *choices: str) -> Completion:
    return call("ask_user", question=question, choices=list(choices))


ASKS = asks("Which one?", "alpha", "beta")
TAKEN = calls(DONE, text="Taken.")
# A step that waits for leave where every step is asked about.
HELD = call("run_code", code="tidy = 1", purpose="Tidy up")


class Waiting(ScriptedModel):
    """Says that it waits, and waits for its gate before the answers after ``free`` of them."""

    def __init__(self, *steps: Step, free: int = 0) -> None:
        super().__init__(steps)
        self.gate, self._free = asyncio.Event(), free

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        if len(self.requests) >= self._free:
            yield Delta(text="It waits for its gate, and")
            await self.gate.wait()
        async for each in super().stream(request):
            yield each


class FrontEnd:
    """A display publisher: displays go to the running cell, updates to whoever bears the id."""

    def __init__(self) -> None:
        self.areas: list[OutputArea] = []

    def publish(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        transient: Mapping[str, Any],
        update: bool,
    ) -> None:
        for area in self.areas if update else self.areas[-1:]:
            area.show(data, metadata, display_id=transient.get("display_id"), update=update)


class _DeafKernel:
    async def dispatch_shell(self, msg: object, subshell_id: str | None = None) -> None: ...


class _HearingKernel:
    async def dispatch_shell(self, msg: object, *, concurrent: bool = False) -> None: ...


def turns_of(
    shell: Any,
    session: NotebookSession,
    cells: Cells,
    settings: ParsimonyAgent,
    clock: Any = SYSTEM_CLOCK,
) -> Turns:
    magics = AgentMagics(shell, "%agent", settings, lambda: None, lambda _: session)
    magics.cells = cells
    return Turns(magics, clock)


class Notebook:
    """Cells run one after another in a front end that names them, or does not."""

    def __init__(
        self,
        scripted: Callable[..., NotebookSession],
        *steps: Step,
        model: ScriptedModel | None = None,
        named: bool = True,
        hears_mid_cell: bool = False,
        allow_stdin: bool = False,
        **environ: str,
    ) -> None:
        self.session = scripted(*steps, model=model)
        self.clock = ManualClock(auto=False)
        self._named = named
        self._allow_stdin = allow_stdin
        self._kernel = _HearingKernel() if hears_mid_cell else _DeafKernel()
        self._environ = environ
        self.front_end = FrontEnd()
        self.start_process()

    def start_process(self) -> None:
        """A new kernel: nothing is known but what the session has."""
        self._parent: dict[str, Any] = {}
        shell = SimpleNamespace(
            display_pub=self.front_end,
            execution_count=1,
            user_ns={},
            kernel=self._kernel,
            get_parent=lambda: self._parent,
        )
        self.shell = shell
        self.cells = Cells(shell)
        settings = ParsimonyAgent(environ=self._environ)
        self.turns = turns_of(shell, self.session, self.cells, settings, self.clock)

    def begin(self, cell_id: str) -> OutputArea:
        """The empty output area of a cell that begins to run."""
        self._parent = {
            "header": {"msg_id": str(len(self.front_end.areas))},
            "metadata": {"cellId": cell_id} if self._named else {},
            "content": {"allow_stdin": self._allow_stdin},
        }
        self.front_end.areas.append(OutputArea())
        return self.front_end.areas[-1]

    async def ask(self, cell_id: str = "c1", words: str = "plot it") -> OutputArea:
        """Run an agent cell; its outputs."""
        area = self.begin(cell_id)
        await self.turns.ask(CellRequest(words), self.cells.next_turn(words))
        return area

    async def asked(self, cell_id: str = "c1") -> OutputArea:
        """Run an agent cell that ends with a question."""
        with pytest.raises(QuestionPending):
            await self.ask(cell_id)
        return self.front_end.areas[-1]

    async def answer(self, words: str, cell_id: str = "c2", **flags: Any) -> OutputArea:
        """Run a cell that answers; its outputs."""
        area = self.begin(cell_id)
        await self.turns.answer(words, **flags)
        return area

    async def begun(
        self, cell_id: str = "c1", words: str = "plot it", *, seconds: int = 0
    ) -> "asyncio.Task[OutputArea]":
        """An agent cell that runs since some seconds."""
        running = asyncio.create_task(self.ask(cell_id, words))
        await self.pass_seconds(seconds)
        return running

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            await settle()
            self.clock.advance(1.0)
        await settle()

    async def run_to_its_end(self) -> None:
        """Let time pass until no turn runs."""
        while self.session.running:
            await self.pass_seconds(1)

    @property
    def told(self) -> tuple[ev.AgentEvent, ...]:
        """The events of the first turn on record."""
        return self.session.events(self.session.turns()[0].run_id)

    @property
    def replies(self) -> list[str]:
        """What turns were answered, in order."""
        told = [each for row in self.session.turns() for each in self.session.events(row.run_id)]
        return [each.reply for each in told if isinstance(each, ev.RunStarted) and each.reply]

    @property
    def area(self) -> OutputArea:
        """The outputs of the newest cell."""
        return self.front_end.areas[-1]

    @property
    def buttons(self) -> list[Any]:
        """The buttons of the prompt that is open."""
        return list(self.prompt.buttons)

    @property
    def prompt(self) -> Any:
        """The prompt that is open."""
        (prompt,) = (
            record.prompt for record in self.turns._records.values() if record.can_be_answered
        )
        return prompt


Open = Callable[..., Notebook]


@pytest.fixture
def opened(scripted: Callable[..., NotebookSession]) -> Open:
    """Opens a notebook whose model plays the steps that are given."""
    return partial(Notebook, scripted)


async def settle() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def click(control: Any) -> None:
    control._handle_button_msg(control, {"event": "click"}, [])
    await settle()


def widgets(area: OutputArea) -> int:
    return sum(display.is_widget for display in area.displays)


async def test_turn_is_shown_in_its_cell(opened: Open) -> None:
    notebook = opened(TAKEN)
    area = notebook.begin("c1")
    request = CellRequest("plot it", {"max_steps": 3, "max_time": 60.0})
    await notebook.turns.ask(request, notebook.cells.next_turn("plot it"))
    begun = notebook.told[0]
    assert isinstance(begun, ev.RunStarted)
    assert (begun.request, begun.max_iterations, begun.max_execution_time_s) == ("plot it", 3, 60)
    assert notebook.session.turns()[0].cell_key == "c1"
    assert area.texts[0].startswith("Finished as asked.\n")
    assert "Taken." in area.text
    assert "plot it" not in area.text
    assert widgets(area) == 0


@pytest.mark.parametrize(
    ("is_on_record", "how"),
    [(True, "%agent answer --turn 1 NUMBER"), (False, "%agent answer NUMBER")],
    ids=["on record", "its journal was deleted"],
)
async def test_question_has_buttons_and_stops_queue(
    opened: Open, monkeypatch: pytest.MonkeyPatch, is_on_record: bool, how: str
) -> None:
    notebook = opened(ASKS)
    if not is_on_record:
        for name in ("pending", "turns"):
            monkeypatch.setattr(notebook.session, name, lambda: ())
    area = await notebook.asked()
    assert "Which one?" in area.text
    assert how in area.text
    assert "alpha" in area.text
    assert widgets(area) == 1
    # The work comes below the buttons.
    assert [each.is_widget for each in area.displays] == [False, False, True, False]


async def test_question_that_is_left_says_why_in_place_of_its_buttons(opened: Open) -> None:
    notebook = opened(ASKS)
    area = await notebook.asked()
    (run_id,) = notebook.turns._records
    notebook.turns.leave(run_id, "The turn was undone.")
    assert widgets(area) == 0
    assert "The turn was undone." in area.text


async def test_click_continues_in_asking_cell(opened: Open) -> None:
    notebook = opened(ASKS, TAKEN)
    area = await notebook.asked()
    shown = len(area.displays)
    notebook.begin("c2")
    clicked = notebook.prompt
    await click(notebook.buttons[1])
    assert notebook.replies == ["beta"]
    assert len(area.displays) == shown
    assert widgets(area) == 0
    assert area.texts[0].startswith("Finished as asked.\n\nWhich one? → beta (you chose)\n")
    assert "Your answer" not in area.text
    assert "Finished as asked." in clicked.widget.children[0].value


async def test_continuation_asking_again_gets_buttons(opened: Open) -> None:
    notebook = opened(ASKS, asks("And then?", "gamma"), DONE)
    area = await notebook.asked()
    shown = len(area.displays)
    await click(notebook.buttons[0])
    assert widgets(area) == 1
    await click(notebook.buttons[0])
    assert len(area.displays) == shown
    assert notebook.replies == ["alpha", "gamma"]
    assert widgets(area) == 0
    order = [area.text.index(words) for words in ("Finished as", "Which one?", "And then? → gamma")]
    assert order == sorted(order)


async def test_answer_in_another_cell_closes_buttons(opened: Open) -> None:
    notebook = opened(ASKS, TAKEN)
    first = await notebook.asked()
    second = await notebook.answer("2")
    assert widgets(first) == 0
    assert first.text.endswith("The turn continues in the cell that answered.")
    assert "Finished as asked." not in first.text
    assert "Finished as asked." in second.text
    assert "plot it" not in second.text


async def test_answer_after_restart_needs_no_buttons(opened: Open) -> None:
    notebook = opened(ASKS, DONE)
    first = await notebook.asked()
    before = list(first.texts)
    notebook.start_process()
    second = await notebook.answer("alpha and more")
    assert notebook.replies == ["alpha and more"]
    assert "Finished as asked." in second.text
    assert first.texts == before


async def test_show_after_restart_finds_the_question_with_live_buttons(opened: Open) -> None:
    notebook = opened(ASKS, DONE, DONE)
    await notebook.asked()
    notebook.start_process()
    await notebook.ask("c3")
    area = notebook.begin("c2")
    notebook.turns.show(None)
    assert "Which one?" in area.text
    assert widgets(area) == 1
    await click(notebook.buttons[0])
    assert "Finished as asked." in area.text
    assert widgets(area) == 0


async def test_showing_question_again_leaves_one_prompt(opened: Open) -> None:
    notebook = opened(ASKS)
    first = await notebook.asked()
    second = notebook.begin("c2")
    notebook.turns.show("1")
    assert (widgets(first), widgets(second)) == (0, 1)
    assert "shown again" in first.text


async def test_rerun_cell_closes_earlier_prompt(opened: Open) -> None:
    notebook = opened(ASKS, DONE)
    first = await notebook.asked()
    await notebook.ask()
    assert widgets(first) == 0


async def test_here_continues_at_question_and_shows_caller(
    opened: Open,
    capsys: pytest.CaptureFixture[str],
) -> None:
    notebook = opened(ASKS, asks("See https://evil.example?", "gamma"))
    area = await notebook.asked()
    caller = await notebook.answer("1", "cli", here=True)
    assert "https://evil.example" in area.text
    assert widgets(area) == 1
    assert len(caller.displays) == 1
    assert "https://evil.example" in caller.text
    assert "plot it" not in caller.text
    assert "<a " not in caller.displays[0].data["text/html"]
    # A front end makes links of what is printed.
    assert capsys.readouterr() == ("", "")


async def test_here_without_cell_shows_continuation(opened: Open) -> None:
    notebook = opened(ASKS, DONE)
    await notebook.asked()
    notebook.start_process()
    caller = await notebook.answer("1", "cli", here=True)
    assert len(caller.displays) == 1
    assert "Finished as asked." in caller.text


@pytest.mark.parametrize("display", ["static", "live"])
async def test_headless_question_fails_cell_when_requested(opened: Open, display: str) -> None:
    how: Any = {"PARSIMONY_ON_QUESTION": "raise", "PARSIMONY_DISPLAY": display}
    notebook = opened(ASKS, named=False, **how)
    with pytest.raises(QuestionUnanswered) as caught:
        await notebook.ask("")
    assert "Which one?" in notebook.area.text
    assert "the question is in the record above" in str(caught.value)
    assert "Which one" not in str(caught.value)


@pytest.mark.parametrize("named", [True, False], ids=["live", "static"])
async def test_cancelled_cell_shows_how_turn_ended(opened: Open, named: bool) -> None:
    notebook = opened(model=Waiting(DONE), named=named)
    task = await notebook.begun()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert isinstance(notebook.told[-1], ev.RunCancelled)
    assert "the cell was cancelled" in notebook.area.text


async def test_click_during_turn_can_be_repeated(opened: Open) -> None:
    model = Waiting(ASKS, DONE, DONE, free=1)
    notebook = opened(model=model)
    area = await notebook.asked()
    running = await notebook.begun("c2", "another")
    first = notebook.buttons[0]
    await click(first)
    assert "is still running" in notebook.prompt.said
    assert not first.disabled
    assert widgets(area) == 1
    model.gate.set()
    await running
    await click(first)
    assert notebook.replies == ["alpha"]
    assert "Finished as asked." in area.text


@pytest.mark.parametrize("is_late", [False, True])
async def test_error_behind_click_is_shown_at_turn(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_late: bool
) -> None:
    caplog.set_level(logging.INFO)

    async def lost(*_: Any, **__: Any) -> AsyncIterator[ev.AgentEvent]:
        if is_late:
            yield ev.TextDelta(content="Taken.")
        raise RuntimeError("the line is cut")

    notebook = opened(ASKS)
    area = await notebook.asked()
    prompt = notebook.prompt
    monkeypatch.setattr(notebook.session, "resume", lost)
    await click(notebook.buttons[0])
    told = area.text if is_late else prompt.said
    assert "The turn broke off (RuntimeError: the line is cut)." in told
    assert ("Taken." in area.text) is is_late
    assert prompt.buttons[0].disabled is is_late
    assert widgets(area) == (0 if is_late else 1)
    assert "broke off (RuntimeError)" in caplog.text
    assert "the line" not in caplog.text


@pytest.mark.parametrize(
    ("turn", "sentence"),
    [
        ({}, "No turn waits for an answer"),
        ({"turn": "7"}, "There is no turn 7 in this notebook"),
        ({"turn": "1"}, "Turn 1 does not wait for an answer; %agent show 1 draws it."),
    ],
)
async def test_answer_to_nothing_is_one_sentence(
    opened: Open, turn: dict[str, str], sentence: str
) -> None:
    notebook = opened(DONE)
    await notebook.ask()
    with pytest.raises((TurnError, SessionError), match=sentence):
        await notebook.answer("1", **turn)


async def test_answering_cell_may_rerun_without_question(opened: Open) -> None:
    notebook = opened(ASKS, DONE, DONE, ASKS, DONE)
    await notebook.asked()
    for is_asked in (True, False):
        area = await notebook.answer("1")
        assert ("Nothing to answer" in area.text) is not is_asked
        if is_asked:
            await notebook.ask()
    with pytest.raises(TurnError, match="No turn waits"):
        await notebook.answer("2")
    await notebook.asked()
    await notebook.answer("1")
    assert len(notebook.replies) == 2


async def test_rerun_answering_cell_approves_nothing_else(opened: Open) -> None:
    notebook = opened(ASKS, DONE, HELD, DONE, PARSIMONY_APPROVE="ask")
    await notebook.asked()
    await notebook.answer("1")
    asking = await notebook.begun("c5", seconds=1)
    with pytest.raises(QuestionPending):
        await asking
    await notebook.ask()
    assert "Nothing to answer" in (await notebook.answer("1")).text
    assert len(notebook.replies) == 1


async def test_answering_cell_after_click_lets_run_all_continue(opened: Open) -> None:
    notebook = opened(DONE)
    notebook.session.answers = {"Which?": "1"}
    await notebook.ask()
    assert "Nothing to answer" in (await notebook.answer("1")).text


async def test_invalid_choice_leaves_question_open(opened: Open) -> None:
    notebook = opened(ASKS, DONE)
    area = await notebook.asked()
    with pytest.raises(SessionError, match="There is no choice 3"):
        await notebook.answer("3")
    assert widgets(area) == 1
    await click(notebook.buttons[0])
    assert "Finished as asked." in area.text


async def test_answer_is_for_the_question_that_was_read(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = opened(ASKS, asks("Delete all?", "yes", "no"))
    await notebook.asked()
    read = notebook.session.pending()
    await click(notebook.buttons[0])
    monkeypatch.setattr(notebook.session, "pending", lambda: read)
    with pytest.raises(SessionError, match="answered already"):
        await notebook.answer("1")


async def test_outdated_button_is_refused_in_place(opened: Open) -> None:
    """Another process answered, and the turn asked something else: the click is not for that."""
    notebook = opened(ASKS, asks("Delete all?", "yes", "no"), DONE)
    area = await notebook.asked()
    async for _ in notebook.session.resume("1"):
        pass
    await click(notebook.buttons[0])
    assert notebook.replies == ["alpha"]
    assert "This question was answered already" in area.text
    assert widgets(area) == 0


async def test_stop_while_opening_session_stops_turn(opened: Open) -> None:
    notebook = opened(model=Waiting(DONE))
    notebook.begin("c1")
    stop = CancellationRequest()
    stop.set()
    with pytest.raises(TurnStopped):
        await notebook.turns.ask(CellRequest("plot it"), notebook.cells.next_turn("plot it"), stop)
    assert isinstance(notebook.told[-1], ev.RunCancelled)


async def test_cell_cancelled_by_stop_ends_quietly(opened: Open) -> None:
    notebook = opened(model=Waiting(DONE))
    task = await notebook.begun()
    notebook.session.stop()
    task.cancel()
    with pytest.raises(TurnStopped):
        await task


@pytest.mark.parametrize("display", ["static", "live"])
async def test_a_batch_gets_no_buttons_and_its_cell_is_fine(opened: Open, display: str) -> None:
    """As nbclient runs it: cells without names, nobody to type."""
    notebook = opened(ASKS, named=False, PARSIMONY_DISPLAY=display)
    area = await notebook.ask("")
    assert "Which one?" in area.text
    assert display == "live" or area.updates == 0
    assert widgets(area) == 0
    assert "%agent answer" in area.text
    assert len(area.displays) == 3
    again = notebook.begin("")
    notebook.turns.show(None)
    assert widgets(again) == 0


async def test_frontend_without_cell_ids_gets_buttons(opened: Open) -> None:
    notebook = opened(ASKS, named=False, allow_stdin=True, PARSIMONY_DISPLAY="live")
    assert widgets(await notebook.asked("")) == 1


async def test_approval_has_no_text_field(opened: Open) -> None:
    notebook = opened(HELD, DONE, PARSIMONY_APPROVE="ask")
    # Its code is drawn before it waits, at the pace of all drawing.
    asking = await notebook.begun(seconds=1)
    area = notebook.area
    with pytest.raises(QuestionPending):
        await asking
    assert [each.description for each in notebook.buttons] == list(labels_of(APPROVAL))
    assert "Tidy up" in area.texts[0]
    assert notebook.prompt.field not in [
        each for row in notebook.prompt.widget.children for each in getattr(row, "children", ())
    ]
    await click(notebook.buttons[0])
    await notebook.run_to_its_end()
    assert notebook.session.executor.variables() == {"tidy": 1}
    assert widgets(area) == 0
    assert "Finished as asked." in area.text


def stop_buttons(notebook: Notebook, area: OutputArea) -> list[Any]:
    """The buttons to stop that ``area`` shows."""
    shown = [each.data[WIDGET]["model_id"] for each in area.displays if each.is_widget]
    controls = [
        place.control
        for record in notebook.turns._records.values()
        for place in record._claim()
        if isinstance(place.control, StopButton) and place.control.state is None
    ]
    return [each.widget for each in controls if each.widget.model_id in shown]


async def test_continuation_has_stop_button(opened: Open) -> None:
    notebook = opened(model=Waiting(ASKS, DONE, free=1))
    area = await notebook.asked()
    shown = len(area.displays)
    await click(notebook.buttons[0])
    await notebook.pass_seconds(2)
    (stop,) = stop_buttons(notebook, area)
    assert "Stops this turn" in stop.tooltip
    await click(stop)
    assert isinstance(notebook.told[-1], ev.RunCancelled)
    assert widgets(area) == 0
    assert len(area.displays) == shown
    assert "stopped" in area.text.lower()
    assert "It waits for its gate," in area.text


@pytest.mark.parametrize("hears", [True, False])
async def test_running_cell_has_button_where_clicks_arrive(opened: Open, hears: bool) -> None:
    model = Waiting(DONE)
    notebook = opened(model=model, hears_mid_cell=hears)
    task = await notebook.begun(seconds=2)
    area = notebook.area
    assert len(stop_buttons(notebook, area)) == hears
    model.gate.set()
    await task
    assert widgets(area) == 0
    assert "Finished as asked." in area.text


async def test_terminal_question_names_how_to_answer(
    scripted: Callable[..., NotebookSession], capsys: pytest.CaptureFixture[str]
) -> None:
    session = scripted(ASKS, DONE)
    # Its name is that of the publisher which prints.
    publisher = type("DisplayPublisher", (), {})()
    shell = SimpleNamespace(display_pub=publisher, execution_count=1, user_ns={})
    cells = Cells(shell)
    turns = turns_of(shell, session, cells, ParsimonyAgent(environ={}))
    await turns.ask(CellRequest("plot it"), cells.next_turn("plot it"))
    assert "Which one?" in (asked := capsys.readouterr().out)
    assert "%agent answer NUMBER" in asked
    assert asked.count("plot it") == 1
    await turns.answer("2")
    assert session.turns()[0].status == "done"
    assert capsys.readouterr().out.count("Finished as asked.") == 1


async def test_notebook_with_answering_cell_runs_through(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [
        {"cell_type": "code", "id": "c1", "source": ["%%agent\n", "plot it"]},
        {"cell_type": "markdown", "id": "m", "source": "It asks."},
        {"cell_type": "code", "id": "c2", "source": "%agent answer 2"},
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    notebook = opened(ASKS, DONE)
    area = await notebook.ask()
    assert widgets(area) == 1
    await notebook.answer("2")
    path.write_text(json.dumps({"cells": cells[:2]}))
    await opened(ASKS).asked()


async def test_first_sign_is_replaced_or_withdrawn(opened: Open) -> None:
    notebook = opened(DONE)
    area = notebook.begin("c1")
    sign = Displays(outlet_of(notebook.shell))
    sign.say("Starting …")
    assert area.texts == ["Starting …"]
    await notebook.turns.ask(
        CellRequest("plot it"), notebook.cells.next_turn("plot it"), None, sign
    )
    sign.withdraw()
    assert len(area.displays) == 3
    assert area.texts[0].startswith("Finished as asked.\n")
    nothing = Displays(outlet_of(notebook.shell))
    nothing.say("Starting …")
    nothing.withdraw()
    assert area.displays[-1].text == " "
