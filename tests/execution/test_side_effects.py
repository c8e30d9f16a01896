"""Code is stopped before it reaches outside: what is asked about, what is free, and how it goes on.

The numbers are those of the rules of approval.
"""

import contextlib
import dbm.dumb
import gc
import importlib
import json
import os
import pickle
import random
import re
import socket
import subprocess
import sys
import threading
import tomllib
import zipfile
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parsimony_kernel
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.execution.base import InProcessExecutor
from parsimony_kernel.execution.executor import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.guard import StatementGuard
from parsimony_kernel.execution.native import _MODULES
from parsimony_kernel.execution.run_scope import Permit, RunScope, permitting, run_scope
from tests.contracts.told import abandoned_cells_end, failure
from tests.corpora.entries import FOLDER

URL = "http://data.example.invalid/x.csv"
WRITES = "        open(f'OUTSIDE/{name}', 'w').close()"
FETCH = f"import urllib.request\nurllib.request.urlopen({URL!r})"


class Desk:
    """A workspace, a home and a folder outside; what is asked about is declined."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.outside, self.home = (
            folder / name for name in ("work", "outside", "home")
        )
        for each in (self.workspace, self.outside, self.home):
            each.mkdir()
        self.executor: InProcessExecutor = CodeExecutor(cwd=self.workspace)
        self.permit = self.new_permit()

    def new_permit(self, *allowed: ReachKind) -> Permit:
        return Permit(
            self.workspace, lambda reach, lines: reach.kind in allowed, lambda reach: reach.sentence
        )

    async def run(self, code: str, *, seconds: float | None = 20) -> KernelOutput:
        with permitting(self.permit):
            return await self.executor.execute(self.filled(code), timeout_seconds=seconds)

    async def held(self, code: str) -> Reach | None:
        await self.run(code)
        return self.permit.held

    async def asked(self, code: str) -> Reach:
        held = await self.held(code)
        assert held is not None
        return held

    def filled(self, code: str) -> str:
        return code.replace("OUTSIDE", str(self.outside)).replace("HOUSE", str(self.home))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    # What is temporary is free, and these folders are not to be.
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    desk = Desk(tmp_path)
    monkeypatch.setenv("HOME", str(desk.home))
    monkeypatch.setenv("SOME_API_KEY", "secret")
    return desk


RULES = tomllib.loads((FOLDER / "rules.toml").read_text(encoding="utf-8"))
ASKED: dict[str, dict[str, str]] = {row["id"]: row for row in RULES["asked"]}
FREE: dict[str, str] = RULES["free"]


# A thread that is held says nothing of its own: a warning would be an error here.
@pytest.mark.parametrize("what", ASKED)
async def test_reach_is_stopped_before_it_happens(desk: Desk, what: str) -> None:
    row = ASKED[what]
    library = desk.home / "site-packages" / "connecting.py"
    library.parent.mkdir()
    library.write_text(FETCH)
    (desk.workspace / "mine.csv").write_text("x\n1\n")
    (desk.workspace / ".env").write_text("KEY=1")
    (desk.workspace / "mine.env").write_text("KEY=1")
    (desk.workspace / "theirs.pkl").write_bytes(b"(lp0\nI1\na.")
    (desk.workspace / "theirs.old").write_bytes(pickle.dumps([range], 0))
    (desk.workspace / "theirs.long").write_bytes(pickle.dumps([range, "x" * 9_000], 0))
    late = pickle.dumps([*map(str, range(40)), range], 1)
    (desk.workspace / "theirs.late").write_bytes(late)
    pickled = pickle.dumps(range)
    (desk.workspace / "theirs.bin").write_bytes(pickled)
    (desk.workspace / "theirs.head").write_bytes(b"HEAD" + pickled)
    with zipfile.ZipFile(desk.workspace / "theirs.zip", "w") as archive:
        archive.writestr("part", pickled)
    np.save(desk.workspace / "theirs.npy", np.array([range], dtype=object))
    with dbm.dumb.open(str(desk.workspace / "theirs"), "n") as shelf:
        shelf["x"] = pickled
    held = await desk.asked(row["cell"])
    assert held.kind is ReachKind(row["kind"])
    assert row["what"] in held.what
    assert list(desk.outside.iterdir()) == []
    assert (desk.workspace / "mine.csv").exists()
    assert not (desk.workspace / "conftest.py").exists()


@pytest.mark.parametrize("what", FREE)
async def test_harmless_code_is_left_alone(desk: Desk, what: str) -> None:
    (desk.workspace / "mine.csv").write_text("x\n1\n")
    (desk.workspace / "theirs.bin").write_bytes(pickle.dumps(range))
    (desk.workspace / "random.bin").write_bytes(random.Random(3).randbytes(100_000))
    with zipfile.ZipFile(desk.workspace / "theirs.xlsx", "w") as archive:
        archive.writestr("part", "<x/>")
    output = await desk.run(FREE[what])
    assert desk.permit.held is None
    assert output.error is None


async def test_folder_that_an_earlier_cell_opened_is_outside(desk: Desk) -> None:
    await desk.run("import os\nat = os.open('OUTSIDE', os.O_RDONLY)")
    await desk.asked("os.open('x', os.O_WRONLY | os.O_CREAT, dir_fd=at)")
    assert list(desk.outside.iterdir()) == []
    desk.permit.held = None
    await desk.run("os.close(at)")


def test_function_is_wrapped_wherever_it_was_held_before() -> None:
    code = (
        "import functools, pyarrow.feather as f, pyarrow.parquet as pq\n"
        "writers, savers = {'f': f.write_feather}, [f.write_feather]\n"
        "save, own = functools.partial(f.write_feather, compression=None), globals()\n"
        "from parsimony_kernel.execution.native import watch_native_code\n"
        "watch_native_code(globals())\n"
        "for each in (pq.read_table, writers['f'], savers[0], save.func): each.__wrapped__\n"
        "assert save.keywords == {'compression': None}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("library", "given"), [("sqlite3", "check_same_thread=False"), ("duckdb", "")]
)
async def test_list_that_gets_rows_of_an_open_database_outside_is_free(
    desk: Desk, library: str, given: str
) -> None:
    pytest.importorskip(library)
    await desk.executor.execute(
        desk.filled(f"import {library} as db\ncon = db.connect('OUTSIDE/a.db', {given})\nrows = []")
    )
    assert await desk.held("rows.append(con.execute('SELECT 1').fetchone())") is None
    await desk.asked("con.execute('CREATE TABLE t (a INT)')")
    if library == "duckdb":
        await desk.executor.execute(
            desk.filled("con.close()\ncon = db.connect('OUTSIDE/a.db', read_only=True)")
        )
        desk.permit = desk.new_permit()
        assert await desk.held("con.execute('CREATE TEMP TABLE t (a INT)')") is None


async def test_two_threads_that_reach_the_same_are_recorded_once(desk: Desk) -> None:
    recorded, both = list[Reach](), threading.Barrier(2)

    def leaving(reach: Reach, statement: str, reads: bool) -> str:
        recorded.append(reach)
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(0.3)
        return ""

    desk.permit = desk.new_permit(ReachKind.shell)
    desk.permit.leaving = leaving
    output = await desk.run(
        "import subprocess, threading\nrun = lambda: subprocess.run(['true'])\n"
        "two = [threading.Thread(target=run) for _ in range(2)]\n"
        "if two:\n    for each in two: each.start()\n    for each in two: each.join()"
    )
    assert output.error is None
    assert len(recorded) == 1


async def test_wrapped_writer_is_no_change_of_a_turn(desk: Desk) -> None:
    await desk.run("import pyarrow.feather as f\nwrite = f.write_feather.__wrapped__")
    checkpoints = desk.executor.checkpoints()
    checkpoints.take()
    await desk.run("x = 1")
    change = checkpoints.close()
    assert change is not None
    assert change.before.keys() == {"x"}


MAGICS_ASKED = (
    "%pip install x",
    "%%bash\nls",
    "!ls",
    "%run OUTSIDE/theirs.py",
    "kept = 1\n%load_ext storemagic\n%store kept",
)
MAGICS_FREE = ("%matplotlib agg", "%timeit -n1 -r1 1 + 1", "%time 1 + 1", "%cd .", "%run mine.py")


@pytest.mark.parametrize("magic", [*MAGICS_ASKED, *MAGICS_FREE])
async def test_rule_12_magics(desk: Desk, shell: Any, magic: str) -> None:
    for folder, name in ((desk.outside, "theirs.py"), (desk.workspace, "mine.py")):
        (folder / name).write_text("made = 1\n")
    desk.executor = NotebookExecutor(shell)
    await desk.executor.set_cwd(str(desk.workspace))
    held = await desk.held(magic)
    assert (held is not None) == (magic in MAGICS_ASKED)


async def test_rule_7_jupyter_server_is_not_loopback(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(desk.home))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (desk.home / "jpserver-1.json").write_text(json.dumps({"port": port}))
        held = await desk.asked(
            f"import socket\nwith socket.socket() as s:\n    s.connect(('127.0.0.1', {port}))"
        )
    assert held.what == f"the Jupyter server on port {port}"


NATIVE = {
    "literal": "pq.write_table(table, 'mine.parquet')",
    "in a loop": "for name in ['yours', 'mine']:\n    pq.write_table(table, f'{name}.parquet')",
    "in a function": "def save(at):\n    pq.write_table(table, at)\nsave('mi' + 'ne.parquet')",
    "alias": "w = pq.write_table\nw(table, '%s.parquet' % 'mine')",
    "imported within": "def save():\n    from pyarrow.feather import write_feather as w\n"
    "    from pathlib import Path\n    w(table, Path('mine.x').with_suffix('.parquet'))\nsave()",
    "polars": "import polars as pl\nframe = pl.DataFrame({'x': [1]})\n"
    "getattr(frame, 'write_parquet')(file='{}.parquet'.format('mine'))",
    "duckdb": "import duckdb\ndef save(name):\n    near = table\n"
    "    duckdb.sql(f\"COPY near TO '{name}.parquet'\")\nsave('mine')",
    "a writer of C": "from pyarrow import OSFile\n"
    "with OSFile('mi' + 'ne.parquet', 'wb') as f:\n    f.write(b'PAR1')",
    "a stream of C": "from pyarrow import fs\nat = 'mi' + 'ne.parquet'\n"
    "with fs.LocalFileSystem().open_output_stream(at) as f:\n    f.write(b'PAR1')",
}


@pytest.mark.parametrize("how", NATIVE)
async def test_rule_10_native_writers_file_is_backed_up(desk: Desk, how: str) -> None:
    mine = desk.workspace / "mine.parquet"
    mine.write_text("mine")
    kept: list[tuple[str, str]] = []

    def keep(path: str) -> bool:
        kept.append((path, mine.read_text()))
        return True

    desk.permit.keep = keep
    output = await desk.run(
        "import pyarrow as pa\nimport pyarrow.parquet as pq\n"
        f"table = pa.table({{'x': [1]}})\n{NATIVE[how]}"
    )
    assert output.error is None
    assert {text for path, text in kept if path == str(mine)} == {"mine"}
    assert mine.read_bytes() != b"mine"


def test_rule_10_every_row_of_an_installed_library_resolves() -> None:
    for name, kinds in _MODULES.items():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for each in " ".join(kinds.values()).split():
            holder, _, function = each.rpartition(".")
            owners = map(vars(module).get, matching(dir(module), holder)) if holder else [module]
            assert any(matching(dir(owner), function) for owner in owners), f"{name}: {each}"


def test_rule_10_writer_that_was_imported_before_is_seen(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("from pyarrow.csv import write_csv\n")
    program = (
        "import asyncio, pyarrow as pa\nfrom pathlib import Path\n"
        "from parsimony_kernel.execution import CodeExecutor\n"
        "from parsimony_kernel.execution.run_scope import Permit, permitting\n"
        "executor, before = CodeExecutor(), 'import own\\nfrom pyarrow import OSFile'\n"
        "def run(code):\n    return asyncio.run(executor.execute(code))\n"
        "print(run(before).error)\nfor code in (\n    \"OSFile('/srv/x', 'wb')\",\n"
        "    \"import pyarrow as pa; own.write_csv(pa.table({'a': [1]}), '/srv/x')\",\n):\n"
        "    permit = Permit(Path.cwd(), lambda reach, lines: False)\n"
        "    with permitting(permit):\n        output = run(code)\n"
        "    print(permit.held.what, output.changed, output.deleted)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, timeout=60
    )
    assert done.stdout.decode().split("\n") == ["None", *["/srv/x () ()"] * 2, ""]


async def test_rule_8_bytes_of_a_file_read_before_are_asked_about(desk: Desk) -> None:
    for protocol in (0, 4):
        (desk.workspace / "theirs.bin").write_bytes(pickle.dumps([1, range], protocol))
        await desk.executor.execute(
            "from pathlib import Path\ndata = Path('theirs.bin').read_bytes()"
        )
        assert (await desk.asked("import pickle\npickle.loads(data)")).what == "theirs.bin"
        desk.permit = desk.new_permit()
    assert await desk.held("import pickle\npickle.loads(pickle.dumps(range))") is None


async def test_deletion_in_a_function_is_told_from_a_move(desk: Desk) -> None:
    (desk.workspace / "mine.csv").write_text("x")
    code = "import os\ndef tidy():\n    os.{}('mine.csv'{})\n\ntidy()"
    out = "moves files and writes outside the workspace: mine.csv to {}/x"
    for call, more, said in (
        ("remove", "", "deletes files: mine.csv"),
        ("rename", ", 'x'", "moves files: mine.csv to x"),
        ("rename", ", 'OUTSIDE/x'", out.format(desk.outside)),
    ):
        desk.permit = desk.new_permit()
        held = await desk.asked(code.format(call, more))
        assert held.sentence == f"Line 5 {said}."


async def test_moved_file_is_still_the_persons(desk: Desk) -> None:
    (desk.workspace / "mine.pkl").write_bytes(pickle.dumps(range))
    desk.permit = desk.new_permit(ReachKind.deletion)
    assert await desk.held("import os\nos.rename('mine.pkl', 'moved.pkl')") is None
    desk.permit.allows = lambda reach, lines: False
    for code in ("import pickle\npickle.load(open('moved.pkl', 'rb'))", "os.remove('moved.pkl')"):
        assert await desk.held(code) is not None
        desk.permit.held = None


async def test_rule_10_path_of_nobodys_home_raises_as_without_a_guard(desk: Desk) -> None:
    output = await desk.run(
        "import pathlib\nimport pyarrow as pa\nimport pyarrow.parquet as pq\n"
        "for name in ['mine']:\n    pq.write_table(pa.table({'x': [1]}),"
        " pathlib.Path('~nobody_here') / f'{name}.parquet')"
    )
    assert failure(output).name == "FileNotFoundError"


@pytest.mark.parametrize("way", ["fork", "spawn"])
async def test_rule_6_worker_computes_and_reports_reach(desk: Desk, way: str) -> None:
    (desk.workspace / "work.py").write_text(
        "import urllib.request\ndef work(told):\n    told.put(sum(range(4)))\n"
        f"    urllib.request.urlopen({URL!r})\n"
    )
    output = await desk.run(
        f"import multiprocessing, sys\nsys.path.insert(0, {str(desk.workspace)!r})\n"
        "from work import work\n"
        f"ways = multiprocessing.get_context({way!r})\ntold = ways.SimpleQueue()\n"
        "p = ways.Process(target=work, args=(told,))\np.start()\np.join()\n"
        "out = told.get(), p.exitcode\nsys.path.pop(0)"
    )
    assert (output.error, desk.permit.held) == (None, None)
    assert desk.executor.variables()["out"] == (6, 1)
    assert "A worker process may not reach data.example.invalid." in output.stderr


async def test_rule_6_pool_worker_raises_in_parent(desk: Desk) -> None:
    output = await desk.run(
        "import urllib.request\nfrom joblib import Parallel, delayed\n"
        f"Parallel(n_jobs=2)(delayed(urllib.request.urlopen)(u) for u in [{URL!r}] * 2)"
    )
    assert "may not reach data.example.invalid" in failure(output).message


POOLS = {
    "executor": ("from concurrent import futures\npool = futures.ProcessPoolExecutor(1)",
                 "pool.submit({}, {}).result()", "pool.shutdown()"),
    "pool": ("import multiprocessing\npool = multiprocessing.get_context('fork').Pool(1)",
             "pool.apply_async(func={}, args=({},)).get()", "pool.terminate()"),
}  # fmt: skip


async def test_rule_6_pool_of_threads_belongs_to_the_cell(desk: Desk) -> None:
    opening = (
        "import os\nfrom multiprocessing.pool import ThreadPool\nwith ThreadPool(2) as pool:\n"
    )
    await desk.run(f"{opening}    n = pool.map(abs, [-1, -2])")
    assert desk.executor.variables()["n"] == [1, 2]
    # The wait is one that a stop ends: that of ``map`` in a thread ends at the deadline.
    waits = "    while not made.ready():\n        made.wait(0.05)"
    await desk.asked(f"{opening}    made = pool.map_async(os.mkdir, ['OUTSIDE/x'])\n{waits}")
    assert list(desk.outside.iterdir()) == []


@pytest.mark.parametrize("pool", POOLS)
async def test_rule_9_worker_that_is_handed_getenv_is_refused(desk: Desk, pool: str) -> None:
    opening, call, end = POOLS[pool]
    output = await desk.run(
        f"import os\n{opening}\n{call.format('os.getenv', repr('SOME_API_KEY'))}"
    )
    assert "may not reach SOME_API_KEY" in failure(output).message
    await desk.executor.execute(end)


def test_rule_13_hook_uses_standard_library_only() -> None:
    """A kernel somewhere else and a worker install it before anything else."""
    program = (
        f"import sys; sys.path.insert(0, {str(Path(parsimony_kernel.__file__).parents[1])!r})\n"
        "import parsimony_kernel.execution.native, parsimony_kernel.execution.run_scope"
    )
    subprocess.run([sys.executable, "-S", "-c", program], check=True, timeout=60)


# 1: the unit of a stop.


async def test_aborted_statements_changes_are_restored(desk: Desk) -> None:
    await desk.run("xs = [1]\nimport os, random, urllib.request\nrandom.seed(1)\nos.mkdir('d')")
    state = random.getstate()
    await desk.run(
        "for n in (1, 2):\n    xs.append(n)\n    random.random()\n    os.chdir('d')\n"
        f"    urllib.request.urlopen({URL!r})"
    )
    assert desk.permit.held is not None
    assert desk.executor.variables()["xs"] == [1]
    assert "n" not in desk.executor.variables()
    assert random.getstate() == state
    assert Path.cwd() != desk.workspace / "d"


async def test_unrestorable_statement_is_not_rerun(desk: Desk) -> None:
    """Where nobody would expect it: a value that reaches when it is shown."""
    desk.executor.namespace()["told"] = []
    await desk.run(
        "class Sending:\n    def __repr__(self):\n        told.append(1)\n"
        "        return str(open('OUTSIDE/x', 'w'))\nsending = Sending()\nprint(sending)"
    )
    assert "was not saved" in desk.permit.why_not
    assert desk.executor.paused is None
    assert not list(desk.outside.iterdir())


async def test_consumed_input_is_not_rerun(desk: Desk) -> None:
    desk.executor.namespace()["lines"] = (n for n in range(3))
    output = await desk.run("for n in lines:\n    open('OUTSIDE/x', 'w')")
    assert desk.permit.why_not.startswith("it had already consumed lines")
    assert "It had already consumed lines" in failure(output).message
    assert desk.executor.paused is None
    assert output.error is not None
    assert not list(desk.outside.iterdir())


async def test_variable_that_changed_while_a_step_waited_is_named(desk: Desk) -> None:
    code = "other = 1\ntotal = sum(rows)\nprint(total)\nopen('OUTSIDE/x', 'w').close()"
    with run_scope(RunScope("r", "nb", "c", turn=1)):
        await desk.executor.execute("rows, spare = [1], [2]")
        await desk.run(code)
        assert desk.executor.paused is not None
        paused = desk.executor.paused
        await desk.executor.execute("rows, spare = [5], [6]")
        desk.permit, desk.executor.paused = desk.new_permit(), paused
        desk.permit.approved = paused.sha
        output = await desk.run(code)
    assert (output.error, output.stdout) == (None, "1\n")
    assert output.stderr.startswith("rows changed while this step waited")
    assert desk.executor.variables()["rows"] == [5]


# 11: it is sticky.


async def test_swallowed_stop_still_reaches_nothing(desk: Desk) -> None:
    output = await desk.run(
        "import os\ntry:\n    os.system('touch OUTSIDE/a')\nexcept BaseException:\n    pass\n"
        "finally:\n    try:\n        os.system('touch OUTSIDE/b')\n"
        "    except BaseException:\n        went = 1"
    )
    assert desk.permit.held is not None
    assert output.error is not None
    assert list(desk.outside.iterdir()) == []
    assert "went" not in desk.executor.variables()


async def test_surviving_code_may_not_reach(desk: Desk) -> None:
    go, told = threading.Event(), list[Any]()
    desk.executor.namespace().update(go=go, told=told)
    await desk.run(
        "import threading\ndef later():\n    go.wait()\n    try:\n"
        "        open('OUTSIDE/late', 'w')\n    except BaseException as exc:\n"
        "        told.append(exc)\nt = threading.Thread(target=later)\nt.start()"
    )
    assert desk.permit.held is None
    go.set()
    desk.executor.namespace()["t"].join()
    assert [type(each) for each in told] == [PermissionError]
    assert list(desk.outside.iterdir()) == []


async def test_rule_2_users_own_code_is_never_asked(desk: Desk) -> None:
    output = await desk.executor.execute(desk.filled("open('OUTSIDE/x', 'w').close()"))
    assert output.error is None
    assert [each.name for each in desk.outside.iterdir()] == ["x"]


async def test_rule_3_others_may_reach_meanwhile(desk: Desk) -> None:
    """What is not of the code, in another thread meanwhile."""
    running, done = threading.Event(), threading.Event()

    def other() -> None:
        running.wait()
        (desk.outside / "theirs").write_text("x")
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    desk.executor.namespace().update(running=running, done=done)
    await desk.run("running.set()\ndone.wait()")
    thread.join()
    assert desk.permit.held is None
    assert (desk.outside / "theirs").exists()


async def test_rule_3_earlier_pool_works_for_current_cell(desk: Desk) -> None:
    """As the event loop's own, in which a client resolves names without the cell's context."""
    resolve = "import asyncio\nawait asyncio.get_running_loop().getaddrinfo({!r}, 80)"
    assert await desk.held(resolve.format("127.0.0.1")) is None
    held = await desk.asked(resolve.format("data.example.invalid"))
    assert (held.kind, held.what) == (ReachKind.network, "data.example.invalid")


async def test_rule_7_client_names_its_host_where_names_are_looked_up_in_another_way(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a tunnel or a proxy on this machine."""
    found = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **more: [found])
    held = await desk.asked(
        "import http.client\nhttp.client.HTTPConnection('data.example.invalid').request('GET', '/')"
    )
    assert (held.kind, held.what) == (ReachKind.network, "data.example.invalid")


