"""Parse a requested tool call: its tool, its arguments, and its loop signature."""

import hashlib
import json
from itertools import chain
from typing import Any

from parsimony_kernel.core.text import encodable

# Larger than any code that a model writes, deeper than any schema.
_MAX_ARGUMENTS = 1_000_000
_MAX_DEPTH = 40
_QUOTED = 2_000

# Text for the person while the call runs; not part of its identity.
_NOT_IDENTITY = "_ui_message"


def loop_signature(name: str, args: dict[str, Any]) -> str:
    """Return ``name:8 hex digits``, a digest of the arguments; rephrased equal calls share it."""
    identity = {key: value for key, value in args.items() if key != _NOT_IDENTITY}
    text = json.dumps(identity, sort_keys=True, default=str)
    return f"{name}:{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def arguments_of(call: Any) -> dict[str, Any]:
    """Parse the arguments of a litellm-shaped call.

    Text that is not a JSON object, or is too long or too deeply nested for arguments, is returned
    as ``_raw_args``, cut to a quotable length.
    """
    raw = call.function.arguments
    if isinstance(raw, dict):
        return raw
    quoted = {"_raw_args": encodable(raw[:_QUOTED]) if isinstance(raw, str) else raw}
    if isinstance(raw, str) and len(raw) > _MAX_ARGUMENTS:
        return quoted
    try:
        parsed = json.loads(raw) if raw else {}
    except (TypeError, ValueError, RecursionError):  # RecursionError: endlessly nested text
        return quoted
    if not isinstance(parsed, dict) or _depth(parsed) > _MAX_DEPTH:
        return quoted
    cleaned: dict[str, Any] = encodable(parsed)
    return cleaned


def _depth(value: Any) -> int:
    """Return the nesting depth of ``value``, counting no further than ``_MAX_DEPTH`` + 1."""
    level, deep = [value], 0
    while level and deep <= _MAX_DEPTH:
        inner = [each for each in level if isinstance(each, dict | list)]
        parts = (each.values() if isinstance(each, dict) else each for each in inner)
        level = list(chain.from_iterable(parts))
        deep += 1
    return deep


def tool_name_of(call: Any) -> str:
    """Return the name of the tool that ``call`` requests, for every shape of call."""
    if isinstance(call, str):
        return call
    if isinstance(call, dict):
        return str(call.get("function", {}).get("name", call.get("name", "tool")))
    function = getattr(call, "function", None)
    return str(getattr(function, "name", None) or getattr(call, "name", "tool"))
