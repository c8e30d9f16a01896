"""The chat model that needs no network: same request, same answer.

Owns the shape of an answer; what to do next is the planner's. It reads the messages it is given
and nothing else.
"""

import hashlib
import json
from collections.abc import AsyncIterator

from parsimony_kernel.core import chat
from parsimony_kernel.offline.planner import next_step
from parsimony_kernel.offline.transcript import read

_PER_TOKEN = 4  # characters


class OfflineModel:
    """A deterministic, stateless planner behind the protocol of a chat model."""

    # It is no reader of text: the gate's answers come as they are.
    reads_envelopes = True
    name = chat.OFFLINE

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Nothing: it runs here."""
        return 0.0

    async def stream(
        self, request: chat.ModelRequest
    ) -> AsyncIterator[chat.Delta | chat.Completion]:
        """What there is to say, then the next step as a tool call."""
        tools = [str(tool.get("function", {}).get("name")) for tool in request.tools]
        step = next_step(read(request.messages), tools)
        if step.text:
            yield chat.Delta(text=step.text)
        written = json.dumps(step.arguments, ensure_ascii=False)
        # Unique in a run, since the position grows; the same for the same request.
        text = json.dumps([len(request.messages), 0, step.tool, step.arguments], sort_keys=True)
        call_id = f"call_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"
        calls = [chat.ToolCall(call_id, chat.FunctionCall(step.tool, written))] if step.tool else []
        sizes = [len(json.dumps(m, ensure_ascii=False, default=str)) for m in request.messages]
        answered = len(step.text) + len(written) * bool(calls)
        usage = chat.Usage(-(-sum(sizes) // _PER_TOKEN), -(-answered // _PER_TOKEN))
        yield chat.answer(step.text, calls, model=chat.OFFLINE, usage=usage, cost_usd=0.0)
