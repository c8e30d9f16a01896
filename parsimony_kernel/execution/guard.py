"""The one audit hook of this process (PEP 578): what code is about to open, start or reach.

Whoever wants to know registers: a watch hears all that happens meanwhile, a keeper only what the
code of one capture does, in its tasks and threads as well, and may raise to prevent it. While
nobody has registered, the hook costs one check.
"""

import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from parsimony_kernel.execution.capture import Capture, capture_in_context

Hear = Callable[[str, tuple[Any, ...]], None]

_watches: list[Hear] = []
# For as long as anything of the capture's code runs: its context keeps the capture alive.
_keepers: weakref.WeakKeyDictionary[Capture, Hear] = weakref.WeakKeyDictionary()
_ours: ContextVar[bool] = ContextVar("parsimony_ours", default=False)
_lock = threading.Lock()
_installed = False


def listen(hear: Hear) -> None:
    """Let ``hear`` know of every event from now on, until ``leave``."""
    with _lock:
        _install()
        _watches.append(hear)


def leave(hear: Hear) -> None:
    """Stop listening; for one that has stopped already, nothing."""
    with _lock:
        _watches[:] = [each for each in _watches if each != hear]


@contextmanager
def listening(hear: Hear) -> Iterator[None]:
    """Let ``hear`` know of what happens in the body, in any thread."""
    listen(hear)
    try:
        yield
    finally:
        leave(hear)


def keep(capture: Capture, hear: Hear) -> None:
    """From now on ``hear`` judges what belongs to ``capture``, for as long as any of it runs."""
    with _lock:
        _install()
        _keepers[capture] = hear


@contextmanager
def ours() -> Iterator[None]:
    """What the body does is the notebook's own work: no keeper is asked."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def _install() -> None:
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not (_watches or _keepers):
        return
    for hear in tuple(_watches):
        hear(event, arguments)
    if _keepers and not _ours.get():
        keeper = _keeper_here()
        if keeper is not None:
            keeper(event, arguments)


def _keeper_here() -> Hear | None:
    """Who judges the code that is running now.

    Not by when its thread was born, as for what is printed: others start threads meanwhile.
    """
    capture = capture_in_context()
    if capture is not None:
        return _keepers.get(capture)
    thread = threading.current_thread()
    return next((_keepers[each] for each in tuple(_keepers) if thread in each.threads), None)
