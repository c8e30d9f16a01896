"""A program at a terminal of 80 columns, with a person who types and reads."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

COLUMNS = 80
CTRL_C = "\x03"
# Runs a cell of several lines as it stands.
_ALT_ENTER = "\x1b\r"
_PATIENCE_S = 60.0
# A line that says what is going on is taken away so, and read as a line of its own.
_WRITTEN_OVER = "\r\x1b[2K"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]|\r|\x08")
# Ctrl-C reaches the programs of the terminal that a session of processes is controlled by.
_AT_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


class Terminal:
    """What the person reads from where they have last looked on, and types."""

    def __init__(self, screen: int) -> None:
        self._screen = screen
        self._decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self._written = ""
        self._read = 0

    def until(self, text: str) -> str:
        """Read on until ``text`` comes; what stood before it, as it is read."""
        if not self._comes(text, _PATIENCE_S):
            unread = self._shown()[self._read :]
            raise AssertionError(f"{text!r} did not come; what came is {unread[-2_000:]!r}")
        begin, self._read = self._read, self._shown().find(text, self._read) + len(text)
        return self._shown()[begin : self._read - len(text)]

    def _comes(self, text: str, within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while self._shown().find(text, self._read) < 0:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._screen], [], [], left)
            if not ready:
                return False
            self._written += self._decode(os.read(self._screen, 1 << 16))
        return True

    def _shown(self) -> str:
        return _CONTROL.sub("", self._written.replace(_WRITTEN_OVER, "\n"))

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())


class Ipython(Terminal):
    """IPython's prompt, or one that numbers its cells alike."""

    def __init__(self, screen: int) -> None:
        super().__init__(screen)
        self._cells = 1
        self.until("In [1]:")

    def begin(self, *lines: str) -> None:
        """Have a cell run."""
        self.type("\r".join(lines) + _ALT_ENTER)

    def end(self) -> str:
        """What the running cell has shown when the next one can be typed."""
        self._cells += 1
        return self.until(f"In [{self._cells}]:")

    def run(self, *lines: str) -> str:
        self.begin(*lines)
        return self.end()


@contextmanager
def at_terminal(folder: Path, *arguments: str) -> Iterator[int]:
    """Python with ``arguments`` at a terminal in ``folder``; the terminal's other side."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environ = {name: each for name, each in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environ |= {
        "TERM": "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "IPYTHONDIR": str(folder / ".ipython"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_TERMINAL, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environ,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        # A console's kernel is in a session of its own, which no signal of the terminal reaches.
        started = psutil.Process(process.pid).children(recursive=True)
        for each in (*started, process):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()
        os.close(ours)
