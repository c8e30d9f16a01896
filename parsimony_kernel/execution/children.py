"""The processes that code starts: what they write past Python, and how they end.

What they and C code write goes to the descriptors 1 and 2. While code is on the stack both lead
into pipes of ours; a thread for each empties it, always, so that a child that outlives the cell
never blocks. The threads read and wait in the read: not every platform can wait for several pipes
at once. The text comes after what Python printed, since their order cannot be known. That is for
code on the main thread, where nobody else writes meanwhile. Beside code on another thread others
do, so there the descriptors stay, and only the processes that the code starts are given the pipes.

Each process gets a mark in its environment, which those inherit that it starts, so one that its
parent has left and one that began a session of its own are found as well. Not found are a fork
that runs no other program, what is given an environment without the mark (``env -i``, ``sudo``),
and what is started past ``subprocess``, ``asyncio`` and ``os.system``.
"""

import ctypes
import inspect
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from parsimony_kernel.execution.capture import BoundedText, Capture, capture_here, is_routed, routed
from parsimony_kernel.execution.guard import ours
from parsimony_kernel.execution.interrupt import OwnThread

_SETTLE_S = 0.5
_CHUNK = 65_536
_FLUSH_C = ctypes.CDLL(None).fflush if os.name == "posix" else None
_POPEN = inspect.signature(subprocess.Popen.__init__)

MARKS = "PARSIMONY_STARTED_BY"

# One that starts others while it is looked for may be seen too late.
_ROUNDS = 3


def new_mark() -> str:
    """A mark that nothing has."""
    return secrets.token_hex(8)


def marked(environment: Mapping[Any, Any] | None, mark: str) -> dict[Any, Any]:
    """``environment``, or the one of this process, with ``mark`` added to the marks it has."""
    with ours():
        given = os.environ if environment is None else environment
        before = given.get(MARKS)
        return {**given, MARKS: mark if not before else f"{before}:{mark}"}


def kill_marked(mark: str) -> None:
    """Kill every process that has ``mark``, wherever it is in the tree of processes."""
    import psutil  # deferred: only asked where something was started

    for _ in range(_ROUNDS):
        # Without the environments of those that are gone, or somebody else's.
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


class Started:
    """The processes that one cell has started; true when there are any."""

    def __init__(self) -> None:
        self.mark = new_mark()
        self.children: list[subprocess.Popen[Any]] = []

    def __bool__(self) -> bool:
        return bool(self.children)

    def end(self) -> None:
        """Kill them and what they have started."""
        if not self.children:
            return
        with ours():
            kill_marked(self.mark)
            for child in tuple(self.children):
                if getattr(child, "pid", None) is not None:
                    child.kill()


