"""The extension in an IPython shell, without a kernel."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from parsimony_agent import load_ipython_extension, unload_ipython_extension
from parsimony_agent.commands import chosen_model
from parsimony_agent.extension import install, uninstall
from parsimony_agent.overview import history
from parsimony_agent.pending import QuestionPending, Silent, TurnError
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.workspace import journal_path
from parsimony_kernel.testing.scripted import HangingModel, call, calls

Said = Callable[..., str]
Start = Callable[..., NotebookSession]

DONE = call("return_done", summary="Finished as asked.")
WORKING = calls(DONE, text="Working.")
ASKS = call("ask_user", question="Which one?", choices=["alpha", "beta"])


@pytest.fixture
def shell(bare_shell: Any) -> Any:
    return bare_shell


@pytest.fixture
def opened(shell: Any, scripted: Start) -> Start:
    """Loads the extension with a session whose model plays the steps that are given."""

    def build(*steps: Any, **given: Any) -> NotebookSession:
        session = scripted(*steps, executor=NotebookExecutor(shell), **given)
        install(shell, session_factory=lambda _: session)
        return session

    return build


@pytest.fixture
def session(opened: Start) -> NotebookSession:
    return opened(WORKING, DONE)


def begun(session: NotebookSession) -> list[RunStarted]:
    """How each segment of the session's turns began."""
    told = [event for turn in session.turns() for event in session.events(turn.run_id)]
    return [event for event in told if isinstance(event, RunStarted)]


def state(shell: Any) -> tuple[Any, ...]:
    """Everything of the shell that the extension may change."""
    return (
        {kind: dict(table) for kind, table in shell.magics_manager.magics.items()},
        list(shell.input_transformers_post),
        sorted(shell.strdispatchers["complete_command"].strs),
        shell.custom_exceptions,
        shell.CustomTB,
        {name: list(hooks) for name, hooks in shell.events.callbacks.items()},
    )


def test_loading_is_silent_and_idempotent_and_unloading_restores(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(shell)
    load_ipython_extension(shell)
    loaded = state(shell)
    assert loaded != before
    load_ipython_extension(shell)
    assert state(shell) == loaded
    unload_ipython_extension(shell)
    unload_ipython_extension(shell)
    assert state(shell) == before
    assert capsys.readouterr() == ("", "")


def test_extension_can_be_reloaded(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_line_magic("load_ext", "parsimony_agent")
    shell.run_line_magic("reload_ext", "parsimony_agent")
    assert shell.find_cell_magic("agent") is not None
    assert len(shell.input_transformers_post) == 1
    shell.run_line_magic("unload_ext", "parsimony_agent")
    assert shell.find_cell_magic("agent") is None
    assert capsys.readouterr() == ("", "")


def test_other_agent_magic_keeps_its_name(
    shell: Any, opened: Start, capsys: pytest.CaptureFixture[str], said: Said
) -> None:
    shell.register_magic_function(lambda line, cell: None, "cell", "agent")
    other = shell.find_cell_magic("agent")
    session = opened(DONE)
    told = capsys.readouterr().out
    assert len(told.splitlines()) == 1
    assert "%%parsimony" in told
    assert shell.find_cell_magic("agent") is other
    assert "Finished as asked." in said("%%parsimony\nplot it")
    assert session.turns()[0].request == "plot it"
    uninstall(shell)
    assert shell.find_cell_magic("agent") is other
    assert shell.find_cell_magic("parsimony") is None


def test_request_is_literal_and_record_is_printed(
    shell: Any, session: NotebookSession, said: Said
) -> None:
    shell.user_ns["x"] = "expanded"
    printed = said("%%agent --max-steps 7\nplot {x} for $x at 100%\n  'é'")
    (told,) = begun(session)
    assert (told.request, told.max_iterations) == ("plot {x} for $x at 100%\n  'é'", 7)
    assert "Working." in printed
    assert "Finished as asked." in printed


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("%%agent", "UsageError: The request is empty."),
        ("%%agent\n", "UsageError: The request is empty."),
        ("%%agent -m x\n   ", "UsageError: The request is empty."),
        (
            "%%agent --modle x\nplot",
            "UsageError: %%agent: there is no flag '--modle'. Did you mean",
        ),
        ("%agent answer", "UsageError: %agent answer: the following arguments are required: WORDS"),
        ("%agent history 1", "Parsimony Agent: There are no turns in this notebook yet."),
        ("%agent tools remove area", "Parsimony Agent: 'area' is no tool of yours."),
        ("%agent show", "Parsimony Agent: There are no turns in this notebook yet."),
        ("%agent redo", "Parsimony Agent: No turn since this kernel started can be re-applied"),
        ("%agent diff", "Parsimony Agent: No turn since this kernel started can be compared"),
        ("%agent model openai/x", "Parsimony Agent: There is no API key for the model 'openai/x'."),
    ],
)
def test_unusable_cell_is_explained_without_traceback(
    session: NotebookSession, said: Said, source: str, sentence: str
) -> None:
    printed = said(source, fails=True)
    assert printed.startswith(sentence)
    assert "Traceback" not in printed
    lines = printed.splitlines()
    assert len(lines) <= 3
    assert sentence.startswith("P") or max(map(len, lines)) <= 72
    assert session.turns() == ()


