"""A notebook's turns: one at a time, written down, answerable later and elsewhere."""

import asyncio
import itertools
import os
import shutil
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.journal import fill, rounds_of
from parsimony_agent.overview import history
from parsimony_kernel.core.chat import ModelRequest, Usage
from parsimony_kernel.core.events import (
    AgentEvent,
    Handoff,
    RunCancelled,
    RunCompleted,
    StateSnapshot,
    UserInputRequested,
)
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError, TurnOptions
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.provider import LoopbackProvider
from parsimony_kernel.testing.scripted import call, say
from tests.scenarios.loops import Answered

from .session_steps import ASK, DONE, LOAD, begun, gather, question, turn


async def test_turn_events_are_journaled_as_yielded(start: Any) -> None:
    session = start([LOAD, DONE])
    events = await turn(session, "load it")
    begun(events)
    assert events[-1] == RunCompleted(summary="done", variables=("sales",))
    (row,) = session.turns()
    assert (row.ordinal, row.request, row.status, row.summary) == (1, "load it", "done", "done")
    assert session.events(row.run_id) == tuple(events)
    assert session.executor.variables()["sales"]["amount"].sum() == 3


async def test_first_message_has_request_and_inventory(start: Any, folder: Path) -> None:
    executor = CodeExecutor(cwd=str(folder))
    await executor.execute("import pandas as pd\nold = pd.DataFrame({'x': [1, 2]})")
    session = start([DONE], executor)
    events = await turn(session, "what is {old}?")
    (request,) = session._model.requests
    first = "\n".join(message["content"] for message in said(request))
    assert "<request>\nwhat is {old}?\n</request>" in first
    assert '"data/sales.csv"' in first
    assert '"old"' in first
    assert begun(events).shared == ("variables with samples: old", "name of 1 data file")