async def test_rule_14_approved_reach_is_not_asked_again(desk: Desk) -> None:
    desk.permit = desk.new_permit(ReachKind.outside_write)
    output = await desk.run("for name in 'ab':\n    open(f'OUTSIDE/{name}', 'w').close()")
    assert output.error is None
    assert [each.what[-2:] for each in desk.permit.left] == ["/a", "/b"]


async def test_environment_is_restored_afterwards(desk: Desk) -> None:
    before = type(os.environ)
    await desk.run("import os\nkind = type(os.environ).__name__")
    assert desk.executor.variables()["kind"] == "GuardedEnvironment"
    assert type(os.environ) is before


# What leaves is on record before it does, and its end after.


def noting(desk: Desk) -> list[str]:
    noted: list[str] = []

    def leaving(reach: Reach, statement: str, reads: bool) -> str:
        there = [each.name for each in desk.outside.iterdir()]
        noted.append(f"{reach.kind} {'reads' if reads else 'acts'} {there}")
        return ""

    desk.permit = desk.new_permit(*ReachKind)
    desk.permit.leaving = leaving
    desk.permit.ended = lambda: noted.append("ended")
    return noted


async def test_intent_is_recorded_once_per_statement_beforehand(desk: Desk) -> None:
    noted = noting(desk)
    await desk.run(
        "a = 1\nfor n in range(3):\n    open('OUTSIDE/x', 'a').close()\n"
        "open('OUTSIDE/y', 'w').close()"
    )
    assert noted == ["outside_write acts []", "ended", "outside_write acts ['x']", "ended"]


