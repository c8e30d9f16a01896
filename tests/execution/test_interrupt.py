"""SIGINT has one owner, and it stops code, awaits and nothing else."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.base import InProcessExecutor
from parsimony_kernel.execution.executor import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.interrupt import CodeGuard, stop_on_sigint, stop_running_code
from tests.contracts.told import failure

# Guards against a hang, half of what the code would take that is stopped.
PATIENCE_S = 30.0


@contextmanager
def plain_handler() -> Iterator[None]:
    """Python's own handler in place of the event loop's; it must be there again at the end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


class Press:
    """Presses Stop from another thread, once the code says that it is there."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.at = 0.0
        self._thread = threading.Thread(target=self._press)
        self._thread.start()

    def _press(self) -> None:
        assert self.ready.wait(PATIENCE_S)
        self.at = time.monotonic()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def since(self) -> float:
        """Seconds since it was pressed."""
        self._thread.join()
        return time.monotonic() - self.at


def press_once_a_child_is_awaited() -> None:
    main, pause = threading.main_thread().ident or 0, threading.Event()
    given_up_at = time.monotonic() + PATIENCE_S
    while sys._current_frames()[main].f_code.co_name != "_try_wait":
        if time.monotonic() > given_up_at:
            return
        pause.wait(0.001)
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time\ntime.sleep(60)",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "for i in range(10**9):\n    try:\n        int('x')\n    except:\n        continue",
        "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
    ],
    ids=["loop", "sleep", "lock", "swallowing", "after-an-await"],
)
async def test_stop_ends_running_code(shell: Any, code: str) -> None:
    executor, stop, press = NotebookExecutor(shell), CancellationRequest(), Press()
    shell.user_ns["ready"] = press.ready.set
    with plain_handler(), stop_on_sigint(stop):
        output = await executor.execute(f"ready()\n{code}")
    assert press.since() < PATIENCE_S
    assert output.error is not None
    assert (output.error.name, output.error.message) == ("KeyboardInterrupt", "stopped by the user")
    assert stop.is_set


@pytest.mark.parametrize("wait", ["time.sleep(60)", "lock.acquire()"])
async def test_stop_in_another_thread_ends_codes_wait(shell: Any, wait: str) -> None:
    """As one does that arrives in the moment in which the code begins to wait."""
    executor, stop, waiting = NotebookExecutor(shell), CancellationRequest(), threading.Event()

    def press() -> None:
        main = threading.main_thread().ident or 0
        pause = threading.Event()
        assert waiting.wait(PATIENCE_S)
        while sys._current_frames()[main].f_lineno != 4:
            pause.wait(0.001)
        pause.wait(0.05)  # the last step into C, which nothing tells
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    shell.user_ns["waiting"] = waiting.set
    code = f"import threading, time\nlock = threading.Lock()\nlock.acquire(); waiting()\n{wait}"
    with plain_handler(), stop_on_sigint(stop):
        output = await executor.execute(code)
    thread.join()
    assert failure(output).name == "KeyboardInterrupt"


async def test_stop_ends_wait_for_child(shell: Any) -> None:
    """Pressed for the whole process, while the main thread asks the system for the child's end."""
    executor, stop = NotebookExecutor(shell), CancellationRequest()
    press = threading.Thread(target=press_once_a_child_is_awaited)
    with plain_handler(), stop_on_sigint(stop):
        press.start()
        output = await executor.execute(
            "import subprocess\np = subprocess.Popen(['sleep', '60'])\np.wait()"
        )
    press.join()
    assert failure(output).name == "KeyboardInterrupt"
    child = executor.variables()["p"]
    child.kill()
    assert child.wait() == -signal.SIGKILL  # 0, had it been waited for


async def test_stop_ends_idle_await_at_once(shell: Any) -> None:
    """The selector is asleep when the signal comes; it must wake."""
    executor, stop, press = NotebookExecutor(shell), CancellationRequest(), Press()
    shell.user_ns["ready"] = press.ready.set
    # Pressed by a callback of the loop, so that none of the code is on the stack by then.
    idle = "asyncio.get_running_loop().call_later(0.01, ready)\nawait asyncio.sleep(60)"
    with plain_handler(), stop_on_sigint(stop), pytest.raises(Cancelled):
        await stop.race(executor.execute(f"import asyncio\n{idle}"))
    assert press.since() < PATIENCE_S


async def test_stop_without_running_code_is_harmless() -> None:
    stop, press = CancellationRequest(), Press()
    with plain_handler(), stop_on_sigint(stop):
        press.ready.set()
        with pytest.raises(Cancelled):
            await stop.race(asyncio.Event().wait())
    assert press.since() < PATIENCE_S
    assert stop.reason == "stopped by the user"


async def test_third_press_reaches_previous_handler() -> None:
    with plain_handler(), stop_on_sigint(CancellationRequest()):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


async def test_kernel_restoring_its_handler_keeps_stop() -> None:
    """A run that a click resumed outlives the message in whose handler it began."""
    stop = CancellationRequest()
    saved = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stop_on_sigint(stop):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            await asyncio.sleep(0.01)
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set
    assert signal.signal(signal.SIGINT, saved) is signal.SIG_IGN


async def test_foreign_handler_is_displaced_for_one_step(shell: Any) -> None:
    executor, stop, press = NotebookExecutor(shell), CancellationRequest(), Press()
    shell.user_ns["ready"] = press.ready.set
    with plain_handler(), stop_on_sigint(stop):
        ours = signal.signal(signal.SIGINT, signal.default_int_handler)
        output = await executor.execute("ready()\nwhile True: pass")
        assert signal.signal(signal.SIGINT, ours) is signal.default_int_handler
    assert output.error is not None
    assert stop.is_set


