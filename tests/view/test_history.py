"""The story of a turn: each step, what came of it, how it was recovered, how it ended."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.refusals import GUIDANCE, RefusalError
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.storage.store import SqliteJournal
from parsimony_kernel.testing.clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, call, say
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.history import Line, story

BEGUN = ev.RunStarted(run_id="r", request="go", model="m")
LOOK = ev.ToolEvent(tool_name="look", tool_call_id="c1", arguments={"at": "x"})
DONE = ev.RunCompleted(summary="All is well.")
RECORD = SuspensionRecord(
    run_id="r", session_id="s", suspension_token="n.h", suspended_at="2026-01-01T00:00:00Z"
)


def troubles(told: Iterable[Line]) -> tuple[int, int]:
    """How many actions were refused, and how much failed."""
    outcomes = [line.outcome for line in told]
    return outcomes.count("refused"), outcomes.count("failed")


def ended(**told: Any) -> ev.ToolEvent:
    return LOOK.model_copy(update={"completed": True, "ok": False, **told})


def lines(*events: ev.AgentEvent) -> list[Line]:
    """What is told between the request and the end."""
    first, *told, last = story([BEGUN, *events, DONE])
    assert first == Line("", "request", "", "go")
    assert last == Line("", "end", "done", "All is well.")
    return told


def test_a_step_that_worked_says_what_it_was_for() -> None:
    assert lines(LOOK, ended(ok=True)) == [Line("1", "look", "ok", "at: x")]
    purpose = LOOK.model_copy(update={"arguments": {"purpose": "See x", "code": "x"}})
    assert lines(purpose, ended(ok=True)) == [Line("1", "look", "ok", "See x")]


@pytest.mark.parametrize("error", list(RefusalError))
def test_a_refused_action_did_not_run_and_a_failed_one_did(error: RefusalError) -> None:
    failure = Failure(FailureKind.tool_error, "It cannot be.")
    answer = {"error": error, "message": "It cannot be."}
    (line,) = lines(LOOK, ended(result=answer, failure=failure))
    outcome = "refused" if error in GUIDANCE else "failed"
    assert line == Line("1", "look", outcome, "It cannot be.")
    assert troubles([line]) == ((1, 0) if error in GUIDANCE else (0, 1))


def failed(failure: Failure) -> ev.ToolEvent:
    return ended(result={"error": "action_error", "message": failure.explanation}, failure=failure)


BROKEN = Failure(FailureKind.tool_error, "It broke.")


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"action": "retry", "attempt": 1, "budget": 2}, "trying again, attempt 1 of 2"),
        ({"action": "narrow_scope"}, "going on with a smaller task"),
        (
            {"action": "narrow_scope", "strategy": "ROLLBACK", "put_back": "As before: x."},
            "going back — As before: x.",
        ),
        ({"action": "retry", "fallback": "second"}, "going on with second"),
        ({"action": "retry", "recoverable": False}, "this cannot be recovered"),
    ],
)
def test_what_failed_is_told_once_and_then_how_it_was_recovered(
    told: dict[str, Any], words: str
) -> None:
    answer = ev.AgentError(
        **{"message": "It broke.", "failure": BROKEN, "recoverable": True, **told}
    )
    observed = ev.ToolResultObserved(tool_name="look", tool_call_id="c1", content="{}", ok=False)
    after_a_step = lines(LOOK, failed(BROKEN), observed, answer)
    assert after_a_step == [
        Line("1", "look", "failed", "It broke."),
        Line("", "recovery", "", words),
    ]
    alone = lines(answer)
    assert alone == [Line("", "recovery", "failed", f"It broke. — {words}")]
    assert troubles(after_a_step) == troubles(alone) == (0, 1)


def test_the_same_failure_of_two_steps_is_two_failures() -> None:
    again = LOOK.model_copy(update={"tool_call_id": "c2"})
    second = failed(BROKEN).model_copy(update={"tool_call_id": "c2"})
    assert troubles(lines(LOOK, failed(BROKEN), again, second)) == (0, 2)


def asks(**told: Any) -> ev.UserInputRequested:
    return ev.UserInputRequested(suspension_record=RECORD, **told)


def test_a_question_stands_with_its_choices_and_its_answer() -> None:
    question = asks(question="Which?", context="Two fit.", choices=("a", "b"))
    assert lines(question, BEGUN.model_copy(update={"reply": "b", "gone": ("df",)})) == [
        Line("", "question", "asked", "Which? — Two fit. — 1 a; 2 b"),
        Line("", "answer", "", "b"),
    ]


def test_a_question_about_a_limit_or_an_approval_is_told_once() -> None:
    limit = asks(
        question="Go on?",
        context="All steps are used.",
        originating_failure_kind=FailureKind.iteration_limit,
    )
    assert lines(limit) == [Line("", "question", "asked", "Go on? — All steps are used.")]
    approval = asks(
        question="May it run?",
        context="It deletes.",
        originating_failure_kind=FailureKind.policy_violation,
    )
    held = ended(ok=None, result={"waiting": "approval"})
    assert list(story([BEGUN, LOOK, held, approval]))[1:] == [
        Line("1", "look", "waiting", "at: x"),
        Line("", "question", "asked", "May it run? — It deletes."),
    ]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (
            ev.Handoff(
                rationale="No data.",
                blockers=("No data.", "no file"),
                suggested_next_steps=("load",),
            ),
            [Line("", "end", "not done", "No data. — Why: no file — Try: load")],
        ),
        (
            ev.Handoff(rationale="It broke.", failure=BROKEN),
            [Line("", "end", "not done", "It broke.")],
        ),
        (ev.PartialRunSummary(missing="All."), [Line("", "end", "stopped", "All.")]),
        (ev.RunCancelled(reason="Stop"), [Line("", "end", "cancelled", "Stop")]),
    ],
)
def test_a_story_says_how_it_ended(end: ev.AgentEvent, expected: list[Line]) -> None:
    assert list(story([BEGUN, end]))[1:] == expected


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            ev.TurnTakenBack(restored=("a", "b"), removed=("c",), kept=("d",), lost=("e",)),
            Line(
                "",
                "variables",
                "undone",
                "a, b, c — changed since, so kept: d — perhaps changed, for there was no copy: e",
            ),
        ),
        (
            ev.TurnTakenBack(restored=("a",), removed=("c",), redone=True),
            Line("", "variables", "re-applied", "a, c"),
        ),
    ],
)
def test_a_turn_that_was_taken_back_has_an_end_and_then_that(
    event: ev.TurnTakenBack, line: Line
) -> None:
    told = story([BEGUN, DONE, event])
    assert told[1:] == (Line("", "end", "done", "All is well."), line)
    assert ev.parse_event(event.model_dump(mode="json")) == event
    assert not ev.is_terminal(event)


def test_a_record_looks_the_same_when_its_turn_was_taken_back() -> None:
    events = [BEGUN, LOOK, ended(ok=True), DONE]
    assert replay([*events, ev.TurnTakenBack(restored=("a",))]) == replay(events)


async def test_an_undo_is_in_the_journal_and_the_journal_still_holds(tmp_path: Path) -> None:
    journal = SqliteJournal(str(tmp_path / "journal.db"))
    journal.begin_turn("r", notebook="n.ipynb", cell_key="c", request="go", model="m")
    for event in (BEGUN, DONE):
        journal.append("r", event)
    journal.end_turn("r", "done", "All is well.")
    journal.append("r", ev.TurnTakenBack(removed=("x",)))
    assert journal.verify() is None
    turn = journal.turn("r")
    assert turn is not None
    assert (turn.status, turn.summary) == ("done", "All is well.")
    assert story(journal.events("r"))[-1].words == "x"
    journal.close()


def test_a_step_that_was_cut_off_and_a_turn_without_an_end_are_said_to_be_that() -> None:
    _, step, last = story([BEGUN, LOOK])
    assert (step.outcome, last.outcome) == ("unfinished", "open")
    _, step, _ = story([BEGUN, LOOK, ended(result={"stopped": True}), ev.RunCancelled()])
    assert step.outcome == "stopped"
    assert story([]) == ()


def test_what_a_terminating_tool_says_is_the_end_and_its_refusal_is_a_step() -> None:
    done = ev.ToolEvent(tool_name="return_done", tool_call_id="d", tool_type="termination")
    passed = done.model_copy(update={"completed": True, "ok": True})
    assert lines(done, passed) == []
    answer = {"error": "validation_failed", "message": "Part two is open."}
    refused = passed.model_copy(update={"ok": False, "result": answer})
    assert lines(done, refused) == [Line("1", "return_done", "refused", "Part two is open.")]


def test_prose_and_counters_have_no_line_and_long_words_are_cut() -> None:
    talk = (
        ev.TextDelta(content="Well"),
        ev.StateSnapshot(iteration=1),
        ev.ReasoningDelta(content="x"),
    )
    assert lines(*talk) == []
    (line,) = lines(LOOK, ended(result={"error": "action_error", "message": "x" * 100_000}))
    assert len(line.words) == 2_000


async def test_a_real_turn_reads_the_same_after_a_restart(tmp_path: Path) -> None:
    def opened(*steps: Any) -> NotebookSession:
        return NotebookSession(
            executor=CodeExecutor(cwd=str(tmp_path)),
            notebook="a.ipynb",
            folder=tmp_path,
            model=ScriptedModel(steps),
            environ={"PARSIMONY_SUSPENSION_SECRET": "a secret for tests"},
            clock=ManualClock(),
        )

    session = opened(
        ConnectionError("reset"),
        call("run_code", code="1/0", purpose="Divide"),
        call("run_code", code="x = 1", purpose="Set x"),
        call("lok", at="x"),
        call("run_code", code="y = 1"),
        say("I think so:"),
        call("ask_user", question="Which?", choices=["a", "b"]),
        call("return_unable", rationale="No data.", blockers=["no file"]),
    )
    async for _ in session.turn("go", cell_key="a"):
        pass
    async for _ in session.resume("2"):
        pass
    (turn,) = session.turns()
    told = story(session.events(turn.run_id))
    session.close()
    assert [(line.step, line.what, line.outcome) for line in told] == [
        ("", "request", ""),
        ("", "recovery", "failed"),
        ("1", "run_code", "failed"),
        ("", "recovery", ""),
        ("2", "run_code", "ok"),
        ("3", "lok", "refused"),
        ("4", "run_code", "ok"),
        ("", "recovery", "failed"),
        ("", "question", "asked"),
        ("", "answer", ""),
        ("", "end", "not done"),
    ]
    assert troubles(told) == (1, 3)
    again = opened()
    assert story(again.events(turn.run_id)) == told
    again.close()
