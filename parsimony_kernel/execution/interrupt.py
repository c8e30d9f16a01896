"""Interrupting running code: the single owner of SIGINT and of deadlines.

No other module of ours installs a signal handler. An interruption is raised into the code itself,
and only while that code is on the stack; while it awaits, its task is cancelled instead. Code that
swallows an interruption gets it again, the second time on every line, so that no
``except: continue`` can escape it. C code is interrupted when it returns.
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
from parsimony_kernel.execution.code_cell import NAME_PREFIX, staying

T = TypeVar("T")
Reason = Literal["deadline", "stop", "cancel", "held"]

# The first pause lets clean-up finish: subprocess gives an interrupted child a quarter of a second.
_FIRST_RESEND_S = 0.3
_RESEND_S = 0.1
# How long an exception stays pending in another thread, and how long it is then withdrawn, so that
# threads that it slows down can run. It should be pending when a blocking call returns.
_WINDOW_S = 0.09
_GAP_S = 0.01
_REASSERT_S = 0.1
# Messages to the watchdog: it was rung; a signal has arrived; Python has handled the signal.
# Between the last two, the code may begin a blocking wait in C.
_RING, _ARRIVED, _HEARD = b"r", signal.SIGINT, b"h"
_UNHEARD_S = 0.03
_ENDING_S = 0.2
# How often, and how long each time, a strike waits for a garbage collection to end.
_COLLECTIONS = 100
_COLLECTION_S = 0.01
# How many cancelled awaits code may survive before it is abandoned.
_PATIENCE = 1
_HARD_PRESSES = 3
_FRAGILE = frozenset({"_read_csv_parallel"})


class DeadlineReached(BaseException):
    """The deadline has passed. Not an ``Exception``, so ``except Exception`` doesn't catch it."""


class Held(BaseException):
    """The code was stopped before a side effect outside. Not an ``Exception`` either."""


class _Withdrawn(BaseException):
    """Replaces a pending interruption that is withdrawn."""


_EXCEPTION: dict[Reason, type[BaseException]] = {
    "deadline": DeadlineReached,
    "stop": KeyboardInterrupt,
    "cancel": asyncio.CancelledError,
    "held": Held,
}
INTERRUPTIONS = tuple(_EXCEPTION.values())

# Raises an exception class in a thread by its id; ``_NOTHING`` withdraws a pending one. While one
# is pending, and after a withdrawal until another one arrives in any thread, the interpreter keeps
# a flag set that slows every thread; in 3.11 a traced thread can't enter a Python function
# meanwhile. So this is C, and between raising and lowering the flag only C is called.
_raise_in = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_NOTHING: Any = ctypes.py_object()
# Takes a reference that is never released: the object outlives even interpreter shutdown.
_never_forget = ctypes.pythonapi["Py_IncRef"]
_never_forget.argtypes = (ctypes.py_object,)
# A debugger replaces it by one that prints a warning, which would be captured as the code's output.
_set_tracer = sys.settrace


def _is_fragile(frame: FrameType | None) -> bool:
    """Whether an exception raised now would crash the process.

    When interrupted, pandas' parallel CSV reader closes its parsers while its worker threads still
    use them. It ends by itself, like any C code.
    """
    while frame is not None:
        if frame.f_code.co_name in _FRAGILE and "pandas" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def _is_collecting() -> bool:
    """Whether a garbage collection is running: a second one does nothing then.

    Meanwhile finalizers of arbitrary objects run. An interruption would hit one of them in place of
    the code, and be swallowed.
    """
    before = gc.get_stats()[0]["collections"]
    gc.collect(0)
    return bool(gc.get_stats()[0]["collections"] == before)


class OwnThread(threading.Thread):
    """A thread of this package, which doesn't belong to the code running when it starts."""


