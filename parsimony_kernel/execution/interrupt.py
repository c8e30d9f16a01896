"""Stopping code that runs: the one owner of SIGINT and of deadlines.

Nothing else of ours installs a signal handler. An interruption is raised into the code itself,
and only while that code is on the stack; while it awaits, its task is cancelled instead. What
swallows an interruption gets it again, the second time on every line, which leaves no
``except: continue`` to hide in. C code is interrupted when it returns.
"""

import _thread
import asyncio
import ctypes
import gc
import inspect
import os
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import CodeType, FrameType, TracebackType
from typing import Any, Literal, TypeVar

from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.execution.cell import NAME_PREFIX
from parsimony_kernel.execution.tasks import staying

T = TypeVar("T")
Reason = Literal["deadline", "stop", "cancel", "held"]

# The first pause lets clean-up finish: subprocess gives an interrupted child a quarter of a second.
_FIRST_RESEND_S = 0.3
_RESEND_S = 0.1
# How long an exception stays pending in another thread, and for how long it is then taken back so
# that threads which it holds up get on: it is to be there when a call that blocks returns.
_WINDOW_S = 0.09
_GAP_S = 0.01
_REASSERT_S = 0.1
# What the watchdog hears: that it is rung for, that a signal has arrived, and that Python has heard
# of it. Between the last two the code may begin to wait, in C, for something else.
_RING, _ARRIVED, _HEARD = b"r", signal.SIGINT, b"h"
_UNHEARD_S = 0.03
_ENDING_S = 0.2
# How often, and how long each time, a strike waits for a collection of garbage to end.
_COLLECTIONS = 100
_COLLECTION_S = 0.01
# How many cancelled awaits code may survive before it is left.
_PATIENCE = 1
_HARD_PRESSES = 3
_FRAGILE = frozenset({"_read_csv_parallel"})


class DeadlineReached(BaseException):
    """The time of the code is up. Not an ``Exception``, so that ``except Exception`` lets it by."""


class Held(BaseException):
    """The code was stopped before it reached outside. No ``Exception`` either."""


class _Withdrawn(BaseException):
    """Arrives in place of an interruption that is taken back."""


_EXCEPTION: dict[Reason, type[BaseException]] = {
    "deadline": DeadlineReached,
    "stop": KeyboardInterrupt,
    "cancel": asyncio.CancelledError,
    "held": Held,
}
_INTERRUPTIONS = tuple(_EXCEPTION.values())

# Raises a class in a thread by its id; ``_NOTHING`` takes back what has not arrived. While one is
# pending, and after it was taken back until another one arrives anywhere, the interpreter keeps a
# flag up that slows every thread; in 3.11 a traced thread enters no Python function meanwhile. So
# this is C, and between raising and lowering the flag only C is called.
_raise_in = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_NOTHING: Any = ctypes.py_object()
# A reference that nobody owns: what has it outlives the interpreter's own end.
_never_forget = ctypes.pythonapi["Py_IncRef"]
_never_forget.argtypes = (ctypes.py_object,)
# A debugger replaces it by one that prints a warning, which would be taken for the code's.
_set_tracer = sys.settrace


def _is_fragile(frame: FrameType | None) -> bool:
    """Whether an exception raised now would take the process down.

    pandas' parallel CSV reader closes its parsers when it is interrupted, while its worker
    threads still use them; it ends by itself, like any C code.
    """
    while frame is not None:
        if frame.f_code.co_name in _FRAGILE and "pandas" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _is_collecting() -> bool:
    """Whether garbage is being collected: another collection does nothing then.

    What runs meanwhile are finalizers, of whatever was dropped anywhere. An interruption would end
    one of these in place of the code, and be swallowed.
    """
    before = gc.get_stats()[0]["collections"]
    gc.collect(0)
    return bool(gc.get_stats()[0]["collections"] == before)


class OwnThread(threading.Thread):
    """A thread of ours, which is not of the code that runs while it starts."""


