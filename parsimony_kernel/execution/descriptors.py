"""What is written past Python: by child processes and C code, to the descriptors 1 and 2.

While code is on the stack both lead into pipes of ours; a thread for each empties it, always, so
that a child that outlives the cell never blocks. The threads read and wait in the read: not every
platform can wait for several pipes at once. Only for code on the main thread, where nobody else
writes meanwhile. The text comes after what Python printed, since their order cannot be known.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from parsimony_kernel.execution.capture import BoundedText, Capture

_SETTLE_S = 0.5
_CHUNK = 65_536


class Descriptors:
    """The pipes, made when first needed."""

    def __init__(self) -> None:
        self._pipes: dict[int, _Pipe] = {}
        self._flush_c: Any = None

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """Lead descriptors 1 and 2 into the pipes for the body, which does not await."""
        if not self._pipes:
            self._open()
        saved = {number: os.dup(number) for number in self._pipes}
        try:
            for number, pipe in self._pipes.items():
                os.dup2(pipe.entry, number)
            yield
        finally:
            # The C library buffers what goes to a pipe; unflushed it would come out much later.
            self._flush_c(None)
            for number, copy in saved.items():
                os.dup2(copy, number)
                os.close(copy)

    def drain(self, capture: Capture) -> None:
        """Hand over what has arrived since the last time."""
        for number, pipe in self._pipes.items():
            text = pipe.take()
            if text:
                capture.write("stdout" if number == 1 else "stderr", text)

    def _open(self) -> None:
        self._flush_c = ctypes.CDLL(None).fflush if os.name == "posix" else (lambda _: None)
        self._pipes = {number: _Pipe() for number in (1, 2)}
        for number, pipe in self._pipes.items():
            threading.Thread(
                target=pipe.empty, name=f"parsimony-pipe-{number}", daemon=True
            ).start()


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
