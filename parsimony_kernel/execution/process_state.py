"""What a process has one of and code may change: put back after a cell, as the working folder is.

Put back are the umask, the recursion limit, the locale, and descriptors 0, 1 and 2. What a later
cell may count on stays: ``os.environ``, ``sys.path``, the modules and what code has replaced in
them, the states of random generators. So does what cannot be read back or costs too much: limits
and priority of the process, its timers and alarms, functions left for its exit, other descriptors.
Handlers of signals cannot be set off the main thread. What code that is left behind changes later
stays as well.
"""

import locale
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

_STREAMS = (0, 1, 2)
# While it is asked for, since asking is setting: files of other threads are too private for that
# moment, and not too open.
_PRIVATE = 0o077


class ProcessState:
    """The state when it was made.

    Args:
        note: is told, one line each, what was put back.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._recursion = sys.getrecursionlimit()
        self._umask = _umask()
        self._locale = locale.setlocale(locale.LC_ALL)
        self._copies: dict[int, tuple[int, os.stat_result]] = {}
        for number in _STREAMS:
            with suppress(OSError):  # a process may have none of them
                self._copies[number] = os.dup(number), os.fstat(number)
        self._turn = threading.Lock()

    def put_back(self) -> None:
        """Have it again. Once: who asks a second time may be late."""
        if not self._turn.acquire(blocking=False):
            return
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)
            self._tell(f"recursion limit is {self._recursion}")
        if _umask() != self._umask:
            os.umask(self._umask)
            self._tell(f"umask is {self._umask:#o}")
        if locale.setlocale(locale.LC_ALL) != self._locale:
            locale.setlocale(locale.LC_ALL, self._locale)
            self._tell(f"locale is {self._locale!r}")
        for number, (copy, leads) in self._copies.items():
            if not _leads(copy, leads):
                continue  # code has closed what is not its own
            if not _leads(number, leads):
                os.dup2(copy, number)
                self._tell(f"descriptor {number} leads where it did")
            os.close(copy)

    def _tell(self, what: str) -> None:
        self._note(f"The {what} again; each cell starts with that.\n")


def _umask() -> int:
    mask = os.umask(_PRIVATE)
    os.umask(mask)
    return mask


def _leads(number: int, where: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(number), where)
    except OSError:
        return False
