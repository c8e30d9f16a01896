"""A notebook that was moved keeps its history; a copy begins its own."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.events import TextDelta
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.session import notebook_identity
from parsimony_kernel.session.notebook_identity import (
    adopt,
    cells_of,
    history_name,
    name_in,
    plain_name,
)
from parsimony_kernel.session.turn_values import SessionError, resolve_turn, short_id
from parsimony_kernel.storage.journal import SqliteJournal, TurnRow
from parsimony_kernel.testing.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def journal(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(tmp_path / ".ockham" / "journal.sqlite", clock)) as opened:
        yield opened
        assert opened.verify() is None


def write(path: Path, cells: dict[str, str | list[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    listed: list[dict[str, Any]] = [
        {"cell_type": "code", "id": key, "source": source, "metadata": {}, "outputs": []}
        for key, source in cells.items()
    ]
    path.write_text(json.dumps({"cells": listed, "nbformat": 4, "nbformat_minor": 5}))
    return path


def ran(
    journal: SqliteJournal, notebook: str, cells: Sequence[str], *, run: str = "", pid: int = 0
) -> None:
    """A finished turn of each of the cells."""
    journal.pid = pid
    for cell in cells:
        run_id = f"{run or notebook}:{cell}"
        journal.begin_turn(
            run_id, notebook=notebook, cell_key=cell, request=f"do {cell}", model="m"
        )
        journal.append(run_id, TextDelta(content="well"))
        journal.end_turn(run_id, "done", "well")


def asks(journal: SqliteJournal, notebook: str, cell: str) -> None:
    run_id = f"{notebook}:{cell}"
    journal.begin_turn(run_id, notebook=notebook, cell_key=cell, request="?", model="m")
    journal.suspend(
        SuspensionRecord(
            run_id=run_id,
            session_id="s",
            suspension_token=f"{run_id}.00",
            suspended_at="2026-01-01T00:00:00+00:00",
            pending_question="Which?",
        )
    )
    journal.end_turn(run_id, "suspended", "Which?")


def rows(journal: SqliteJournal, notebook: str) -> list[tuple[int, str, str]]:
    return [(turn.ordinal, turn.cell_key, turn.status) for turn in journal.turns(notebook)]


# -- moved


def test_renamed_notebook_keeps_turns_and_questions(journal: SqliteJournal, tmp_path: Path) -> None:
    old = write(tmp_path / "old.ipynb", {"c1": "%%agent\none", "c2": "%%agent\ntwo"})
    ran(journal, "old.ipynb", ["c1"])
    asks(journal, "old.ipynb", "c2")
    new = tmp_path / "sub" / "new.ipynb"
    new.parent.mkdir()
    old.rename(new)
    said = adopt(journal, tmp_path, new)
    assert said == "This notebook was moved here from 'old.ipynb', and its turns came along."
    assert rows(journal, "sub/new.ipynb") == [(1, "c1", "done"), (2, "c2", "suspended")]
    assert [row.turn.ordinal for row in journal.pending("sub/new.ipynb")] == [2]
    assert rows(journal, "old.ipynb") == []
    assert adopt(journal, tmp_path, new) == ""
    assert journal.begin_turn("r", notebook="sub/new.ipynb", cell_key="c3", request="", model="")


def test_notebook_moved_back_has_its_history(journal: SqliteJournal, tmp_path: Path) -> None:
    ran(journal, "a.ipynb", ["c1"])
    b = write(tmp_path / "b.ipynb", {"c1": "x"})
    assert "'a.ipynb'" in adopt(journal, tmp_path, b)
    a = b.rename(tmp_path / "a.ipynb")
    assert "'b.ipynb'" in adopt(journal, tmp_path, a)
    assert rows(journal, "a.ipynb") == [(1, "c1", "done")]


def test_live_kernel_keeps_old_name_until_restart(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = write(tmp_path / "new.ipynb", {"c1": "x"})
    ran(journal, "old.ipynb", ["c1"], pid=77)
    monkeypatch.setattr(journal, "_alive", lambda pid, _: pid == 77)
    assert "is a copy of 'old.ipynb'" in adopt(journal, tmp_path, new)
    monkeypatch.undo()
    assert "was moved here from 'old.ipynb'" in adopt(journal, tmp_path, new)


# -- copied


def test_copy_starts_its_own_history(journal: SqliteJournal, tmp_path: Path) -> None:
    write(tmp_path / "a.ipynb", {"c1": "x", "c2": "y"})
    ran(journal, "a.ipynb", ["c1"])
    asks(journal, "a.ipynb", "c2")
    copy = tmp_path / "b.ipynb"
    shutil.copy(tmp_path / "a.ipynb", copy)
    said = adopt(journal, tmp_path, copy)
    assert said.startswith("This notebook is a copy of 'a.ipynb': it begins its own history.")
    assert said.endswith("jupyter parsimony runs --notebook a.ipynb")
    assert rows(journal, "b.ipynb") == []
    ran(journal, "b.ipynb", ["c1"])
    assert rows(journal, "b.ipynb") == [(1, "c1", "done")]
    assert rows(journal, "a.ipynb") == [(1, "c1", "done"), (2, "c2", "suspended")]
    assert adopt(journal, tmp_path, copy) == ""


@pytest.mark.parametrize(
    ("name", "cells"), [("b.ipynb", ["c1"]), ("a.ipynb", ["d1"]), ("a.ipynb", ["c1", "d1"])]
)
def test_under_half_of_the_cells_or_a_known_name_adopts_nothing(
    journal: SqliteJournal, tmp_path: Path, name: str, cells: list[str]
) -> None:
    ran(journal, "a.ipynb", ["c1", "c2", "c3"])
    ran(journal, "gone.ipynb", ["d1"] if name == "a.ipynb" else ["d1", "d2"])
    new = write(tmp_path / name, dict.fromkeys(cells, "x"))
    assert adopt(journal, tmp_path, new) == ""
    assert journal.notebook_names() == ("a.ipynb", "gone.ipynb")


def test_ambiguous_origin_is_reported_and_none_taken(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    ran(journal, "a.ipynb", ["c1"])
    ran(journal, "b.ipynb", ["c1"])
    new = write(tmp_path / "c.ipynb", {"c1": "x"})
    said = adopt(journal, tmp_path, new)
    assert "is a copy of 'a.ipynb' or 'b.ipynb': it begins its own history" in said
    assert journal.notebook_names() == ("a.ipynb", "b.ipynb")


# -- the same


@pytest.fixture
def renamed(journal: SqliteJournal, tmp_path: Path) -> Path:
    """A notebook that has turns, was renamed, and whose name is that of another one now."""
    old = write(tmp_path / "Untitled.ipynb", {"c1": "x"})
    ran(journal, "Untitled.ipynb", ["c1"], pid=77)
    old.rename(tmp_path / "analysis.ipynb")
    return write(tmp_path / "Untitled.ipynb", {"d1": "z"})


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize("first", ["analysis.ipynb", "Untitled.ipynb"])
def test_new_notebook_under_old_name_starts_fresh(
    journal: SqliteJournal, tmp_path: Path, first: str
) -> None:
    said = adopt(journal, tmp_path, tmp_path / first)
    assert said.startswith(
        "This notebook was moved here from 'Untitled.ipynb'"
        if first == "analysis.ipynb"
        else "The notebook that had this name before is 'analysis.ipynb' now"
    )
    for name in ("analysis.ipynb", "Untitled.ipynb"):
        assert adopt(journal, tmp_path, tmp_path / name) == ""
    assert rows(journal, "Untitled.ipynb") == []
    assert rows(journal, "analysis.ipynb") == [(1, "c1", "done")]


def test_ambiguous_move_takes_none(journal: SqliteJournal, tmp_path: Path, renamed: Path) -> None:
    shutil.copy(tmp_path / "analysis.ipynb", tmp_path / "second.ipynb")
    (tmp_path / "nowhere.ipynb").symlink_to(tmp_path / "gone.ipynb")
    assert adopt(journal, tmp_path, renamed) == ""
    assert journal.notebook_names() == ("Untitled.ipynb",)


# -- files


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe not json",
        b"[" * 100_000,
        b'{"cells": 7}',
        b'{"cells": [7, null, {"cell_type": "code", "id": 3, "source": [1, null]}]}',
        b'{"cells": [{"cell_type": "markdown", "id": "c1", "source": "x"}]}',
        b'{"cells": [{"cell_type": "code", "id": "c1", "source": "x"}',
    ],
)
def test_non_notebook_file_matches_nothing(
    journal: SqliteJournal, tmp_path: Path, content: bytes
) -> None:
    ran(journal, "a.ipynb", ["c1"])
    broken = tmp_path / "b.ipynb"
    broken.write_bytes(content)
    assert adopt(journal, tmp_path, broken) == ""
    assert journal.notebook_names() == ("a.ipynb",)


def test_large_file_folder_and_foreign_path_are_not_read(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(journal, "a.ipynb", ["c1"])
    large = write(tmp_path / "large.ipynb", {"c1": "x" * 2_000})
    (tmp_path / "folder.ipynb").mkdir()
    assert cells_of(large)
    monkeypatch.setattr(notebook_identity, "MAX_BYTES", 1_000)
    for path in (large, tmp_path / "folder.ipynb", Path("/nowhere/at/all/b.ipynb")):
        assert cells_of(path) == frozenset()
        assert adopt(journal, tmp_path, path) == ""


# -- without a name


def test_unnamed_history_belongs_to_its_process(journal: SqliteJournal) -> None:
    first, second = history_name("untitled", "0123abcd"), history_name("untitled", "4567abcd")
    ran(journal, first, ["c1"])
    assert journal.turns(second) == ()
    assert history_name("sub/untitled") == history_name("sub/untitled") != "sub/untitled"
    assert plain_name(history_name("sub/untitled")) == "sub/untitled"


@pytest.mark.parametrize("name", ["a.ipynb", "untitled.ipynb", "sub/a.ipynb", "a#01234567", ""])
def test_named_history_belongs_to_its_notebook(name: str) -> None:
    assert history_name(name) == name == plain_name(name)


def test_name_is_path_in_workspace_or_full_path(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    assert name_in(workspace, workspace / "sub" / "a.ipynb") == "sub/a.ipynb"
    assert name_in(workspace, tmp_path / "a.ipynb") == (tmp_path / "a.ipynb").resolve().as_posix()


# A turn is named by its number or by the beginning of its id, and the two are never mixed up.


def turn(ordinal: int, run_id: str, notebook: str = "a.ipynb") -> TurnRow:
    return TurnRow(run_id, notebook, "", ordinal, "", "", "done", "")


SEVENTH = turn(1, "7fabc0" + "0" * 26)
NEIGHBOUR = turn(2, "7fabc0" + "1" * 26)
DIGITS = turn(3, "1234567890e" + "0" * 21)
ELSEWHERE = turn(3, "cc4000" + "0" * 26, "b.ipynb")
TURNS = (SEVENTH, NEIGHBOUR, DIGITS, ELSEWHERE)


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        (None, ELSEWHERE),
        ("1", SEVENTH),
        ("cc4000", ELSEWHERE),
        ("7fabc000", SEVENTH),
        (NEIGHBOUR.run_id, NEIGHBOUR),
        (short_id(DIGITS.run_id), DIGITS),
    ],
)
def test_number_or_six_id_characters_find_turn(named: str | None, meant: TurnRow) -> None:
    assert resolve_turn(TURNS, named) is meant


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        *(
            (each, f"There is no turn {each} in this notebook. See %agent history.")
            for each in ("7", "123456", "01", "7fabc", "7fabd0")
        ),
        (
            "3",
            f"'3' means 2 turns: {DIGITS.run_id} of 'a.ipynb', {ELSEWHERE.run_id} of 'b.ipynb'. "
            "Name one by its id.",
        ),
    ],
)
def test_unknown_or_ambiguous_reference_names_remedy(named: str, sentence: str) -> None:
    with pytest.raises(SessionError) as raised:
        resolve_turn(TURNS, named)
    assert str(raised.value) == sentence
