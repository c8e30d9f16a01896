"""Calls that come in pieces, as models and servers write them, through the real litellm."""

import subprocess
import sys
from typing import Any

import pytest

from parsimony_kernel.core.chat import Completion, ModelRequest
from parsimony_kernel.llm.litellm_model import LiteLLMModel
from parsimony_kernel.testing.provider import LoopbackProvider
from tests.llm.dialects import WARNINGS, piece, pieces

pytestmark = WARNINGS

ONE = ("f", '{"a": 1}')
TWO = ("g", '{"b": 2}')


@pytest.mark.parametrize(
    ("sent", "asked"),
    [
        ([piece("a", *ONE), piece("b", *TWO)], [ONE, TWO]),
        ([piece("a", *ONE), piece("b", *ONE)], [ONE, ONE]),
        ([piece("a", "f", '{"a":'), piece(None, None, " 1}"), piece("b", *TWO)], [ONE, TWO]),
        ([piece("a", "f", '{"a":'), piece("b", "f", " 1}")], [ONE]),
        ([piece("a", "f", '{"a":'), piece("b", None, " 1}")], [ONE]),
        ([piece("a", "f", ""), piece("a", "f", '{"a": 1}')], [ONE]),
        ([piece("", *ONE), piece("toolu_9", *TWO, index=1)], [ONE, TWO]),
        ([piece("a", *ONE), piece("b", *TWO, index=1)], [ONE, TWO]),
        ([piece("a", "f", ""), piece("b", *TWO)], [("f", "{}"), TWO]),
    ],
)
async def test_streamed_calls_are_assembled(sent: Any, asked: Any) -> None:
    with LoopbackProvider([pieces(*sent)]) as server:
        config = {"model": "openai/gpt-5", "api_key": "k-123456", "api_base": server.url}
        stream = LiteLLMModel(config, environ={}).stream(
            ModelRequest([{"role": "user", "content": "go"}])
        )
        last = [item async for item in stream][-1]
    assert isinstance(last, Completion)
    calls = last.message.tool_calls
    assert [(each.function.name, each.function.arguments) for each in calls] == asked
    assert len({each.id for each in calls}) == len(calls)
    assert all(each.id for each in calls)


# What a request imports after the client is loaded, it imports on the event loop.
_REQUESTS = """
import asyncio, sys, threading
from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.llm import litellm_model
from parsimony_kernel.testing.provider import LoopbackProvider
from parsimony_kernel.testing.scripted import say

imported_by, loaded, plain = set(), [], litellm_model.import_litellm
def noting():
    imported_by.add(threading.current_thread() is threading.main_thread())
    client = plain()
    loaded.append(set(sys.modules))
    return client
litellm_model.import_litellm = noting

async def ask(url):
    model = litellm_model.LiteLLMModel(
        {"model": "openai/gpt-5", "api_key": "k", "api_base": url}, environ={}
    )
    stream = model.stream(ModelRequest([{"role": "user", "content": "go"}]))
    return [item async for item in stream][-1].message.content

async def main():
    with LoopbackProvider([say("1")] * 3) as server:
        print(await asyncio.gather(*(ask(server.url) for _ in range(2))))
        before = set(sys.modules)
        await ask(server.url)
    late = before - loaded[0]
    print(imported_by, [name for name in late if name.startswith(("openai", "tiktoken.", "anyio"))])
    print(sorted(set(sys.modules) - before))

asyncio.run(main())
"""


@pytest.mark.slow
def test_client_is_imported_once_off_the_event_loop() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _REQUESTS], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["['1', '1']", "{False} []", "[]"], done.stderr
