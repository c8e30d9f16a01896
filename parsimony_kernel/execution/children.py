"""Child processes of a cell: capturing their output and killing them.

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

import codecs
import ctypes
import inspect
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from parsimony_kernel.execution.capture import (
    REPLACED,
    BoundedText,
    Capture,
    capture_here,
    is_routed,
)
from parsimony_kernel.execution.guard import ours
from parsimony_kernel.execution.interrupt import OwnThread

_SETTLE_S = 0.5
_CHUNK = 8_192  # so that the last one is in the kept text, with a mark in it
_MARK = re.compile(r"\0parsimony-[0-9a-f]{16}\0")
_FLUSH_C = ctypes.CDLL(None).fflush if os.name == "posix" else None
_POPEN = inspect.signature(subprocess.Popen.__init__)

MARKS = "PARSIMONY_STARTED_BY"

# A process that starts others during the search may be missed, so the search is repeated.
_ROUNDS = 3


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


def _start(outside: Any, capture: Capture, process: Any, *given: Any, **named: Any) -> None:
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


REPLACED += [
    (subprocess.Popen, "__init__", _start, _open_capture),
    (os, "system", _system, _open_capture),
]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=DESCRIPTORS.before_fork, after_in_child=DESCRIPTORS.in_fork)
