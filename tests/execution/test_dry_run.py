"""What a dry run prevents is its own code's alone; everybody else goes on writing."""

import asyncio
import threading
from pathlib import Path
from typing import Any

from parsimony_kernel.execution import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.permit import Permit, permitting
from parsimony_kernel.lineage.checkpoint import Checkpoints


async def test_others_write_while_it_runs(tmp_path: Path) -> None:
    """A task and a thread that are born meanwhile, but not of its code."""
    executor = CodeExecutor(cwd=tmp_path)
    running, go_on = threading.Event(), threading.Event()
    executor.locals.update(running=running, go_on=go_on)
    task = asyncio.create_task(
        executor.execute("running.set()\ngo_on.wait()\nopen('inside', 'w')", dry_run=True)
    )
    await asyncio.to_thread(running.wait)
    (tmp_path / "task").write_text("written")
    await asyncio.to_thread((tmp_path / "thread").write_text, "written")
    go_on.set()
    output = await task
    assert output.error is not None
    assert output.error.name == "PermissionError"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["task", "thread"]


async def test_the_notebook_s_other_tasks_write_while_it_awaits(shell: Any, tmp_path: Path) -> None:
    executor = NotebookExecutor(shell)
    await executor.set_cwd(str(tmp_path))
    written = asyncio.Event()
    shell.user_ns["written"] = written

    async def record() -> None:
        (tmp_path / "record").write_text("written")
        written.set()

    task = asyncio.create_task(record())
    output = await executor.execute("await written.wait()\nopen('inside', 'w')", dry_run=True)
    await task
    assert output.error is not None
    assert [each.name for each in tmp_path.iterdir()] == ["record"]


async def test_a_task_that_it_leaves_behind_writes_nothing_either(
    shell: Any, tmp_path: Path
) -> None:
    executor = NotebookExecutor(shell)
    await executor.set_cwd(str(tmp_path))
    place = str(tmp_path / "late")
    began, outcome = asyncio.Event(), asyncio.get_running_loop().create_future()
    shell.user_ns.update(began=began, outcome=outcome)
    await executor.execute(
        "import asyncio\nasync def later():\n    await began.wait()\n    try:\n"
        f"        open({place!r}, 'w')\n    except OSError as exc: outcome.set_result(exc)\n"
        "asyncio.create_task(later());",
        dry_run=True,
    )
    began.set()
    assert isinstance(await outcome, PermissionError)
    assert list(tmp_path.iterdir()) == []


async def test_code_that_is_left_behind_writes_nothing_and_binds_nothing(tmp_path: Path) -> None:
    executor = CodeExecutor(cwd=tmp_path)
    release = threading.Event()
    executor.locals["release"] = release
    output = await executor.execute(
        f"release.wait()\nlate = 1\nopen({str(tmp_path / 'late')!r}, 'w')",
        dry_run=True,
        timeout_seconds=0.1,
    )
    assert output.error is not None
    assert output.error.state_lost
    release.set()
    for each in threading.enumerate():
        if each.name == "parsimony-cell":
            await asyncio.to_thread(each.join)
    assert "late" not in executor.variables()
    assert list(tmp_path.iterdir()) == []


async def test_magics_bind_nothing(shell: Any) -> None:
    executor = NotebookExecutor(shell)
    shell.user_ns["kept"] = [1]
    output = await executor.execute(
        "%time kept.append(2)\n%time fresh = 3\nfresh + len(kept)", dry_run=True
    )
    assert output.error is None
    assert shell.user_ns["kept"] == [1]
    assert "fresh" not in shell.user_ns


async def test_a_checkpoint_that_is_open_is_none_the_wiser() -> None:
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
