"""Code that reaches outside, and writes, wait for a person, who allows exactly what they saw."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.events import (
    AgentEvent,
    Handoff,
    PartialRunSummary,
    RunCompleted,
    ToolEvent,
    UserInputRequested,
)
from parsimony_kernel.agent.failure import FailureKind
from parsimony_kernel.gate.approval import Approval, approves
from parsimony_kernel.notebook.turns import SessionError, TurnOptions
from parsimony_kernel.session import NotebookSession
from parsimony_kernel.testing.scripted import call, calls

ENVIRON = {"PARSIMONY_SUSPENSION_SECRET": "a secret for tests"}
DONE = call("return_done", summary="ok")
SHELL = "import subprocess\nout = subprocess.run(['touch', 'made'], check=True)\nout.returncode"


@pytest.fixture
def start(scripted: Any) -> Any:
    return scripted


async def gather(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    return [event async for event in events]


async def ask(session: NotebookSession, approve: Approval = Approval.guarded) -> list[AgentEvent]:
    return await gather(session.turn("do it", cell_key="a", options=TurnOptions(approve=approve)))


def question(events: Sequence[AgentEvent]) -> UserInputRequested:
    last = events[-1]
    assert isinstance(last, UserInputRequested)
    return last


async def test_code_that_starts_a_program_waits_and_runs_as_it_was_shown(
    start: Any, tmp_path: Path
) -> None:
    session = start(call("run_code", code=SHELL), DONE)
    asked = question(await ask(session))
    assert (asked.question, asked.choices) == ("May this code run?", ("Run it", "Do not run it"))
    assert "Line 2 starts another program" in (asked.context or "")
    assert asked.originating_failure_kind is FailureKind.policy_violation
    assert not (tmp_path / "made").exists()

    events = await gather(session.resume("Run it"))
    assert (tmp_path / "made").exists()
    ran = [e for e in events if isinstance(e, ToolEvent) and e.completed]
    assert [(e.arguments["code"], e.ok) for e in ran[:1]] == [(SHELL, True)]
    assert isinstance(events[-1], RunCompleted)
    # The model reads the result where it asked, and what the person said behind it.
    roles = [m["role"] for m in session._model.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "tool", "user", "user"]


@pytest.mark.parametrize("answer", ["Do not run it", "2", "use pandas instead", "never"])
async def test_what_is_not_allowed_is_not_run_and_the_model_is_told(
    start: Any, tmp_path: Path, answer: str
) -> None:
    session = start(call("run_code", code=SHELL), DONE)
    await ask(session)
    events = await gather(session.resume(answer))
    assert not (tmp_path / "made").exists()
    assert isinstance(events[-1], RunCompleted)
    told = [m for m in session._model.requests[-1].messages if m["role"] == "tool"]
    assert "did not allow" in told[0]["content"]


async def test_leave_is_for_one_run_of_one_code(start: Any, tmp_path: Path) -> None:
    other = SHELL.replace("made", "other")
    session = start(*[call("run_code", code=code) for code in (SHELL, other)])
    await ask(session)
    again = question(await gather(session.resume("Run it")))
    assert "Line 2 starts another program" in (again.context or "")
    assert (tmp_path / "made").exists()
    assert not (tmp_path / "other").exists()


async def test_the_same_code_a_second_time_is_asked_about_again(start: Any) -> None:
    session = start(*[call("run_code", code=SHELL)] * 2)
    await ask(session)
    question(await gather(session.resume("Run it")))


async def test_an_answer_is_taken_once_however_often_it_is_given(start: Any) -> None:
    session = start(call("run_code", code=SHELL), DONE)
    await ask(session)
    await gather(session.resume("Run it"))
    for _ in range(3):
        with pytest.raises(SessionError, match="No question"):
            await gather(session.resume("Run it"))


async def test_what_was_changed_after_it_was_shown_is_not_run(start: Any, tmp_path: Path) -> None:
    session = start(call("run_code", code=SHELL), DONE)
    await ask(session)
    (row,) = session._journal.pending(session.notebook)
    changed = row.record.model_dump(mode="json")
    changed["pending_call"]["arguments"] = json.dumps({"code": SHELL.replace("made", "evil")})
    with session._journal.database.transaction() as db:
        db.execute("UPDATE suspensions SET record = ?", (json.dumps(changed),))
    with pytest.raises(SessionError, match="changed after it was sealed"):
        await gather(session.resume("Run it"))
    assert not (tmp_path / "evil").exists()


async def test_plain_analysis_is_not_asked_about_unless_it_is_wished(start: Any) -> None:
    plain = call("run_code", code="import pandas as pd\nx = pd.Series([1, 2]).sum()\nint(x)")
    assert isinstance((await ask(start(plain, DONE)))[-1], RunCompleted)
    asked = question(await ask(start(plain), Approval.always))
    assert "Every step" in (asked.context or "")


async def test_nobody_is_asked_where_that_is_wished(start: Any, tmp_path: Path) -> None:
    events = await ask(start(call("run_code", code=SHELL), DONE), Approval.auto)
    assert isinstance(events[-1], RunCompleted)
    assert (tmp_path / "made").exists()


async def test_calls_behind_one_that_waits_are_not_run(start: Any, tmp_path: Path) -> None:
    session = start(calls(call("run_code", code=SHELL), call("run_code", code="y = 1")), DONE)
    await ask(session)
    await gather(session.resume("Run it"))
    assert "y" not in session.executor.variables()
    told = [m["content"] for m in session._model.requests[-1].messages if m["role"] == "tool"]
    assert ["not_run" in text for text in told] == [False, True]


async def test_a_turn_asks_after_a_restart_as_it_began(start: Any) -> None:
    first = start(call("run_code", code="1 + 1"))
    question(await ask(first, Approval.always))
    second = start(call("run_code", code="2 + 2"))
    question(await gather(second.resume("Run it")))


async def test_what_was_allowed_runs_once_though_no_model_can_be_asked_then(
    start: Any, tmp_path: Path
) -> None:
    class Refused(Exception):
        status_code = 401

    appending = SHELL.replace("['touch', 'made']", "'echo x >> made', shell=True")
    session = start(call("run_code", code=appending), Refused(), DONE)
    await ask(session)
    ended = (await gather(session.resume("Run it")))[-1]
    assert isinstance(ended, Handoff)
    assert session.pending() == ()
    with pytest.raises(SessionError, match="No question"):
        await gather(session.resume("Run it"))
    assert (tmp_path / "made").read_text() == "x\n"


async def test_leave_is_for_what_the_code_reached_when_it_was_given(
    start: Any, tmp_path: Path
) -> None:
    elsewhere = tmp_path.parent
    session = start(call("run_code", code="open(target, 'w').write('x')"))
    await session.executor.execute(f"target = {str(elsewhere / 'one.txt')!r}")
    await ask(session)
    await session.executor.execute(f"target = {str(elsewhere / 'two.txt')!r}")
    again = question(await gather(session.resume("Run it")))
    assert "two.txt" in (again.context or "")
    assert not (elsewhere / "two.txt").exists()


@pytest.mark.parametrize("words", ["Stop here", "please stop"])
async def test_to_stop_is_an_answer_to_every_question(
    start: Any, tmp_path: Path, words: str
) -> None:
    session = start(call("run_code", code=SHELL))
    await ask(session)
    assert isinstance((await gather(session.resume(words)))[-1], PartialRunSummary)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("words", ["yes", "Y", "ok, run it", "Yes please!", "go ahead", "ja", "1"])
async def test_leave_can_be_given_in_plain_words(start: Any, tmp_path: Path, words: str) -> None:
    session = start(call("run_code", code=SHELL), DONE)
    await ask(session)
    await gather(session.resume(words))
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "words", ["", "please", "run it twice", "yes, but only for 2013", "don't run it", "not yet"]
)
def test_what_is_not_plainly_leave_is_none(words: str) -> None:
    assert not approves(words)


async def test_what_was_allowed_is_no_lesson(start: Any) -> None:
    session = start(call("run_code", code=SHELL), DONE)
    await ask(session)
    await gather(session.resume("Run it"))
    assert "lessons_learned" not in session._model.requests[-1].messages[-1]["content"]
