"""Who judges what code is about to open, start or reach.

A keeper hears only what the code of one capture does, in its tasks and threads as well, and may
raise to prevent it.
"""

import concurrent.futures.thread
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from parsimony_kernel.core.audit import listen, listening
from parsimony_kernel.execution.capture import Capture, capture_in_context, capturing
from parsimony_kernel.execution.factory import OutputFactory
from parsimony_kernel.execution.side_effects import EVENTS, Judge, Target
from parsimony_kernel.execution.workers import Workers, watch_workers


class Keeper(Protocol):
    """Judges what code is about to do, and may raise to prevent it."""

    @property
    def workers(self) -> Workers | None:
        """The processes that the code may start to compute, if it may."""

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None: ...


# For as long as anything of the capture's code runs: its context keeps the capture alive.
_keepers: weakref.WeakKeyDictionary[Capture, Keeper] = weakref.WeakKeyDictionary()
_outlived: list[Capture] = []
_ours: ContextVar[bool] = ContextVar("parsimony_ours", default=False)
_lock = threading.Lock()
_PROBE = "parsimony.probe"
_is_listening = False


def keep(capture: Capture, keeper: Keeper) -> None:
    """From now on ``keeper`` judges what belongs to ``capture``, for as long as any of it runs."""
    global _is_listening
    with _lock:
        _outlived[:] = filter(_has_threads, _outlived)
        _keepers[capture] = keeper
        if not _is_listening:
            _is_listening = True
            listen(_hear)
            watch_workers(_workers_here)


@dataclass
class Refusing:
    """Refuses whatever its judge finds, where nobody can be asked.

    Args:
        refuse: raises, given the event and what it reaches.
        workers: the processes that the code may start to compute, if it may.
    """

    judge: Judge
    refuse: Callable[[str, Target], NoReturn]
    workers: Workers | None = None

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        with ours():
            found = self.judge.target(event, arguments, self.judge.caller())
        if found is not None:
            self.refuse(event, found)


@contextmanager
def computing(workspace: Path) -> Iterator[None]:
    """What the body computes, such as a plan that is published, may reach nothing outside.

    Raises:
        PermissionError: where it would.
    """

    def refuse(_: str, found: Target) -> NoReturn:
        raise PermissionError(f"it may not reach {found[1]}: compute it in code, which asks")

    judge = Judge(workspace)
    with capturing(Capture(OutputFactory())) as capture:
        keep(capture, Refusing(judge, refuse, Workers(workspace, judge.made)))
        try:
            yield
        finally:
            ended(capture)


def ended(capture: Capture) -> None:
    """The code of ``capture`` has ended; threads that it left are judged while they run."""
    if _has_threads(capture):
        with _lock:
            _outlived.append(capture)


def _has_threads(capture: Capture) -> bool:
    return any(each.is_alive() for each in tuple(capture.threads))


@contextmanager
def ours() -> Iterator[None]:
    """What the body does is the notebook's own work: no keeper is asked."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def keeper_here() -> Keeper | None:
    """Who judges the code that is running now.

    Not by when its thread was born, as for what is printed: others start threads meanwhile. A
    thread of a pool that an earlier cell started works for the cell that runs now.
    """
    capture = capture_in_context()
    if capture is not None:
        return _keepers.get(capture)
    thread = threading.current_thread()
    theirs = [each for each in tuple(_keepers) if thread in each.threads]
    if theirs and thread in concurrent.futures.thread._threads_queues:
        theirs = [each for each in tuple(_keepers) if not each.is_closed] or theirs
    return _keepers[theirs[0]] if theirs else None


def _workers_here() -> Workers | None:
    keeper = keeper_here()
    return None if keeper is None else keeper.workers


def is_watching() -> bool:
    """Whether this process hears its audit events: whoever came first may refuse another hook."""
    heard: list[str] = []

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == _PROBE:
            heard.append(event)

    with listening(hear):
        sys.audit(_PROBE)
    return bool(heard)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _keepers and event in EVENTS and not _ours.get():
        keeper = keeper_here()
        if keeper is not None:
            keeper.hear(event, arguments)
