"""Tools as values."""

import asyncio
import threading
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any

import pytest

from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.tools import (
    THREADS,
    Tool,
    ToolResult,
    Tools,
    in_thread,
    tool,
    toolmethod,
    tools_of,
)


@tool
def lookup(order: str, limit: int = 3) -> str:
    """Look an order up."""
    return f"{order}/{limit} on {threading.current_thread() is threading.main_thread()}"


def test_a_function_becomes_a_tool_with_schema_and_description() -> None:
    assert lookup.to_llm() == {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Look an order up.",
            "parameters": {
                "additionalProperties": False,
                "properties": {
                    "order": {"type": "string"},
                    "limit": {"default": 3, "type": "integer"},
                },
                "required": ["order"],
                "type": "object",
            },
        },
    }


async def test_a_plain_function_runs_off_the_main_thread() -> None:
    assert await lookup.function(order="A1") == "A1/3 on False"


def test_parameters_without_a_name_are_refused() -> None:
    def many(*orders: str) -> None: ...

    with pytest.raises(TypeError, match="must be named"):
        tool(many)


async def test_marked_methods_are_collected_bound_and_in_order() -> None:
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


def test_tools_join_with_the_right_side_winning() -> None:
    async def other() -> None: ...

    replacement = Tool(other, "lookup", "other", {"type": "object"})
    joined = Tools([lookup]) + Tools([replacement])
    assert joined["lookup"] is replacement
    assert list(Tools([lookup]).copy()) == ["lookup"]
    assert Tools([lookup]).to_llm() == [lookup.to_llm()]


def test_a_result_is_data_or_a_failure_or_an_exception() -> None:
    failure = Failure(FailureKind.tool_error, "x", partial_data=[1])
    assert ToolResult.from_data(1).ok
    assert not ToolResult.from_failure(failure).ok
    assert ToolResult.from_failure(failure).partial_data == [1]
    assert ToolResult.from_exception(KeyError("k")).exception_message == "KeyError: 'k'"
    assert ToolResult.from_exception(ValueError()).exception_message == "ValueError"


async def test_a_thread_that_is_given_up_ends_by_itself_and_is_known_of() -> None:
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


async def test_a_thread_sees_the_context_of_its_caller_and_keeps_no_process_alive() -> None:
    mark: ContextVar[str] = ContextVar("mark")
    mark.set("here")
    assert await in_thread(mark.get) == "here"
    assert await in_thread(lambda: threading.current_thread().daemon)


async def test_whatever_a_thread_raises_reaches_its_caller() -> None:
    def stop() -> None:
        raise StopIteration

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(stop)
    with pytest.raises(SystemExit):
        await in_thread(leave)


def test_an_exception_without_words_is_told_by_its_name() -> None:
    class Speechless(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    assert ToolResult.from_exception(Speechless()).exception_message == "Speechless"
