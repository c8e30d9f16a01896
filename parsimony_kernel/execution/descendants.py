"""The processes that code starts, and those that they start: found by what they inherit.

Each gets a mark in its environment, so one that its parent has left and one that began a session
of its own are found as well. Not found are a fork that runs no other program, what is given an
environment without the mark (``env -i``, ``sudo``), and what is started past ``subprocess``,
``asyncio`` and ``os.system``.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from parsimony_kernel.execution.guard import ours

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
        found = [pid for pid in psutil.pids() if _has(pid, mark)]
        for pid in found:
            with suppress(psutil.Error):
                psutil.Process(pid).kill()
        if not found:
            return


def _has(pid: int, mark: str) -> bool:
    import psutil

    try:
        if sys.platform == "linux":  # ten times as fast; a mark is like nothing else in there
            return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        return mark in psutil.Process(pid).environ().get(MARKS, "").split(":")
    except (psutil.Error, OSError):  # it is gone, or somebody else's
        return False


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