async def test_interrupt_without_turn_is_users() -> None:
    with plain_handler():
        with stop_on_sigint(CancellationRequest()):
            pass
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_deadline_off_main_thread_ends_python_code(shell: Any) -> None:
    """As in a kernel's subshell."""
    seen: list[Any] = []

    def subshell() -> None:
        executor = NotebookExecutor(shell)
        seen.append(asyncio.run(executor.execute("while True: pass", timeout_seconds=0.2)))
        seen.append(asyncio.run(executor.execute("1 + 1")))

    thread = threading.Thread(target=subshell)
    thread.start()
    thread.join(PATIENCE_S)
    assert [getattr(each.error, "name", None) for each in seen] == ["TimeoutError", None]


def tracer(frame: FrameType, event: str, argument: object) -> Any:
    """Asks for no lines, as coverage does for files that it does not measure."""
    frame.f_trace_lines = False
    return tracer


def swallowing_tracer(frame: FrameType, event: str, argument: object) -> Any:
    """Lets nothing out that is raised while it runs, as a debugger does."""
    with suppress(BaseException):
        sum(n for n in range(9))
    return swallowing_tracer


SWALLOWING = "while True:\n    try:\n        sum(range(9))\n    except BaseException:\n        pass"


@pytest.mark.parametrize("code", ["while True: pass", SWALLOWING, "import time\ntime.sleep(60)"])
async def test_deadline_under_tracer_keeps_tracer(shell: Any, code: str) -> None:
    before = sys.gettrace()
    sys.settrace(swallowing_tracer)
    try:
        output = await NotebookExecutor(shell).execute(code, timeout_seconds=0.1)
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert failure(output).message.startswith("timeout: the code was stopped after 0.1 s")
    assert after is swallowing_tracer


@pytest.mark.parametrize("tracing", [tracer, swallowing_tracer])
@pytest.mark.parametrize("code", ["while True: pass", SWALLOWING, "release.wait()"])
def test_deadline_works_with_every_thread_traced(tracing: Callable[..., Any], code: str) -> None:
    release, seen = threading.Event(), list[KernelOutput]()

    def cells() -> None:
        executor = CodeExecutor()
        executor.locals["release"] = release
        seen.append(asyncio.run(executor.execute(code, timeout_seconds=0.1)))
        seen.append(asyncio.run(executor.execute("6 * 7")))

    thread, before = threading.Thread(target=cells, daemon=True), threading.gettrace()
    threading.settrace(tracing)
    try:
        thread.start()
        thread.join(PATIENCE_S)
    finally:
        threading.settrace(before)
        release.set()
    assert [getattr(each.error, "name", None) for each in seen] == ["TimeoutError", None]
    if tracing is tracer:  # the other may have swallowed the interruptions too
        is_left = "cannot be interrupted and still runs" in str(seen[0].error)
        assert is_left == (code == "release.wait()")


async def test_press_between_cell_parts_stops_next() -> None:
    with plain_handler(), stop_on_sigint(CancellationRequest()), CodeGuard() as guard:
        guard.call(int)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            guard.check()
    assert guard.reason == "stop"


async def test_another_thread_can_stop_blocking_code(shell: Any) -> None:
    executor = NotebookExecutor(shell)
    assert not stop_running_code()
    shell.user_ns["click"] = threading.Thread(target=stop_running_code).start
    output = await executor.execute("click()\nwhile True: pass")
    assert failure(output).message == "stopped by the user"


async def test_code_started_after_stop_does_not_run(shell: Any) -> None:
    """A press in the moment between the decision to run and the first line is not lost."""
    cancellation = CancellationRequest()
    with stop_on_sigint(cancellation):
        signal.raise_signal(signal.SIGINT)
        output = await NotebookExecutor(shell).execute("reached = True")
    assert cancellation.is_set
    assert failure(output).name == "KeyboardInterrupt"
    assert "reached" not in shell.user_ns


async def test_stop_waits_for_parallel_csv_reader(shell: Any) -> None:
    """Interrupted, it closes its parsers under the feet of its threads, and the kernel is gone."""
    reader: dict[str, Any] = {}
    source = "def _read_csv_parallel(press):\n    press()\n    return 'whole'"
    exec(compile(source, "site-packages/pandas/io/parsers/readers.py", "exec"), reader)
    shell.user_ns["reader"] = reader["_read_csv_parallel"]
    shell.user_ns["press"] = lambda: signal.raise_signal(signal.SIGINT)
    with plain_handler(), stop_on_sigint(CancellationRequest()):
        output = await NotebookExecutor(shell).execute("made = reader(press)\nwhile True: pass")
    assert failure(output).name == "KeyboardInterrupt"
    assert shell.user_ns["made"] == "whole"


async def test_deadline_spares_finalizers(executor: InProcessExecutor) -> None:
    output = await executor.execute(
        "import gc, time, weakref\n"
        "began, whole = time.monotonic(), []\n"
        "class Held: pass\n"
        "def clean_up():\n"
        "    while time.monotonic() < began + 1.3: pass\n"
        "    whole.append(True)\n"
        "held = Held()\n"
        "held.me = held\n"
        "weakref.finalize(held, clean_up)\n"
        "del held\n"
        "gc.collect()\n"
        "while True: pass",
        timeout_seconds=1,
    )
    assert (failure(output).past_deadline, failure(output).line) == (True, 12)
    assert executor.variables()["whole"] == [True]