class CodeGuard:
    """Lets a deadline, a stop and a cancel reach one execution of code.

    Entered in the thread that runs the code, held for the whole execution. ``reason`` says why
    the code was interrupted, ``None`` when it was not: believe it rather than the exception that
    came out, which the code may have caught, wrapped or replaced.

    Args:
        seconds: the deadline, from entering on; ``None`` for no limit.
        around: a context for as long as the code is on the stack, out of reach itself.
    """

    def __init__(
        self, seconds: float | None = None, *, around: AbstractContextManager[Any] | None = None
    ) -> None:
        self.seconds = seconds
        self._around = around or nullcontext()
        self.reason: Reason | None = None
        self._strikes = 0
        # Of these, how many the code of another thread has met.
        self._arrived = 0
        self._is_struck = False
        self._on_stack = False
        self._closed = False
        self._thread = 0
        self._in_main = False
        self._gate = threading.Lock()
        # No lock, because a signal handler rings it, and signals themselves do.
        self._alarm, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._task: asyncio.Task[Any] | None = None
        self._outlasted: asyncio.Future[None] | None = None
        self._cancels = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> "CodeGuard":
        self._thread = threading.get_ident()
        self._in_main = threading.current_thread() is threading.main_thread()
        if self._in_main:
            _sigint.guards.append(self)
            if _sigint.turns and _sigint.turns[-1].cancellation.is_set:
                # Pressed between the decision to run the code and this moment.
                self.reason = "stop"
        self._watcher = OwnThread(target=self._watch, name="parsimony-deadline", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        if self._in_main:
            _sigint.guards.remove(self)
        self._ring()
        if self.reason is None:
            self._watcher.join(_ENDING_S)  # and its sockets are closed

    def interrupt(self, reason: Reason) -> None:
        """Interrupt the code now, from any thread but a signal handler."""
        self.reason = self.reason or reason
        self._ring()

    def check(self) -> None:
        """Raise what is due, before more code is started."""
        if self.reason is not None:
            raise self.exception()

    def attempt(self, function: Callable[..., object], *arguments: Any) -> BaseException | None:
        """Check and run ``function``, the code itself; what it raised, if anything."""
        try:
            self.check()
            self.call(function, *arguments)
        except BaseException as exc:  # boundary: tool - the cell's code
            return exc
        return None

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run ``function``, the code itself, within reach of interruptions.

        A child that it forks ends here at the latest: what comes next is the notebook's.
        """
        with _EndingForks(), self._around:
            if self._in_main:
                return self._call_in_main(function, *arguments)
            return self._call_elsewhere(function, *arguments)

    async def drive(self, coroutine: Coroutine[Any, Any, Any]) -> BaseException | None:
        """Run the code's coroutine to its end as a task of its own; what it raised, if anything.

        A task of its own, so that code which cancels its own task (``asyncio.timeout``) is not
        taken for someone who cancels ours. Cancelling us cancels the code, and the cancellation
        is what comes back. Code that outlasts its interruptions is never resumed.
        """
        if self.reason is not None:
            coroutine.close()
            return self.exception()
        self._loop = loop = asyncio.get_running_loop()
        self._outlasted = outlasted = loop.create_future()
        cancelled: asyncio.CancelledError | None = None
        with staying(loop):
            self._task = task = loop.create_task(self._contained(coroutine))
            waited: set[asyncio.Future[Any]] = {task, outlasted}
            try:
                while not (task.done() or outlasted.done()):
                    try:
                        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                    except asyncio.CancelledError as exc:
                        cancelled = exc
                        self.reason = "cancel"
                        self._cancel_await()
                        self._is_struck = True
                        self._ring()
            finally:
                self._task = None
                if not task.done():
                    task.cancel()
        if cancelled is not None:
            return cancelled
        if not task.done() or task.cancelled():
            return _EXCEPTION[self.reason or "cancel"]()
        return task.result()

    async def _contained(self, coroutine: Coroutine[Any, Any, Any]) -> BaseException | None:
        # Returned, not raised: a task hands KeyboardInterrupt and SystemExit to the whole loop.
        try:
            await _driven(self, coroutine)
        except GeneratorExit:
            raise
        except BaseException as exc:  # boundary: tool - the cell's code
            return exc
        return None

    # The code is on the stack of the main thread: a signal reaches it even in sleep.

    def _call_in_main(self, function: Callable[..., T], *arguments: Any) -> T:
        outer = _sigint.running
        displaced = _sigint.take_over()
        is_outermost = _sigint.listen(self._bell)
        tracer = sys.gettrace()
        try:
            _sigint.running = self
            self._on_stack = True
            return function(*arguments)
        finally:
            self._on_stack = False
            _sigint.running = outer
            with self._gate:  # a strike that saw us on the stack has sent its signal by now
                pass
            self._reseat(tracer)
            if is_outermost:
                _sigint.listen(None)
            _sigint.give_back(displaced)

    def struck(self, frame: FrameType | None) -> None:
        """Called by the signal handler: raise into the code, if it is still there."""
        if not self._on_stack:
            if self._loop is not None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._cancel_await)
            return
        if _is_fragile(frame):
            return  # the watchdog comes again
        self._strikes += 1
        if self._strikes > 1:
            self._insist(frame, CodeGuard._call_in_main.__code__)
        raise self.exception()

    def _insist(self, frame: FrameType | None, outermost: CodeType) -> None:
        """Interrupt on every line from now on, so also on the first of a handler that swallows."""
        while frame is not None and frame.f_code is not outermost:
            frame.f_trace, frame.f_trace_lines = self._again, True
            frame = frame.f_back
        _set_tracer(self._again)

    def _reseat(self, tracer: Any) -> None:
        # Ours may stand in its place, and one that an interruption has hit is taken away.
        if self._strikes and sys.gettrace() in (None, self._again):
            _set_tracer(tracer)

    def exception(self) -> BaseException:
        """What the code is interrupted with."""
        return _EXCEPTION[self.reason or "stop"]()

    def _again(self, frame: FrameType, event: str, argument: Any) -> Any:
        # Only in the agent's own lines: a tracer that has raised is gone, and the clean-up of some
        # library would use it up.
        if not frame.f_code.co_filename.startswith(NAME_PREFIX):
            return None
        if event == "line" and self._on_stack:
            raise self.exception()
        return self._again

    def pressed(self, frame: FrameType | None) -> None:
        """Called by the signal handler when the user interrupts.

        Off the stack nothing is raised here. What the code does next is interrupted: its next
        part before it begins, and an await, which the run's own cancellation ends first as a
        rule, by the watchdog.
        """
        self.reason = self.reason or "stop"
        self._is_struck = True
        self._ring()
        if self._on_stack:
            self.struck(frame)

    # The code is on the stack of another thread: an asynchronous exception, at the next bytecode.

    def _call_elsewhere(self, function: Callable[..., T], *arguments: Any) -> T:
        tracer = sys.gettrace()
        try:
            self._on_stack = True
            return function(*arguments)
        finally:
            late: BaseException | None = None
            while self._on_stack:
                try:
                    with self._gate:
                        self._on_stack = False
                        if self._strikes:
                            _raise_in(self._thread, _Withdrawn)  # in place of what is pending
                except _Withdrawn:
                    self._send_again()
                except _INTERRUPTIONS as exc:
                    late = exc
            self._reseat(tracer)
            if late is not None:
                raise late

    def _exception_elsewhere(self) -> type[BaseException]:
        """The class to raise in the other thread, which makes the instance there.

        That is the one moment at which something of ours runs in that thread: the constructor
        counts, and from the second time on switches the interruption on every line on.
        """
        kind = _EXCEPTION[self.reason or "stop"]
        guard = self

        class Arriving(kind):  # type: ignore[valid-type, misc]
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                guard._arrived += 1
                if guard._arrived > 1:
                    guard._insist(sys._getframe(1), CodeGuard._call_elsewhere.__code__)

        Arriving.__name__ = Arriving.__qualname__ = kind.__name__
        return Arriving

    def _strike(self) -> bool:
        """Interrupt the code once; whether that has to be done again at once, since a call that
        blocks kept the interruption from it."""
        for _ in range(_COLLECTIONS):
            if not (self._on_stack and _is_collecting()):
                break
            time.sleep(_COLLECTION_S)
        with self._gate:
            if self._closed:
                return False
            arrived = self._arrived
            in_other = self._on_stack and not self._in_main
            if self._on_stack and self._in_main:
                _sigint.striking = self
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(self._thread, signal.SIGINT)
                else:
                    _thread.interrupt_main()
                return False
            if in_other:
                self._strikes += 1
                _raise_in(self._thread, self._exception_elsewhere())
        if in_other:
            time.sleep(_WINDOW_S)
            with self._gate:
                try:
                    if self._on_stack:
                        _raise_in(self._thread, _NOTHING)
                        _raise_in(threading.get_ident(), _Withdrawn)
                except _Withdrawn:
                    return self._arrived == arrived
        elif self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nothing awaits
                self._loop.call_soon_threadsafe(self._cancel_await)
        return False

    def _cancel_await(self) -> None:
        if self._task is None or self._closed:
            return
        self._task.cancel()
        self._cancels += 1
        if self._cancels > _PATIENCE + 1 and self._outlasted and not self._outlasted.done():
            # What the task awaits ignores its own cancellation, so the task never wakes.
            self._outlasted.set_result(None)

    def _ring(self) -> None:
        with suppress(OSError):  # it is ringing already
            self._bell.send(_RING)

    def _is_rung(self, seconds: float | None) -> bool:
        """Whether it rings in that time. A signal that the code does not hear of is sent again: it
        came while the code began to wait, or to another thread."""
        due = float("inf") if seconds is None else time.monotonic() + seconds
        again = float("inf")
        while (left := due - time.monotonic()) > 0:
            wait = min(left, again)
            self._alarm.settimeout(None if wait == float("inf") else wait)
            try:
                told = self._alarm.recv(4096)
            except TimeoutError:
                if wait == again:
                    again *= 2
                    self._send_again()
                continue
            if _RING in told:
                return True
            if told.rfind(_ARRIVED) < told.rfind(_HEARD):
                again = float("inf")
            elif _ARRIVED in told and again == float("inf"):
                again = _UNHEARD_S
        return False

    def _send_again(self) -> None:
        with self._gate:
            is_ours = signal.getsignal(signal.SIGINT) is _sigint.handler
            if self._on_stack and is_ours and hasattr(signal, "pthread_kill"):
                signal.pthread_kill(self._thread, signal.SIGINT)

    def _watch(self) -> None:
        with self._alarm, self._bell:
            self._keep_watch()

    def _keep_watch(self) -> None:
        wait, resend = self.seconds, _FIRST_RESEND_S
        while True:
            rung = self._is_rung(wait)
            if self._closed:
                return
            if not rung:
                self.reason = self.reason or "deadline"
            is_missed = False
            began = time.monotonic()
            if rung and self._is_struck:
                self._is_struck = False  # whoever rang has done it
            else:
                is_missed = self._strike()
            if is_missed:
                # In 3.11 a thread that is traced gets on in the gaps only.
                wait = _GAP_S if sys.gettrace() is None else _WINDOW_S
            else:
                # From when it struck: who waits for the end of the code waits no longer for it.
                struck = time.monotonic() - began
                wait, resend = max(resend - struck, _WINDOW_S), _RESEND_S


@types.coroutine
def _driven(guard: CodeGuard, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await a coroutine one step at a time, with the guard around each step and none between."""
    resume: Callable[[Any], Any] = coroutine.send
    argument: Any = None
    while True:
        try:
            awaited = guard.call(resume, argument)
        except StopIteration as end:
            return end.value
        except BaseException as exc:  # boundary: tool - the cell's code
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
                raise
            # Struck just after the coroutine had suspended itself: it has not seen it yet.
            resume, argument = coroutine.throw, exc
            continue
        try:
            argument = yield awaited
            resume = coroutine.send
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as exc:  # boundary: tool - the cell's code
            is_ours = guard.reason not in (None, "cancel")
            if isinstance(exc, asyncio.CancelledError) and is_ours:
                exc = guard.exception()
            if guard._cancels > _PATIENCE:  # it goes on awaiting, again and again
                raise exc.with_traceback(_left(coroutine)) from None
            resume, argument = coroutine.throw, exc


def _left(coroutine: Any) -> TracebackType | None:
    """Leave a coroutine where it waits, for good; the traceback of that place.

    It has outlasted its interruptions, and its clean-up when it is forgotten could run for ever.
    """
    _never_forget(coroutine)
    frames = list[FrameType]()
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        frames.append(frame)
        coroutine = coroutine.cr_await
    raised: TracebackType | None = None
    for frame in reversed(frames):
        raised = TracebackType(raised, frame, frame.f_lasti, frame.f_lineno)
    return raised


class _EndingForks:
    """Ends a process that the body forked, with the exit code that it would have as a program.

    A class, since a generator would set the traceback of the exception, which its class may hide.
    """

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(self, kind: Any, error: BaseException | None, raised: Any) -> None:
        if os.getpid() != self._process:
            code = error.code if type(error) is SystemExit else error and 1
            os._exit(code if isinstance(code, int) else int(code is not None))


class _Turn:
    """One ``stop_on_sigint`` that is open."""

    def __init__(self, cancellation: CancellationRequest) -> None:
        self.cancellation = cancellation
        self.presses = 0
        try:
            self.loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self.loop = None

    def wake(self) -> None:
        """Make the selector return, so that what became ready in the handler runs now."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(lambda: None)


class _Sigint:
    """The handler and what it needs to know. One per process, used in the main thread only."""

    def __init__(self) -> None:
        self.guards: list[CodeGuard] = []
        self.running: CodeGuard | None = None
        self.striking: CodeGuard | None = None
        self.turns: list[_Turn] = []
        self._bell: socket.socket | None = None
        self.displaced: Any = signal.default_int_handler
        # One bound method, for comparisons by identity.
        self.handler: Callable[[int, FrameType | None], None] = self._handle

    def take_over(self) -> Any:
        """Install the handler; what it displaced, or ``None`` when it was in force already."""
        current = signal.getsignal(signal.SIGINT)
        if current is self.handler or current is None:
            return None
        if not self.turns:
            self.displaced = current
        signal.signal(signal.SIGINT, self.handler)
        return current

    def give_back(self, displaced: Any) -> None:
        """Undo a ``take_over``, unless someone else has installed theirs since."""
        if displaced is not None and signal.getsignal(signal.SIGINT) is self.handler:
            signal.signal(signal.SIGINT, displaced)

    def listen(self, bell: socket.socket | None) -> bool:
        """Have signals ring ``bell`` as they arrive, unless somebody else hears of them; ``None``
        ends that. Whether they do now."""
        theirs = self._bell.fileno() if self._bell is not None else -1
        ours = bell.fileno() if bell is not None else -1
        before = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
        if before != theirs or (bell is not None and self._bell is not None):
            signal.set_wakeup_fd(before)
            return False
        self._bell = bell
        return bell is not None

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._bell is not None:
            with suppress(OSError):  # it is ringing already
                self._bell.send(_HEARD)
        guard, self.striking = self.striking, None
        if guard is not None:
            guard.struck(frame)
            return
        turn = self.turns[-1] if self.turns else None
        if turn is not None:
            turn.presses += 1
            turn.cancellation.set("stopped by the user")
            turn.wake()
        guard = self.running or (self.guards[-1] if self.guards else None)
        if guard is not None:
            guard.pressed(frame)
        if (turn.presses >= _HARD_PRESSES) if turn is not None else guard is None:
            self._pass_on(signum, frame)

    def _pass_on(self, signum: int, frame: FrameType | None) -> None:
        # To whom it would have gone without us. In a terminal that is KeyboardInterrupt; a
        # kernel has a gentler one there, and an exception out of its idle selector ends it.
        if self.displaced is signal.SIG_DFL:
            signal.default_int_handler(signum, frame)
        elif callable(self.displaced):
            self.displaced(signum, frame)


_sigint = _Sigint()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _sigint.listen(None))


def stop_running_code() -> bool:
    """Stop agent code on the main thread, asked for in another one; whether there was any.

    For a click that a subshell handles while the code blocks the event loop.
    """
    running = tuple(_sigint.guards)
    for guard in running:
        guard.interrupt("stop")
    return bool(running)


@contextmanager
def stop_on_sigint(cancellation: CancellationRequest) -> Iterator[None]:
    """Make an interrupt stop a whole turn.

    The first sets ``cancellation``, wakes the event loop, and raises ``KeyboardInterrupt`` into
    agent code that is on the stack. The third goes also to the handler that was there before.
    Afterwards that handler is back. Off the main thread, where no handler can be installed, it
    does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _sigint.take_over()
    turn = _Turn(cancellation)
    _sigint.turns.append(turn)
    ticker: asyncio.TimerHandle | None = None

    def reassert() -> None:
        # A kernel puts its own handler back after the message in which a turn began, and that
        # one ignores interrupts. Any other handler belongs to someone who is at work now.
        nonlocal ticker
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, _sigint.handler)
            _sigint.displaced = signal.SIG_IGN
        if turn.loop is not None:
            ticker = turn.loop.call_later(_REASSERT_S, reassert)

    reassert()
    try:
        yield
    finally:
        if ticker is not None:
            ticker.cancel()
        _sigint.turns.remove(turn)
        if not _sigint.turns:
            _sigint.give_back(_sigint.displaced)