class CodeGuard:
    """Delivers a deadline, a stop or a cancel to one execution of code.

    A context manager, entered in the thread that runs the code and open for the whole execution.
    ``reason`` is why the code was interrupted, ``None`` if it wasn't. Trust it over the exception
    that came out, which the code may have caught, wrapped or replaced.

    Args:
        seconds: the deadline, counted from entering; ``None`` for no limit.
        around: a context manager entered while the code is on the stack; never interrupted itself.
    """

    def __init__(
        self, seconds: float | None = None, *, around: AbstractContextManager[Any] | None = None
    ) -> None:
        self.seconds = seconds
        self._around = around or nullcontext()
        self.reason: Reason | None = None
        # The strikes so far, and how many of them have arrived in code on another thread.
        self._strikes = self._arrived = 0
        self._is_struck = self._on_stack = self._closed = self._in_main = False
        self._thread = 0
        self._gate = threading.Lock()
        # A socket instead of a lock, because signal handlers and signals themselves ring it.
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
                # The user interrupted after the decision to run the code and before this line.
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
            self._watcher.join(_ENDING_S)  # so that its sockets are closed

    def interrupt(self, reason: Reason) -> None:
        """Interrupt the code now, from any thread but a signal handler."""
        self.reason = self.reason or reason
        self._ring()

    def check(self) -> None:
        """Raise a pending interruption before more code starts."""
        if self.reason is not None:
            raise self.exception()

    def attempt(self, function: Callable[..., object], *arguments: Any) -> BaseException | None:
        """Check, then run ``function`` (the code); return the exception that it raised, if any."""
        try:
            self.check()
            self.call(function, *arguments)
        except BaseException as exc:  # boundary: tool - the cell's code
            return exc
        return None

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run ``function`` (the code) so that interruptions can reach it.

        A child that it forks exits here at the latest: the rest is the notebook's own work.
        """
        with _EndingForks(), self._around:
            if self._in_main:
                return self._call_in_main(function, *arguments)
            return self._call_elsewhere(function, *arguments)

    async def drive(self, coroutine: Coroutine[Any, Any, Any]) -> BaseException | None:
        """Run the code's coroutine in a task of its own; return the exception it raised, if any.

        In a task of its own, code that cancels itself (``asyncio.timeout``) isn't mistaken for a
        cancel of ours. Cancelling our task cancels the code, and the ``CancelledError`` is
        returned. Code that outlasts its interruptions is never resumed.
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
        # Returned, not raised: a task passes KeyboardInterrupt and SystemExit on to the loop.
        try:
            await _driven(self, coroutine)
        except GeneratorExit:
            raise
        except BaseException as exc:  # boundary: tool - the cell's code
            return exc
        return None

    # Code on the main thread: a signal interrupts it even in a sleep.

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
            with self._gate:  # once we hold it, a strike that saw us on the stack has signalled
                pass
            self._reseat(tracer)
            if is_outermost:
                _sigint.listen(None)
            _sigint.give_back(displaced)

    def struck(self, frame: FrameType | None) -> None:
        """Raise into the code if it is still on the stack; called by the signal handler."""
        if not self._on_stack:
            if self._loop is not None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._cancel_await)
            return
        if _is_fragile(frame):
            return  # the watchdog tries again
        self._strikes += 1
        if self._strikes > 1:
            self._insist(frame, CodeGuard._call_in_main.__code__)
        raise self.exception()

    def _insist(self, frame: FrameType | None, outermost: CodeType) -> None:
        """Interrupt on every line from now on, including the first line of an ``except`` block."""
        while frame is not None and frame.f_code is not outermost:
            frame.f_trace, frame.f_trace_lines = self._again, True
            frame = frame.f_back
        _set_tracer(self._again)

    def _reseat(self, tracer: Any) -> None:
        # Our tracer may be installed in its place; and Python removes a tracer that raised.
        if self._strikes and sys.gettrace() in (None, self._again):
            _set_tracer(tracer)

    def exception(self) -> BaseException:
        """Build the exception to interrupt the code with."""
        return _EXCEPTION[self.reason or "stop"]()

    def _again(self, frame: FrameType, event: str, argument: Any) -> Any:
        # Only in the agent's own lines: Python removes a tracer once it has raised, and a library's
        # clean-up code would use it up.
        if not frame.f_code.co_filename.startswith(NAME_PREFIX):
            return None
        if event == "line" and self._on_stack:
            raise self.exception()
        return self._again

    def pressed(self, frame: FrameType | None) -> None:
        """Handle an interrupt by the user; called by the signal handler.

        Nothing is raised here while the code is off the stack. Its next step is interrupted
        instead: the next statement before it begins, and an await by the watchdog, unless the
        run's own cancellation ends it first, as it usually does.
        """
        self.reason = self.reason or "stop"
        self._is_struck = True
        self._ring()
        if self._on_stack:
            self.struck(frame)

    # Code on another thread: an asynchronous exception interrupts it at the next bytecode.

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
                except INTERRUPTIONS as exc:
                    late = exc
            self._reseat(tracer)
            if late is not None:
                raise late

    def _exception_elsewhere(self) -> type[BaseException]:
        """Return the exception class to raise in the other thread, which instantiates it there.

        The constructor is the only code of ours that runs in that thread: it counts arrivals, and
        from the second one on starts interrupting on every line.
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
        """Interrupt the code once.

        Returns:
            Whether to strike again at once, because a blocking call kept the exception from
            arriving.
        """
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
            # The awaited object ignores cancellation, so the task never wakes.
            self._outlasted.set_result(None)

    def _ring(self) -> None:
        with suppress(OSError):  # it is ringing already
            self._bell.send(_RING)

    def _is_rung(self, seconds: float | None) -> bool:
        """Wait up to ``seconds`` for the bell; return whether it rang.

        A signal that Python doesn't handle in time is sent again: it arrived as the code began a
        blocking wait, or in another thread.
        """
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
        wait, resend = self.seconds, _FIRST_RESEND_S
        with self._alarm, self._bell:
            while True:
                rung = self._is_rung(wait)
                if self._closed:
                    return
                if not rung:
                    self.reason = self.reason or "deadline"
                began = time.monotonic()
                if rung and self._is_struck:
                    self._is_struck = is_missed = False  # the caller of _ring has struck already
                else:
                    is_missed = self._strike()
                if is_missed:
                    # In 3.11 a traced thread makes progress in the gaps only.
                    wait = _GAP_S if sys.gettrace() is None else _WINDOW_S
                else:
                    # From the strike's start on, so that callers don't wait longer for the end.
                    struck = time.monotonic() - began
                    wait, resend = max(resend - struck, _WINDOW_S), _RESEND_S


@types.coroutine
def _driven(guard: CodeGuard, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await a coroutine step by step: the guard is active in each step, not between them."""
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
            # Struck just after the coroutine suspended itself: throw the exception into it.
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
            if guard._cancels > _PATIENCE:  # it keeps awaiting after each cancellation
                raise exc.with_traceback(_left(coroutine)) from None
            resume, argument = coroutine.throw, exc


