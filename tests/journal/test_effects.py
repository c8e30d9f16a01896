"""The record of writes in the journal's file, between processes."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parsimony_kernel.core.effects import Standing, action_sha
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.run_log import JournalEffects
from parsimony_kernel.tools import Tools, tool

KEY = action_sha("send", {"to": "ann"}, run_id="r1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
def two(path: Path) -> Iterator[tuple[JournalEffects, JournalEffects]]:
    """The record of one run, opened twice."""
    journals = [SqliteJournal(path), SqliteJournal(path)]
    yield (JournalEffects(journals[0], "r1"), JournalEffects(journals[1], "r1"))
    for journal in journals:
        journal.close()


Two = tuple[JournalEffects, JournalEffects]


async def test_other_process_sees_intent_before_body(two: Two) -> None:
    mine, other = two
    seen: list[Standing | None] = []

    @tool(effect="write")
    async def send(to: str) -> str:
        """Send."""
        seen.append(other.standing(KEY))
        return "sent"

    gate = Gate(Tools([send]), timeout_s=5, effects=mine, run_id="r1")
    assert (await gate.step("send", {"to": "ann"})).ok
    assert seen == [Standing("intended")]
    assert other.standing(KEY) == Standing("committed", "sent")


_PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.storage.run_log import JournalEffects
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.tools import Tools, tool
path, letters, ending, run_id = sys.argv[1:]

@tool(effect="write")
async def send(to: str) -> str:
    with open(letters, "a") as file:
        file.write(to)
    if ending == "dies":
        os._exit(9)
    return "sent"

effects = JournalEffects(SqliteJournal(Path(path)), run_id)
gate = Gate(Tools([send]), timeout_s=5, effects=effects, run_id=run_id)
outcome = asyncio.run(gate.step("send", {"to": "ann"}))
print(outcome.failure.effect if outcome.failure else outcome.envelope["result"])
"""


def in_a_process(path: Path, letters: Path, ending: str, run_id: str = "r1") -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(path), str(letters), ending, run_id],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ran.returncode, ran.stdout.strip()


@pytest.mark.parametrize(
    ("ending", "first", "then", "letters_sent"),
    [("ends", (0, "sent"), "sent", "annann"), ("dies", (9, ""), "uncertain", "ann")],
)
def test_unfinished_write_is_never_repeated_and_finished_one_by_its_own_turn(
    path: Path, tmp_path: Path, ending: str, first: tuple[int, str], then: str, letters_sent: str
) -> None:
    letters = tmp_path / "letters"
    assert in_a_process(path, letters, ending) == first
    assert in_a_process(path, letters, "ends") == (0, then)
    assert letters.read_text() == "ann"
    assert in_a_process(path, letters, "ends", "r2") == (0, then)
    assert letters.read_text() == letters_sent


@pytest.mark.parametrize(("status", "effect"), [("running", "uncertain"), ("cancelled", "none")])
async def test_running_turn_may_still_act(path: Path, two: Two, status: str, effect: str) -> None:
    mine, _ = two
    with closing(SqliteJournal(path)) as journal:
        journal.begin_turn("r1", notebook="n", cell_key="c", request="r", model="m")
        if status != "running":
            journal.end_turn("r1", status)
    mine.intend(KEY, "send", {"to": "ann"})

    async def nothing_yet(to: str) -> None:
        return None

    @tool(effect="write", reconcile=nothing_yet)
    async def send(to: str) -> None:
        """Send."""
        raise AssertionError("it was run")

    with closing(SqliteJournal(path)) as journal:
        effects = JournalEffects(journal, "r2")
        gate = Gate(Tools([send]), timeout_s=5, effects=effects, run_id="r2")
        outcome = await gate.step("send", {"to": "ann"})
    assert outcome.failure is not None
    assert outcome.failure.effect == effect
    assert (mine.standing(KEY) is None) is (effect == "none")


def test_each_write_record_is_synced(two: Two) -> None:
    full = 2
    mine, _ = two
    database = mine.database

    for tell in (
        lambda: mine.intend("k", "send", {}),
        lambda: mine.commit("k", None),
        lambda: mine.withdraw("k"),
    ):
        with database.transaction():
            assert database.select("PRAGMA synchronous") != [(full,)]
        tell()
        assert database.select("PRAGMA synchronous") == [(full,)]


def test_commit_is_kept_without_intent(two: Two) -> None:
    mine, other = two
    mine.commit(KEY, {"confirmed": "by the person"})
    assert other.standing(KEY) == Standing("committed", {"confirmed": "by the person"})


@pytest.mark.parametrize("column", ["state", "answer"])
async def test_corrupt_record_stops_its_write(path: Path, two: Two, column: str) -> None:
    mine, other = two
    mine.intend(KEY, "send", {"to": "ann"})
    mine.commit(KEY, "sent")
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE effects SET {column} = 'gibber{{ish'")
    db.close()
    with pytest.raises(JournalError, match="not known whether it happened"):
        other.standing(KEY)
    ran: list[str] = []

    @tool(effect="write")
    async def send(to: str) -> None:
        """Send."""
        ran.append(to)

    gate = Gate(Tools([send]), timeout_s=5, effects=other, run_id="r1")
    outcome = await gate.step("send", {"to": "ann"})
    assert "is damaged" in outcome.envelope["message"]
    assert ran == []


async def test_any_characters_are_kept(two: Two) -> None:
    mine, other = two

    @tool(effect="write")
    async def send(to: str) -> dict[str, object]:
        """Send."""
        return {"\ud800": {1, "a"}, "n": float("nan")}

    gate = Gate(Tools([send]), timeout_s=5, effects=mine, run_id="r1")
    assert (await gate.step("send", {"to": "half \ud800"})).ok
    again = Gate(Tools([send]), timeout_s=5, effects=other, run_id="r1")
    assert (await again.step("send", {"to": "half \ud800"})).envelope["result"] == {
        "?": ["a", 1],
        "n": "NaN",
    }
