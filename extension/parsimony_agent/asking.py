"""A question put to the person at a terminal, where there are no buttons."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from parsimony_kernel.view.escape import inline, shortened

Read = Callable[[str], str]

_QUESTION_COLUMNS = 200


def reader() -> Read | None:
    """Who reads a line from the person: ``input``, if standard input is a terminal."""
    try:
        return input if sys.stdin is not None and sys.stdin.isatty() else None
    except ValueError:  # closed
        return None


def ask_by_input(question: str, choices: Sequence[str], read: Read = input) -> str | None:
    """The answer to ``question``: the number of a choice, or words.

    A number that no choice has is asked for again. ``None`` when the person gives none: an empty
    line, the end of the input, or Ctrl-C.
    """
    count = len(choices)
    how = {0: "In your words", 1: "1, or your own words"}.get(
        count, f"1 to {count}, or your own words"
    )
    asked = f"{shortened(inline(question), _QUESTION_COLUMNS)}\n{how}; Enter leaves it open: "
    prompt = asked
    while True:
        try:
            with _interruptible():
                reply = read(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not (choices and reply.isdecimal()) or reply in map(str, range(1, count + 1)):
            return reply or None
        prompt = f"There is no choice {inline(reply)}.\n{asked}"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the reading, whatever it means to the turn around it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        # None is a handler that was not set from Python, and cannot be either.
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