def said(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation of a request: what follows the instructions."""
    first, *conversation = request.messages
    assert first["role"] == "system"
    return conversation


async def test_published_work_survives_questions(start: Any) -> None:
    publish = call("return_dataset", variable="sales", title="Sales")
    session = start([LOAD, publish, publish, ASK, ASK, DONE])
    asked = question(await turn(session, "publish it"))
    (published,) = session.artifacts()
    code = (session.workspace / published.code_path).read_text("utf-8")
    assert "\n# cell of turn 1 (agent)\n" in code
    minted = {
        "kind": "dataset",
        "logical_id": published.logical_id,
        "content_sha": published.content_sha,
    }
    assert asked.suspension_record.minted_refs == [minted]
    assert asked.suspension_record.minted_live_names == [("dataset", "analysis/sales")]
    again = question(await gather(session.resume("1")))
    assert again.suspension_record.minted_refs == [minted]


@pytest.mark.parametrize(
    ("reply", "taken"),
    [
        ("2", "south"),
        ("1", "1"),
        ('"15"', "15"),
        ("neither", "neither"),
        ("", "empty"),
        ("  ", "empty"),
        ("4", "there are 3"),
        ("0", "there are 3"),
    ],
)
async def test_reply_picks_a_choice_or_is_taken_as_text(start: Any, reply: str, taken: str) -> None:
    choices = ["2012", "south", "1"]
    session = start([call("ask_user", question="Which one?", choices=choices), DONE])
    await turn(session, "sum it")
    if taken in ("empty", "there are 3"):
        with pytest.raises(SessionError, match=taken):
            await gather(session.resume(reply))
        assert len(session.pending()) == 1
        return
    (question,) = session.pending()
    assert (question.record.pending_question, question.record.choices) == ("Which one?", choices)
    resumed = await gather(session.resume(reply))
    assert begun(resumed).reply == taken
    assert isinstance(resumed[-1], RunCompleted)
    assert said(session._model.requests[1])[-1] == {"role": "user", "content": taken}
    assert session.pending() == ()
    assert [turn.status for turn in session.turns()] == ["done"]


async def test_answer_in_another_process_names_lost_variables(start: Any) -> None:
    first = start([LOAD, ASK])
    await turn(first, "sum it")
    second = start([DONE])
    assert begun(await gather(second.resume("north please"))).gone == ("sales",)
    sent = said(second._model.requests[0])
    told, now, reply = sent[-3:]
    assert told["content"] == (
        '<notebook_changes>\n{"gone": ["sales"], "changed": []}\n</notebook_changes>'
    )
    # The inventory of the first process is not told again.
    assert '"variables": []' in now["content"]
    assert [m for m in sent if "<notebook_context>" in str(m["content"])] == [now]
    assert reply["content"] == "north please"


async def test_answer_to_earlier_question_is_not_for_later_one(start: Any) -> None:
    again = call("ask_user", question="Which month?", choices=["all", "none"])
    session = start([ASK, again, DONE])
    await turn(session, "sum it")
    (first,) = session.pending()
    await gather(session.resume("1", turn_id=first.turn.run_id, nonce=first.record.nonce))
    with pytest.raises(SessionError, match="answered already"):
        await gather(session.resume("1", turn_id=first.turn.run_id, nonce=first.record.nonce))
    (second,) = session.pending()
    assert second.record.pending_question == "Which month?"


async def test_resumed_turn_keeps_its_limits(start: Any) -> None:
    session = start([ASK, LOAD, DONE])
    await turn(session, "sum it", max_iterations=2)
    assert "2 of 2 steps" in str(question(await gather(session.resume("1"))).context)


async def test_alias_parameters_and_effort_survive_question(start: Any) -> None:
    session = start()
    with LoopbackProvider([ASK, DONE, DONE]) as server:
        session.configure(
            {
                "OPENAI_BASE_URL": server.url,
                "PARSIMONY_MODEL_ALIASES": "quick=openai/gpt-5-mini",
                "PARSIMONY_MODEL_PARAMETERS": "seed=7, service_tier=flex",
                "PARSIMONY_EFFORT": "low",
            }
        )
        session.set_model("quick")
        assert session.model_name == "openai/gpt-5-mini"
        first = begun(await turn(session, effort="high"))
        await gather(session.resume("1"))
        await turn(session, "go", cell="b")
    bodies = [each.body for each in server.requests]
    assert [body["reasoning_effort"] for body in bodies] == ["high", "high", "low"]
    assert {(body["model"], body["seed"], body["service_tier"]) for body in bodies} == {
        ("gpt-5-mini", 7, "flex")
    }
    assert first.model == "openai/gpt-5-mini"


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("PARSIMONY_MODEL_ALIASES", "quick", "names and values"),
        ("PARSIMONY_MODEL_ALIASES", "quick=7", "names with their models"),
        ("PARSIMONY_MODEL_PARAMETERS", "temperature", "names and values"),
        ("PARSIMONY_MODEL_PARAMETERS", "api_key=abc", "a key belongs in the environment"),
        ("PARSIMONY_MODEL_PARAMETERS", '{"messages": []}', "messages is the agent's own"),
    ],
)
async def test_unreadable_model_settings_say_what_is_allowed(
    start: Any, variable: str, text: str, told: str
) -> None:
    session = start()
    session.configure({variable: text})
    with pytest.raises(SessionError, match=told):
        session.set_model("ollama/llama3")


async def test_failing_journal_leaves_question_waiting(start: Any) -> None:
    session = start([ASK, DONE])
    await turn(session, "sum it")
    with session.journal.transaction() as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    with pytest.raises(SessionError):
        await gather(session.resume("1"))
    with session.journal.transaction() as db:
        db.execute("DROP TRIGGER full")
    assert [turn.status for turn in session.turns()] == ["suspended"]
    assert isinstance((await gather(session.resume("1")))[-1], RunCompleted)


async def test_unreadable_artifacts_are_found_before_anything_is_answered_or_replaced(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = start([ASK, DONE])
    await turn(session, "sum it")

    def refuse(*_: object) -> None:
        raise StorageError("no permission")

    with monkeypatch.context() as unreadable:
        unreadable.setattr(session.store, "list", refuse)
        with pytest.raises(SessionError):
            await gather(session.resume("1"))
        with pytest.raises(SessionError):
            await turn(session, "sum it")
    assert [turn.status for turn in session.turns()] == ["suspended"]
    assert isinstance((await gather(session.resume("1")))[-1], RunCompleted)


async def test_deleted_workspace_is_recreated(start: Any, folder: Path) -> None:
    session = start([DONE, DONE])
    await turn(session, "first")
    shutil.rmtree(folder / ".ockham")
    await turn(session, "second", cell="b")
    assert (folder / ".ockham" / "journal.sqlite").is_file()
    assert [turn.request for turn in session.turns()] == ["second"]


async def test_expired_question_is_not_offered(start: Any) -> None:
    session = start([ASK])
    await turn(session, "sum it")
    later = ManualClock(datetime.now(UTC) + timedelta(days=8))
    session.clock = session.journal.clock = later
    assert session.pending() == ()
    with pytest.raises(SessionError, match="days ago"):
        await gather(session.resume("1", turn_id=session.turns()[0].run_id))


@pytest.mark.parametrize("name", ["analysis .ipynb", "aux.ipynb", "گزارش‌ها.ipynb"])
async def test_notebook_of_any_name_works(folder: Path, scripted: Any, name: str) -> None:
    publish = call("return_dataset", variable="sales", title="Sales")
    session = scripted(LOAD, publish, DONE, folder=folder, notebook=name)
    events = await turn(session, "publish")
    assert isinstance(events[-1], RunCompleted)
    assert len(session.artifacts()) == 1


async def test_empty_request_is_refused_with_example(start: Any) -> None:
    session = start()
    with pytest.raises(SessionError, match="for example"):
        await turn(session, " \n")
    assert session.turns() == ()


async def test_departed_consumer_cancels_turn(start: Any) -> None:
    session = start([LOAD, DONE])
    running = session.turn("load it", cell_key="a")
    await anext(running)
    await running.aclose()
    (row,) = session.turns()
    assert row.status == "cancelled"
    assert isinstance(session.events(row.run_id)[-1], RunCancelled)
    assert not session.stop()


async def test_unwritable_workspace_is_one_sentence(start: Any, folder: Path) -> None:
    (folder / ".ockham").write_text("in the way")
    with pytest.raises(SessionError) as caught:
        start()
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_question_answered_meanwhile_is_not_resumed(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = start([ASK])
    await turn(asking, "sum it")
    slow, quick = start([DONE]), start([DONE])
    resume_turn = slow.journal.resume_turn

    def asleep(*arguments: Any, **named: Any) -> bool:
        """The machine sleeps just before, and another process answers meanwhile."""
        other = threading.Thread(target=lambda: asyncio.run(gather(quick.resume("south"))))
        other.start()
        other.join()
        return bool(resume_turn(*arguments, **named))

    monkeypatch.setattr(slow.journal, "resume_turn", asleep)
    with pytest.raises(SessionError, match="answered elsewhere"):
        await gather(slow.resume("north"))
    assert (len(slow._model.requests), len(quick._model.requests)) == (0, 1)
    assert [turn.status for turn in slow.turns()] == ["done"]


async def test_question_waits_when_no_model_answers(start: Any) -> None:
    session = start([ASK, Answered(401), DONE])
    await turn(session, "sum it")
    ended = (await gather(session.resume("north")))[-1]
    assert isinstance(ended, Handoff)
    assert "%agent answer" in ended.suggested_next_steps[-1]
    (question,) = session.pending()
    assert question.record.pending_question == "Which region?"
    assert [turn.status for turn in session.turns()] == ["suspended"]
    assert (await gather(session.resume("north")))[-1] == RunCompleted(summary="done")
    assert session.pending() == ()


async def test_after_a_restart_the_turn_makes_its_own_tables_again(
    folder: Path, scripted: Any
) -> None:
    def begun() -> Any:
        executor = CodeExecutor(cwd=str(folder))
        return NotebookSession(executor=executor, notebook="work.ipynb", folder=folder)

    first, ask = begun(), TurnOptions(approve=Approval.ask)
    request = "load data/sales.csv, then sum amount by region"
    await gather(first.turn(request, cell_key="a", options=ask))
    await gather(first.resume("1"))
    first.close()
    session = begun()
    ended = [(await gather(session.resume("1")))[-1] for _ in range(3)][-1]
    assert isinstance(ended, RunCompleted)
    assert "Highest total amount: south, 2." in ended.summary
    session.close()


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_question_waits_on_only_where_its_variables_are_gone(
    start: Any, is_restarted: bool
) -> None:
    unable = call("return_unable", rationale="No sales here.", blockers=["sales is missing"])
    session = start([LOAD, ASK, unable, DONE])
    await turn(session, "sum it")
    if is_restarted:
        session = start([unable, DONE])
    ended = (await gather(session.resume("north")))[-1]
    assert isinstance(ended, Handoff)
    assert [turn.status for turn in session.turns()] == [
        "suspended" if is_restarted else "handed_off"
    ]
    if is_restarted:
        assert "%agent answer" in ended.suggested_next_steps[-1]
        assert (await gather(session.resume("north")))[-1] == RunCompleted(summary="done")
    assert session.pending() == ()


async def test_budget_belongs_to_turn_and_shows_raise(start: Any) -> None:
    spent = replace(LOAD, usage=Usage(20_000, 0))
    session = start([spent, DONE])
    events = await turn(session, "load it", max_tokens=21_000)
    assert begun(events).max_tokens == 21_000
    question(events)
    with pytest.raises(SessionError, match="answer 'Go on' or 'Stop here'"):
        await gather(session.resume("hm"))
    went_on = await gather(session.resume("Go on"))
    assert begun(went_on).max_tokens == 41_000
    assert went_on[-1] == RunCompleted(summary="done", variables=("sales",))


async def test_comma_separated_names_are_a_chain(start: Any) -> None:
    session = start([])
    with pytest.raises(SessionError, match="There is no model 'nobody' without its provider"):
        session.set_model("offline, nobody")
    session.set_model("offline, offline")
    assert session.model_name == "offline, offline"


async def test_stopped_run_tells_its_duration(start: Any) -> None:
    def stop(request: object) -> Any:
        assert session.stop("enough")
        return say("too late")

    session = start([LOAD, stop])
    *_, before, end = await turn(session, "load")
    assert end == RunCancelled(reason="enough")
    assert session.turns()[0].status == "cancelled"
    assert isinstance(before, StateSnapshot)
    assert before.variables == ("sales",)
    assert before.elapsed_s > 0


async def test_answered_choice_holds_until_reset_or_kernel_end(folder: Path, scripted: Any) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.csv").write_text("town,temp_max,temp_min\nUlm,3,1\nKiel,2,0\n")

    def kernel() -> NotebookSession:
        session: NotebookSession = scripted(folder=folder, model="offline")
        return session

    async def end(session: NotebookSession, cell: str, name: str) -> AgentEvent:
        request = f"load {name}.csv and show the mean temp"
        return (await gather(session.turn(request, cell_key=cell)))[-1]

    session = kernel()
    for cell, name, is_asked in (
        ("c1", "a", True),
        ("c1", "a", False),
        ("c2", "a", False),
        ("c2", "b", True),
    ):
        last = await end(session, cell, name)
        assert isinstance(last, UserInputRequested) is is_asked
        if is_asked:
            last = (await gather(session.resume("temp_min")))[-1]
        assert isinstance(last, RunCompleted)
        assert ("Read 'temp' as temp_min, as before." in last.summary) is not is_asked
    session.reset()
    assert isinstance(await end(session, "c1", "a"), UserInputRequested)
    await gather(session.resume("temp_min"))
    session.close()
    assert isinstance(await end(kernel(), "c3", "a"), UserInputRequested)


async def test_turns_of_another_notebook_are_read_only(folder: Path, scripted: Any) -> None:
    await gather(scripted(DONE, folder=folder).turn("go", cell_key="a"))
    copy = scripted(folder=folder, notebook="copy.ipynb")
    assert copy.turns() == ()
    told: Any = history(cast("Any", SimpleNamespace(session=copy)), **{"from": "analysis.ipynb"})
    assert "go" in told["text/plain"]
    assert copy.turns() == ()


async def test_reused_process_id_is_not_waited_for(start: Any) -> None:
    session = start([DONE])
    with session.journal.transaction() as db:
        db.execute(
            "INSERT INTO turns (run_id, notebook, cell_key, ordinal, request, model, status, "
            "started_at, running_since, pid) "
            "VALUES ('x', 'analysis.ipynb', 'z', 1, '', '', 'running', '', ?, ?)",
            ("2001-01-01T00:00:00+00:00", os.getppid()),
        )
    assert isinstance((await turn(session, "sum"))[-1], RunCompleted)


@pytest.mark.parametrize("notebooks", [1, 8], ids=["one notebook", "eight"])
async def test_turn_costs_as_much_in_a_large_journal(tmp_path: Path, notebooks: int) -> None:
    """Counted in the steps of SQLite's virtual machine, a hundred at a time."""

    def steps(session: NotebookSession) -> Any:
        counted = itertools.count()
        with session.journal.reading("count in") as db:
            db.set_progress_handler(lambda: next(counted) < 0, 100)
        return lambda: next(counted)

    took = []
    for turns in (120, 480):
        folder = tmp_path / str(turns)
        folder.mkdir()
        fill(folder, turns, notebooks)
        took.append(await rounds_of(folder, 1, steps))
    for kind, (few,) in took[0].items():
        assert took[1][kind][0] <= few + 1, f"{kind}: {took}"
