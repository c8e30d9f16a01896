"""What a requested tool call says: its tool, its arguments, and its signature."""

import hashlib
import json
from typing import Any

from parsimony_kernel.core.text import encodable

# Longer than any code that a model writes, and deeper than any schema asks for.
_MAX_ARGUMENTS = 1_000_000
_MAX_DEPTH = 40
_QUOTED = 2_000

# Never part of what a call is: the words that a person sees while it runs.
_NOT_IDENTITY = "_ui_message"


def loop_signature(name: str, args: dict[str, Any]) -> str:
    """``name:8 hex digits`` of the arguments, the same for the same call however it is phrased."""
    identity = {key: value for key, value in args.items() if key != _NOT_IDENTITY}
    text = json.dumps(identity, sort_keys=True, default=str)
    return f"{name}:{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def arguments_of(call: Any) -> dict[str, Any]:
    """The arguments of a litellm-shaped call; text that is no JSON object as ``_raw_args``.

    So is text that is too long or nested too deeply to be arguments; what is quoted is cut.
    """
    raw = call.function.arguments
    if isinstance(raw, dict):
        return raw
    quoted = {"_raw_args": encodable(raw[:_QUOTED]) if isinstance(raw, str) else raw}
    if isinstance(raw, str) and len(raw) > _MAX_ARGUMENTS:
        return quoted
    try:
        parsed = json.loads(raw) if raw else {}
    except (TypeError, ValueError, RecursionError):  # the last for text nested without end
        return quoted
    if not isinstance(parsed, dict) or _depth(parsed) > _MAX_DEPTH:
        return quoted
    cleaned: dict[str, Any] = encodable(parsed)
    return cleaned


def _depth(value: Any) -> int:
    """How deeply ``value`` is nested; never deeper than ``_MAX_DEPTH`` + 1 is looked."""
    level, deep = [value], 0
    while level and deep <= _MAX_DEPTH:
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        deep += 1
    return deep


def tool_name_of(call: Any) -> str:
    """The name of the tool that ``call`` requests, whatever shape the call has."""
    if isinstance(call, str):
        return call
    if isinstance(call, dict):
        return str(call.get("function", {}).get("name", call.get("name", "tool")))
    function = getattr(call, "function", None)
    return str(getattr(function, "name", None) or getattr(call, "name", "tool"))
