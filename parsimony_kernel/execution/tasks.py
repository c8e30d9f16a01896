"""Tasks that code starts: one that leaves with ``SystemExit`` does not take the process along.

asyncio hands a ``SystemExit`` that leaves a task to whoever runs the event loop, which in a kernel
is the kernel. A loop's factory is set once and stays, because a task may outlive the cell that
started it and start more; whether a task is of code, its context says.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_inside: ContextVar[bool] = ContextVar("parsimony_inside_code", default=False)


class TaskExit(Exception):
    """A task called ``sys.exit``; that ended the task, and nothing else."""


@contextmanager
def staying(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """The tasks that are made in the body stay, and so do those that they make, however late.

    Tasks of anybody else on the same loop are made as they always were.
    """
    factory: Any = loop.get_task_factory()
    if not isinstance(factory, _Factory):
        loop.set_task_factory(_Factory(factory))
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)


@dataclass(frozen=True)
class _Factory:
    """Makes tasks as ``before`` does, of code's coroutines such that stay."""

    before: Callable[..., Any] | None

    def __call__(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **given: Any,
    ) -> Any:
        make: Callable[..., Any] = self.before or _task
        if not (_inside.get() and inspect.iscoroutine(coroutine)):
            return make(loop, coroutine, **given)
        task = make(loop, _staying(coroutine), **given)
        # One that is cancelled before it begins would never reach it.
        task.add_done_callback(lambda _: coroutine.close())
        return task


def _task(loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> "asyncio.Task[Any]":
    return asyncio.Task(coroutine, loop=loop, **given)


async def _staying(inner: Coroutine[Any, Any, Any]) -> Any:
    """What ``inner`` gives, with ``TaskExit`` in place of ``SystemExit``."""
    _inside.set(True)  # the context may be one that code has made anew
    try:
        return await inner
    except SystemExit as exc:
        # Anything else may have a repr that raises, out of the task and into the loop.
        code = f" with {exc.code!r}"[:200] if type(exc.code) in (int, str) else ""
        raise TaskExit(f"sys.exit ended this task{code}; the kernel goes on") from exc
