"""The private namespace: its seed, its thread, and what is not of its code."""

import asyncio
import builtins
import contextlib
import io
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution import CodeExecutor
from tests.contracts.told import abandoned_cells_end, failure, text

DEADLINE_S = 0.3


@asynccontextmanager
async def running(code: str) -> AsyncIterator[asyncio.Task[KernelOutput]]:
    """A cell that has begun; ``code`` is what it does when the block is left."""
    executor = CodeExecutor()
    begun, go_on = threading.Event(), threading.Event()
    executor.locals.update(begun=begun, go_on=go_on)
    task = asyncio.create_task(executor.execute(f"begun.set()\ngo_on.wait()\n{code}"))
    await asyncio.to_thread(begun.wait)
    try:
        yield task
    finally:
        go_on.set()


async def test_executors_in_threads_are_isolated(tmp_path: Path) -> None:
    """Each prints its folder many times; all of it arrives, and only in its own output."""
    wrong: list[str] = []

    def work(folder: Path) -> None:
        folder.mkdir()
        executor = CodeExecutor(cwd=str(folder))

        async def cells() -> None:
            for _ in range(15):
                output = await executor.execute("import os\nfor _ in range(20): print(os.getcwd())")
                if output.stdout != f"{folder}\n" * 20:
                    wrong.append(output.stdout)

        asyncio.run(cells())

    def thread(name: str) -> threading.Thread:
        return threading.Thread(target=work, args=(tmp_path / name,))

    threads = [thread(name) for name in ("a", "b")]
    for each in threads:
        each.start()
    for each in threads:
        await asyncio.to_thread(each.join)
    assert wrong == []


async def test_blocked_call_is_reported_and_late_writes_are_dropped() -> None:
    executor = CodeExecutor()
    release = threading.Event()
    executor.locals["release"] = release
    output = await executor.execute(
        "release.wait()\nlate = True\nprint('late')", timeout_seconds=DEADLINE_S
    )
    assert "cannot be interrupted" in failure(output).message
    release.set()
    again = await executor.execute("'late' in globals()")
    assert (text(again.outputs[0]), again.stdout) == ("False", "")


WRITING = {
    "without a pause": "while True: write()",
    "with short pauses": "while True:\n    write()\n    time.sleep(0.02)",
    "with long pauses": "while True:\n    write()\n    time.sleep(0.09)",
    "swallowing": "while True:\n    try:\n        write()\n        time.sleep(0.05)\n"
    "    except BaseException: pass",
    "in a call that blocks": "write()\nover.wait()\nwrite()",
    "in a thread": "def loop():\n    while not over.wait(0.01): write()\n"
    "threading.Thread(target=loop).start()\nwhile True: time.sleep(0.01)",
}


# Stopped between the opening of a file and its being kept, code leaves it to the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", ["deadline", "stop"])
@pytest.mark.parametrize("loop", WRITING)
async def test_stopped_code_writes_nothing_or_answer_warns(
    tmp_path: Path, loop: str, how: str
) -> None:
    # Code that can't be stopped is waited for in full each time, and has no moment to get wrong.
    attempts = 1 if loop in ("swallowing", "in a call that blocks") else 5
    for attempt in range(attempts):
        executor, over = CodeExecutor(), threading.Event()
        executor.locals["over"] = over
        path, others = tmp_path / f"{attempt}", set(threading.enumerate())
        write = f"def write():\n    with open({str(path)!r}, 'a') as file: file.write('x')\n"
        code = f"import threading, time\n{write}{WRITING[loop]}"
        if how == "deadline":
            said = failure(await executor.execute(code, timeout_seconds=0.15)).message
        else:
            task = asyncio.create_task(executor.execute(code))
            while not path.exists():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as stopped:
                await task
            said = str(stopped.value)
        written = path.stat().st_size if path.exists() else 0
        over.set()
        for each in set(threading.enumerate()) - others:
            if each.name == "parsimony-cell" or "loop" in each.name:
                await asyncio.to_thread(each.join)
        assert "write files" in said or not path.exists() or path.stat().st_size == written
        assert "still run" not in said or not loop.startswith("with")


