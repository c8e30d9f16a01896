"""The real litellm against a provider on loopback: what comes back, and what each fault means."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import Beat, Completion, Delta, ModelRequest, Usage, answer
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.llm import chokepoint, litellm_model
from parsimony_kernel.llm.chokepoint import call_llm
from parsimony_kernel.llm.litellm_model import LiteLLMModel, import_litellm
from parsimony_kernel.testing.provider import Faulty, LoopbackProvider, Raw, Reply, Wire
from parsimony_kernel.testing.scripted import call, calls, say
from tests.llm import dialects
from tests.llm.dialects import KEY, WARNINGS, piece, pieces

pytestmark = WARNINGS
GPT_5 = "openai/gpt-5"
ASK: tuple[dict[str, Any], ...] = ({"role": "user", "content": "How many cars?"},)


def model_at(provider: LoopbackProvider, model: str = GPT_5, **config: Any) -> LiteLLMModel:
    return dialects.model_at(provider, model, **config)


async def ask(model: LiteLLMModel, **request: Any) -> list[Delta | Beat | Completion | Failure]:
    asked = ModelRequest(ASK, **request)
    return [item async for item in call_llm(model, asked, cancellation=CancellationRequest())]


async def outcome(step: Reply) -> Completion | Failure:
    with LoopbackProvider([step]) as provider:
        *_, last = await ask(model_at(provider))
    provider.assert_exhausted()
    assert isinstance(last, Completion | Failure)
    return last


async def answered(step: Reply) -> Completion:
    last = await outcome(step)
    assert isinstance(last, Completion), last
    return last


async def test_text_and_reasoning_stream_into_completion() -> None:
    reply = answer("Grüße, 406 cars.", usage=Usage(100, 20))
    with LoopbackProvider([reply]) as provider:
        *deltas, last = await ask(model_at(provider))
    assert isinstance(last, Completion)
    assert last.message.content == "Grüße, 406 cars."
    assert len(deltas) > 1
    assert "".join(d.text for d in deltas if isinstance(d, Delta)) == "Grüße, 406 cars."
    assert last.usage == Usage(100, 20)
    assert last.choices[0].finish_reason == "stop"
    assert last.cost_usd is not None
    assert last.cost_usd > 0
    assert last.model == "openai/gpt-5"


@pytest.mark.parametrize("wire", [Wire.usage_nan, Wire.usage_absurd])
async def test_impossible_usage_is_estimated(wire: Wire) -> None:
    last = await answered(Faulty(wire, say("Hello there")))
    assert last.message.content == "Hello there"
    assert 0 < last.usage.prompt_tokens < 100
    assert 0 < last.usage.completion_tokens < 100
    model = LiteLLMModel({"model": "openai/gpt-5"}, environ={})
    by_price = await model.estimate_cost_usd(last.usage.prompt_tokens, last.usage.completion_tokens)
    assert last.cost_usd == pytest.approx(by_price)
    assert by_price


def streamed(*chunks: dict[str, Any]) -> Raw:
    frame = {"id": None, "created": "now", "service_tier": "flex"}
    return Raw("".join(f"data: {json.dumps({**frame, **one})}\n\n" for one in chunks).encode())


def delta(told: Any, end: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": told, "finish_reason": end}]}


CALLS = calls(call("run_code", code="1"), text="Let me count the cars.")
USED = {"choices": [], "usage": {"prompt_tokens": 99, "completion_tokens": 9, "total_tokens": 108}}
CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
SNAPSHOT = {"model": "gpt-4o-mini-2024-07-18"}
NO_TOKENS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
HI, STOPPED = delta({"content": "Hi"}), delta({}, "stop")
STREAMS: list[Reply] = [
    CALLS,
    *(Faulty(wire, CALLS) for wire in Wire if "silence" not in wire and wire is not Wire.refusal),
    streamed(delta({"reasoning": "Hm."}), HI, STOPPED, USED),
    streamed(HI, delta(None, "max_tokens"), {**USED, "usage": "many"}),
    streamed(
        delta({"tool_calls": [CALL]}), delta({"tool_calls": [{"index": 0}]}, "tool_calls"), USED
    ),
    streamed(
        delta({"tool_calls": [{**CALL, "id": each, "index": None} for each in "ab"]}, "tool_calls"),
        USED,
    ),
    streamed(HI, {"error": "It broke."}),
    # The first piece names nothing, or a deployment; the others who is paid.
    streamed({"choices": [], "model": ""}, {**HI, **SNAPSHOT}, {**STOPPED, **SNAPSHOT}, USED),
    # Counted in parts, or once more as nothing.
    streamed(HI, STOPPED, USED, {**USED, "usage": NO_TOKENS}),
    streamed(
        delta({"content": "Hi"}, "stop"),
        {**USED, "usage": {"prompt_tokens": 99}},
        {**USED, "usage": {"completion_tokens": 9}},
    ),
]


@pytest.mark.parametrize("step", STREAMS)
async def test_answer_equals_litellm_wrapper(step: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    past = await outcome(step)
    monkeypatch.setattr(litellm_model, "_LISTENERS", ("model_cost",))
    through = await outcome(step)
    told = [{**asdict(each), "metadata": None} for each in (past, through)]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([delta({"content": [{"type": "text", "text": "Hi"}]}), STOPPED, {"choices": None}], "Hi"),
        ([delta({"role": "model"}), STOPPED, {"choices": None}], ""),
        ([delta(None), STOPPED, {"choices": None}], ""),
        ([HI, {**delta({"content": "!"}, "stop"), "usage": {"prompt_tokens": "many"}}], "Hi!"),
    ],
)
async def test_odd_chunk_is_read(chunks: list[dict[str, Any]], text: str) -> None:
    assert ((await answered(streamed(*chunks))).message.content or "") == text


async def test_repeating_model_is_stopped() -> None:
    last = await outcome(streamed(*[delta({"content": "again "})] * 200))
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.transient_provider
    assert "again again" in str(last.partial_data)


async def test_litellm_callbacks_hear_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm, heard = import_litellm(), asyncio.Event()

    async def listener(kwargs: Any, response: Any, *times: Any) -> None:
        assert response.usage.prompt_tokens == 11
        heard.set()

    monkeypatch.setattr(litellm, "success_callback", [listener])
    monkeypatch.setattr(litellm, "_async_success_callback", [])
    await answered(say("Hello"))
    await asyncio.wait_for(heard.wait(), 30)


async def test_estimated_counts_without_price_cost_unknown() -> None:
    with LoopbackProvider([Faulty(Wire.usage_absurd, say("Hello"))]) as provider:
        *_, last = await ask(model_at(provider, model="openai/nobody-knows"))
    assert isinstance(last, Completion)
    assert last.usage.completion_tokens > 0
    assert last.cost_usd is None


async def test_unknown_price_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = import_litellm()
    looked: list[float] = []
    plain = litellm.completion_cost

    def looking(**told: Any) -> float:
        if "model" in told:  # litellm itself looks too
            looked.append(0)
        return float(plain(**told))

    monkeypatch.setattr(litellm, "completion_cost", looking)
    with LoopbackProvider([say("Hello")] * 3) as provider:
        model = model_at(provider, "openai/listed-later")
        for known in (False, False, True):
            if known:
                listed = {"input_cost_per_token": 1, "output_cost_per_token": 0}
                more = {**listed, "litellm_provider": "openai", "mode": "chat"}
                monkeypatch.setitem(litellm.model_cost, "listed-later", more)
            *_, last = await ask(model)
            assert isinstance(last, Completion)
    assert len(looked) == 2


CAPS: list[tuple[str, dict[str, Any], int | None, dict[str, int]]] = [
    ("no budget", {}, None, {}),
    ("a budget", {}, 900, {"max_completion_tokens": 900}),
    ("the provider's older name", {"model": "openai/gpt-4o"}, 900, {"max_tokens": 900}),
    ("more than the model writes", {"model": "openai/gpt-4o"}, 20_000, {}),
    ("a shorter one is configured", {"max_tokens": 300}, 900, {"max_completion_tokens": 300}),
    ("a longer one is configured", {"max_tokens": 5000}, 900, {"max_completion_tokens": 900}),
    ("under the other name", {"max_completion_tokens": 5000}, 900, {"max_completion_tokens": 900}),
    ("a model that nobody knows", {"model": "openai/nobody-knows"}, 900, {"max_tokens": 900}),
    ("and a length that it may refuse", {"model": "openai/nobody-knows"}, 90_000, {}),
]


@pytest.mark.parametrize(("config", "cap", "sent"), [c[1:] for c in CAPS], ids=[c[0] for c in CAPS])
async def test_maximum_output_is_sent(
    config: dict[str, Any], cap: int | None, sent: dict[str, int]
) -> None:
    with LoopbackProvider([say("fine")]) as provider:
        *_, last = await ask(model_at(provider, **config), max_answer_tokens=cap)
    assert isinstance(last, Completion), last
    body = provider.requests[0].body
    assert {name: body[name] for name in body if name.startswith("max_")} == sent


ODD = "hunter2-my.odd=key/1234567"
SECRETS: list[tuple[str, dict[str, Any], set[str], set[str]]] = [
    ("the key", {"api_key": "abc12"}, {"abc12"}, set()),
    ("a gateway's header",
     {"api_key": KEY, "extra_headers": {"X-Gate": ODD, "X-Title": "My notebook"}}, {KEY, ODD},
     {"My notebook", "notebook"}),
    ("a scheme", {"headers": {"Authorization": f"Bearer {ODD}", "X-Retry": "3"}},
     {ODD, f"Bearer {ODD}"}, {"3", "Bearer"}),
    ("a cloud's credentials",
     {"aws_secret_access_key": ODD, "aws_session_token": "t0k", "aws_region_name": "eu-west-1"},
     {ODD, "t0k"}, {"eu-west-1"}),
    ("deep down", {"extra_body": {"auth": {"client_secret": ODD}}, "max_tokens": 5}, {ODD}, {"5"}),
    ("an address", {"api_base": f"http://user:{ODD.replace('/', '-')}@127.0.0.1:1/v1"},
     {ODD.replace("/", "-")}, {"user"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "window"), [("openai/gpt-4", 8_192), (GPT_5, None), ("ollama_chat/mine", None)]
)
def test_context_window_comes_from_litellm(
    monkeypatch: pytest.MonkeyPatch, model: str, window: int | None
) -> None:
    monkeypatch.delitem(sys.modules, "litellm", raising=False)
    assert LiteLLMModel({"model": model}).context_window is None
    listed = {"gpt-4": {"max_input_tokens": 8_192}, GPT_5: {"max_input_tokens": "many"}}
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(model_cost=listed))
    assert LiteLLMModel({"model": model}).context_window == window


@pytest.mark.parametrize(
    ("config", "secret", "open_"), [s[1:] for s in SECRETS], ids=[s[0] for s in SECRETS]
)
def test_every_credential_is_a_secret(
    config: dict[str, Any], secret: set[str], open_: set[str]
) -> None:
    known = set(LiteLLMModel({"model": GPT_5, **config}, environ={}).secrets)
    assert secret <= known
    assert not open_ & known
    assert GPT_5 not in known


@pytest.mark.parametrize(
    ("log", "chosen", "level"),
    [
        ("", logging.NOTSET, logging.WARNING),
        ("DEBUG", logging.NOTSET, logging.NOTSET),
        ("", logging.INFO, logging.INFO),
    ],
)
def test_litellm_logging_stays_at_warning_unless_configured(
    log: str, chosen: int, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("LiteLLM")
    monkeypatch.setattr(logger, "level", chosen)
    if log:
        monkeypatch.setenv("LITELLM_LOG", log)
    import_litellm()
    assert logger.level == level


@pytest.mark.parametrize("wire", [Wire.silence, Wire.silence_midway])
async def test_cancel_closes_connection(wire: Wire) -> None:
    cancellation = CancellationRequest()
    with LoopbackProvider([Faulty(wire)]) as provider:
        stream = call_llm(model_at(provider), ModelRequest(ASK), cancellation=cancellation)
        if wire is Wire.silence_midway:
            assert isinstance(await anext(stream), Delta)
        rest = asyncio.ensure_future(_drain(stream))
        await _until(lambda: bool(provider.requests))
        cancellation.set("enough")
        with pytest.raises(Cancelled, match="enough"):
            await rest
        assert await asyncio.to_thread(provider.requests[0].gone.wait, 60)


async def _drain(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


async def _until(true: Any) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.001)


async def test_missing_key_error_names_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    litellm = import_litellm()

    async def acompletion(**arguments: Any) -> Any:
        raise litellm.InternalServerError(
            "Missing credentials. Set the `OPENAI_API_KEY` environment variable.", "openai", "gpt-5"
        )

    monkeypatch.setattr(chokepoint, "LIVE_CALLS_ALLOWED", True)
    monkeypatch.setattr(litellm, "acompletion", acompletion)
    *_, last = await ask(LiteLLMModel({"model": "openai/gpt-5"}, environ={}))
    assert isinstance(last, Failure)
    assert last.metadata["variable"] == "OPENAI_API_KEY"


# Calls that come in pieces, as models and servers write them, through the real litellm.


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
    calls = (await answered(pieces(*sent))).message.tool_calls
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
