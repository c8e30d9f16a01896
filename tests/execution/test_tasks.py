"""Tasks that code starts: they stay when they call ``sys.exit``, and are otherwise as they were."""

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from typing import Any

import pytest

from parsimony_kernel.execution.code_cell import TaskExit, staying


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that nobody has touched, run by the test itself."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


async def leaves(code: object = 3) -> None:
    await asyncio.sleep(0)
    sys.exit(code)  # type: ignore[arg-type]


async def answers() -> str:
    await asyncio.sleep(0)
    return "here"


async def stubborn() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        sys.exit("no")


class Unshown:
    def __repr__(self) -> str:
        raise SystemExit


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (leaves, "task with 3; the kernel goes on"),
        (lambda: leaves(Unshown()), "ended this task; the kernel goes on$"),
        (stubborn, "with 'no'"),
    ],
    ids=["code", "code-without-repr", "when-cancelled"],
)
async def test_exiting_task_ends_alone_and_says_so(
    code: Callable[[], Coroutine[Any, Any, None]], said: str
) -> None:
    with staying(asyncio.get_running_loop()):
        task = asyncio.create_task(code())
        await asyncio.sleep(0)
    if code is stubborn:
        task.cancel()
    with pytest.raises(TaskExit, match=said) as e:
        await task
    assert isinstance(e.value.__cause__, SystemExit)


async def test_surviving_task_and_its_children_are_contained() -> None:
    go = asyncio.Event()

    async def outlives() -> asyncio.Task[None]:
        await go.wait()
        return asyncio.create_task(leaves())

    with staying(asyncio.get_running_loop()):
        task = asyncio.create_task(outlives())
    go.set()
    started = await task
    with pytest.raises(TaskExit):
        await started


async def test_what_a_task_in_a_context_of_its_own_starts_stays_too() -> None:
    async def outer() -> None:
        await asyncio.create_task(leaves())

    with staying(asyncio.get_running_loop()):
        task = asyncio.create_task(outer(), context=Context())
    with pytest.raises(TaskExit):
        await task


async def test_task_cancelled_early_leaves_nothing_unawaited() -> None:
    begun = []

    async def never() -> None:
        begun.append(True)

    with staying(asyncio.get_running_loop()):
        coroutine = never()
        task = asyncio.create_task(coroutine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not begun
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


async def test_factory_set_by_code_is_kept_and_used() -> None:
    made: list[object] = []

    def theirs(loop: asyncio.AbstractEventLoop, code: Any, **given: Any) -> "asyncio.Task[Any]":
        made.append(code)
        return asyncio.Task(code, loop=loop, **given)

    with staying(loop := asyncio.get_running_loop()):
        loop.set_task_factory(theirs)
    with staying(loop), pytest.raises(TaskExit):
        await asyncio.create_task(leaves())
    assert len(made) == 1


def test_foreign_tasks_are_created_as_before(loop: asyncio.AbstractEventLoop) -> None:
    async def cell(go: asyncio.Event) -> None:
        with staying(asyncio.get_running_loop()):
            await go.wait()

    async def kernel() -> None:
        go = asyncio.Event()
        running = asyncio.create_task(cell(go))
        await asyncio.sleep(0)
        coroutine = answers()
        beside = asyncio.create_task(coroutine)
        assert beside.get_coro() is coroutine
        go.set()
        await asyncio.gather(running, beside)
        others.append(asyncio.create_task(leaves(7)))
        await asyncio.Event().wait()

    others: list[asyncio.Task[None]] = []
    with pytest.raises(SystemExit) as left:
        loop.run_until_complete(kernel())
    assert others[0].exception() is left.value
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