def test_unopenable_session_is_one_sentence(shell: Any, said: Said) -> None:
    def refuse(_: Any) -> NotebookSession:
        raise SessionError("The folder '/x' cannot be written.")

    install(shell, session_factory=refuse)
    told = said("%%agent\nplot", fails=True)
    assert told.strip() == "Parsimony Agent: The folder '/x' cannot be written."


def test_program_awaits_the_magic(shell: Any, session: NotebookSession) -> None:
    result = shell.run_cell(
        "done = []\n"
        "for words in ('one', 'two'):\n"
        "    done.append(await get_ipython().run_cell_magic('agent', '', words))\n"
    )
    assert result.success
    assert shell.user_ns["done"] == [None, None]
    assert [turn.request for turn in session.turns()] == ["one", "two"]


def test_help_is_the_same_everywhere(shell: Any, session: NotebookSession, said: Said) -> None:
    asked = ("%agent", "%agent -h", "%agent help all", "%agent help flags", "%%agent --help")
    texts = [said(source).strip() for source in asked]
    assert texts[0] == texts[1]
    assert texts[2] == shell.find_cell_magic("agent").__doc__.strip()
    assert texts[3] == texts[4]
    assert "--max-steps N" in shell.object_inspect_mime("%%agent")["text/plain"]
    assert session.turns() == ()


def test_lists_show_what_exists(opened: Start, said: Said) -> None:
    session = opened(call("return_report", title="Steps", body="One."), DONE)
    said("%%agent\nplot it")
    assert "1     done    plot it" in said("%agent history")
    assert "report  Steps" in said("%agent artifacts")
    assert json.loads(said("%agent artifacts --json"))[0]["path"] == session.artifacts()[0].path
    assert "Executions" in said("%agent metrics")
    assert said("%agent model offline") == "Model: offline\n"
    assert said("%agent stop") == "No turn is running.\n"
    assert "There is no artifact 'none'" in said("%agent refresh none", fails=True)


def test_history_shows_one_turn_step_by_step(opened: Start, said: Said) -> None:
    steps = call("<b>lok</b>", at="x"), call("run_code", code="1", purpose="Look")
    session = opened(*steps, DONE, DONE)
    said("%%agent\nlook at it")
    said("%%agent\nand again")
    told = said("%agent history 1")
    assert max(map(len, told.splitlines())) <= 80
    for each in ("look at it", "1 · <b>lok</b> · refused", "Step 2 · Look", "Finished as asked."):
        assert each in told
    assert "and again" not in told
    assert "There is no turn 3 in this notebook" in said("%agent history 3", fails=True)
    magics: Any = SimpleNamespace(session=session)
    shown: Any = history(magics, "1")
    drawn = "".join(each["text/html"] for each in shown)
    assert "&lt;b&gt;lok&lt;/b&gt;" in drawn
    assert "<b>" not in drawn


