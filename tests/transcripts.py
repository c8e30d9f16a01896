"""Messages of a conversation, as a client keeps them."""

import json
from typing import Any

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def called(name: str, call_id: str = "c", said: str | None = None, **arguments: Any) -> Message:
    """An answer of the model that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"id": call_id, "type": "function", "function": function}]
    return {"role": "assistant", "content": said, "tool_calls": calls}


def answered(name: str, text: str, call_id: str = "c") -> Message:
    """What the tool gave."""
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": text}
