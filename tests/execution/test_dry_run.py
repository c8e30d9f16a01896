"""What a dry run is to magics, to checkpoints that are open, and under a permit."""

import sys
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.execution import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.run_scope import Permit, permitting
from parsimony_kernel.lineage.checkpoint import Checkpoints


async def test_magics_bind_nothing(shell: Any) -> None:
    executor = NotebookExecutor(shell)
    shell.user_ns["kept"] = [1]
    output = await executor.execute(
        "%time kept.append(2)\n%time fresh = 3\nfresh + len(kept)", dry_run=True
    )
    assert output.error is None
    assert shell.user_ns["kept"] == [1]
    assert "fresh" not in shell.user_ns


async def test_open_checkpoint_is_unaffected() -> None:
    executor = CodeExecutor()
    await executor.execute("items = [1]")
    held = executor.checkpoints()
    assert isinstance(held, Checkpoints)
    number = held.take()
    await executor.execute("items.append(2)\nfresh = 1", dry_run=True)
    assert not held.put_back(number)
    assert executor.variables() == {"items": [1]}


async def test_it_reaches_only_what_its_code_may_reach(tmp_path: Path) -> None:
    executor = CodeExecutor(cwd=tmp_path)
    with permitting(Permit(tmp_path, lambda reach, lines: False)):
        output = await executor.execute(
            "import socket\nsocket.getaddrinfo('data.example.invalid', 80)", dry_run=True
        )
    assert output.error is not None
    assert output.error.message.endswith("it stopped before data.example.invalid")
    assert executor.paused is None


@pytest.mark.parametrize(
    ("way", "reach"),
    [("fork", "open(path, 'w')"), ("spawn", "open(path, 'w')"), ("spawn", "os.environ['A_KEY']")],
)
async def test_its_workers_compute_and_write_nothing(
    tmp_path: Path, way: str, reach: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    monkeypatch.delitem(sys.modules, "dry_work", raising=False)
    # What is temporary is free, and the workspace is not to be.
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "dry_work.py").write_text(
        "import os\ndef work(told, path):\n"
        "    told.put((sum(range(4)), os.environ.get('TMPDIR')))\n"
        f"    {reach}\n"
    )
    # Threads start several at once, as Dask does; a fork beside other threads may hang.
    several = 1 if way == "fork" else 4
    output = await CodeExecutor(cwd=tmp_path).execute(
        "import multiprocessing, sys\nfrom concurrent.futures import ThreadPoolExecutor\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"from dry_work import work\nways = multiprocessing.get_context({way!r})\n"
        "told = ways.SimpleQueue()\n"
        f"to = dict(target=work, args=(told, {str(tmp_path / 'new.txt')!r}))\n"
        f"ps = [ways.Process(**to) for _ in range({several})]\n"
        f"if {several} == 1:\n    ps[0].start()\n"
        f"else:\n    with ThreadPoolExecutor({several}) as pool:\n"
        "        [*pool.map(ways.Process.start, ps)]\n"
        "[p.join() for p in ps]\n[(told.get(), p.exitcode) for p in ps]",
        dry_run=True,
        timeout_seconds=60,
    )
    assert output.error is None
    expected = [((6, str(tmp_path / "tmp")), 1)] * several
    assert output.shown[-1].for_model()["text"] == str(expected), output.stderr
    assert "may not reach" in output.stderr
    assert not (tmp_path / "new.txt").exists()
