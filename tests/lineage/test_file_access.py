"""The files that a cell opens for reading."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from parsimony_kernel.core.audit import listening
from parsimony_kernel.lineage.file_access import MOST_FILES, Watch, sources_in


@contextmanager
def watching() -> Iterator[Watch]:
    watch = Watch()
    with listening(watch.hear):
        yield watch


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "data").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "data" / name).write_text("x\n1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_computed_path_is_seen(folder: Path) -> None:
    with watching() as watch:
        for name in ("b.csv", "a.csv", "b.csv"):
            pd.read_csv(Path("data") / name)
    assert list(watch.read) == [str(folder / "data/b.csv"), str(folder / "data/a.csv")]
    assert sources_in(watch.read, folder) == ("data/b.csv", "data/a.csv")


def test_reads_are_seen_and_writes_are_not(folder: Path) -> None:
    with watching() as watch:
        Path("data/a.csv").read_bytes()
        os.close(os.open("data/b.csv", os.O_RDONLY))
        Path("written.txt").write_text("x")
        with Path("written.txt").open("a") as file:
            file.write("x")
    assert sources_in(watch.read, folder) == ("data/a.csv", "data/b.csv")


def test_database_and_thread_reads_are_seen(folder: Path) -> None:
    sqlite3.connect(folder / "some.db").execute("create table t (x)").connection.close()
    with watching() as watch:
        sqlite3.connect("some.db").close()
        thread = threading.Thread(target=Path("data/a.csv").read_text)
        thread.start()
        thread.join()
    assert sources_in(watch.read, folder) == ("some.db", "data/a.csv")


def test_python_and_system_files_are_no_sources(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.txt").write_text("")
    with watching() as watch:
        for path in (os.__file__, pd.__file__, "/proc/self/status", "__pycache__/x.txt"):
            Path(path).read_bytes()
        with pytest.raises(FileNotFoundError):
            Path("none.csv").read_bytes()
        with pytest.raises(IsADirectoryError):
            Path("data").read_bytes()
    assert watch.read == {}


def test_watches_nest_and_hear_nothing_outside(folder: Path) -> None:
    with watching() as outer:
        Path("data/a.csv").read_text()
        with watching() as inner:
            Path("data/b.csv").read_text()
    Path("data/a.csv").read_text()
    assert sources_in(outer.read, folder) == ("data/a.csv", "data/b.csv")
    assert sources_in(inner.read, folder) == ("data/b.csv",)


def test_many_opened_files_are_listed_by_first(folder: Path) -> None:
    for number in range(MOST_FILES + 5):
        (folder / f"{number}.txt").touch()
    with watching() as watch:
        for number in range(MOST_FILES + 5):
            (folder / f"{number}.txt").read_text()
    assert len(watch.read) == MOST_FILES
    assert next(iter(watch.read)) == str(folder / "0.txt")
