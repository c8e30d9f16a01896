"""A request to a model as text, to the letter."""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.pictures import pictures_in, size_of, tokens_of


def sent_words(request: ModelRequest, model: str) -> str:
    """A request to the letter: each message with its role, then the tools that it offers.

    What stands around it on the wire is the provider's own.
    """
    head = f"To {model}, {len(request.messages)} messages and {len(request.tools)} tools:"
    return "\n\n".join([head, *map(message_words, request.messages), tools_words(request)])


def message_words(message: Mapping[str, Any]) -> str:
    """One message to the letter, under its role."""
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    content: Any = message.get("content") or ""
    if pictures := list(map(_picture_words, pictures_in(message))):
        content = "\n".join([*(part["text"] for part in content if "text" in part), *pictures])
    said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    rest_said = json.dumps(rest, ensure_ascii=False) if rest else ""
    return literal("\n".join(filter(None, (f"── {message.get('role')} ──", said, rest_said))))


def _picture_words(png_base64: str) -> str:
    """A picture by its size in pixels, tokens and bytes, and its digest."""
    png = base64.b64decode(png_base64)
    width, height = size_of(png)
    return (
        f"[picture: PNG of {width} × {height} pixels, about {tokens_of(png_base64):,} tokens, "
        f"{len(png):,} bytes, sha256 {hashlib.sha256(png).hexdigest()}]"
    )


def tools_words(request: ModelRequest) -> str:
    """The tools that a request offers, to the letter."""
    tools = [json.dumps(tool, ensure_ascii=False) for tool in request.tools]
    return literal("── tools ──\n" + "\n".join(tools))


def literal(text: str) -> str:
    """``text`` with what cannot be seen, or changes how the rest looks, as Python escapes it."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
