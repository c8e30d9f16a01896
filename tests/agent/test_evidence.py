"""What counts as observed in a run."""

import json
from typing import Any

from parsimony_kernel.agent.evidence import observed, succeeded
from parsimony_kernel.agent.models import AgentMessage
from parsimony_kernel.agent.prompts import request_message

Message = dict[str, Any]


def called(name: str, **arguments: Any) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": "I believe it is 99.",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }


def answered(name: str, text: str) -> Message:
    return {"role": "tool", "tool_call_id": "c", "name": name, "content": text}


def test_the_person_the_tools_and_the_code_are_observed_and_the_models_words_are_not() -> None:
    transcript = [
        request_message("sum it", "context"),
        called("run_code", code="x = 1234"),
        answered("run_code", "5678"),
        called("ask_user", question="Is it 99?"),
        {"role": "user", "content": "yes"},
        {"role": "assistant", "content": "It is 99."},
    ]
    texts = list(observed(transcript, {"run_code"}))
    assert [text for text in texts if text] == [
        transcript[0]["content"],
        "x = 1234",
        "5678",
        "yes",
    ]


def test_what_earlier_turns_came_to_is_observed() -> None:
    earlier = {"role": "assistant", "content": "The mean is 17.25."}
    transcript = [request_message("mean?"), earlier, request_message("and the median?")]
    assert "The mean is 17.25." in list(observed(transcript, ()))
    assert "hello" in list(observed([AgentMessage("user", "hello")], ()))


def test_arguments_that_are_no_json_hold_no_code() -> None:
    broken = called("run_code")
    for text in ("{", "[1]", "", None):
        broken["tool_calls"][0]["function"]["arguments"] = text
        assert not any(observed([broken], {"run_code"}))


def test_a_tool_has_succeeded_once_it_answered_without_an_error() -> None:
    failed = answered("run_code", '{"error": "action_error", "requested": "run_code"}')
    assert not succeeded([failed, answered("look", "{}")], {"run_code"})
    assert succeeded([failed, answered("run_code", '{"requested": "run_code"}')], {"run_code"})
