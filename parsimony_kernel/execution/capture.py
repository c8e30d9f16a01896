"""Capture a cell's printed and displayed output, separate from the rest of the process.

``sys.stdout``, ``sys.stderr``, the display hook and the shell's publisher are replaced by routers
while at least one capture is open. A router checks its caller: in the cell's context, or in a
thread that the cell started, output goes to that cell's capture; anywhere else (the user's own
cell, a concurrent update of the record) it goes where it always went. A closed capture drops
further output, so abandoned code writes nowhere.

Children and C code write to file descriptors 1 and 2. While a cell's code is on the stack, both
lead into our pipes. A thread per pipe drains it all the time, so that a child that outlives the
cell never blocks on a full pipe; each thread blocks in its read, because not every platform can
wait for several pipes at once. This text is placed after Python's own output, since their order is
unknown. All this holds for code on the main thread, where nothing else writes meanwhile. For code
on another thread the descriptors stay as they are, and only its child processes get the pipes.

Each child gets a mark in its environment, which its own children inherit, so orphans and processes
with a session of their own are found too. Not found are a fork without an exec, a process whose
environment lacks the mark (``env -i``, ``sudo``), and one that was not started with
``subprocess``, ``asyncio`` or ``os.system``.
"""

import builtins
import codecs
import ctypes
import functools
import inspect
import io
import os
import re
import secrets
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.thread import _threads_queues
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

from parsimony_kernel.core.outputs import KernelOutputType
from parsimony_kernel.execution import frames
from parsimony_kernel.execution.code_cell import cell_name, compile_cell, evaluate
from parsimony_kernel.execution.factory import OutputFactory, is_figure
from parsimony_kernel.execution.inspection import comes_from, type_name
from parsimony_kernel.execution.interrupt import Held, OwnThread
from parsimony_kernel.execution.run_scope import ours, setting

STREAM_CHARS = 20_000
_HALF = STREAM_CHARS // 2
MAX_OUTPUTS = 20

_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
_UNENDED = re.compile(r"[\w+/=-]{4,}\Z")
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_SETTLE_S = 0.5
_CHUNK = 8_192  # so that the last one is in the kept text, with a mark in it
_MARK = re.compile(r"\0parsimony-[0-9a-f]{16}\0")
_FLUSH_C = ctypes.CDLL(None).fflush if os.name == "posix" else None
_POPEN = inspect.signature(subprocess.Popen.__init__)

MARKS = "PARSIMONY_STARTED_BY"

# A process that starts others during the search may be missed, so the search is repeated.
_ROUNDS = 3


class BoundedText:
    """A text buffer of bounded size: keeps the head and the tail, drops the middle."""

    def __init__(self) -> None:
        self._head = self._tail = ""
        self._dropped = 0
        self._lock = threading.RLock()

    def write(self, text: str) -> None:
        """Append ``text``, from any thread."""
        with self._lock:
            room = 0 if self._dropped else _HALF - len(self._head)
            self._head += text[:room]
            self._tail += text[room:]
            if len(self._tail) > 2 * _HALF:
                self._dropped += len(self._tail) - _HALF
                self._tail = self._tail[-_HALF:]

    def __contains__(self, text: str) -> bool:
        return text in self._head + self._tail

    def absorb(self, other: "BoundedText", clean: Callable[[str], str]) -> None:
        """Append the text of another buffer, cleaned, and count what that one has dropped."""
        tail = other._tail[-_HALF:] if other.is_cut else ""
        with self._lock:
            self.write(clean(other._head if tail else other._head + other._tail))
            self._dropped += other._missing
            self.write(clean(tail))

    @property
    def _missing(self) -> int:
        return self._dropped + max(0, len(self._tail) - _HALF)

    @property
    def is_cut(self) -> bool:
        """Whether the middle was dropped."""
        return self._missing > 0

    def text(self) -> str:
        """Return the text as a terminal shows it, without overwritten lines and colour codes."""
        head, tail = self._head, self._tail
        if self.is_cut:
            tail = f"\n… {self._missing:,} characters cut …\n{tail[-_HALF:]}"
        return _OVERWRITTEN.sub("", _CONTROL.sub("", head + tail))


class _Formatted(dict[str, Any]):
    """IPython's mime bundle of a value, which is displayed in its place."""

    def __init__(self, bundle: Mapping[str, Any], value: Any) -> None:
        super().__init__(bundle)
        self.value = value


