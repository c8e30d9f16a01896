"""Tasks that code starts: one that leaves with ``SystemExit`` does not take the process along.

asyncio hands a ``SystemExit`` that leaves a task to whoever runs the event loop, which in a kernel
is the kernel.
"""

import asyncio
import inspect
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_inside: ContextVar[bool] = ContextVar("parsimony_inside_code", default=False)


class TaskExit(Exception):
    """A task called ``sys.exit``; that ended the task, and nothing else."""


@contextmanager
def staying(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """For as long as the body runs, the tasks that are made in it, and in them, stay.

    Tasks of anybody else on the same loop are made as they always were.
    """
    before = loop.get_task_factory()

    def made(
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **given: Any,
    ) -> Any:
        if _inside.get() and inspect.iscoroutine(coroutine):
            coroutine = _stays(coroutine)
        if before is None:
            return asyncio.Task(coroutine, loop=loop, **given)
        return before(loop, coroutine, **given)

    token = _inside.set(True)
    loop.set_task_factory(made)
    try:
        yield
    finally:
        if loop.get_task_factory() is made:
            loop.set_task_factory(before)
        _inside.reset(token)


async def _stays(coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await coroutine
    except SystemExit as exc:
        code = "" if exc.code is None else f" with {exc.code!r}"
        raise TaskExit(f"sys.exit ended this task{code}; the kernel goes on") from exc
