"""A program at a terminal of 80 columns, with a person who types and reads."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pexpect
import psutil

COLUMNS = 80
CTRL_C = "\x03"
# Runs a cell of several lines as it stands.
_ALT_ENTER = "\x1b\r"
_PATIENCE_S = 60
# A line that says what is going on is taken away so, and read as a line of its own.
_WRITTEN_OVER = "\r\x1b[2K"
_CONTROL = r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]|\r|\x08"


class Ipython:
    """A person at IPython's prompt, or at one that numbers its cells alike."""

    def __init__(self, terminal: pexpect.spawn) -> None:
        self._terminal = terminal
        self._cells = 1
        self.until("In [1]:")

    def until(self, text: str) -> str:
        """Read on until ``text`` comes; what stood before it, as it is read."""
        self._terminal.expect(f"(?:{_CONTROL})*".join(map(re.escape, text)))
        before = str(self._terminal.before)
        return re.sub(_CONTROL, "", before.replace(_WRITTEN_OVER, "\n"))

    def type(self, keys: str) -> None:
        self._terminal.send(keys)

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
def at_terminal(folder: Path, *arguments: str) -> Iterator[pexpect.spawn]:
    """Python with ``arguments`` at a terminal in ``folder``."""
    environ = {name: each for name, each in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environ |= {
        "TERM": "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "IPYTHONDIR": str(folder / ".ipython"),
    }
    terminal = pexpect.spawn(
        sys.executable,
        list(arguments),
        timeout=_PATIENCE_S,
        cwd=str(folder),
        env=environ,
        encoding="utf-8",
        codec_errors="replace",
        dimensions=(40, COLUMNS),
    )
    terminal.delaybeforesend = None
    try:
        yield terminal
    finally:
        # A console's kernel is in a session of its own, which no signal of the terminal reaches.
        for each in psutil.Process(terminal.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                each.kill()
        terminal.close(force=True)