class Capture:
    """The captured output of one execution; writable from any thread until it is closed.

    ``threads`` were started by its code, and each has a reference to its capture; ``older`` existed
    before. Output of a forked child goes to the file descriptors, because this process would never
    see the child's copy.
    """

    def __init__(self, factory: OutputFactory) -> None:
        self.factory = factory
        self.stdout = BoundedText()
        self.stderr = BoundedText()
        # The displays in order; above MAX_OUTPUTS, only the first and the last.
        self.outputs: list[KernelOutputType] = []
        # The number of characters printed before each of them.
        self.printed_before: list[int] = []
        self._shown = 0
        # Thread objects, since an ident is reused once its thread has ended.
        self.older = weakref.WeakSet(threading.enumerate())
        self.threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.is_closed = False
        self._process = os.getpid()
        # The approval check of its code, see ``guard``.
        self.keeper: Any = None
        # The processes that its code has started, and their mark, see ``children``.
        self.children: list[Any] = []
        self.mark = secrets.token_hex(8)

    @property
    def is_cut(self) -> bool:
        """Whether any output was dropped."""
        return self.stdout.is_cut or self.stderr.is_cut or self._shown > len(self.outputs)

    def write(self, stream: str, text: str) -> None:
        """Append to ``stdout`` or ``stderr``."""
        if os.getpid() != self._process:
            os.write(1 if stream == "stdout" else 2, text.encode("utf-8", "replace"))
        elif not self.is_closed:
            (self.stdout if stream == "stdout" else self.stderr).write(text)

    def show(self, value: Any) -> None:
        """Display a value; ``None`` displays nothing."""
        if value is not None and not self.is_closed:
            self.append(self.factory.convert(value))

    def append(self, output: KernelOutputType) -> None:
        """Display an already converted output."""
        self._shown += 1
        self.printed_before.append(len(self.stdout.text()))
        self.outputs.append(output)
        if len(self.outputs) > MAX_OUTPUTS:
            del self.outputs[MAX_OUTPUTS // 2], self.printed_before[MAX_OUTPUTS // 2]

    def publish(self, bundle: Mapping[str, Any]) -> None:
        """Display a mime bundle, by way of its original value when that is known."""
        if self.is_closed:
            return
        if isinstance(bundle, _Formatted):
            self.append(self.factory.convert_displayed(bundle.value, bundle))
        else:
            self.append(self.factory.convert_bundle(bundle))


_here: ContextVar[Capture | None] = ContextVar("parsimony_capture", default=None)
_open: list[Capture] = []
_lock = threading.RLock()


def capture_of_code() -> Capture | None:
    """Return the capture of the running code, by its context or its thread; ``None`` outside.

    A pool thread that an earlier cell started counts as working for the cell that runs now.
    """
    capture = _here.get()
    if capture is None:
        thread = threading.current_thread()
        capture = getattr(thread, "parsimony_capture", None)
        if capture is not None and capture.is_closed and thread in _threads_queues:
            return next((each for each in _open if not each.is_closed), capture)
    return capture


def capture_here() -> Capture | None:
    """Return the capture that the caller's output belongs to; ``None`` for none.

    A thread that Python did not start is assigned to a capture that was open when it appeared:
    nothing else is known about it. A thread that outlives its cell, a pool thread of an earlier
    cell included, belongs to none: its output and errors go where all others go.
    """
    capture, thread = _here.get(), threading.current_thread()
    if capture is None:
        capture = getattr(thread, "parsimony_capture", None)
        capture = None if capture is None or capture.is_closed else capture
    if capture is None and isinstance(thread, threading._DummyThread):
        return next((each for each in reversed(_open) if thread not in each.older), None)
    return capture


def printed_so_far() -> str:
    """Return what the code that runs now has printed, stdout first; empty if none runs.

    A word that may go on is held back: half a key can't be recognised as one.
    """
    captures = [each for each in dict.fromkeys(_open) if not each.is_closed]
    streams = [stream for each in captures for stream in (each.stdout, each.stderr)]
    texts = (_UNENDED.sub("", each.text()).strip("\n") for each in streams)
    return "\n".join(filter(None, texts))


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
    """The replacement of ``sys.stdout`` or ``sys.stderr`` that routes writes to captures."""

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
        """Do nothing: the real stream belongs to others."""

    def isatty(self) -> bool:
        return capture_here() is None and self.fallback.isatty()

    def fileno(self) -> int:
        # The descriptor that a child process would inherit, wherever it leads now.
        return 1 if self._name == "stdout" else 2

    def __getattr__(self, attribute: str) -> Any:
        # A kernel keeps state on its streams and sets it between messages.
        return getattr(self.fallback, attribute)


def no_input(*_: Any, **__: Any) -> str:
    """Raise in place of a function that would wait for a person, such as ``input``."""
    raise RuntimeError(
        "input() cannot be answered here: put the value in the code, or ask with ask_user"
    )


def no_exit(*_: Any, **__: Any) -> None:
    """Raise in place of a function that would end the process, such as ``exit``."""
    raise RuntimeError(
        "exit() would end the kernel of the user: leave it out, the cell ends by itself"
    )


Function = Callable[..., Any]
Whose = Callable[[], Capture | None]


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
            self._replace(subprocess.Popen, "__init__", _start_process, _open_capture)
            self._replace(os, "system", _system, _open_capture)
            if "getpass" in sys.modules:
                self._replace(sys.modules["getpass"], "getpass", no_input)
        for name in ("stdout", "stderr"):
            stream, routed = getattr(sys, name), self._streams.get(name)
            # A stream that appeared while no cell ran is the host's: wrap it in a new router.
            # References to the old router still lead to the old stream.
            if routed is None or (stream is not routed and all(each.is_closed for each in _open)):
                routed = self._streams[name] = _RoutedStream(name, stream)
            setattr(sys, name, routed)
        if shell is not None and all(shell is not each for each in self._shells):
            self._shells.append(shell)
            self._attach(shell)

    def _replace(
        self, owner: Any, name: str, inside: Function, whose: Whose = capture_here
    ) -> None:
        """Route a module's function, or a method by an instance attribute that shadows it.

        Captured code, which ``whose`` tells by its capture, gets ``inside``, called with the
        original and the capture first.
        """
        hidden, outside = vars(owner).get(name), getattr(owner, name, inside)

        @functools.wraps(outside)
        def chosen(*arguments: Any, **named: Any) -> Any:
            capture = whose()
            if capture is None:
                return outside(*arguments, **named)
            return inside(outside, capture, *arguments, **named)

        setattr(owner, name, chosen)

        def undo(is_after_code: bool) -> None:
            # A replacement that code installed over ours stays, except in ``sys`` after a cell.
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
        self._replace(shell.payload_manager, "write_payload", _page)

    def release(self, *, is_after_code: bool) -> None:
        """Restore the streams, and with the last capture everything else.

        Args:
            is_after_code: called right after a cell's code. Otherwise a foreign stream in ``sys``
                may be the host's, and stays.
        """
        for name, stream in self._streams.items():
            if is_after_code or getattr(sys, name) is stream:
                setattr(sys, name, stream if _open else stream.fallback)
        if not _open:
            for undo in reversed(self._undo):
                undo(is_after_code)
            for each in (self._undo, self._streams, self._shells):
                each.clear()


# Replacements for captured code. The first argument is the original function.


def _print(outside: Callable[..., None], capture: Capture, *values: Any, **options: Any) -> None:
    """Display a table or a figure that is printed alone; print everything else."""
    # A stdout that the code itself installed gets the text.
    is_plain = options.get("file") is None and is_routed(sys.stdout)
    if len(values) == 1 and is_plain and _is_picture(values[0]):
        capture.show(values[0])
    else:
        outside(*values, **options)


def is_routed(stream: Any) -> bool:
    """Whether a stream is one of our routers."""
    return type(stream) is _RoutedStream


def _is_picture(value: Any) -> bool:
    """Whether a value is better displayed than printed: a figure or a table, but not a series."""
    if is_figure(value):
        return True
    is_column = type_name(value) == "Series" or comes_from(value, "pandas", "Series", "Index")
    return frames.is_frame(value) and not is_column


def _start(outside: Callable[..., None], capture: Capture, thread: threading.Thread) -> None:
    """Assign a new thread to the capture of the code that starts it."""
    if not isinstance(thread, OwnThread):
        capture.threads.add(thread)
        vars(thread)["parsimony_capture"] = capture
    outside(thread)


def _tell_of_thread(outside: Callable[..., Any], _: Capture, found: Any) -> None:
    """Report a thread's error, except ``Held``: the approval question reports that."""
    if not issubclass(found.exc_type, Held):
        outside(found)


def _format(outside: Any, _: Capture, value: Any, *arguments: Any, **named: Any) -> Any:
    # Formatting a lazy plan would compute its first rows; the value itself is displayed instead.
    is_frame = frames.is_frame(value)
    data, more = ({"text/plain": ""}, {}) if is_frame else outside(value, *arguments, **named)
    return _Formatted(data, value), more


def _show_traceback(_: Any, capture: Capture, kind: Any, value: BaseException, __: Any) -> None:
    """Write one line to stderr for an error that the shell reports without ending the cell."""
    capture.write("stderr", "".join(traceback.format_exception_only(kind, value)))


def _run_in(shell: Any, source: str) -> Any:
    """Run the body of a magic such as ``%%capture`` as a part of the agent's cell.

    The shell itself would run it as a user's cell and would swallow its failure.
    """
    from IPython.core.interactiveshell import ExecutionResult

    filename = cell_name(0, 0, source)
    cell = compile_cell(shell.transform_cell(source), filename)
    if cell.awaits:
        raise RuntimeError("await works at the top of a cell, and not in the body of a magic")
    evaluate(cell.parts, shell.user_global_ns, shell.user_ns, sys.displayhook)
    return ExecutionResult(None)


def _page(_: Any, capture: Capture, payload: Mapping[str, Any], *__: Any, **___: Any) -> None:
    """Print the text of a pager payload (help); drop other payloads, such as ``%load``'s."""
    if payload.get("source") == "page":
        capture.write("stdout", str(payload.get("data", {}).get("text/plain", "")) + "\n")


_interception = _Interception()


@contextmanager
def capturing(capture: Capture, shell: Any = None) -> Iterator[Capture]:
    """Open ``capture`` for the body, which may await. Afterwards it is closed for good.

    Args:
        capture: receives the output of the body.
        shell: the IPython shell whose displays and errors are captured too, if there is one.
    """
    with working(capture, is_code=True, shell=shell), setting(_here, capture):
        try:
            yield capture
        finally:
            capture.is_closed = True


@contextmanager
def working(capture: Capture, *, is_code: bool = False, shell: Any = None) -> Iterator[None]:
    """Keep the routers installed while a worker thread runs the body; install them for code.

    They stay even if the thread is abandoned and the capture is closed meanwhile.
    """
    with _lock:
        if is_code:
            _interception.install(shell)
        _open.append(capture)
    try:
        yield
    finally:
        with _lock:
            _open.remove(capture)
            _interception.release(is_after_code=is_code)


# Child processes and file descriptors


def new_mark() -> str:
    """Return a new unique mark."""
    return secrets.token_hex(8)


def marked(environment: Mapping[Any, Any] | None, mark: str) -> dict[Any, Any]:
    """Return a copy of ``environment`` (default: this process's) with ``mark`` added."""
    with ours():
        given = os.environ if environment is None else environment
        before = given.get(MARKS)
        return {**given, MARKS: mark if not before else f"{before}:{mark}"}


def kill_marked(mark: str) -> None:
    """Kill every process that has ``mark``, anywhere in the process tree."""
    import psutil  # deferred: needed only when a process was started

    for _ in range(_ROUNDS):
        # ``ad_value``: another user's environment can't be read.
        found = [
            each
            for each in psutil.process_iter(["environ"], ad_value={})
            if mark in each.info["environ"].get(MARKS, "").split(":")
        ]
        for each in found:
            with suppress(psutil.Error):
                each.kill()
        if not found:
            return


def end_children(capture: Capture) -> None:
    """Kill the processes that a cell has started, and their descendants."""
    with ours():
        if capture.children:
            kill_marked(capture.mark)
        for child in tuple(capture.children):
            if getattr(child, "pid", None) is not None:
                child.kill()


class Descriptors:
    """The pipes that capture file descriptors 1 and 2, created on first use."""

    def __init__(self) -> None:
        self._pipes: dict[int, _Pipe] = {}

    # Not a generator-based context manager: that sets an attribute on the exception that leaves
    # the body, and an exception class of the user's could run code there.

    def __enter__(self) -> None:
        """Redirect descriptors 1 and 2 into the pipes for the body, which does not await."""
        self._saved = {number: os.dup(number) for number in self.pipes()}
        for number, pipe in self._pipes.items():
            os.dup2(pipe.entry, number)

    def __exit__(self, *_: object) -> None:
        # The C library buffers writes to a pipe; without a flush they would appear much later.
        if _FLUSH_C is not None:
            _FLUSH_C(None)
        for number, copy in self._saved.items():
            os.dup2(copy, number)
            os.close(copy)

    def pipes(self) -> "dict[int, _Pipe]":
        """Return the pipes by file descriptor (1 and 2)."""
        if not self._pipes:
            self._pipes = {number: _Pipe() for number in (1, 2)}
            for number, pipe in self._pipes.items():
                name = f"parsimony-pipe-{number}"
                OwnThread(target=pipe.empty, name=name, daemon=True).start()
        return self._pipes

    def before_fork(self) -> None:
        """Create the pipes before captured code forks, so that the child can write into them."""
        if _open_capture() is not None:
            self.pipes()

    def in_fork(self) -> None:
        """Redirect the descriptors of a forked child of captured code into the pipes."""
        if _open_capture() is not None:
            for number, pipe in self._pipes.items():
                os.dup2(pipe.entry, number)

    def drain(self, capture: Capture) -> None:
        """Append the text that arrived since the last call to ``capture``."""
        for number, pipe in self._pipes.items():
            stream = capture.stdout if number == 1 else capture.stderr
            stream.absorb(pipe.take(), lambda text: _MARK.sub("", text))


class _Pipe:
    """One pipe and the text read from it. A mark in the stream shows how far it was drained."""

    def __init__(self) -> None:
        self.exit, self.entry = os.pipe()
        self._lock = threading.Lock()
        self._text = BoundedText()
        self._seen = threading.Event()
        self._mark = ""

    def take(self) -> BoundedText:
        """Return the text written before this call."""
        self._seen.clear()
        self._mark = f"\0parsimony-{secrets.token_hex(8)}\0"
        os.write(self.entry, self._mark.encode())
        self._seen.wait(_SETTLE_S)
        with self._lock:
            text, self._text = self._text, BoundedText()
        return text

    def empty(self) -> None:
        """Read until the pipe is closed. Runs in a thread of its own."""
        # A character may arrive in parts.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            while data := os.read(self.exit, _CHUNK):
                with self._lock:
                    self._text.write(decoder.decode(data))
                    if not self._seen.is_set() and self._mark in self._text:
                        self._seen.set()
        except OSError:
            # A cell closed our descriptors, so there is nothing left to read.
            return


# One per process, like the descriptors themselves.
DESCRIPTORS = Descriptors()


def _open_capture() -> Capture | None:
    """Return the capture of the calling code, ``None`` if its cell has ended."""
    capture = capture_here()
    return None if capture is None or capture.is_closed else capture


def _start_process(outside: Any, capture: Capture, process: Any, *given: Any, **named: Any) -> None:
    """Start a process with the pipes and the mark of the cell.

    Output of the C library, and processes not started with ``subprocess``, ``os.system`` or
    ``os.fork``, keep the original descriptors.
    """
    call = _POPEN.bind(process, *given, **named)
    streams = ((1, sys.stdout), (2, sys.stderr))
    leads = {id(stream): number for number, stream in streams if is_routed(stream)}
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = call.arguments.get(name)
        if stream is None or id(stream) in leads:
            call.arguments[name] = DESCRIPTORS.pipes()[leads.get(id(stream), number)].entry
    call.arguments["env"] = marked(call.arguments.get("env"), capture.mark)
    capture.children.append(process)
    outside(*call.args, **call.kwargs)


def _system(_: Any, __: Capture, command: Any) -> int:
    code = subprocess.call(command, shell=True)
    return code if os.name == "nt" else (-code if code < 0 else code << 8)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=DESCRIPTORS.before_fork, after_in_child=DESCRIPTORS.in_fork)


def live_shell() -> Any:
    """Return the IPython shell of this process; ``None`` when there is none."""
    module = sys.modules.get("IPython.core.getipython")
    return None if module is None else module.get_ipython()


def open_figures() -> frozenset[int]:
    """Return the numbers of matplotlib's open figures."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return frozenset() if pyplot is None else frozenset(pyplot.get_fignums())


def show_figures(capture: Capture, but: frozenset[int]) -> None:
    """Show and close the open figures other than ``but``, as a notebook does after a cell."""
    for number in sorted(open_figures() - but):
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        drawing = pyplot.figure(number)
        capture.show(drawing)
        pyplot.close(drawing)
