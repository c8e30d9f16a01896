"""How every executor ends code that takes too long, or is wanted no more."""

import asyncio
from pathlib import Path

import pytest

from parsimony_kernel.execution import RemoteExecutor
from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import failure, text
from tests.tiers import sampled

DEADLINE_S = 0.3


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import asyncio\nawait asyncio.sleep(60)",
        "import time\nfor _ in range(600): time.sleep(0.01)",
        "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
        "while True:\n    try:\n        sum(range(9))\n    except BaseException:\n        pass",
        "import asyncio\nwhile True:\n    try:\n        await asyncio.sleep(60)\n"
        "    except BaseException:\n        pass",
    ],
    ids=["loop", "await", "sleeps", "await-then-loop", "swallowing", "swallowing-await"],
)
async def test_code_ends_at_its_deadline(executor: BaseCodeExecutor, code: str) -> None:
    output = await executor.execute(f"print('begun')\n{code}", timeout_seconds=DEADLINE_S)
    error = failure(output)
    assert error.name == "TimeoutError"
    assert error.message.startswith("timeout: the code was stopped after 0.3 s in line ")
    assert "files that it wrote stay" in error.message
    assert error.line is not None
    assert output.stdout == "begun\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("while True: pass", "in line 1; files that it wrote stay"),
        ("x = 1\nwhile True: pass", "in line 2; line 1 ran, and files that it wrote stay"),
        (
            "x = 1\ndef f():\n    while True:\n        pass\n\nf()\nx = 2",
            "in line 6; lines 1 to 5 ran, and files that it wrote stay",
        ),
        (
            "x = 1\nx = 2\nfor each in range(9):\n    x = each\n    while True:\n        pass",
            "in line 5; lines 1 to 2 ran, and files that it wrote stay",
        ),
    ],
)
async def test_late_code_reports_what_ran(executor: BaseCodeExecutor, code: str, said: str) -> None:
    error = failure(await executor.execute(code, timeout_seconds=DEADLINE_S))
    # A line of its own and its body are one place, where the interruption may come in either.
    assert error.message in {
        f"timeout: the code was stopped after 0.3 s {said.replace('line 5', place)}"
        for place in ("line 5", "line 6")
    }


async def test_late_code_reports_surviving_threads(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import threading\nend = threading.Event()\n"
        "threading.Thread(target=end.wait).start()\nwhile True: pass",
        timeout_seconds=DEADLINE_S,
    )
    assert failure(output).message.endswith(
        "threads that it started still run, and may write files"
    )
    await executor.execute("end.set()")


async def test_blocking_call_does_not_hold_caller(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import time\ntime.sleep(2)\nlate = True", timeout_seconds=DEADLINE_S
    )
    assert "timeout" in failure(output).message
    assert "late" not in executor.variables()


async def test_fast_code_is_unaffected_by_deadline(executor: BaseCodeExecutor) -> None:
    for _ in range(20):
        assert (await executor.execute("x = 1", timeout_seconds=5)).error is None


async def test_cancel_ends_await_with_cleanup(executor: BaseCodeExecutor, tmp_path: Path) -> None:
    await executor.set_cwd(str(tmp_path))
    task = asyncio.create_task(
        executor.execute(
            "import asyncio\n"
            "def suspended(): open('begun', 'w').close()\n"
            "try:\n"
            "    asyncio.get_running_loop().call_soon(suspended)\n"
            "    await asyncio.sleep(60)\n"
            "finally:\n"
            "    cleaned = True"
        )
    )
    while not (tmp_path / "begun").exists():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert text((await executor.execute("cleaned")).outputs[0]) == "True"


@pytest.mark.parametrize(
    "call",
    sampled(
        [
            "hashlib.pbkdf2_hmac('sha256', b'word', b'salt', 2_000_000)",
            "sum(range(60_000_000))",
            "re.match(r'(?:a+)+b', 'a' * 25)",
            "sorted(str(n) for n in range(1_500_000))",
        ],
        2,
    ),
    ids=["without-the-lock", "with-the-lock", "pattern", "sort"],
)
async def test_code_ends_after_late_c_call(executor: BaseCodeExecutor, call: str) -> None:
    """Whether the call is ended, waited for, or left behind; it is said if anything is gone."""
    output = await executor.execute(
        f"import hashlib, re\nprint('begun')\n{call}\nwhile True: pass", timeout_seconds=DEADLINE_S
    )
    error = failure(output)
    assert (error.name, error.past_deadline) == ("TimeoutError", True)
    assert error.message.startswith("timeout: ")
    assert ("be interrupted" in error.message) == error.state_lost
    is_gone = error.state_lost and isinstance(executor, RemoteExecutor)
    assert output.stdout == ("" if is_gone else "begun\n")
    again = await executor.execute("print('on')\n6 * 7")
    assert (again.stdout, text(again.shown[0])) == ("on\n", "42")


async def test_awaited_child_process_does_not_hold_cell(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "import subprocess\nsubprocess.run(['echo', 'begun'])\n"
        "subprocess.run(['sleep', '60'])\nwhile True: pass",
        timeout_seconds=DEADLINE_S,
    )
    error = failure(output)
    assert (error.name, error.state_lost) == ("TimeoutError", False)
    assert output.stdout == "begun\n"