def _left(coroutine: Any) -> TracebackType | None:
    """Abandon a coroutine where it waits; return the traceback of that place.

    It has outlasted its interruptions. It is never freed, because its clean-up could run for ever.
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
    """Exits a process that the body forked, with the exit code that it would have as a program.

    A class, since a generator-based context manager sets ``__traceback__`` on the exception, which
    a user's exception class may override.
    """

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(self, kind: Any, error: BaseException | None, raised: Any) -> None:
        if os.getpid() != self._process:
            code = error.code if type(error) is SystemExit else error and 1
            os._exit(code if isinstance(code, int) else int(code is not None))


class _Turn:
    """An open ``stop_on_sigint`` context."""

    def __init__(self, cancellation: CancellationRequest) -> None:
        self.cancellation, self.presses = cancellation, 0
        self.loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self.loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """Wake the event loop's selector, so that callbacks made ready in the handler run now."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(lambda: None)


class _Sigint:
    """The SIGINT handler and its state. One per process, used in the main thread only."""

    def __init__(self) -> None:
        self.guards: list[CodeGuard] = []
        self.running: CodeGuard | None = None
        self.striking: CodeGuard | None = None
        self.turns: list[_Turn] = []
        self._bell: socket.socket | None = None
        self.displaced: Any = signal.default_int_handler
        # Stored, since each access would make a new bound method: it is compared by identity.
        self.handler: Callable[[int, FrameType | None], None] = self._handle

    def take_over(self) -> Any:
        """Install the handler; return the previous one, ``None`` if ours was installed already."""
        current = signal.getsignal(signal.SIGINT)
        if current is self.handler or current is None:
            return None
        if not self.turns:
            self.displaced = current
        signal.signal(signal.SIGINT, self.handler)
        return current

    def give_back(self, displaced: Any) -> None:
        """Undo a ``take_over``, unless other code has installed a handler since."""
        if displaced is not None and signal.getsignal(signal.SIGINT) is self.handler:
            signal.signal(signal.SIGINT, displaced)

    def listen(self, bell: socket.socket | None) -> bool:
        """Ring ``bell`` when a signal arrives, unless other code owns the wakeup descriptor.

        Args:
            bell: the socket to ring; ``None`` to stop.

        Returns:
            Whether signals ring it now.
        """
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
        # Call the handler that ours displaced. A terminal's raises KeyboardInterrupt; a kernel has
        # a gentler one, since an exception out of its idle selector would end the kernel.
        if self.displaced is signal.SIG_DFL:
            signal.default_int_handler(signum, frame)
        elif callable(self.displaced):
            self.displaced(signum, frame)


_sigint = _Sigint()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _sigint.listen(None))


def stop_running_code() -> bool:
    """Stop agent code on the main thread, from another thread; return whether there was any.

    For a click that a subshell handles while the code blocks the event loop.
    """
    running = tuple(_sigint.guards)
    for guard in running:
        guard.interrupt("stop")
    return bool(running)


@contextmanager
def stop_on_sigint(cancellation: CancellationRequest) -> Iterator[None]:
    """Make an interrupt stop a whole turn.

    The first interrupt sets ``cancellation``, wakes the event loop, and raises
    ``KeyboardInterrupt`` into agent code on the stack. From the third on, interrupts also go to
    the previous handler, which is restored afterwards. Off the main thread, where no handler can
    be installed, it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _sigint.take_over()
    turn = _Turn(cancellation)
    _sigint.turns.append(turn)
    ticker: asyncio.TimerHandle | None = None

    def reassert() -> None:
        # After the message in which a turn began, a kernel restores its own handler, which ignores
        # interrupts. Any other handler belongs to code that is running now: leave it.
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
