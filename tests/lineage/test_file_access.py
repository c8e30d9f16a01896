"""The files that a cell opens for reading."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from lineage_desk import Desk

from parsimony_kernel.core.audit import listening
from parsimony_kernel.lineage.file_access import MOST_FILES, Watch, sources_in
from parsimony_kernel.lineage.script import SliceError, slice_of
from parsimony_kernel.lineage.why import why


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


MADE = """import os, pandas as pd
from pathlib import Path
pd.DataFrame({'x': [1]}).to_csv('made.csv', index=False)"""
PARQUET = "df.to_parquet('d.parquet')\ndf = pd.read_parquet('d.parquet')"
READ = "df = pd.read_csv('made.csv')"
OLD = "os.makedirs('old/data')\nPath('old/data/b.csv').write_text('x')"
NEW = "Path('data/b.csv').write_text('x')"
# The cells that follow, and whether the variable is stale, and can't be rebuilt from the file.
SINCE = (
    ([READ, "df.to_csv('other.csv')", "twice = df * 2"], False, False),
    ([READ, "def save():\n    df.to_csv('made.csv')", "1 < 0 and save()"], False, False),
    (["out, df = 'made.csv', 1", "Path(out).write_text('x')"], False, False),
    ([READ, "Path('made.csv').write_text('x\\n2')"], True, True),
    ([READ, "Path('new').write_text('x\\n2')", "os.replace('new', 'made.csv')"], True, True),
    ([READ, "with open('made.csv', 'a') as file:\n    file.write('2')"], True, True),
    ([READ, "df['x'] += 1\ndf.to_csv('made.csv', index=False)"], False, True),
    ([f"{READ}\ndf['x'] += 1\ndf.to_csv('made.csv', index=False)"], False, True),
    ([f"{MADE}\n{READ}"], False, False),
    (["df = pd.read_csv('data/*.csv'.replace('*', 'a'))", "os.remove('made.csv')"], False, False),
    (["import polars as pl\ndf = pl.read_csv('data/*.csv')", OLD], False, False),
    (["import polars as pl\ndf = pl.read_csv('data/*.csv')", NEW], True, True),
    (["import glob\ndf = [pd.read_csv(p) for p in glob.glob('data/*.csv')]", NEW], True, True),
    (["df = [Path(each).read_text() for each in ['data/a.csv']]", MADE], False, False),
    (["df = pd.DataFrame({'x': [1]})", "df.to_parquet('d.parquet')"], False, False),
    ([PARQUET, "(df * 2).to_parquet('d.parquet')"], True, True),
    ([f"two = 2\n{READ}\ndf = df + two", "Path('made.csv').write_text('x')"], True, True),
)


@pytest.mark.parametrize(("cells", "is_stale", "is_gone"), SINCE)
async def test_file_rewritten_after_it_was_read_is_another_version_of_the_input(
    folder: Path, cells: list[str], is_stale: bool, is_gone: bool
) -> None:
    desk = Desk(folder)
    for code in (MADE, "df = pd.DataFrame({'x': [3]})", *cells):
        await desk.mine(code)
    ledger = desk.executor.origin_ledger
    assert ("(written again since)" in why(ledger, "df").text()) == is_stale
    if is_gone:
        with pytest.raises(SliceError, match="was written again after it was read"):
            slice_of(ledger, "df")
    else:
        assert slice_of(ledger, "df")


TEXT = "Path('data/a.csv').read_text()"
LOAD = "def load(of):\n    return Path(of).read_text()\na = load('data/a.csv')\nb = len('b')"
LOOP = "for each in 'ab':\n    found += [Path(f'data/{each}.csv').read_text()]"
THREAD = "read = Thread(target=Path('data/a.csv').read_text)\nread.start(); read.join()"
TASK = f"async def go():\n    return {TEXT}\ndone = await gather(go())"
LAZY = "plan = scan_csv('data/a.csv')\nn = 2 * 3\nrows = plan.collect()"
HIDDEN = f"kept = {{}}\ndef load():\n    global top\n    top = kept['a'] = {TEXT}\nload()"
CLOSED = f"def new():\n    its = []\n    return lambda: its.append({TEXT}), lambda: its[0]"
# A cell, and the files that each variable was made from.
READ_BY = (
    ("n = 3\nk = n * 2\ndf = pd.read_csv('data/a.csv')\ntwice = df * k", "df: a"),
    ("a = pd.read_csv('data/a.csv')\nb, c = pd.read_csv('data/b.csv'), 5", "a: a, b: b, c: b"),
    (f"a = {TEXT}; b = 1", "a: a, b: a"),
    ("path = 'data/a.csv'\ntext = Path(path).read_text()\nsize = len(text)", "text: a"),
    ("file = open('data/a.csv')\ntext = file.read()\nfile.close()\ndel file", "text: a"),
    (LOAD, "a: a"),
    (f"found = []\n{LOOP}\nn = 1", "found: a b, each: a b"),
    (f"{THREAD}\nn = 5", "read: a"),
    (f"{TASK}\nn = 6", "go: a, done: a"),
    (f"box = {{'n': 1}}\nbox['text'] = {TEXT}\nones = np.ones(2)", "box: a"),
    ("rows = np.loadtxt('data/a.csv', skiprows=1)\nones = np.ones(2)", "rows: a"),
    (f"from polars import scan_csv\n{LAZY}", "plan: a"),
    (f"{HIDDEN}\nn = 7", "kept: a, top: a"),
    (f"keep({TEXT})\nits = at_top\nn = 8", "at_top: a, its: a"),
    (f"{CLOSED}\nadd, get = new()\nadd()\ntext = get()\nn = 9", "text: a"),
)


@pytest.mark.parametrize(("cell", "files"), READ_BY)
async def test_variable_has_files_of_its_statements(folder: Path, cell: str, files: str) -> None:
    desk = Desk(folder)
    imports = ("asyncio import gather", "pathlib import Path", "threading import Thread")
    await desk.mine(
        "import numpy as np, pandas as pd\n" + "\n".join(f"from {each}" for each in imports)
    )
    await desk.mine("def keep(text):\n    global at_top\n    at_top = text")
    await desk.mine(cell)
    ledger = desk.executor.origin_ledger
    told = {
        ref.name: " ".join(Path(each).stem for each in origin.sources)
        for ref in ledger.cell_runs()[-1].made
        if (origin := ledger.at_version(ref)) and origin.sources
    }
    assert told == dict(each.split(": ") for each in files.split(", "))
