"""What a cell prints and displays, kept apart from everything else in the process.

``sys.stdout``, ``sys.stderr``, the display hook and the shell's publisher are replaced by routers
while at least one capture is open. A router asks from where it is called: within the cell's
context, or in a thread that the cell has started, it writes to that cell's capture; anywhere else
(the user's cell, the record that is being updated meanwhile) it goes where it always went.
A capture that is closed takes nothing more, so that code left behind writes to nowhere.
"""

import builtins
import functools
import io
import os
import re
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.thread import _threads_queues
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

from parsimony_kernel.core.outputs import KernelOutputType
from parsimony_kernel.execution import frames
from parsimony_kernel.execution.cell import cell_name, compile_cell, evaluate
from parsimony_kernel.execution.factory import OutputFactory, is_figure
from parsimony_kernel.execution.inspection import comes_from, type_name
from parsimony_kernel.execution.interrupt import Held, OwnThread

STREAM_CHARS = 20_000
_HALF = STREAM_CHARS // 2
MAX_OUTPUTS = 20

_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


class BoundedText:
    """Text of any length in bounded memory: its head and its tail."""

    def __init__(self) -> None:
        self._head = self._tail = ""
        self._dropped = 0
        self._lock = threading.RLock()

    def write(self, text: str) -> None:
        """Append ``text``, from any thread."""
        with self._lock:
            room = _HALF - len(self._head)
            self._head += text[:room]
            self._tail += text[room:]
            if len(self._tail) > 2 * _HALF:
                self._dropped += len(self._tail) - _HALF
                self._tail = self._tail[-_HALF:]

    @property
    def _missing(self) -> int:
        return self._dropped + max(0, len(self._tail) - _HALF)

    @property
    def is_cut(self) -> bool:
        """Whether something is missing in the middle."""
        return self._missing > 0

    def text(self) -> str:
        """The text as a terminal would show it: overwritten lines and colours are gone."""
        head, tail = self._head, self._tail
        if self.is_cut:
            tail = f"\n… {self._missing:,} characters cut …\n{tail[-_HALF:]}"
        return _OVERWRITTEN.sub("", _CONTROL.sub("", head + tail))