async def test_error_ends_intent_and_deadline_does_not(desk: Desk) -> None:
    noted = noting(desk)
    await desk.run("with open('OUTSIDE/x', 'w'):\n    1 / 0")
    assert noted.pop() == "ended"
    await desk.run("with open('OUTSIDE/x', 'w'):\n    while True: pass", seconds=0.2)
    assert noted[-1].startswith("outside_write")


async def test_download_only_reads(desk: Desk) -> None:
    noted = noting(desk)
    await desk.run(f"import pandas as pd\ndef load(u):\n    return pd.read_csv(u)\nload({URL!r})")
    assert noted[0].startswith("network reads")


async def test_unfinished_effect_is_asked_about_before_rerun(desk: Desk) -> None:
    desk.permit = desk.new_permit(*ReachKind)
    desk.permit.leaving = lambda reach, statement, reads: "the key of the first"
    await desk.run("open('OUTSIDE/x', 'a').close()")
    assert desk.permit.open_end == "the key of the first"
    assert not list(desk.outside.iterdir())
    assert desk.executor.paused is None


@pytest.mark.parametrize(
    "code",
    [
        "for name in 'ab':\n    open(f'OUTSIDE/{name}', 'w').close()",
        "import pandas as pd\nfor name in 'ab':\n    open(f'OUTSIDE/{name}', 'w').close()\n"
        "    pd.read_csv('mine.csv')",
        f"for name in 'ab':\n    try:\n{WRITES}\n    except BaseException:\n        pass",
        f"for name in 'ab':\n    try:\n{WRITES}\n    finally:\n        1 / (name == 'a')",
    ],
    ids=[
        "a loop",
        "beside what reads",
        "a stop that is caught",
        "a stop that is another error",
    ],
)
async def test_first_of_two_effects_is_not_repeated(desk: Desk, code: str) -> None:
    (desk.workspace / "mine.csv").write_text("x\n1\n")
    desk.permit = desk.new_permit()
    desk.permit.allows = lambda reach, lines: reach.what.endswith("/a")
    told = failure(await desk.run(code)).message
    assert told.startswith("stopped before this: Line ")
    assert re.search(r"/b\. This already happened and isn't repeated: .*/a\.$", told)
    assert desk.permit.why_not.startswith("this already happened")
    assert [each.name for each in desk.outside.iterdir()] == ["a"]
    assert desk.executor.paused is None


def judging() -> int:
    return sum(isinstance(each, StatementGuard) for each in gc.get_objects())


async def test_judge_is_released_with_its_cell(desk: Desk) -> None:
    gc.collect()
    before = judging()
    for number in range(5):
        await desk.run(f"a = [{number}]\nb = sum(a)")
    await desk.run("open('OUTSIDE/x', 'w')")
    assert desk.permit.held is not None
    await abandoned_cells_end()
    gc.collect()
    assert judging() <= before  # others may have ended meanwhile
