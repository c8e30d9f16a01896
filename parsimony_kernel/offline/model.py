"""The chat model that needs no network: same request, same answer.

Owns the shape of an answer; what to do next is the planner's. It reads the messages it is given
and nothing else.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

from parsimony_kernel.core.chat import (
    Completion,
    Delta,
    FunctionCall,
    ModelRequest,
    ToolCall,
    Usage,
    answer,
)
from parsimony_kernel.offline.planner import Step, next_step
from parsimony_kernel.offline.transcript import read

_CHARACTERS_PER_TOKEN = 4


class OfflineModel:
    """A deterministic, stateless planner behind the protocol of a chat model."""

    # It is no reader of text: the gate's answers come as they are.
    reads_envelopes = True

    @property
    def name(self) -> str:
        """``offline``."""
        return "offline"

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Nothing: it runs here."""
        return 0.0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """What there is to say, then the next step as tool calls."""
        step = next_step(read(request.messages), _tool_names(request))
        if step.text:
            yield Delta(text=step.text)
        yield _completion(step, request)


def _tool_names(request: ModelRequest) -> list[str]:
    functions = [tool.get("function") for tool in request.tools]
    return [str(f.get("name")) for f in functions if isinstance(f, dict)]


def _completion(step: Step, request: ModelRequest) -> Completion:
    calls = [
        ToolCall(
            _call_id(len(request.messages), index, name, arguments),
            FunctionCall(name, json.dumps(arguments, ensure_ascii=False)),
        )
        for index, (name, arguments) in enumerate(step.calls)
    ]
    written = len(step.text) + sum(len(c.function.arguments) for c in calls)
    return answer(
        step.text,
        calls,
        model="offline",
        usage=Usage(_tokens(_size(request.messages)), _tokens(written)),
        cost_usd=0.0,
    )


def _call_id(position: int, index: int, name: str, arguments: dict[str, Any]) -> str:
    # Unique in a run, since the position grows; the same for the same request.
    text = json.dumps([position, index, name, arguments], sort_keys=True)
    return f"call_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def _size(messages: Any) -> int:
    return sum(len(json.dumps(m, ensure_ascii=False, default=str)) for m in messages)


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_PER_TOKEN)
