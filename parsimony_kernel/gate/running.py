"""The body of a tool, under its deadline.

A body that is told to stop has a moment to unwind; Python is stopped wherever it is. One that goes
on, in a call that blocks, is left behind: what it comes to reaches nothing.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.execution.interrupt import CodeGuard
from parsimony_kernel.tools import AROUND, THREADS, Tool, in_thread

_GRACE_S = 0.25
# Code and publishing stop their own work, in less than this, and tell what came of it.
_OWN_GRACE_S = 0.48


@dataclass(frozen=True)
class Ended:
    """How a body ended: with a value, with an ``error``, or not in time.

    ``goes_on`` says of a late one that it could not be stopped.
    """

    value: Any = None
    error: BaseException | None = None
    is_late: bool = False
    goes_on: bool = False


# The bodies that were left behind, by any gate of this process.
_left: "list[_Body]" = []


def goes_on(key: str) -> bool:
    """Whether a body that was run under ``key`` was left behind and has not ended yet."""
    return any(body.key == key and body.goes_on for body in _left)


async def run_body(
    tool: Tool,
    inputs: Mapping[str, Any],
    seconds: float,
    cancellation: CancellationRequest | None,
    *,
    key: str = "",
) -> Ended:
    """Run the body of a tool for at most ``seconds``.

    Args:
        tool: whose function is called, on the event loop or in a thread.
        inputs: its arguments.
        seconds: the deadline.
        cancellation: stops the body when it is set.
        key: names the call for ``goes_on``.

    Returns:
        How it ended; what it raised is a value in that.

    Raises:
        Cancelled: the run was stopped meanwhile, with what the body made of that.
        KeyboardInterrupt: as the body raised it.
    """
    body = _Body(tool, inputs, key)
    waiting = asyncio.wait({body.task}, timeout=seconds)
    try:
        await (cancellation.race(waiting) if cancellation is not None else waiting)
    except Cancelled as stopped:
        await body.stop()
        if body.goes_on:
            raise Cancelled(f"{stopped}; {tool.name} does not stop, and is cut off") from None
        raise Cancelled(f"{stopped}{body.told}") from None
    finally:
        await body.stop()
    if body.is_stopped:
        return Ended(is_late=True, goes_on=body.goes_on)
    return body.task.result()


class _Body:
    """One call of a tool's function."""

    def __init__(self, tool: Tool, inputs: Mapping[str, Any], key: str) -> None:
        self.key = key
        self.is_stopped = False
        # What code says of its own end when it is stopped.
        self.told = ""
        self._grace_s = _GRACE_S if tool.tool_type == "function" else _OWN_GRACE_S
        self._threads: list[Future[Any]] = []
        self._guards: list[CodeGuard] = []
        self.task = asyncio.ensure_future(self._run(tool, inputs))

    @property
    def goes_on(self) -> bool:
        """Whether any of it is still running."""
        return not (self.task.done() and all(thread.done() for thread in self._threads))

    async def stop(self) -> None:
        """Tell it to stop, once, and wait for a moment."""
        if self.is_stopped or self.task.done():
            return
        self.is_stopped = True
        self.task.cancel()
        for guard in self._guards:
            guard.interrupt("cancel")
        threads = [asyncio.wrap_future(thread) for thread in self._threads]
        try:
            await asyncio.wait({self.task, *threads}, timeout=self._grace_s)
        finally:
            for thread in threads:
                thread.cancel()
            _left[:] = [body for body in (*_left, self) if body.goes_on]

    async def _run(self, tool: Tool, inputs: Mapping[str, Any]) -> Ended:
        THREADS.set(self._threads)
        if tool.tool_type == "function":
            AROUND.set(self._guarded)
        try:
            return Ended(await _call(tool, inputs))
        except KeyboardInterrupt:
            raise
        except asyncio.CancelledError as exc:
            current = asyncio.current_task()
            if self.is_stopped or (current is not None and current.cancelling()):
                if tool.tool_type == "code":
                    self.told = str(exc)
                raise
            return Ended(error=exc)
        except BaseException as exc:  # boundary: tool - a body may raise anything
            return Ended(error=exc)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        guard = CodeGuard()
        self._guards.append(guard)
        with guard:
            guard.check()
            return guard.call(call)


async def _call(tool: Tool, inputs: Mapping[str, Any]) -> Any:
    parsed = tool.arguments.model_validate(dict(inputs))
    extra = parsed.model_extra or {}  # whose names may be those of the model's own methods
    given = {name: extra.get(name, getattr(parsed, name)) for name in parsed.model_fields_set}
    if inspect.iscoroutinefunction(tool.function):
        return await tool.function(**given)
    # Off the event loop, which has other things to wait for.
    answered = await in_thread(tool.function, **given)
    return await answered if inspect.isawaitable(answered) else answered
