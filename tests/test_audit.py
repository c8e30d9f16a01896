"""A workspace's journal as a whole."""

import json
import os
from pathlib import Path

import pytest

from parsimony_kernel.cli.main import main
from parsimony_kernel.core.events import AgentError, LLMCallCompleted, RunCompleted, RunStarted
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.session.maintenance import journal_of
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    journal = SqliteJournal(journal_path(tmp_path))
    failure = Failure(FailureKind.tool_error, "boom")
    for number in range(3):
        run_id = f"r{number}"
        notebook = "a.ipynb" if number else "b.ipynb"
        journal.begin_turn(run_id, notebook=notebook, cell_key=run_id, request="x", model="m")
        for event in (
            RunStarted(run_id=run_id, request="x", model="m"),
            LLMCallCompleted(model="m", prompt_tokens=10, completion_tokens=5),
            AgentError(message="boom", failure=failure, recoverable=True, action="retry"),
            RunCompleted(summary="ok"),
        ):
            journal.append(run_id, event)
        journal.end_turn(run_id, "done", "ok")
    journal.close()
    return tmp_path


def test_command_verifies_and_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--folder", str(folder)]
    assert main(["verify", *where]) == 0
    assert "as it was written" in capsys.readouterr().out
    assert main(["metrics", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["executions"] == 3
    assert main(["metrics", *where]) == 0
    assert "3" in capsys.readouterr().out
    with journal_of(folder) as journal, journal.database.transaction() as db:
        db.execute("DELETE FROM events WHERE seq = 2")
    assert main(["verify", *where]) == 1
    assert "Entry 2 of the journal is the first bad one" in capsys.readouterr().err


def test_read_only_journal_is_readable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = journal_path(folder)
    writing = SqliteJournal(path)
    writing.append("r0", RunCompleted(summary="only in the log"))
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with journal_of(folder) as journal:
        assert journal.events("r0")[-1] == RunCompleted(summary="only in the log")
    assert main(["runs", "--folder", str(folder)]) == 0
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    writing.close()


def test_turn_of_dead_process_is_not_running(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with journal_of(folder) as journal:
        for run_id, pid in (("gone", 2**22 + 1), ("here", os.getppid())):
            journal.begin_turn(
                run_id, notebook=f"{run_id}.ipynb", cell_key="c", request="x", model="m", pid=pid
            )
    assert main(["runs", "--json", "--folder", str(folder)]) == 0
    told = {each["turn_id"]: each["status"] for each in json.loads(capsys.readouterr().out)["runs"]}
    assert (told["gone"], told["here"]) == ("cancelled", "running")
