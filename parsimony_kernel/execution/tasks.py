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
        if _inside.get() and inspect.iscoroutine(coroutine):
            coroutine = _Staying(coroutine)
        if self.before is None:
            return asyncio.Task(coroutine, loop=loop, **given)
        return self.before(loop, coroutine, **given)


class _Staying(Coroutine[Any, Any, Any]):
    """A coroutine that raises ``TaskExit`` in place of ``SystemExit``, and else is ``inner``.

    Not a coroutine around it: what one that has not begun is told would never reach ``inner``,
    and a task would show the name and the frames of ours.
    """

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def send(self, value: Any) -> Any:
        return _step(self._inner.send, value)

    def throw(self, *raised: Any) -> Any:
        return _step(self._inner.throw, *raised)

    def close(self) -> None:
        self._inner.close()


def _step(resume: Callable[..., Any], *given: Any) -> Any:
    # The context may be one that code has made anew.
    _inside.set(True)
    try:
        return resume(*given)
    except SystemExit as exc:
        # Anything else may have a repr that raises, out of the task and into the loop.
        code = f" with {exc.code!r}"[:200] if type(exc.code) in (int, str) else ""
        raise TaskExit(f"sys.exit ended this task{code}; the kernel goes on") from exc
