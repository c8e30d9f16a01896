"""Anthropic's Messages and OpenAI's Responses on loopback: what they stream, what they refuse."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import pytest

from parsimony_kernel.llm.litellm_model import LiteLLMModel
from parsimony_kernel.testing.provider import HttpError, LoopbackProvider, Raw, Step

# litellm sets these filters when it is imported, and pytest takes them back after the test that
# did.
LITELLM_WARNINGS = [
    pytest.mark.filterwarnings("ignore:.*the `ReadOnly` qualifier:UserWarning"),
    pytest.mark.filterwarnings(
        "ignore:Accessing the .* attribute on the instance:DeprecationWarning"
    ),
]
WARNINGS = [
    *LITELLM_WARNINGS,
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning"),
]
KEY = "sk-loopback0123456789abcdef"
CLAUDE = "anthropic/claude-sonnet-4-5"
CODE = {"type": "object", "properties": {"code": {"type": "string"}}}
RUN_CODE = {"name": "run_code", "description": "Run Python.", "parameters": CODE}
TOOL = {"type": "function", "function": RUN_CODE}


def model_at(provider: LoopbackProvider, model: str = CLAUDE, **config: Any) -> LiteLLMModel:
    """A model whose provider is ``provider``; without the ``/v1`` that Anthropic's client adds."""
    base = provider.url.removesuffix("/v1") if model == CLAUDE else provider.url
    return LiteLLMModel({"model": model, "api_key": KEY, "api_base": base, **config}, environ={})


MUST_THINK = (
    "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
    "`tool_use`. When `thinking` is enabled, a final `assistant` message must start with a "
    "thinking block (preceding the lastmost set of `tool_use` and `tool_result` blocks)."
)


def signature(text: str) -> str:
    """As only the provider could sign it; it looks like a key to whoever searches for one."""
    return "EqQBCkYIA" + hashlib.sha256(b"secret" + text.encode()).hexdigest() + "=="


def thought(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature(text)}


def hidden(data: str = "EmwKAhgBEgy3va3pzix/LafPsn4a==") -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": data}


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(name: str, call_id: str = "toolu_01", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def anthropic(script: Iterable[Step]) -> LoopbackProvider:
    return LoopbackProvider(script, path="/v1/messages", breach=anthropic_breach)


def responses(script: Iterable[Step]) -> LoopbackProvider:
    return LoopbackProvider(script, path="/v1/responses", strict=False)


# -- Anthropic


def message(*blocks: dict[str, Any], usage: dict[str, int] | None = None, cut: bool = False) -> Raw:
    """A streamed answer of ``blocks``; ``cut`` ends it in the middle of the last one."""
    used = {"input_tokens": 11, "output_tokens": 7, **(usage or {})}
    start = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "c"}
    told: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "usage": used}},
        {"type": "ping"},
    ]
    for index, block in enumerate(blocks):
        opened, deltas = _in_pieces(block)
        told.append({"type": "content_block_start", "index": index, "content_block": opened})
        told += [{"type": "content_block_delta", "index": index, "delta": each} for each in deltas]
        told.append({"type": "content_block_stop", "index": index})
    if cut:
        told = told[:-2]
    else:
        reason = "tool_use" if any(each["type"] == "tool_use" for each in blocks) else "end_turn"
        told.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {**used}})
        told.append({"type": "message_stop"})
    return Raw(b"".join(_event(each) for each in told))


