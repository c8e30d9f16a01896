"""Who judges what code is about to open, start or reach.

A keeper hears only what the code of one capture does, in its tasks and threads as well, and may
raise to prevent it.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from parsimony_kernel.core.audit import listen
from parsimony_kernel.execution.capture import Capture, capture_in_context
from parsimony_kernel.execution.reaching import EVENTS


class Keeper(Protocol):
    """Judges what code is about to do, and may raise to prevent it."""

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None: ...


# For as long as anything of the capture's code runs: its context keeps the capture alive.
_keepers: weakref.WeakKeyDictionary[Capture, Keeper] = weakref.WeakKeyDictionary()
_outlived: list[Capture] = []
_ours: ContextVar[bool] = ContextVar("parsimony_ours", default=False)
_lock = threading.Lock()
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

    Not by when its thread was born, as for what is printed: others start threads meanwhile.
    """
    capture = capture_in_context()
    if capture is not None:
        return _keepers.get(capture)
    thread = threading.current_thread()
    return next((_keepers[each] for each in tuple(_keepers) if thread in each.threads), None)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _keepers and event in EVENTS and not _ours.get():
        keeper = keeper_here()
        if keeper is not None:
            keeper.hear(event, arguments)