def test_undo_reports_each_variable(
    session: NotebookSession, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No turn since this kernel started" in said("%agent undo", fails=True)
    said("%%agent\nplot it")
    back = PutBack(("prices",), ("total",), ("rate",), ("model",))
    monkeypatch.setattr(session.past, "undo", lambda *_, **__: (1, back))
    assert said("%agent undo 1").splitlines() == [
        "Turn 1 (plot it) is undone in part. %agent redo re-applies it.",
        "Restored: prices",
        "Removed: total",
        "Kept, as changed or used since: rate",
        "Perhaps changed (there was no copy): model",
        "",
    ]


@pytest.mark.usefixtures("session")
def test_function_becomes_tool_and_is_removed(said: Said) -> None:
    said("def area(width: float) -> float:\n    'The area.'\n    return width")
    none = "You have no tools yet. %agent tools add NAME makes your function one."
    for command, told in (
        ("", [none]),
        (" add area", ["Tool: area. The area."]),
        ("", ["tool  what it does", "area  The area."]),
        (" remove area", ["area is no longer a tool."]),
        ("", [none]),
    ):
        assert [line for line in said(f"%agent tools{command}").splitlines() if line] == told


class Own:
    """A model of the person's."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        yield request


class Nameless(Own):
    """Its name is a look-up that goes wrong."""

    def __init__(self) -> None:
        pass

    @property
    def name(self) -> str:  # type: ignore[override]
        raise ValueError("no")


@pytest.mark.parametrize("name", ["o1", "offline", "openai/gpt-5", "nobody", "offline, o1"])
def test_model_name_wins_over_variable(name: str) -> None:
    assert chosen_model(name, {}) == name
    held = {"o1": Own("mine"), "offline": "x", "mine": Own("mine")}
    assert chosen_model(name, held) == name


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (3, "int"),
        (Own, "type"),
        (Nameless(), "Nameless"),
        (pd.DataFrame({"name": ["a"], "stream": ["b"]}), "DataFrame"),
    ],
)
def test_variable_without_model_is_one_sentence(value: Any, held: str) -> None:
    with pytest.raises(TurnError, match=f"'mine' is of type {held}, not a model"):
        chosen_model("mine", {"mine": value})


@pytest.mark.parametrize(
    "named", ["weird\x1b[31m\nname", "weird\u202ename", "mine, offline", "", " "]
)
def test_model_with_unreadable_name_is_refused(
    shell: Any, session: NotebookSession, said: Said, named: str
) -> None:
    shell.user_ns["mine"] = Own(named)
    assert said("%agent model mine", fails=True) == (
        f"Parsimony Agent: The model in the variable 'mine' is named {named!a}: let its name be "
        "printable text of one line without a comma.\n"
    )
    assert session.model_name == "scripted"


def test_silent_stop_shows_nothing_and_keeps_handlers(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def handler(shell: Any, etype: Any, value: Any, tb: Any, tb_offset: Any = None) -> None:
        print(f"handled {value}")

    shell.set_custom_exc((KeyError,), handler)
    before = (shell.custom_exceptions, shell.CustomTB)
    install(shell)
    shell.user_ns["QuestionPending"] = QuestionPending
    assert not shell.run_cell("raise QuestionPending('x')").success
    assert capsys.readouterr() == ("", "")
    shell.run_cell("raise KeyError('theirs')")
    assert capsys.readouterr().out == "handled 'theirs'\n"
    uninstall(shell)
    assert (shell.custom_exceptions, shell.CustomTB) == before


def test_later_handler_does_not_restore_traceback(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    extension = install(shell)
    shell.set_custom_exc((KeyError,), lambda *args, **kwargs: None)

    async def ask() -> None:
        raise QuestionPending("x")

    shell.user_ns["run"] = lambda: extension.run(lambda turns, stop: ask())
    assert not shell.run_cell("await run()").success
    assert capsys.readouterr() == ("", "")
    assert shell.custom_exceptions == (Silent, KeyError)


def test_unloading_releases_session(shell: Any, session: NotebookSession) -> None:
    shell.run_cell("%%agent\nplot it")
    uninstall(shell)
    with pytest.raises(JournalError, match="closed"):
        session.turns()


@pytest.mark.parametrize(
    "source", ["%agent history", "%agent artifacts", "%agent show", "%agent answer 1"]
)
def test_unreadable_journal_is_one_sentence(
    session: NotebookSession, said: Said, tmp_path: Path, source: str
) -> None:
    said("%%agent\nplot it")
    session.journal.close()
    path = journal_path(tmp_path)
    path.write_bytes(b"not a database" * 999)
    assert said(source, fails=True).startswith("Parsimony Agent: The journal")


@pytest.mark.parametrize("reply", ["-1 or less", "--turn 7 --here", '"quoted" % {x}'])
@pytest.mark.parametrize("taken", [False, True])
def test_outside_caller_answers_any_magic_name_and_text(
    shell: Any, opened: Start, said: Said, monkeypatch: Any, reply: str, taken: bool
) -> None:
    if taken:
        shell.register_magic_function(lambda line: None, magic_kind="line", magic_name="agent")
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    session = opened(ASKS, DONE)
    name = "%parsimony" if taken else "%agent"
    shell.run_cell(f"%{name}\nplot it")
    shell.user_ns |= {"reply": reply, "run_id": session.turns()[0].run_id}
    printed = said("await __import__('parsimony_agent').answer_here(run_id, reply)")
    assert [each.reply for each in begun(session)] == [None, reply]
    assert "Finished as asked." in printed
    assert "plot it" not in printed


def test_outside_caller_is_told_when_agent_is_not_loaded(
    shell: Any, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    told = said("await __import__('parsimony_agent').answer_here('1', '2')", fails=True)
    assert told.strip() == (
        "Parsimony Agent: The agent is not loaded in this shell. "
        "Load it with %load_ext parsimony_agent."
    )


@pytest.mark.parametrize(
    "begun",
    ["get_ipython().run_cell_magic('agent', '', 'wait')", "run()"],
    ids=["in its turn", "before it"],
)
def test_program_cancelling_its_turn_sees_cancellation(
    shell: Any, opened: Start, begun: str
) -> None:
    waits: list[bool] = []

    async def wait(*_: object) -> None:
        waits.append(True)
        await asyncio.Event().wait()

    session = opened(model=HangingModel("mid-stream"))
    shell.user_ns["run"] = lambda: install(shell).run(wait)
    shell.user_ns["is_under_way"] = lambda: waits or session.running
    result = shell.run_cell(
        "import asyncio\n"
        f"turn = asyncio.ensure_future({begun})\n"
        "while not is_under_way():\n"
        "    await asyncio.sleep(0.001)\n"
        "turn.cancel()\n"
        "try:\n"
        "    await turn\n"
        "except asyncio.CancelledError:\n"
        "    seen = True\n"
    )
    assert result.success
    assert shell.user_ns["seen"]
