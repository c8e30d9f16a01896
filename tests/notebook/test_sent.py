"""What went to models is on record to the letter before it goes, and what a notebook says first."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.events import Handoff, RunCompleted, RunStarted, TextDelta
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.llm.cassette_mode import CassetteMode
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn import EventWriter
from parsimony_kernel.session.turn_models import noting
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call
from tests.session import session_steps as steps
from tests.session.session_steps import begun, gather

DONE = call("return_done", summary="It is done.")
Start = Callable[..., NotebookSession]


@pytest.fixture
def start(scripted: Start) -> Start:
    def build(*steps: Step, model: Any = None, **environ: str) -> NotebookSession:
        return scripted(*steps, model=model, environ=environ)

    return build


async def turn(session: NotebookSession, request: str = "go on", **options: Any) -> RunStarted:
    return begun(await steps.turn(session, request, cell=f"c{len(session.turns())}", **options))


# -- to the letter


async def test_tools_take_at_most_6_kb_and_stay_stable(start: Start) -> None:
    report = call("return_report", title="Steps", body="One.")
    model = ScriptedModel([report, call("run_code", code="1"), DONE, DONE])
    session = start(model=model)
    await turn(session)
    await turn(session)
    first, *rest, later = [list(request.tools) for request in model.requests]
    assert all(tools == first for tools in rest)
    assert len(json.dumps(later, ensure_ascii=False)) <= 6 * 1024
    assert [each for each in later if each in first] == first
    assert {"read_artifact", "list_artifacts"} <= {each["function"]["name"] for each in later}


async def test_request_is_recorded_before_sending(start: Start, tmp_path: Path) -> None:
    place = tmp_path / ".ockham" / "journal.sqlite"
    seen: list[int] = []

    def count(request: ModelRequest) -> Any:
        with closing(sqlite3.connect(place)) as other:
            seen.append(other.execute("SELECT COUNT(*) FROM sent").fetchone()[0])
        return DONE

    await turn(start(count))
    assert seen == [1]


async def test_unrecordable_request_is_not_sent(start: Start) -> None:
    session = start(DONE)
    model = session._model
    assert isinstance(model, ScriptedModel)
    with session.journal.transaction() as db:
        db.execute("CREATE TRIGGER no BEFORE INSERT ON sent BEGIN SELECT RAISE(ABORT, ''); END")
    events = await gather(session.turn("go on", cell_key="a"))
    assert isinstance(events[-1], Handoff)
    assert "could not be put on record" in events[-1].rationale
    assert model.requests == []


class Paid(ScriptedModel):
    """A scripted model with a price."""

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        return 0.125


async def test_price_is_recorded_with_model(start: Start) -> None:
    session = start()
    paid, free = noting((Paid([]), ScriptedModel([])), session.journal, "r1")
    assert await paid.estimate_cost_usd(1, 1) == 0.125  # type: ignore[attr-defined]
    assert not hasattr(free, "estimate_cost_usd")


# -- what a notebook says first


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (Share.full, "first rows"),
        (Share.samples, "sample values"),
        (Share.schema, "none of its values"),
        (Share.none, "nothing of its data"),
    ],
)
async def test_notebooks_first_model_turn_says_what_leaves(
    start: Start, share: Share, words: str
) -> None:
    session = start(DONE, DONE)
    first, second = await turn(session, share=share), await turn(session, share=share)
    assert "are sent to scripted, with " in first.notice
    assert words in first.notice
    assert "`%agent context` shows what would be sent" in first.notice
    # Where it says what it would take to send less, less can be sent.
    assert ("`%%agent --share schema`" in first.notice) is (share in (Share.full, Share.samples))
    assert second.notice == ""
    assert (await turn(start(DONE), "in another session")).notice == ""


async def test_replay_does_not_use_up_notice(start: Start, tmp_path: Path) -> None:
    session = start(DONE)
    recorded = await turn(session, cassette=CassetteMode.record)
    assert "are sent to scripted, with " in recorded.notice
    assert len(session.sent(recorded.run_id)) == 1
    session.close()
    for path in (tmp_path / ".ockham").glob("journal.sqlite*"):
        path.unlink()
    elsewhere = start(DONE)
    replayed = await turn(elsewhere, cassette=CassetteMode.replay)
    assert replayed.notice == ""
    assert elsewhere.sent(replayed.run_id) == ()
    assert "are sent to scripted, with " in (await turn(elsewhere, "another")).notice


def test_what_is_written_down_is_cleaned_whoever_gave_it(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    journal.begin_turn("r", notebook="n", cell_key="a", request="go", model="m")
    writer = EventWriter(journal, "r", Secrets({"A_TOKEN": "in-environment"}))
    for event in (
        TextDelta(content="it is in-envi"),
        TextDelta(content="ronment"),
        RunCompleted(summary="password=hunter2"),
    ):
        writer.write(event)
    assert journal.events("r") == (
        TextDelta(content=f"it is {REDACTED}"),
        RunCompleted(summary=f"password={REDACTED}"),
    )
    journal.close()
