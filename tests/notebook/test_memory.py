"""What later turns know of earlier ones, how a cell that runs again takes the place of what it did
before, and how turns are forgotten."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import astuple, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core import events as ev
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.session import context
from parsimony_kernel.session.context import earlier_turns
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal, TurnRow, purge
from parsimony_kernel.testing.scripted import call
from tests.session.session_steps import ASK, begun, code, gather, mine

Start = Callable[..., NotebookSession]

DONE = call("return_done", summary="It is done.")
UNABLE = call("return_unable", rationale="There is no such file.", blockers=["other.csv"])


async def turn(session: NotebookSession, cell: str, request: str = "go on") -> ev.RunStarted:
    """Run a turn in ``cell``; how it began."""
    return begun(await gather(session.turn(request, cell_key=cell)))


def value(session: NotebookSession, name: str) -> Any:
    return session.executor.variables()[name]


def names(session: NotebookSession) -> set[str]:
    return {name for name in session.executor.variables() if name != "pd"}


# -- what is told


def row(number: int, status: str = "done", request: str = "", **given: Any) -> TurnRow:
    return TurnRow(
        run_id=f"r{number}",
        notebook="n.ipynb",
        cell_key=f"cell {number}",
        ordinal=number,
        request=request or f"request {number}",
        model="offline",
        status=status,
        started_at="",
        **{"summary": f"summary {number}", **given},
    )


def told(
    rows: Sequence[TurnRow],
    events: dict[str, list[ev.AgentEvent]] | None = None,
    *,
    cell_key: str = "now",
    most: int = context.MOST_TURNS,
    **given: Any,
) -> list[tuple[str, str]]:
    """What is told of ``rows``: each request with its answer."""
    with closing(SqliteJournal(":memory:")) as journal:
        with journal.transaction() as db:
            values = f"INSERT INTO turns VALUES ({', '.join('?' * len(fields(TurnRow)))})"
            db.executemany(values, map(astuple, rows))
        found = journal.context("n.ipynb", cell_key, most)
    messages = earlier_turns(found, lambda run_id: (events or {}).get(run_id, []), **given)
    assert [m.role for m in messages] == ["user", "assistant"] * (len(messages) // 2)
    texts = [str(m.content) for m in messages]
    return list(zip(texts[::2], texts[1::2], strict=True))


def did(tool: str, *, ok: bool = True, **arguments: object) -> ev.ToolEvent:
    return ev.ToolEvent(
        tool_name=tool,
        tool_call_id=tool,
        tool_type="code" if tool == "run_code" else "function",
        arguments=arguments,
        completed=True,
        ok=ok,
    )


@pytest.mark.parametrize(
    ("status", "codes", "kept"),
    [
        ("done", [("a = 1", True), ("a.b", False), ("c = 2\n", True)], "a = 1\n\nc = 2"),
        ("done", [("a" * 2_000, True), ("b" * 1_400, True)], f"{'a' * 1_498} …"),
        (
            "done",
            [("a = 1", True), (f"b = '''{'b' * 1_000}\nb'''\nc = 2\n" * 2, True)],
            f"a = 1\n\nb = '''{'b' * 1_000}\nb'''\nc = 2\n…",
        ),
        ("stopped", [("a = 1", True)], None),
        ("done", [], None),
    ],
)
def test_finished_turn_is_recalled_with_working_code(
    status: str, codes: list[tuple[str, bool]], kept: str | None
) -> None:
    events: list[ev.AgentEvent] = [did("run_code", ok=ok, code=code) for code, ok in codes]
    [(request, _)] = told([row(1, status)], {"r1": events})
    behind = "" if kept is None else f"\n<code_that_ran>\n{kept}\n</code_that_ran>"
    assert request == f"<request>\nrequest 1\n</request>{behind}"


@pytest.mark.parametrize("status", ["suspended", "handed_off", "stopped", "cancelled"])
def test_unfinished_turn_is_recalled_in_one_clause(status: str) -> None:
    ((_, answer),) = told([row(1, status, summary="because\nof " + "x" * 5_000)])
    assert answer.startswith("Not done")
    assert "because of x" in answer
    assert "\n" not in answer
    assert len(answer) < 400
    assert told([row(1, status, summary="")])[0][1].endswith(".")


def test_unfinished_turn_recalls_its_effects() -> None:
    answered = ev.ToolResultObserved(
        tool_name="record", tool_call_id="record", content="receipt R-1"
    )
    events: list[ev.AgentEvent] = [did("record", n=1), did("look", ok=False), answered]
    ((_, answer),) = told([row(1, "handed_off", summary="no provider")], {"r1": events})
    assert answer == (
        "Not done; it was handed back: no provider\n"
        'Done before that, and not to be done again:\nrecord {"n": 1}: receipt R-1'
    )


def test_rerun_cell_recalls_what_it_did_before_kernel_died() -> None:
    own, recorded = replace(row(1, "replaced"), summary=""), did("record", n=1)
    ((_, answer),) = told([own], {"r1": [recorded]}, cell_key="cell 1")
    assert answer.splitlines()[-1] == 'record {"n": 1}: ok'
    assert (
        told([own], {"r1": [recorded, ev.RunCompleted(summary="Done.")]}, cell_key="cell 1") == []
    )
    assert told([own], {"r1": []}, cell_key="cell 1") == []


@pytest.mark.parametrize("status", ["running", "replaced", "forgotten"])
def test_running_or_removed_turn_is_not_recalled(status: str) -> None:
    assert [request for request, _ in told([row(1), row(2, status)])] == [told([row(1)])[0][0]]


def test_cells_own_and_purged_turns_are_not_recalled() -> None:
    purged = replace(row(2), request="", summary="")
    assert told([row(1), purged, row(3)], cell_key="cell 1") == told([row(3)])


def test_long_text_is_cut_and_request_keeps_its_form() -> None:
    long = row(1, request="a" * 300_000, summary="b" * 50_000)
    ((request, answer),) = told([long])
    assert len(request) < context.REQUEST_CHARS + 30
    assert request.startswith("<request>\naaa")
    assert request.endswith(" …\n</request>")
    assert len(answer) == context.SUMMARY_CHARS
    assert answer.endswith(" …")


def test_newest_turns_are_recalled_when_space_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(n, request=f"{n} " + "a" * 500, summary="b" * 900) for n in range(1, 10)]
    whole = told(rows)
    assert sum(len(request) + len(answer) for request, answer in whole) <= context.MOST_CHARS
    assert [request[10] for request, _ in whole] == ["5", "6", "7", "8", "9"]
    assert len(told([row(n) for n in range(50)])) == context.MOST_TURNS
    assert whole[0][0].endswith("(Left out: turns 1 to 4.)")
    assert "Left out" not in str(whole[1:])
    monkeypatch.setattr(context, "MOST_CHARS", 100)
    assert told(rows) == []


def test_code_of_older_turns_goes_before_turns_do() -> None:
    rows = [row(n) for n in range(1, 13)]
    codes: dict[str, list[ev.AgentEvent]] = {
        f"r{n}": [did("run_code", code=f"x{n} = '{'a' * 1_400}'")] for n in range(1, 13)
    }
    whole = told(rows, codes, most=100)
    assert len(whole) == context.MOST_TURNS
    assert ["code_that_ran" in request for request, _ in whole] == [False] * 4 + [True] * 6
    assert whole[0][0].endswith("(Left out: turns 1 to 2.)")


BACK, AGAIN = ev.TurnTakenBack(removed=("x",)), ev.TurnTakenBack(restored=("x",), redone=True)
ENDED = ev.RunCompleted(summary="summary 1")


@pytest.mark.parametrize(
    ("events", "is_back"),
    [
        ([ENDED], False),
        ([ENDED, BACK], True),
        ([ENDED, BACK, AGAIN], False),
        ([ENDED, BACK, AGAIN, BACK], True),
        (
            [ENDED, BACK, ev.RunStarted(run_id="r1", request="", model="", reply="yes"), ENDED],
            False,
        ),
    ],
)
def test_undone_turn_is_recalled_as_undone(events: list[ev.AgentEvent], is_back: bool) -> None:
    ((_, answer),) = told([row(1)], {"r1": events})
    assert answer.startswith("Undone by the person since") is is_back
    assert (answer == "summary 1") is not is_back


async def test_next_turn_knows_of_undo(scripted: Start) -> None:
    session = scripted(code("x = 1"), DONE, DONE)
    await turn(session, "a")
    session.past.undo()
    await turn(session, "b")
    sent = [str(m["content"]) for m in session._model.requests[-1].messages]  # type: ignore[union-attr]
    assert any(each.startswith("Undone by the person since") for each in sent)
    assert "It is done." not in sent


# -- a cell that runs again


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ("import pandas as pd\nit = pd.DataFrame({'n': [1, 2]})", "it['n'] *= 10"),
        ("import pandas as pd\nit = pd.DataFrame({'n': [1, 2]})", "it = it.iloc[1:]"),
        ("it = [1, [2], 3]", "it.pop(0); it[0].append(4)"),
        ("it = {'n': {1}}", "it['n'].add(2); it['m'] = it.pop('n')"),
    ],
    ids=["a frame", "a frame bound anew", "a list", "a dict"],
)
@pytest.mark.parametrize("place", ["private", "notebook"])
async def test_rerun_cell_applies_its_change_once(
    scripted: Start, shell: Any, given: str, change: str, place: str
) -> None:
    executor = NotebookExecutor(shell) if place == "notebook" else None
    session = scripted(*[code(change), DONE] * 3, executor=executor)
    await mine(session, given)
    once: dict[str, Any] = {}
    exec(f"{given}\n{change}", once)
    for again in range(3):
        started = await turn(session, "a", "once more")
        assert started.replaced == (("it",) if again else ())
        assert str(value(session, "it")) == str(once["it"])


async def test_earlier_bindings_of_cell_are_removed(scripted: Start) -> None:
    session = scripted(code("x = 1; y = x"), DONE, code("x = 2"), DONE)
    await mine(session, "y = 'mine'")
    await turn(session, "a")
    started = await turn(session, "a")
    assert started.replaced == ("y", "x")
    assert (value(session, "x"), value(session, "y")) == (2, "mine")
    assert '"replaceable": ["x"]' in str(session._model.requests[2].messages)  # type: ignore[union-attr]
    first, _ = session.turns()
    assert session.events(first.run_id)[-1] == ev.TurnTakenBack(restored=("y",), removed=("x",))


async def test_later_bindings_and_changes_stay(scripted: Start) -> None:
    session = scripted(code("x = [1]; y = [1]; z = 1"), DONE, code("w = 1"), DONE)
    await turn(session, "a")
    await mine(session, "x.append('mine'); y = 'mine'")
    started = await turn(session, "a")
    assert started.replaced == ("z",)
    assert names(session) == {"x", "y", "w"}
    assert (value(session, "x"), value(session, "y")) == ([1, "mine"], "mine")


@pytest.mark.parametrize("end", [UNABLE, ASK], ids=["handed off", "asks"])
async def test_replaced_turn_is_redoable_until_new_one_finishes(scripted: Start, end: Any) -> None:
    session = scripted(code("x = 1; y = 1"), DONE, code("y = 2"), end)
    await turn(session, "a")
    await turn(session, "a")
    assert names(session) == {"y"}
    session.past.undo()
    assert session.past.undo(redo=True)[0] == 1
    assert (value(session, "x"), value(session, "y")) == (1, 1)


async def test_replaced_turn_is_not_redoable_after_success(scripted: Start) -> None:
    session = scripted(code("x = 1"), DONE, code("y = 2"), DONE)
    await turn(session, "a")
    await turn(session, "a")
    with pytest.raises(SessionError, match="can be re-applied"):
        session.past.undo(redo=True)
    assert session.past.undo()[0] == 2
    assert session.past.undo(redo=True)[0] == 2
    assert names(session) == {"y"}


async def test_waiting_turn_is_undone_when_cell_reruns(scripted: Start) -> None:
    session = scripted(code("x = [1]"), ASK, code("x.append(2)"), ASK, code("y = 1"), DONE)
    await turn(session, "a")
    await gather(session.resume("1"))
    assert (await turn(session, "a")).replaced == ("x",)
    assert names(session) == {"y"}
    assert session.pending() == ()


async def test_undo_withdraws_question_and_redo_asks_it_again(scripted: Start) -> None:
    session = scripted(code("x = [1]"), ASK, ASK)
    await turn(session, "a")
    assert [session.past.undo()[0], session.pending()] == [1, ()]
    with pytest.raises(SessionError):
        await gather(session.resume("1"))
    assert [session.past.undo(redo=True)[0], len(session.pending())] == [1, 1]
    await turn(session, "b")  # it only asks, and is newer
    assert session.past.undo() == (2, PutBack())
    assert [each.turn.ordinal for each in session.pending()] == [1]
    assert names(session) == {"x"}


async def test_newer_of_two_replaced_turns_is_undone_first(scripted: Start) -> None:
    session = scripted(code("x.append(1)"), DONE, code("x.append(2)"), UNABLE, code("x.append(3)"))
    await mine(session, "x = [0]")
    await turn(session, "a")
    await turn(session, "a")
    assert value(session, "x") == [0, 2]
    stopped = session.turn("again", cell_key="a")
    await anext(stopped)
    assert value(session, "x") == [0]
    await stopped.aclose()


async def test_turn_that_cannot_start_undoes_nothing(scripted: Start) -> None:
    session = scripted(code("x = 1"), DONE)
    await turn(session, "a")
    with session.journal.transaction() as db:
        db.execute(
            "INSERT INTO turns (run_id, notebook, cell_key, ordinal, request, model, status, "
            "started_at, running_since, pid) VALUES "
            "('x', 'analysis.ipynb', 'z', 9, '', '', 'running', '', '2999-01-01T00:00:00Z', ?)",
            (os.getppid(),),
        )
    with pytest.raises(SessionError, match="running in another kernel"):
        await turn(session, "a")
    assert names(session) == {"x"}


async def test_turn_failing_before_start_is_cancelled_and_undoable(
    scripted: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = scripted(code("x = 1"), DONE)
    await turn(session, "a")

    def full(run_id: str, event: ev.AgentEvent) -> None:
        if isinstance(event, ev.RunStarted):
            raise JournalError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(session.journal, "append", full)
        with pytest.raises(SessionError, match="The disk is full"):
            await turn(session, "a")
    assert [each.status for each in session.turns()] == ["replaced", "cancelled"]
    session.past.undo(redo=True)
    assert value(session, "x") == 1


async def test_file_written_to_since_is_kept_and_named(scripted: Start, tmp_path: Path) -> None:
    file = tmp_path / "kept.txt"
    file.write_text("mine")
    write = "from pathlib import Path; Path('kept.txt').write_text('{}'); {} = 1"
    session = scripted(code(write.format("one", "x")), DONE, code(write.format("two", "y")), DONE)
    await turn(session, "a")
    await turn(session, "b")
    undone = session.past.undo(1)[1]
    assert (undone.removed, undone.kept) == (("x",), ("kept.txt",))
    session.past.undo(2)
    assert (file.read_text(), names(session)) == ("one", set())


# -- artifacts


def publish(variable: str, title: str) -> Any:
    return call("return_dataset", variable=variable, title=title)


def titles(session: NotebookSession) -> list[str]:
    return [each.title for each in session.artifacts()]


SALES = "import pandas as pd\nsales = pd.DataFrame({'n': [1, 2]})"
OTHER = "import pandas as pd\nother = pd.DataFrame({'n': [7]})"


async def test_replaced_turns_artifact_is_unlisted_and_stays_on_disk(
    scripted: Start, tmp_path: Path
) -> None:
    session = scripted(
        *[code(SALES), publish("sales", "Sales"), DONE],
        *[code(OTHER), publish("other", "Other"), DONE],
    )
    await turn(session, "a")
    (first,) = session.artifacts()
    await turn(session, "a")
    assert titles(session) == ["Other"]
    assert "Sales" not in str(session._model.requests[3].messages)  # type: ignore[union-attr]
    assert (tmp_path / first.path).is_file()


async def test_republished_snapshot_is_listed(scripted: Start) -> None:
    session = scripted(*[code(SALES), publish("sales", "Sales"), DONE] * 2)
    await turn(session, "a")
    before = session.artifacts()
    await turn(session, "a")
    assert session.artifacts() == before


async def test_living_turns_snapshot_is_listed_again(scripted: Start) -> None:
    more = "sales = pd.DataFrame({'n': [1, 2, 3]})"
    session = scripted(
        *[code(SALES), publish("sales", "Sales"), DONE],
        *[code(more), publish("sales", "Sales"), DONE],
    )
    await turn(session, "a")
    (first,) = session.artifacts()
    await turn(session, "b")
    (second,) = session.artifacts()
    assert first.logical_id == second.logical_id
    assert first.content_sha != second.content_sha
    session.forget(session.turns()[1].run_id)
    assert session.artifacts() == (first,)


# -- forgetting


async def test_forgotten_turn_is_hidden_and_erased_only_by_a_purge(scripted: Start) -> None:
    session = scripted(DONE, DONE)
    await turn(session, "a", "count the kittiwakes")
    (only,) = session.turns()
    before = session.events(only.run_id)
    assert session.journal.forget("other.ipynb", {only.run_id}) == ()
    session.forget(only.run_id)
    assert session.events(only.run_id) == (*before, ev.TurnForgotten())
    await turn(session, "b")
    assert "kittiwake" not in str(session._model.requests[-1].messages)  # type: ignore[union-attr]
    assert [each.status for each in session.turns()] == ["forgotten", "done"]
    assert session.turns()[0].request == "count the kittiwakes"
    assert session.verify()[0] is None
    purged = purge(session.journal, datetime.now(UTC) + timedelta(days=1))
    assert (purged.turns, purged.kept) == (2, 0)
    assert (session.turns()[0].status, session.turns()[0].request) == ("forgotten", "")
    assert session.verify()[0] is None


async def test_forgotten_question_cannot_be_answered(scripted: Start) -> None:
    session = scripted(ASK)
    await turn(session, "a")
    (waiting,) = session.pending()
    session.forget(waiting.turn.run_id)
    assert session.pending() == ()
    with pytest.raises(SessionError, match="No question is waiting"):
        await gather(session.resume("1", turn_id=waiting.turn.run_id))
    assert not session.journal.resume_turn(
        waiting.record.nonce, ev.RunStarted(run_id="r", request="", model="")
    )


async def test_nothing_is_forgotten_while_a_turn_runs(scripted: Start) -> None:
    session = scripted(code("x = 1"))
    going = session.turn("more", cell_key="b")
    await anext(going)
    for refused in (lambda: session.forget(session.turns()[0].run_id), session.reset):
        with pytest.raises(SessionError, match="still running"):
            refused()
    await going.aclose()
    assert [each.status for each in session.turns()] == ["cancelled"]


def test_unreadable_turn_is_recalled_by_its_row() -> None:
    def damaged(_run_id: str) -> Sequence[ev.AgentEvent]:
        raise JournalError("An entry is damaged.")

    messages = earlier_turns([row(1)], damaged)
    assert [str(m.content) for m in messages][1] == "summary 1"
