"""A script is consumed exactly, and every request is kept."""

from typing import Any

import pytest

from parsimony_kernel.core.chat import Completion, Delta, ModelRequest
from parsimony_kernel.testing.scripted import ScriptedModel, call, calls, raw_call, say


async def play(model: ScriptedModel, text: str = "go") -> list[Delta | Completion]:
    asked = ModelRequest([{"role": "user", "content": text}])
    return [item async for item in model.stream(asked)]


async def completion(model: ScriptedModel, text: str = "go") -> Completion:
    last = (await play(model, text))[-1]
    assert isinstance(last, Completion)
    return last


async def test_steps_play_in_order() -> None:
    def loud(request: ModelRequest) -> Completion:
        return say(str(request.messages[-1]["content"]).upper())

    model = ScriptedModel([say("one"), call("run_code", code="ü"), loud])
    words, first = await play(model)
    assert isinstance(first, Completion)
    assert (words, first.message.content) == (Delta("one"), "one")
    second = (await completion(model)).message.tool_calls[0]
    assert (second.id, second.function.name) == ("call_2_1", "run_code")
    assert second.function.arguments == '{"code": "ü"}'
    assert (await completion(model, "loud")).message.content == "LOUD"
    model.assert_exhausted()


async def test_calls_of_one_turn_have_own_ids() -> None:
    model = ScriptedModel(
        [calls(call("a"), call("b"), raw_call("c", "{", call_id="mine"), text="Go.")]
    )
    answered = await completion(model)
    assert [one.id for one in answered.message.tool_calls] == ["call_1_1", "call_1_2", "mine"]
    assert answered.message.tool_calls[2].function.arguments == "{"
    assert answered.message.content == "Go."
    assert answered.choices[0].finish_reason == "tool_calls"


async def test_excess_request_names_itself() -> None:
    model = ScriptedModel([say("only")])
    await play(model)
    with pytest.raises(AssertionError, match=r"1 steps and this is request 2.*'what now'"):
        await play(model, "what now")
    with pytest.raises(AssertionError, match="2 requests came"):
        model.assert_exhausted()


async def test_excess_step_names_itself() -> None:
    model = ScriptedModel([say("one"), say("never")])
    await play(model)
    with pytest.raises(AssertionError, match="never"):
        model.assert_exhausted()


async def test_requests_are_kept_unchanged() -> None:
    model = ScriptedModel([say("one")])
    message: dict[str, Any] = {"role": "user", "content": "before"}
    async for _ in model.stream(ModelRequest([message])):
        pass
    message["content"] = "after"
    assert model.requests[0].messages[0]["content"] == "before"