def _in_pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": p} for p in _pieces(block["thinking"])]
            if block.get("signature"):
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            pieces = _pieces(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": p} for p in pieces]
            return {**block, "input": {}}, deltas
        case "text":
            return words(""), [{"type": "text_delta", "text": p} for p in _pieces(block["text"])]
        case _:
            return block, []


def _pieces(text: str) -> list[str]:
    return [text[i : i + 7] for i in range(0, len(text), 7)]


def _event(told: dict[str, Any]) -> bytes:
    return f"event: {told['type']}\ndata: {json.dumps(told)}\n\n".encode()


def anthropic_breach(body: dict[str, Any]) -> str | None:
    """The first thing that Anthropic would refuse."""
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    last = None
    for at, told in enumerate(body["messages"]):
        content = told["content"] if isinstance(told["content"], list) else [words(told["content"])]
        for i, block in enumerate(content):
            kind = block["type"]
            if kind == "thinking" and block.get("signature") != signature(block["thinking"]):
                return f"messages.{at}.content.{i}: Invalid `signature` in `thinking` block"
            if kind == "thinking" and set(block) - {"type", "thinking", "signature"}:
                return f"messages.{at}.content.{i}: Extra inputs are not permitted"
            if kind not in ("thinking", "redacted_thinking", "text", "tool_use", "tool_result"):
                return f"messages.{at}.content.{i}: Input tag {kind!r} found"
        if told["role"] == "assistant" and any(each["type"] == "tool_use" for each in content):
            last = at, content
    if thinks and last and last[1][0]["type"] not in ("thinking", "redacted_thinking"):
        return MUST_THINK.format(at=last[0])
    marks = json.dumps(body).count('"cache_control"')
    if marks > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    return None


# -- OpenAI's Responses


def item(text: str = "Count them.", number: int = 1) -> dict[str, Any]:
    summary, id_ = [{"type": "summary_text", "text": text}], f"rs_{number}"
    sealed = signature(f"{id_}{text}")
    return {"type": "reasoning", "id": id_, "summary": summary, "encrypted_content": sealed}


def function(name: str, call_id: str = "call_1", **arguments: Any) -> dict[str, Any]:
    said = {"name": name, "arguments": json.dumps(arguments), "status": "completed"}
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, **said}


def output(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}


def response(*items: dict[str, Any]) -> Raw:
    """A streamed response of ``items``."""
    frame: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "o"}
    frame |= {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**frame, "status": "in_progress", "output": []}}
    ]
    for index, each in enumerate(items):
        at = {"output_index": index, "item_id": each["id"]}
        opened = {**each, **({"arguments": ""} if "arguments" in each else {})}
        told.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        if each["type"] == "function_call":
            delta = {"type": "response.function_call_arguments.delta", **at}
            told += [{**delta, "delta": piece} for piece in _pieces(each["arguments"])]
        elif each["type"] == "message":
            delta = {"type": "response.output_text.delta", **at, "content_index": 0}
            told += [{**delta, "delta": piece} for piece in _pieces(each["content"][0]["text"])]
        told.append({"type": "response.output_item.done", "output_index": index, "item": each})
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    done = {**frame, "status": "completed", "output": list(items), "usage": usage}
    told.append({"type": "response.completed", "response": done})
    numbered = [{**each, "sequence_number": i} for i, each in enumerate(told)]
    return Raw(b"".join(_event(each) for each in numbered))


# -- DeepSeek: chat completions with one rule more


def deepseek_breach(body: dict[str, Any]) -> str | None:
    for each in body["messages"]:
        if each.get("tool_calls") and not (each.get("reasoning_content") or "").strip():
            return "The reasoning_content in the thinking mode must be passed back to the API."
    return None


REFUSED = HttpError(400, "messages.1.content.0: Invalid `signature` in `thinking` block")


# -- Chat completions, piece by piece


def pieces(*calls: dict[str, Any]) -> Raw:
    """A stream of ``tool_calls``, each as it stands."""
    frame = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"tool_calls": [one]}, None) for one in calls
    ]
    choices = [
        {"index": 0, "delta": delta, "finish_reason": end}
        for delta, end in [*deltas, ({}, "tool_calls")]
    ]
    events = [f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n" for choice in choices]
    return Raw("".join([*events, "data: [DONE]\n\n"]).encode())


def piece(call_id: str | None, name: str | None, arguments: str, index: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": call_id, "type": "function", "function": function}
