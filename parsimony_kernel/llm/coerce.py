"""Convert the output of a model adapter to the values of the protocol.

This is the only place that checks adapters. Harmless deviations are accepted, such as a list for a
tuple or ``None`` for empty text; an impossible count or price is treated as missing; anything else
is a failure that names the part.
"""

import json
from collections.abc import Sequence
from typing import Any

from parsimony_kernel.core import chat
from parsimony_kernel.core.kinds import FailureRaised
from parsimony_kernel.core.text import encodable
from parsimony_kernel.limits.budget import counted, usd
from parsimony_kernel.llm.faults import gap

_REMEDY = "Mend the adapter of this model, or choose another model."


def read(item: Any, *, model: str) -> chat.Item:
    """Convert an item of a stream, checking the type of every field.

    ``model`` is the name for a completion without one. Raises ``FailureRaised`` if ``item`` can't
    be converted.
    """
    if isinstance(item, chat.Delta):
        return chat.Delta(
            _text(item.text, "the text of a Delta") or "",
            _text(item.reasoning, "the reasoning of a Delta") or "",
        )
    if isinstance(item, chat.Completion):
        return chat.Completion(
            choices=tuple(map(choice_of, _several(item.choices, "choices"))),
            usage=counted(item.usage) or chat.Usage(),
            model=item.model if isinstance(item.model, str) else model,
            cost_usd=usd(item.cost_usd),
        )
    raise _unreadable("an item of its stream", item)


def secrets_of(model: Any) -> tuple[str, ...]:
    """Return the secrets that ``model`` declares, if any."""
    values = getattr(model, "secrets", ())
    several = values if isinstance(values, list | tuple | set | frozenset) else ()
    return tuple(value for value in several if isinstance(value, str))


def choice_of(choice: Any, opaque: str = "") -> chat.Choice:
    """Convert any client's choice to a value of the protocol.

    ``opaque`` overrides the choice's own. Raises ``FailureRaised`` if it can't be converted.
    """
    message: Any = getattr(choice, "message", None)
    if not hasattr(message, "content"):
        raise _unreadable("the message", message)
    reason = _text(getattr(choice, "finish_reason", None), "the finish_reason")
    content, calls = prose(message.content), getattr(message, "tool_calls", None)
    requested = () if calls is None else tuple(map(_call, _several(calls, "tool_calls")))
    reasoning = _text(getattr(message, "reasoning_content", None), "the reasoning_content")
    opaque = opaque or _text(getattr(message, "opaque", None), "its opaque part") or ""
    said = chat.Message(content, requested, reasoning, opaque)
    return chat.Choice(said, "refusal" if getattr(message, "refusal", None) else reason)


def _call(call: Any) -> chat.ToolCall:
    function: Any = getattr(call, "function", None)
    if not hasattr(function, "name"):
        raise _unreadable("the function of a call", function)
    arguments = getattr(function, "arguments", None)
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    call_id = _text(getattr(call, "id", None), "the id of a call") or ""
    name = _text(function.name, "the name of a call") or ""
    return chat.ToolCall(
        call_id, chat.FunctionCall(name, _text(arguments, "the arguments of a call") or "")
    )


def prose(content: Any) -> str | None:
    """Return the text of a message's content, joining the parts that some clients give."""
    if isinstance(content, list | tuple):
        parts = [each.get("text") for each in content if isinstance(each, dict)]
        return "".join(_text(part, "a part of the content") or "" for part in parts)
    return _text(content, "the content")


def _text(value: Any, part: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return str(encodable(value))
    raise _unreadable(part, value)


def _several(value: Any, part: str) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise _unreadable(f"the {part}", value)


def _unreadable(part: str, value: Any) -> FailureRaised:
    sentence = f"The model's adapter gave {type(value).__name__} for {part}."
    return FailureRaised(gap(sentence, _REMEDY))
