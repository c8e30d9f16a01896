"""Keep ``SystemExit`` in a task of the code from ending the process.

asyncio passes a ``SystemExit`` that leaves a task on to the runner of the event loop, which in a
kernel is the kernel itself. The task factory is installed once per loop and stays, because a task
may outlive its cell and start more tasks; a context variable marks the tasks of code.
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
    """A task called ``sys.exit``, which ended this task only."""


@contextmanager
def staying(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Contain ``SystemExit`` in tasks created in the body, and in the tasks that those create.

    Other tasks on the same loop are created as before.
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
    """A task factory that wraps ``before`` and contains ``SystemExit`` in tasks of code."""

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
        # A task cancelled before it begins would never run, and so never close, the coroutine.
        task.add_done_callback(lambda _: coroutine.close())
        return task


def _task(loop: asyncio.AbstractEventLoop, coroutine: Any, **given: Any) -> "asyncio.Task[Any]":
    return asyncio.Task(coroutine, loop=loop, **given)


async def _staying(inner: Coroutine[Any, Any, Any]) -> Any:
    """Await ``inner``; raise ``TaskExit`` in place of ``SystemExit``."""
    _inside.set(True)  # the context may be one that code has made anew
    try:
        return await inner
    except SystemExit as exc:
        # Any other exit code may have a repr that raises, out of the task and into the loop.
        code = f" with {exc.code!r}"[:200] if type(exc.code) in (int, str) else ""
        raise TaskExit(f"sys.exit ended this task{code}; the kernel goes on") from exc
