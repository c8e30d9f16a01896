"""The one audit hook of this process (PEP 578). Without listeners it costs one check."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Hear = Callable[[str, tuple[Any, ...]], None]

_listeners: tuple[Hear, ...] = ()
_lock = threading.Lock()
_is_installed = False


def listen(hear: Hear) -> None:
    """Call ``hear`` once on every audit event until ``leave``; it may raise to block the action."""
    global _is_installed, _listeners
    with _lock:
        if not _is_installed:
            _is_installed = True
            sys.addaudithook(_audit)
        _listeners = (*(each for each in _listeners if each != hear), hear)


def leave(hear: Hear) -> None:
    """Stop calling ``hear``; does nothing if it is not registered."""
    global _listeners
    with _lock:
        _listeners = tuple(each for each in _listeners if each != hear)


@contextmanager
def listening(hear: Hear) -> Iterator[None]:
    """Call ``hear`` on every audit event during the block, from any thread."""
    listen(hear)
    try:
        yield
    finally:
        leave(hear)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    for hear in _listeners or ():  # none at the end of the interpreter
        hear(event, arguments)