def test_abandoned_code_does_not_hold_process_exit() -> None:
    """It swallows its own end, too, which the interpreter would bring to it at its exit."""
    code = (
        "import asyncio\nwhile True:\n    try: await asyncio.sleep(9)\n    except BaseException: 1"
    )
    program = (
        "import asyncio\nfrom parsimony_kernel.execution.executor import CodeExecutor\n"
        f"kept = CodeExecutor()\nasyncio.run(kept.execute({code!r}, timeout_seconds=0.1))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


async def test_abandoned_code_keeps_hosts_new_streams() -> None:
    executor, release = CodeExecutor(), threading.Event()
    executor.locals["release"] = release
    code = "try:\n    release.wait()\nfinally:\n    print('late')"
    await executor.execute(code, timeout_seconds=0.1)
    with contextlib.redirect_stdout(io.StringIO()) as theirs:
        assert (await executor.execute("print('mine')")).stdout == "mine\n"
        print("of the host")
        release.set()
        await abandoned_cells_end()
        assert sys.stdout is theirs
    assert theirs.getvalue() == "of the host\n"


async def test_seeded_readers_load_when_named() -> None:
    executor = CodeExecutor()
    output = await executor.execute(
        "[each.__name__ for each in (read_excel, read_pdf_text, read_pptx_text, load_dataset)]"
    )
    assert text(output.outputs[0]) == (
        "['read_excel', 'read_pdf_text', 'read_pptx_text', 'load_dataset']"
    )
    assert executor.variables() == {}
    await executor.execute("load_dataset = 5")
    assert executor.variables() == {"load_dataset": 5}


async def test_seeded_name_is_found_in_later_call() -> None:
    executor = CodeExecutor()
    await executor.execute("def mean(values):\n    return float(np.mean(values))")
    assert text((await executor.execute("mean([1, 3])")).outputs[0]) == "2.0"


async def test_child_prints_are_isolated_from_others(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import subprocess\nsubprocess.run('echo child; echo wrong >&2', shell=True);"
    async with running(code) as task:
        print("of the host")
        os.write(1, b"past python\n")
        subprocess.run(["echo", "a child of the host"], check=True)
    output = await task
    assert (output.stdout, output.stderr) == ("child\n", "wrong\n")
    told = capfd.readouterr()
    assert sorted(told.out.splitlines()) == ["a child of the host", "of the host", "past python"]
    assert told.err == ""


async def test_prints_of_unrelated_thread_are_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import threading\nmine = threading.Thread(target=print, args=('of the cell',))\n"
        "mine.start()\nmine.join()"
    )
    async with running(code) as task:
        theirs = threading.Thread(target=print, args=("of the host",))
        theirs.start()
        theirs.join()
    assert (await task).stdout == "of the cell\n"
    assert capsys.readouterr().out == "of the host\n"


async def test_already_open_figure_stays_open() -> None:
    pyplot: Any = pytest.importorskip("matplotlib.pyplot")
    mine = pyplot.figure()
    try:
        output = await CodeExecutor().execute(
            "import matplotlib.pyplot as plt\nplt.figure()\nplt.title('theirs');"
        )
        assert [each.for_model()["title"] for each in output.outputs] == ["theirs"]
        assert pyplot.get_fignums() == [mine.number]
    finally:
        pyplot.close(mine)


async def test_permanent_replacements_stay_and_rest_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for owner, name in ((builtins, "print"), (os, "system")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    start, popen = threading.Thread.start, subprocess.Popen.__init__
    await CodeExecutor().execute(
        "import builtins, os\nbuiltins.print = max\nos.system = min", timeout_seconds=60
    )
    replaced: Any = (builtins.print, os.system)
    assert replaced == (max, min)
    assert (threading.Thread.start, subprocess.Popen.__init__) == (start, popen)
