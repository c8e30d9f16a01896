"""What was sent is kept in the journal once, comes back as it was, and goes when it is purged."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.renderer import IncrementalRenderer
from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.state import RunState
from parsimony_kernel.storage import run_log as sent
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.transcripts import answered, called

TOOLS = [{"type": "function", "function": {"name": "run_code", "parameters": {"type": "object"}}}]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(tmp_path / "j" / "journal.sqlite", ManualClock())) as opened:
        yield opened


def keep(journal: SqliteJournal, run_id: str, *requests: ModelRequest, model: str = "m") -> None:
    log = sent.SentLog(journal, run_id)
    for request in requests:
        log.put_down("2026-11-22T00:00:00+00:00", model, request)


def kept(journal: SqliteJournal, run_id: str) -> list[ModelRequest]:
    return [each.request for each in sent.sent_by(journal, run_id)]


def long_turn(steps: int, answer_bytes: int) -> list[ModelRequest]:
    """The requests of a turn whose every tool answer is long, compacted on its way."""
    state = RunState(messages=[{"role": "user", "content": "<request>\ngo on\n</request>"}])
    renderer = IncrementalRenderer("Work.")
    requests = []
    for step in range(steps):
        state.compaction = int(step > steps // 2)
        state.subgoals = [f"part {step}"]
        requests.append(ModelRequest(renderer.render(state), TOOLS))
        text = f"{step} " * (answer_bytes // len(f"{step} "))
        answer = json.dumps({"requested": "run_code", "result": {"stdout": text}})
        call = called("run_code", f"c{step}", code=f"x = {step}")
        state.messages += [call, answered("run_code", answer, f"c{step}")]
    return requests


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(st.dictionaries(st.text(), JSON, max_size=4), max_size=5)


@given(sequence=st.lists(MESSAGES, max_size=4))
def test_any_message_sequence_round_trips(sequence: list[list[dict[str, Any]]]) -> None:
    with closing(SqliteJournal(":memory:", ManualClock())) as journal:
        requests = [ModelRequest(messages or (), TOOLS) for messages in sequence]
        keep(journal, "r1", *requests)
        keep(journal, "r2", *reversed(requests))
        assert kept(journal, "r1") == requests
        assert kept(journal, "r2") == requests[::-1]


def test_lone_surrogate_round_trips(journal: SqliteJournal) -> None:
    request = ModelRequest([{"role": "user", "content": "half \ud83d of one"}])
    keep(journal, "r1", request)
    assert kept(journal, "r1") == [request]


def test_long_turn_round_trips_without_repeats(journal: SqliteJournal, tmp_path: Path) -> None:
    requests = long_turn(60, 24_000)
    last: dict[str, Any] = {
        "timeout_s": 0.1,
        "heartbeat_s": None,
        "deadline_s": 12.34,
        "max_answer_tokens": 7,
    }
    requests[-1] = replace(requests[-1], **last)
    keep(journal, "r1", *requests)
    with journal.reading("look at") as db:
        (size,) = db.execute("SELECT SUM(LENGTH(request)) FROM sent").fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    said = sum(len(json.dumps(list(each.messages))) for each in requests)
    assert size < 1.2 * 60 * 24_000 < said
    assert (tmp_path / "j" / "journal.sqlite").stat().st_size < 3_000_000
    assert kept(journal, "r1") == requests


def test_continuing_process_repeats_what_it_cannot_know(journal: SqliteJournal) -> None:
    requests = [ModelRequest([{"role": "user", "content": f"go {n}"}] * n) for n in range(1, 4)]
    for request in requests:
        keep(journal, "r1", request)
    assert kept(journal, "r1") == requests


def test_old_journal_has_no_requests(journal: SqliteJournal) -> None:
    assert sent.sent_by(journal, "r1") == ()


def test_models_of_other_notebooks_do_not_count(journal: SqliteJournal) -> None:
    for run_id, notebook, model in (("r1", "a", "one/a"), ("r2", "b", "two/b")):
        journal.begin_turn(run_id, notebook=notebook, cell_key="c", request="go", model=model)
        keep(journal, run_id, ModelRequest([]), model=model)
    asked = [sent.has_asked(journal, name, but="one/a") for name in ("a", "b", "c")]
    assert asked == [False, True, False]


def test_live_object_in_request_is_kept_as_text(journal: SqliteJournal) -> None:
    keep(journal, "r1", ModelRequest([{"role": "user", "content": 1j}]))
    assert kept(journal, "r1") == [ModelRequest([{"role": "user", "content": "1j"}])]


def test_too_deep_request_is_one_sentence_and_leaves_nothing(journal: SqliteJournal) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(JournalError, match="nested too deeply; make it flatter"):
        keep(journal, "r1", ModelRequest([{"role": "tool", "content": deep}]))
    assert kept(journal, "r1") == []


def test_corrupt_request_is_one_sentence(journal: SqliteJournal) -> None:
    keep(journal, "r1", *[ModelRequest([{"role": "user", "content": "go"}])] * 2)
    with journal.transaction() as db:
        db.execute("DELETE FROM sent WHERE seq = 1")
    with pytest.raises(JournalError, match="damaged"):
        sent.sent_by(journal, "r1")
