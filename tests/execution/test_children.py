"""Processes that code has started: ended with a cell that is stopped, left with one that is not."""

import asyncio
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from parsimony_kernel.execution import RemoteExecutor
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.capture import (
    MARKS,
    Capture,
    Descriptors,
    kill_marked,
    marked,
    new_mark,
)
from parsimony_kernel.execution.executor import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.factory import OutputFactory
from tests.execution.processes import lives
from tests.tiers import sampled

# Each tells the pids of what it starts, and one of them is no child of the code's any more.
FORMS = {
    "shell": "import subprocess\n"
    "subprocess.run('sleep 60 & echo $! >> pids; sleep 60 & echo $! >> pids; wait', shell=True)",
    "left-by-its-parent": "import subprocess, time\n"
    "subprocess.run('(sleep 60 & echo $! >> pids)', shell=True)\n"
    "subprocess.run('(sleep 60 & echo $! >> pids)', shell=True)\nwhile True: time.sleep(0.001)",
    "own-session": "import subprocess\n"
    "subprocess.run(['setsid', 'sh', '-c', 'echo $$ >> pids; sleep 60 & echo $! >> pids; wait'])",
    "own-environment": "import os, subprocess, time\nfor _ in range(2):\n"
    "    subprocess.run('sleep 60 & echo $! >> pids', shell=True, env={'PATH': os.environ['PATH']})"
    "\nwhile True: time.sleep(0.001)",
    "system": "import os\n"
    "os.system('sleep 60 & echo $! >> pids; sleep 60 & echo $! >> pids; wait')",
}


async def pids(folder: Path, number: int = 2) -> list[int]:
    """The pids that code has written, once they are there."""
    for _ in range(30_000):
        told = (folder / "pids").read_text() if (folder / "pids").exists() else ""
        if told.count("\n") == number:
            return [int(line) for line in told.split()]
        await asyncio.sleep(0.001)
    raise AssertionError("the code has told no pids")


@pytest.mark.parametrize("form", FORMS)
async def test_cancelled_cell_leaves_nothing_running(tmp_path: Path, form: str) -> None:
    task = asyncio.create_task(CodeExecutor(cwd=tmp_path).execute(FORMS[form]))
    started = await pids(tmp_path)
    assert all(lives(pid) for pid in started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [pid for pid in started if lives(pid, 30)] == []


async def late(executor: BaseCodeExecutor, folder: Path, code: str) -> None:
    """``AssertionError`` unless nothing of ``code`` lives on after its deadline."""
    await executor.set_cwd(str(folder))
    output = await executor.execute(code, timeout_seconds=1)
    assert output.error is not None
    assert (output.error.past_deadline, output.error.state_lost) == (True, False)
    assert [pid for pid in await pids(folder) if lives(pid, 30)] == []


@pytest.mark.parametrize("form", sampled(FORMS, 4))
async def test_late_cell_leaves_nothing_running(
    executor: BaseCodeExecutor, tmp_path: Path, form: str
) -> None:
    await late(executor, tmp_path, FORMS[form])


async def test_late_magic_leaves_nothing_running(shell: object, tmp_path: Path) -> None:
    code = "%%bash\nsleep 60 & echo $! >> pids\nsleep 60 & echo $! >> pids"
    await late(NotebookExecutor(shell), tmp_path, code)


async def test_process_outliving_finished_cell_is_users(
    executor: BaseCodeExecutor, tmp_path: Path
) -> None:
    await executor.set_cwd(str(tmp_path))
    output = await executor.execute(
        "import subprocess\nserver = subprocess.Popen(['sleep', '60'])\n"
        "with open('pids', 'a') as told: print(server.pid, file=told)"
    )
    assert output.error is None
    (pid,) = await pids(tmp_path, 1)
    await executor.execute(FORMS["system"], timeout_seconds=0.3)
    try:
        assert lives(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        await executor.execute("server.wait()")


async def test_thread_of_earlier_cell_does_not_belong_to_current(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = CodeExecutor(cwd=str(tmp_path))
    await executor.execute(
        "import subprocess, threading\n"
        "go, done, servers = threading.Event(), threading.Event(), []\n"
        "def work():\n"
        "    go.wait()\n"
        "    print('from before')\n"
        "    servers.append(subprocess.Popen(['sleep', '60']))\n"
        "    done.set()\n"
        "thread = threading.Thread(target=work)\nthread.start()"
    )
    stopped = await executor.execute("go.set()\ndone.wait()\nwhile True: pass", timeout_seconds=0.5)
    assert stopped.error is not None
    (server,) = executor.variables()["servers"]
    try:
        assert server.poll() is None
        assert stopped.stdout == ""
        assert "from before" in capsys.readouterr().out
    finally:
        server.kill()
        server.wait()


@pytest.mark.kernel
async def test_started_processes_end_with_kernel(tmp_path: Path) -> None:
    async with RemoteExecutor(cwd=str(tmp_path)) as executor:
        output = await executor.execute(
            "import subprocess\nfor command in (['sleep', '60'], ['setsid', 'sleep', '60']):\n"
            "    with open('pids', 'a') as told: print(subprocess.Popen(command).pid, file=told)"
        )
        assert output.error is None
        started = await pids(tmp_path)
        assert all(lives(pid) for pid in started)
    assert [pid for pid in started if lives(pid, 30)] == []


def test_process_mark_is_added_to_existing() -> None:
    outer, inner = new_mark(), new_mark()
    environment = marked(marked({"PATH": os.environ["PATH"]}, outer), inner)
    assert environment[MARKS] == f"{outer}:{inner}"
    for mark in (outer, inner):
        with subprocess.Popen(["sleep", "60"], env=environment) as sleeper:
            kill_marked(new_mark())
            assert sleeper.poll() is None
            kill_marked(mark)
            assert sleeper.wait() == -signal.SIGKILL


def test_pipes_are_read_where_select_is_sockets_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError("not a socket")

    monkeypatch.setattr(selectors.DefaultSelector, "register", refuses)
    descriptors, capture = Descriptors(), Capture(OutputFactory())
    more_than_a_pipe_holds = 200_000
    with descriptors:
        child = f"import sys; print('x' * {more_than_a_pipe_holds}); print('no', file=sys.stderr)"
        subprocess.run([sys.executable, "-c", child], check=True, timeout=60)
        os.write(1, b"end\n")
    descriptors.drain(capture)
    assert capture.stdout.text().endswith("x\nend\n")
    assert capture.stderr.text() == "no\n"


async def test_long_text_of_child_is_cut_once_and_its_characters_stay_whole(
    executor: BaseCodeExecutor,
) -> None:
    slowly = "import os\nfor each in '€'.encode(): os.write(1, bytes([each]))"
    output = await executor.execute(
        "import subprocess, sys\nfor each in range(2):\n"
        f"    subprocess.run([sys.executable, '-c', {slowly!r}])\n"
        "subprocess.run('seq 1 20000', shell=True)"
    )
    head, cut, tail = output.stdout.split("…")
    assert (head[:4], tail[-6:]) == ("€€1\n", "20000\n")
    assert int(cut.split()[0].replace(",", "")) > 88_000
    assert output.truncated
    # The limit counts characters, not their bytes, and what was cut is missing where it says so.
    code = "import subprocess\nsubprocess.run('printf %03000d | sed s/0/абвгд/g', shell=True)"
    whole = await executor.execute(code)
    assert (len(whole.stdout), whole.truncated) == (15_000, False)
    both = await executor.execute(f"print('mine')\n{code.replace('3000', '9000')}")
    assert abs(both.stdout.index("…") - 10_000) < 50