class Descriptors:
    """The pipes, made when first needed."""

    def __init__(self) -> None:
        self._pipes: dict[int, _Pipe] = {}
        self._for_forks = False

    # No generator, which would set an attribute of the exception that leaves the body: the class
    # of the exception may be a user's, and have something to run there.

    def __enter__(self) -> None:
        """Lead descriptors 1 and 2 into the pipes for the body, which does not await."""
        self._saved = {number: os.dup(number) for number in self.pipes()}
        for number, pipe in self._pipes.items():
            os.dup2(pipe.entry, number)

    def __exit__(self, *_: object) -> None:
        # The C library buffers what goes to a pipe; unflushed it would come out much later.
        if _FLUSH_C is not None:
            _FLUSH_C(None)
        for number, copy in self._saved.items():
            os.dup2(copy, number)
            os.close(copy)

    @contextmanager
    def inherited(self) -> Iterator[Started]:
        """Lead what captured code starts in the body into the pipes; gives what it has started.

        Not for two at once. What the C library writes, and processes that are started past
        ``subprocess``, ``os.system`` and ``os.fork``, keep the descriptors.
        """
        started = Started()
        start, system = subprocess.Popen.__init__, os.system

        def with_pipes(_: Capture, process: Any, *given: Any, **named: Any) -> None:
            call = _POPEN.bind(process, *given, **named)
            streams = ((1, sys.stdout), (2, sys.stderr))
            leads = {id(stream): number for number, stream in streams if is_routed(stream)}
            for number, name in ((1, "stdout"), (2, "stderr")):
                stream = call.arguments.get(name)
                if stream is None or id(stream) in leads:
                    call.arguments[name] = self.pipes()[leads.get(id(stream), number)].entry
            call.arguments["env"] = marked(call.arguments.get("env"), started.mark)
            started.children.append(process)
            start(*call.args, **call.kwargs)

        def system_of_code(_: Capture, command: Any) -> int:
            code = subprocess.call(command, shell=True)
            return code if os.name == "nt" else (-code if code < 0 else code << 8)

        start_with_pipes = routed(with_pipes, start)
        system_with_pipes = routed(system_of_code, system)
        subprocess.Popen.__init__ = start_with_pipes  # type: ignore[method-assign]
        os.system = system_with_pipes
        self._for_forks = True
        try:
            yield started
        finally:
            self._for_forks = False
            # What code has put in the place of ours is to last.
            if os.system is system_with_pipes:
                os.system = system
            if subprocess.Popen.__init__ is start_with_pipes:
                subprocess.Popen.__init__ = start  # type: ignore[method-assign]

    def pipes(self) -> "dict[int, _Pipe]":
        """The pipes by the descriptor that leads into them."""
        if not self._pipes:
            self._pipes = {number: _Pipe() for number in (1, 2)}
            for number, pipe in self._pipes.items():
                name = f"parsimony-pipe-{number}"
                OwnThread(target=pipe.empty, name=name, daemon=True).start()
        return self._pipes

    def before_fork(self) -> None:
        """Have the pipes, where the process that captured code forks is to write into them."""
        if self._for_forks and capture_here() is not None:
            self.pipes()

    def in_fork(self) -> None:
        """Lead the descriptors of a process that captured code has forked into the pipes."""
        if self._for_forks and capture_here() is not None:
            for number, pipe in self._pipes.items():
                os.dup2(pipe.entry, number)

    def drain(self, capture: Capture) -> None:
        """Hand over what has arrived since the last time."""
        for number, pipe in self._pipes.items():
            text = pipe.take()
            if text:
                capture.write("stdout" if number == 1 else "stderr", text)


class _Pipe:
    """One pipe and what came out of it. Marks tell how far it has been emptied."""

    def __init__(self) -> None:
        self.exit, self.entry = os.pipe()
        self._lock = threading.Lock()
        self._text = BoundedText()
        self._seen = threading.Event()
        self._mark = b""
        self._rest = b""

    def take(self) -> str:
        """All that was written before now, bounded."""
        self._seen.clear()
        self._mark = b"\0parsimony-%b\0" % os.urandom(8).hex().encode()
        os.write(self.entry, self._mark)
        self._seen.wait(_SETTLE_S)
        with self._lock:
            text, self._text = self._text, BoundedText()
        return text.text()

    def empty(self) -> None:
        """Read for as long as the pipe is there. The work of a thread of its own."""
        try:
            while data := os.read(self.exit, _CHUNK):
                self._receive(data)
        except OSError:
            # A cell closed descriptors that are not its own; there is nothing left to read.
            return

    def _receive(self, arrived: bytes) -> None:
        data = self._rest + arrived
        self._rest = b""
        before, mark, after = data.partition(self._mark) if self._mark else (data, b"", b"")
        if not mark and b"\0" in data:
            # Perhaps the first part of a mark.
            at = data.rindex(b"\0")
            if self._mark.startswith(data[at:]):
                before, self._rest = data[:at], data[at:]
        with self._lock:
            self._text.write((before + after).decode("utf-8", "replace"))
        if mark:
            self._seen.set()


# One, as the descriptors themselves.
DESCRIPTORS = Descriptors()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=DESCRIPTORS.before_fork, after_in_child=DESCRIPTORS.in_fork)
