"""The processes that code starts, and those that they start: found by what they inherit.

Each gets a mark in its environment, so one that its parent has left and one that began a session
of its own are found as well. Not found are a fork that runs no other program, what is given an
environment without the mark (``env -i``, ``sudo``), and what is started past ``subprocess``,
``asyncio`` and ``os.system``.
"""

import os
import secrets
import subprocess
from collections.abc import Mapping
from contextlib import suppress
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
