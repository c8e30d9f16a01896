"""Who judges what code is about to open, start or reach.

A keeper hears only what the code of one capture does, in its tasks and threads as well, and may
raise to prevent it.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from parsimony_kernel.core.audit import listen, listening
from parsimony_kernel.execution.capture import Capture, capture_of_code, capturing
from parsimony_kernel.execution.factory import OutputFactory
from parsimony_kernel.execution.side_effects import EVENTS, Caller, Judge, Target
from parsimony_kernel.execution.workers import Workers, watch_workers


@dataclass
class Keeper:
    """Judges what code is about to do.

    Args:
        judge: finds what an event reaches, if anything.
        check: is given the event, what it reaches and who raises it, and may raise to prevent it.
        workers: the processes that the code may start to compute, if it may.
    """

    judge: Judge
    check: Callable[[str, Target, Caller], None]
    workers: Workers | None = None


_ours: ContextVar[bool] = ContextVar("parsimony_ours", default=False)
_lock = threading.Lock()
_PROBE = "parsimony.probe"
_is_listening = False


def keep(capture: Capture, keeper: Keeper) -> None:
    """From now on ``keeper`` judges what belongs to ``capture``, for as long as any of it runs."""
    global _is_listening
    capture.keeper = keeper
    with _lock:
        if not _is_listening:
            _is_listening = True
            listen(_hear)
            watch_workers(_workers_here)


@contextmanager
def computing(workspace: Path) -> Iterator[None]:
    """What the body computes, such as a plan that is published, may reach nothing outside.

    Raises:
        PermissionError: where it would.
    """

    def refuse(_: str, found: Target, by: Caller) -> NoReturn:
        raise PermissionError(f"it may not reach {found[1]}: compute it in code, which asks")

    judge = Judge(workspace)
    with capturing(Capture(OutputFactory())) as capture:
        keep(capture, Keeper(judge, refuse, Workers(workspace, judge.made)))
        yield


@contextmanager
def ours() -> Iterator[None]:
    """What the body does is the notebook's own work: no keeper is asked."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def keeper_here() -> Keeper | None:
    """Who judges the code that is running now."""
    capture = capture_of_code()
    return None if capture is None else capture.keeper


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
    if event in EVENTS and not _ours.get():
        keeper = keeper_here()
        if keeper is not None:
            with ours():
                by = keeper.judge.caller()
                found = keeper.judge.target(event, arguments, by)
            if found is not None:
                keeper.check(event, found, by)
