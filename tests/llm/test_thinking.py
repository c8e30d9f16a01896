"""Reasoning goes back to its provider as it came, on the wire, through the real litellm."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import Completion, Message, ModelRequest, Usage, answer
from parsimony_kernel.core.events import RunCompleted, UserInputRequested
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.llm import litellm_model
from parsimony_kernel.llm.chokepoint import call_llm
from parsimony_kernel.llm.extras import given_back, without_secrets
from parsimony_kernel.llm.litellm_model import LiteLLMModel
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.testing.provider import HttpError, LoopbackProvider, Raw, transcript_breach
from parsimony_kernel.testing.scripted import call, calls, raw_call, say
from tests.llm.dialects import (
    CLAUDE,
    KEY,
    REFUSED,
    TOOL,
    WARNINGS,
    anthropic,
    deepseek_breach,
    function,
    hidden,
    item,
    message,
    model_at,
    output,
    response,
    responses,
    thought,
    use,
    words,
)

pytestmark = WARNINGS
ASK = {"role": "user", "content": "How many cars?"}


async def ask(model: LiteLLMModel, *messages: dict[str, Any]) -> Completion | Failure:
    request = ModelRequest([*messages], [TOOL])
    items = [item async for item in call_llm(model, request, cancellation=CancellationRequest())]
    assert isinstance(items[-1], Completion | Failure)
    return items[-1]


async def asked(model: LiteLLMModel, *messages: dict[str, Any]) -> Completion:
    last = await ask(model, *messages)
    assert isinstance(last, Completion), last
    return last


def turn(said: Message) -> list[dict[str, Any]]:
    """``said`` as the run keeps it, and the result of its calls."""
    made = [asdict(each) for each in said.tool_calls]
    told = {"role": "assistant", "content": said.content, "tool_calls": made}
    kept = {**told, "opaque": said.opaque} if said.opaque else told
    ids = [each.id for each in said.tool_calls]
    return [kept, *({"role": "tool", "tool_call_id": one, "content": "406"} for one in ids)]


async def and_again(provider: LoopbackProvider, model: LiteLLMModel) -> Completion:
    first = await asked(model, ASK)
    await asked(model, ASK, *turn(first.message))
    provider.assert_exhausted()
    return first


@pytest.mark.parametrize(
    "blocks",
    [
        [thought("There may be many cars. Count them.")],
        [thought("One thought."), thought("Another thought, longer than the first.")],
        [hidden()],
        [thought("First."), hidden(), thought("Last.")],
        [thought("Say it."), words("I count.")],
    ],
)
async def test_signed_thinking_returns_to_claude_unchanged(blocks: Any) -> None:
    with anthropic([message(*blocks, use("run_code", code="1")), message(words("406"))]) as server:
        await and_again(server, model_at(server, reasoning_effort="low"))
    sent = server.requests[1].body
    kinds = [each for each in sent["messages"][1]["content"] if "thinking" in each["type"]]
    assert kinds == [each for each in blocks if "thinking" in each["type"]]
    assert sent["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    "first",
    [
        message({"type": "thinking", "thinking": "Unsigned."}, use("run_code", code="1")),
        message(use("run_code", code="1")),
        message({"type": "news", "text": "?"}, use("run_code", code="1")),
    ],
)
async def test_call_without_signed_thinking_disables_thinking(first: Raw) -> None:
    with anthropic([first, message(words("406"))]) as server:
        await and_again(server, model_at(server, reasoning_effort="low"))
    assert len(server.requests) == 2
    assert "thinking" not in server.requests[1].body


async def test_refused_thinking_is_dropped_and_request_resent() -> None:
    first = message(thought("Count."), use("run_code", code="1"))
    with anthropic([first, REFUSED, message(words("406"))]) as server:
        await and_again(server, model_at(server, reasoning_effort="low"))
    last = server.requests[2].body
    assert "thinking" not in last
    assert [each["type"] for each in last["messages"][1]["content"]] == ["tool_use"]


async def test_permanent_refusal_ends_with_provider_words() -> None:
    first_answer = message(thought("Count."), use("run_code", code="1"))
    with anthropic([first_answer, REFUSED, REFUSED]) as server:
        model = model_at(server, reasoning_effort="low")
        first = await asked(model, ASK)
        last = await ask(model, ASK, *turn(first.message))
    assert isinstance(last, Failure)
    assert "Invalid `signature` in `thinking` block" in last.explanation


async def test_incomplete_thinking_block_is_no_answer() -> None:
    with anthropic([message(words("So."), thought("Half of"), cut=True)]) as server:
        last = await ask(model_at(server, reasoning_effort="low"), ASK)
    assert isinstance(last, Failure)


async def test_reasoning_items_return_to_responses_api() -> None:
    script = [response(item(), function("run_code", code="1")), response(output("406"))]
    with responses(script) as server:
        await and_again(server, model_at(server, "openai/responses/gpt-5"))
    _, reasoning, called, answered = server.requests[1].body["input"]
    assert reasoning == item()
    # It is refused without what it led to, and the other way round.
    assert (called["type"], answered["type"]) == ("function_call", "function_call_output")
    assert called["call_id"] == answered["call_id"]


@pytest.mark.parametrize(
    ("model", "comes_back"),
    [("deepseek/deepseek-reasoner", True), ("openai/deepseek-v4", True), ("openai/gpt-5", False)],
)
async def test_reasoning_text_returns_where_required(model: str, comes_back: bool) -> None:
    first = calls(call("run_code", code="1"))
    choice = first.choices[0]
    thinks = Message(None, choice.message.tool_calls, reasoning_content="Count the cars.")
    reply = Completion((type(choice)(thinks, "tool_calls"),))
    breach = deepseek_breach if comes_back else lambda body: transcript_breach(body["messages"])
    with LoopbackProvider([reply, say("406")], breach=breach) as server:
        server_model = model_at(server, model)
        await and_again(server, server_model)
    told = server.requests[1].body["messages"][1]
    assert told.get("reasoning_content") == ("Count the cars." if comes_back else None)


def test_signed_thinking_stays_with_its_model() -> None:
    parts = {"by": CLAUDE, "thinking_blocks": [thought("a")]}
    told = {"role": "assistant", "content": "So.", "opaque": json.dumps(parts)}
    assert given_back([told], "openai/gpt-5") == [{"role": "assistant", "content": "So."}]
    assert given_back([told], CLAUDE)[0]["thinking_blocks"] == [thought("a")]


@pytest.mark.parametrize(
    ("text", "stays"), [("Count the cars.", True), (f"The key is {KEY}.", False)]
)
def test_thinking_is_carried_whole_or_dropped(text: str, stays: bool) -> None:
    opaque = json.dumps({"by": CLAUDE, "thinking_blocks": [thought(text), hidden()]})
    assert without_secrets(opaque, Secrets({}, [KEY])) == (opaque if stays else "")


@pytest.mark.parametrize("opaque", ["{", "[]", "null", '{"by": 3}', '"x"'])
def test_unreadable_thinking_is_not_sent(opaque: str) -> None:
    told = {"role": "assistant", "content": "So.", "opaque": opaque}
    assert given_back([told], CLAUDE) == [{"role": "assistant", "content": "So."}]


@pytest.mark.parametrize(("text", "thinks_on"), [("Which?", True), (f"With {KEY}?", False)])
async def test_question_keeps_thinking_sealed(text: str, thinks_on: bool) -> None:
    blocks = [thought(text), hidden()]
    ended = message(thought("Done."), use("return_done", "toolu_02", summary="ok"))
    with anthropic([message(*blocks, use("ask_user", question="Which?")), ended]) as server:
        config = {"model": CLAUDE, "api_key": KEY, "api_base": server.url.removesuffix("/v1")}
        agent = Agent({**config, "reasoning_effort": "low"}, suspension_secret="s")
        asked = [event async for event in agent.run("go")][-1]
        assert isinstance(asked, UserInputRequested)
        written = asked.suspension_record.model_dump_json()
        assert KEY not in written
        record = SuspensionRecord.model_validate_json(written)
        assert [e async for e in agent.resume(record, "a")][-1] == RunCompleted(summary="ok")
    answered = server.requests[1].body
    first = answered["messages"][1]["content"]
    assert [each for each in first if "thinking" in each["type"]] == (blocks if thinks_on else [])
    assert ("thinking" in answered) is thinks_on


# Marks of the prompt cache, and what its tokens come to, through the real litellm.


MARK = {"type": "ephemeral"}
TOLD: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "<request>\nHow many cars?\n</request>"},
    *turn(raw_call("run_code", "{}", call_id="a").message),
    {"role": "user", "content": "<context_addendum>\nnow\n</context_addendum>"},
]
MARKS_REFUSED = HttpError(400, "tools.0.cache_control: Extra inputs are not permitted")


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
        last = await asked(model_at(server, CLAUDE), *told)
    body = server.requests[0].body
    assert sorted(map(str, marks(body))) == sorted(map(str, [("tools", 0), ("system", 0), settled]))
    assert last.usage == Usage(11 + 900 + 80, 7, 900, 80)
    assert last.cost_usd is not None
    assert last.cost_usd < (11 + 900 + 80) * 3e-6


async def test_refused_cache_marks_are_dropped() -> None:
    with anthropic([MARKS_REFUSED, message(words("406")), message(words("406"))]) as server:
        model = model_at(server, CLAUDE)
        await asked(model, *TOLD)
        await asked(model, *TOLD)
    server.assert_exhausted()
    assert [bool(marks(each.body)) for each in server.requests] == [True, False, False]


@pytest.mark.parametrize(("model", "count"), [("openai/gpt-5", 0), ("dashscope/qwen3-max", 3)])
async def test_only_supporting_providers_get_marks(model: str, count: int) -> None:
    with LoopbackProvider([answer("406", usage=Usage(100, 5, 64))], strict=False) as server:
        last = await asked(model_at(server, model), *TOLD)
    assert len(marks(server.requests[0].body)) == count
    assert last.usage == Usage(100, 5, 64)


@pytest.mark.parametrize("effort", ["low", "high"])
async def test_unsupported_effort_is_dropped(effort: str) -> None:
    with LoopbackProvider([say("406"), say("406")]) as server:
        model = model_at(server, "openai/gpt-4o", reasoning_effort=effort)
        await asked(model, *TOLD)
        await asked(model, *TOLD)
    assert all("reasoning_effort" not in each.body for each in server.requests)
    with LoopbackProvider([say("406")]) as server:
        await asked(model_at(server, "openai/gpt-5", reasoning_effort=effort), *TOLD)
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
        await asked(model, *TOLD)
        theirs = AsyncOpenAI(api_key="k", base_url=server.url)
        with pytest.raises(LookupError):
            await theirs.chat.completions.create(model="gpt-5", messages=[])
    body = server.requests[0].body
    assert [each.get("content") for each in body["messages"]] == [m["content"] for m in TOLD]
    assert (body["temperature"], body["tools"]) == (1, [TOOL])
