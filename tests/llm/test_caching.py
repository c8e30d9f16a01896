"""Marks of the prompt cache, and what its tokens come to, through the real litellm."""

from typing import Any

import pytest

from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import Completion, ModelRequest, Usage, answer
from parsimony_kernel.llm import litellm_model
from parsimony_kernel.llm.chokepoint import call_llm
from parsimony_kernel.llm.litellm_model import LiteLLMModel
from parsimony_kernel.testing.provider import HttpError, LoopbackProvider
from parsimony_kernel.testing.scripted import say
from tests.llm.dialects import CLAUDE, TOOL, WARNINGS, anthropic, message, model_at, words

pytestmark = WARNINGS

MARK = {"type": "ephemeral"}
TOLD: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "<request>\nHow many cars?\n</request>"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "run_code", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "406"},
    {"role": "user", "content": "<context_addendum>\nnow\n</context_addendum>"},
]
REFUSED = HttpError(400, "tools.0.cache_control: Extra inputs are not permitted")


async def ask(model: LiteLLMModel, told: list[dict[str, Any]]) -> Completion:
    stream = call_llm(model, ModelRequest(told, [TOOL]), cancellation=CancellationRequest())
    last = [item async for item in stream][-1]
    assert isinstance(last, Completion), last
    return last


def marks(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a body the marks stand."""
    if isinstance(value, dict):
        here = [at] if value.get("cache_control") == MARK else []
        return here + [found for key in value for found in marks(value[key], (*at, key))]
    if isinstance(value, list):
        return [found for i, each in enumerate(value) for found in marks(each, (*at, i))]
    return []


@pytest.mark.parametrize(
    ("told", "settled"),
    [(TOLD, ("messages", 2, "content", 0)), (TOLD[:2], ("messages", 0, "content", 0))],
)
async def test_claude_request_gets_cache_marks(told: Any, settled: Any) -> None:
    usage = {"cache_read_input_tokens": 900, "cache_creation_input_tokens": 80}
    with anthropic([message(words("406"), usage=usage)]) as server:
        last = await ask(model_at(server, CLAUDE), told)
    body = server.requests[0].body
    assert sorted(map(str, marks(body))) == sorted(map(str, [("tools", 0), ("system", 0), settled]))
    assert last.usage == Usage(11 + 900 + 80, 7, 900, 80)
    assert last.cost_usd is not None
    assert last.cost_usd < (11 + 900 + 80) * 3e-6


async def test_refused_cache_marks_are_dropped() -> None:
    with anthropic([REFUSED, message(words("406")), message(words("406"))]) as server:
        model = model_at(server, CLAUDE)
        await ask(model, TOLD)
        await ask(model, TOLD)
    server.assert_exhausted()
    assert [bool(marks(each.body)) for each in server.requests] == [True, False, False]


@pytest.mark.parametrize(("model", "count"), [("openai/gpt-5", 0), ("dashscope/qwen3-max", 3)])
async def test_only_supporting_providers_get_marks(model: str, count: int) -> None:
    with LoopbackProvider([answer("406", usage=Usage(100, 5, 64))], strict=False) as server:
        last = await ask(model_at(server, model), TOLD)
    assert len(marks(server.requests[0].body)) == count
    assert last.usage == Usage(100, 5, 64)


@pytest.mark.parametrize("effort", ["low", "high"])
async def test_unsupported_effort_is_dropped(effort: str) -> None:
    with LoopbackProvider([say("406"), say("406")]) as server:
        model = model_at(server, "openai/gpt-4o", reasoning_effort=effort)
        await ask(model, TOLD)
        await ask(model, TOLD)
    assert all("reasoning_effort" not in each.body for each in server.requests)
    with LoopbackProvider([say("406")]) as server:
        await ask(model_at(server, "openai/gpt-5", reasoning_effort=effort), TOLD)
    assert server.requests[0].body["reasoning_effort"] == effort


async def test_client_skips_redaction_of_our_requests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from openai import AsyncOpenAI
    from openai._utils import _transform

    async def search(data: object, kind: object) -> object:
        raise LookupError("searched")

    with LoopbackProvider([say("406")]) as server:
        model = model_at(server, "openai/gpt-5", temperature=1)
        await litellm_model._load()
        monkeypatch.setattr(_transform, "async_transform", search)
        await ask(model, TOLD)
        theirs = AsyncOpenAI(api_key="k", base_url=server.url)
        with pytest.raises(LookupError):
            await theirs.chat.completions.create(model="gpt-5", messages=[])
    body = server.requests[0].body
    assert [each.get("content") for each in body["messages"]] == [m["content"] for m in TOLD]
    assert (body["temperature"], body["tools"]) == (1, [TOOL])