class Capture:
    """What one execution printed and displayed. Written to from any thread until it is closed.

    ``threads`` are those that its code has started, and each of them knows its capture; ``older``
    are those that were there before. What a process prints that it forks goes to the descriptors,
    since nobody would see it here.
    """

    def __init__(self, factory: OutputFactory) -> None:
        self.factory = factory
        self.stdout = BoundedText()
        self.stderr = BoundedText()
        # The displays in order; of too many, the first and the last.
        self.outputs: list[KernelOutputType] = []
        self._shown = 0
        self._printed_before: list[int] = []
        # The threads themselves: an ident is given again once its thread has ended.
        self.older = weakref.WeakSet(threading.enumerate())
        self.threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.is_closed = False
        self._process = os.getpid()
        # The bundles that IPython has made last, each with the value that counts once it is shown.
        self._formatted: tuple[tuple[Any, Any], ...] = ()
        # Who judges what its code is about to do, see ``guard``.
        self.keeper: Any = None

    @property
    def printed_before(self) -> tuple[int, ...]:
        """Of each display, the characters that were printed before it; of too many, nothing."""
        return tuple(self._printed_before) if self._shown == len(self.outputs) else ()

    @property
    def is_cut(self) -> bool:
        """Whether anything was too much to keep."""
        return self.stdout.is_cut or self.stderr.is_cut or self._shown > len(self.outputs)

    def write(self, stream: str, text: str) -> None:
        """Append to ``stdout`` or ``stderr``."""
        if os.getpid() != self._process:
            os.write(1 if stream == "stdout" else 2, text.encode("utf-8", "replace"))
        elif not self.is_closed:
            (self.stdout if stream == "stdout" else self.stderr).write(text)

    def show(self, value: Any) -> None:
        """Display a value; ``None`` is nothing to see."""
        if value is not None and not self.is_closed:
            self.append(self.factory.convert(value))

    def append(self, output: KernelOutputType) -> None:
        """Display what is converted already."""
        self._shown += 1
        if self._shown <= MAX_OUTPUTS:
            self._printed_before.append(len(self.stdout.text()))
        self.outputs.append(output)
        if len(self.outputs) > MAX_OUTPUTS:
            del self.outputs[MAX_OUTPUTS // 2]

    def publish(self, bundle: Mapping[str, Any]) -> None:
        """Display a mime bundle, or better the value that it was made from."""
        if self.is_closed:
            return
        for known, value in self._formatted:
            if known is bundle:
                self.append(self.factory.convert_displayed(value, bundle))
                return
        self.append(self.factory.convert_bundle(bundle))

    def remember(self, bundle: Any, value: Any) -> None:
        """``bundle`` was made from ``value``."""
        self._formatted = (*self._formatted[-7:], (bundle, value))


_here: ContextVar[Capture | None] = ContextVar("parsimony_capture", default=None)
_open: list[Capture] = []
_lock = threading.RLock()


def capture_of_code() -> Capture | None:
    """The capture whose code is running: in its context, or in a thread that it has started.

    A thread of a pool that an earlier cell has started works for the cell that runs now.
    """
    capture = _here.get()
    if capture is None:
        thread = threading.current_thread()
        capture = getattr(thread, "parsimony_capture", None)
        if capture is not None and capture.is_closed and thread in _threads_queues:
            return next((each for each in _open if not each.is_closed), capture)
    return capture


def capture_here() -> Capture | None:
    """The capture to which the calling code belongs, or may: of a thread that Python did not start
    nothing is known but that it was born while a capture was open.

    A thread that outlives its cell, or a pool that works for whoever asks, belongs to none: what
    it prints and why it failed is told where anything else is.
    """
    capture, thread = _here.get(), threading.current_thread()
    if capture is None:
        capture = getattr(thread, "parsimony_capture", None)
        capture = None if capture is None or capture.is_closed else capture
    if capture is None and isinstance(thread, threading._DummyThread):
        return next((each for each in reversed(_open) if thread not in each.older), None)
    return capture


class _Bytes(io.RawIOBase):
    """The ``buffer`` of a routed stream."""

    def __init__(self, stream: "_RoutedStream") -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._stream.write(raw.decode("utf-8", "replace"))
        return len(raw)


class _RoutedStream(io.TextIOBase):
    """Stands in ``sys`` for stdout or stderr."""

    encoding: str = "utf-8"
    errors: str | None = "replace"

    def __init__(self, name: str, fallback: TextIO) -> None:
        self._name = name
        self.fallback = fallback
        self.buffer = _Bytes(self)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        capture = capture_here()
        if capture is None:
            return self.fallback.write(text)
        capture.write(self._name, text)
        return len(text)

    def flush(self) -> None:
        if capture_here() is None:
            self.fallback.flush()

    def close(self) -> None:
        """Nothing: what stands behind belongs to others."""

    def isatty(self) -> bool:
        return capture_here() is None and self.fallback.isatty()

    def fileno(self) -> int:
        # The descriptor that a child process would inherit, whatever stands there now.
        return 1 if self._name == "stdout" else 2

    def __getattr__(self, attribute: str) -> Any:
        # A kernel keeps state on its streams and sets it between messages.
        return getattr(self.fallback, attribute)


def no_input(*_: Any, **__: Any) -> str:
    """Stands for what would wait for a person."""
    raise RuntimeError(
        "input() cannot be answered here: put the value in the code, or ask with ask_user"
    )


def no_exit(*_: Any, **__: Any) -> None:
    """Stands for what would end the process."""
    raise RuntimeError(
        "exit() would end the kernel of the user: leave it out, the cell ends by itself"
    )


Function = Callable[..., Any]
Whose = Callable[[], Capture | None]


def routed(inside: Function, outside: Function, whose: Whose = capture_here) -> Function:
    """A function that is ``inside``, given its capture first, for captured code, and ``outside``
    for everybody else."""

    @functools.wraps(outside)
    def choose(*arguments: Any, **named: Any) -> Any:
        capture = whose()
        if capture is None:
            return outside(*arguments, **named)
        return inside(capture, *arguments, **named)

    return choose


class _Interception:
    """The replacements, installed with the first capture and removed with the last."""

    def __init__(self) -> None:
        self._undo: list[Callable[[bool], None]] = []
        self._streams: dict[str, _RoutedStream] = {}
        self._shells: list[Any] = []

    def install(self, shell: Any) -> None:
        if not self._undo:
            self._replace(sys, "displayhook", lambda _, to, value: to.show(value))
            self._replace(builtins, "input", no_input)
            self._replace(builtins, "print", _print)
            self._replace(threading.Thread, "start", _start, capture_of_code)
            self._replace(threading, "excepthook", _tell_of_thread)
            if "getpass" in sys.modules:
                self._replace(sys.modules["getpass"], "getpass", no_input)
        for name in ("stdout", "stderr"):
            stream, routed = getattr(sys, name), self._streams.get(name)
            # While no cell runs the host has put it there. Who kept the one before has its way.
            if routed is None or (stream is not routed and all(each.is_closed for each in _open)):
                routed = self._streams[name] = _RoutedStream(name, stream)
            setattr(sys, name, routed)
        if shell is not None and all(shell is not each for each in self._shells):
            self._shells.append(shell)
            self._attach(shell)

    def _replace(
        self, owner: Any, name: str, inside: Function, whose: Whose = capture_here
    ) -> None:
        """Route a function of a module, or a method by what hides it in the instance. For captured
        code it is ``inside``, given what it replaces and the capture first."""
        if owner is None:
            return
        hidden, outside = vars(owner).get(name), getattr(owner, name, inside)
        chosen = routed(functools.partial(inside, outside), outside, whose)
        setattr(owner, name, chosen)

        def undo(is_after_code: bool) -> None:
            # What code has put in the place of ours is to last, but for what belongs to the cell.
            is_the_cells = owner is sys and is_after_code
            if not is_the_cells and vars(owner).get(name) is not chosen:
                return
            if hidden is None:
                delattr(owner, name)
            else:
                setattr(owner, name, hidden)

        self._undo.append(undo)

    def _attach(self, shell: Any) -> None:
        self._replace(shell.display_formatter, "format", _format)
        self._replace(
            shell.display_pub, "publish", lambda _, to, data, *__, **___: to.publish(data)
        )
        self._replace(shell.display_pub, "clear_output", lambda *_, **__: None)
        self._replace(shell, "_showtraceback", _show_traceback)
        self._replace(shell, "run_cell", lambda _, __, text, *___, **____: _run_in(shell, text))
        self._replace(shell, "ask_exit", no_exit)
        self._replace(getattr(shell, "payload_manager", None), "write_payload", _page)

    def release(self, *, is_after_code: bool) -> None:
        """Put the streams back, and with the last capture everything. Not right after code of a
        cell, what stands in ``sys`` may be the host's, which is to last."""
        for name, stream in self._streams.items():
            if is_after_code or getattr(sys, name) is stream:
                setattr(sys, name, stream if _open else stream.fallback)
        if not _open:
            for undo in reversed(self._undo):
                undo(is_after_code)
            for each in (self._undo, self._streams, self._shells):
                each.clear()


# What captured code gets in place of what is named first.


def _print(outside: Callable[..., None], capture: Capture, *values: Any, **options: Any) -> None:
    """A table or a figure alone is displayed."""
    # A stream that the code itself has put there is to get the text.
    is_plain = options.get("file") is None and is_routed(sys.stdout)
    if len(values) == 1 and is_plain and _is_picture(values[0]):
        capture.show(values[0])
    else:
        outside(*values, **options)


def is_routed(stream: Any) -> bool:
    """Whether it is one of the streams that lead to captures."""
    return type(stream) is _RoutedStream


def _is_picture(value: Any) -> bool:
    """Whether it says more as an output than as text. The text of a series is all of it."""
    if is_figure(value):
        return True
    is_column = type_name(value) == "Series" or comes_from(value, "pandas", "Series", "Index")
    return frames.is_frame(value) and not is_column


def _start(outside: Callable[..., None], capture: Capture, thread: threading.Thread) -> None:
    """A thread is known to be of the code that starts it."""
    if not isinstance(thread, OwnThread):
        capture.threads.add(thread)
        vars(thread)["parsimony_capture"] = capture
    outside(thread)


def _tell_of_thread(outside: Callable[..., Any], _: Capture, found: Any) -> None:
    """That a thread waits for a person is told by the question."""
    if not issubclass(found.exc_type, Held):
        outside(found)


def _format(outside: Any, capture: Capture, value: Any, *arguments: Any, **named: Any) -> Any:
    # The text of a plan is its first rows, computed; the value itself is shown.
    if frames.is_frame(value):
        formatted: Any = ({"text/plain": ""}, {})
    else:
        formatted = outside(value, *arguments, **named)
    capture.remember(formatted[0], value)
    return formatted


def _show_traceback(_: Any, capture: Capture, kind: Any, value: BaseException, __: Any) -> None:
    """A part of the shell reports an error that did not end the cell: one line to stderr."""
    capture.write("stderr", "".join(traceback.format_exception_only(kind, value)))


def _run_in(shell: Any, source: str) -> Any:
    """Run the body of a magic such as ``%%capture`` as a part of the agent's cell.

    The shell would take it for a cell of the user's, and would not tell that it failed.
    """
    from IPython.core.interactiveshell import ExecutionResult

    filename = cell_name(0, 0, source)
    cell = compile_cell(source, filename, code=shell.transform_cell(source))
    if cell.awaits:
        raise RuntimeError("await works at the top of a cell, and not in the body of a magic")
    evaluate(cell.parts, shell.user_global_ns, shell.user_ns, sys.displayhook)
    return ExecutionResult(None)


def _page(_: Any, capture: Capture, payload: Mapping[str, Any], *__: Any, **___: Any) -> None:
    """Help and ``%load`` talk to the front end; their text is output, the rest is for nobody."""
    if payload.get("source") == "page":
        capture.write("stdout", str(payload.get("data", {}).get("text/plain", "")) + "\n")


_interception = _Interception()


@contextmanager
def capturing(capture: Capture, shell: Any = None) -> Iterator[Capture]:
    """Open ``capture`` for the body, which may await. Afterwards it is closed for good.

    Args:
        shell: the IPython shell whose displays and errors belong to it, if there is one.
    """
    with _lock:
        _interception.install(shell)
        _open.append(capture)
    token = _here.set(capture)
    try:
        yield capture
    finally:
        _here.reset(token)
        capture.is_closed = True
        capture._formatted = ()  # a thread of the cell may keep the capture for ever
        with _lock:
            _open.remove(capture)
            _interception.release(is_after_code=True)


@contextmanager
def working(capture: Capture) -> Iterator[None]:
    """Within an open capture, in another thread: the routers stay for the body even if it is left
    behind and the capture closed meanwhile."""
    with _lock:
        _open.append(capture)
    try:
        yield
    finally:
        with _lock:
            _open.remove(capture)
            if not _open:
                _interception.release(is_after_code=False)


def live_shell() -> Any:
    """The shell of this process, if IPython runs here."""
    module = sys.modules.get("IPython.core.interactiveshell")
    shell_class = getattr(module, "InteractiveShell", None)
    if shell_class is None or not shell_class.initialized():
        return None
    return shell_class.instance()


def open_figures() -> frozenset[int]:
    """The numbers of the figures that matplotlib has open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return frozenset() if pyplot is None else frozenset(pyplot.get_fignums())


def show_figures(capture: Capture, but: frozenset[int]) -> None:
    """Show and close the open figures other than ``but``, as a notebook does after a cell."""
    for number in sorted(open_figures() - but):
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        drawing = pyplot.figure(number)
        capture.show(drawing)
        pyplot.close(drawing)
