"""A workspace's journal as a whole."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from parsimony_kernel.cli.main import main
from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.session.maintenance import journal_of
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path


def test_read_only_journal_is_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = journal_path(tmp_path)
    writing = SqliteJournal(path)
    writing.begin_turn("r0", notebook="a.ipynb", cell_key="c", request="x", model="m")
    writing.append("r0", RunCompleted(summary="only in the log"))
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with journal_of(tmp_path) as journal:
        assert journal.events("r0")[-1] == RunCompleted(summary="only in the log")
    assert main(["runs", "--folder", str(tmp_path)]) == 0
    assert {each.name: each.read_bytes() for each in path.parent.iterdir()} == before
    writing.close()


def test_turn_of_dead_process_is_not_running_and_damage_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--folder", str(tmp_path)]
    with closing(SqliteJournal(journal_path(tmp_path))) as journal:
        for run_id, pid in (("gone", 2**22 + 1), ("here", os.getppid())):
            notebook = f"{run_id}.ipynb"
            journal.pid = pid
            journal.begin_turn(run_id, notebook=notebook, cell_key="c", request="x", model="m")
            journal.append(run_id, RunCompleted(summary="ok"))
    assert main(["runs", "--json", *where]) == 0
    told = {each["turn_id"]: each["status"] for each in json.loads(capsys.readouterr().out)["runs"]}
    assert (told["gone"], told["here"]) == ("cancelled", "running")
    assert main(["verify", *where]) == 0
    assert capsys.readouterr().out.startswith("Journal intact: ")
    with journal_of(tmp_path) as journal, journal.database.transaction() as db:
        db.execute("DELETE FROM events WHERE seq = 2")
    assert main(["verify", *where]) == 1
    assert "Entry 2 of the journal is the first bad one" in capsys.readouterr().err
