"""Tools as values."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from parsimony_kernel.tools import THREADS, Tool, ToolResult, in_thread, tool, toolmethod, tools_of


@tool
def lookup(order: str, limit: int = 3) -> str:
    """Look an order up."""
    return f"{order}/{limit} on {threading.current_thread() is threading.main_thread()}"


def test_function_becomes_tool_with_schema() -> None:
    told = lookup.to_llm()
    fields = {"order": {"type": "string"}, "limit": {"default": 3, "type": "integer"}}
    parameters = {"properties": fields, "required": ["order"], "type": "object"}
    function = {"name": "lookup", "description": "Look an order up.", "parameters": parameters}
    assert told == {"type": "function", "function": function}


def test_unnamed_parameters_are_refused() -> None:
    def many(*orders: str) -> None: ...

    with pytest.raises(TypeError, match="must be named"):
        tool(many)


def test_argument_model_is_built_once_per_signature() -> None:
    def make(default: Any) -> Tool:
        def count(many: Any = default) -> None: ...

        return tool(count)

    assert make(1).arguments is make(1).arguments
    assert make(True).arguments().model_dump() == {"many": True}
    made = make([1])
    assert made.arguments().model_dump() == {"many": [1]}
    assert made.parameters_schema is not make([1]).parameters_schema


async def test_marked_methods_are_collected_bound_in_order() -> None:
    class Shop:
        def __init__(self) -> None:
            self.stock = {"a": 2}

        @toolmethod(idempotent=True)
        async def count(self, item: str) -> int:
            """How many there are."""
            return self.stock[item]

        @toolmethod(name="close_shop")
        async def close(self) -> None:
            """Close."""

    found = tools_of(Shop())
    assert list(found) == ["count", "close_shop"]
    assert found["count"].idempotent
    assert await found["count"].function(item="a") == 2


async def test_abandoned_thread_is_tracked_until_it_ends() -> None:
    release, ended = threading.Event(), threading.Event()

    def block() -> None:
        release.wait()
        ended.set()

    threads: list[Future[Any]] = []
    THREADS.set(threads)
    waiting = asyncio.ensure_future(in_thread(block))
    while not threads:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not threads[0].done()
    release.set()
    assert await in_thread(ended.wait, timeout=60)
    threads[0].result(timeout=60)


async def test_thread_sees_callers_context_and_is_daemonic() -> None:
    mark: ContextVar[str] = ContextVar("mark")
    mark.set("here")
    assert await in_thread(mark.get) == "here"
    assert await in_thread(lambda: threading.current_thread().daemon)


def test_wordless_exception_shows_its_name() -> None:
    class Speechless(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    assert ToolResult.from_exception(Speechless()).exception_message == "Speechless"


def rows(order: str) -> Iterator[str]:
    """The rows of an order."""
    yield order


async def streamed(order: str) -> AsyncIterator[str]:
    """The rows of an order."""
    yield order


@pytest.mark.parametrize("function", [rows, streamed])
def test_generator_is_no_tool(function: Any) -> None:
    with pytest.raises(TypeError, match=r"is a generator.*return a list of what it yields"):
        tool(function)
    with pytest.raises(TypeError, match="is a generator"):
        replace(lookup, reconcile=function)


@pytest.mark.parametrize(
    "thing", ["lookup", functools.partial(len, "a"), functools.partialmethod(len), list]
)
def test_what_is_no_function_is_no_tool(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"a tool is made of a function, not of .*; write one that"):
        tool(thing)


@pytest.mark.parametrize("seconds", [0, -1, 0.0, float("nan")])
def test_zero_deadline_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="give more than 0, or None for the run's own"):
        tool(timeout_s=seconds)(lookup.function)


async def waits(_: Any) -> None: ...


class Waits:
    async def __call__(self, _: Any) -> None: ...


@pytest.mark.parametrize("validator", [waits, functools.partial(waits), Waits(), rows])
@pytest.mark.parametrize("option", ["validators", "output_validators"])
def test_async_validator_is_refused(option: str, validator: Any) -> None:
    options: dict[str, Any] = {option: [validator]}
    with pytest.raises(TypeError, match="make it a plain function"):
        tool(**options)(lookup.function)
