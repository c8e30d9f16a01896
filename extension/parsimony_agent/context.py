"""``%agent context`` and ``--dry-run``: what a turn would send, before it is sent."""

import json

from parsimony_agent.desk import Desk, Told
from parsimony_kernel.llm.base import ModelRequest

_ANY_WORDS = "(your request)"


def context(desk: Desk, words: str = _ANY_WORDS) -> Told:
    """What a turn with these words would send to the notebook's model."""
    return sent_words(desk.session.preview(words), desk.session.model_name)


def sent_words(request: ModelRequest, model: str) -> str:
    """A request to the letter: each message with its role, then the tools that it offers.

    What stands around it on the wire is the provider's own.
    """
    parts = [f"To {model}, {len(request.messages)} messages and {len(request.tools)} tools:"]
    for message in request.messages:
        rest = {name: value for name, value in message.items() if name not in ("role", "content")}
        parts.append(f"── {message.get('role')} ──\n{message.get('content') or ''}")
        if rest:
            parts.append(json.dumps(rest, ensure_ascii=False))
    tools = [json.dumps(tool, ensure_ascii=False) for tool in request.tools]
    parts.append("── tools ──\n" + "\n".join(tools))
    return "\n\n".join(parts)
