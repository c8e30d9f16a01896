"""The messages of a run: the request, earlier messages, the notebook's inventory, and pictures.

A picture is a message of its own, after the result that it illustrates. Within a run it is text,
with the pixels under ``picture``. A model with vision is sent them as content parts; other models
are not sent the message at all.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

REQUEST_TAG = "request"
# The metadata key that marks a message as the notebook's inventory.
SNAPSHOT = "context_snapshot"


@dataclass(frozen=True)
class AgentMessage:
    """One earlier message of the conversation."""

    role: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_llm(self, mode: str) -> dict[str, Any]:
        """Return litellm's shape; mode ``minimal`` keeps only the first line."""
        text = self.content if mode == "default" else self.content.partition("\n")[0]
        return {"role": self.role, "content": text}


@dataclass(frozen=True)
class AgentContext:
    """Earlier messages, and the notebook's inventory as text for the model."""

    messages: tuple[AgentMessage, ...] = ()
    notebook: str | None = None


def block(tag: str, body: str) -> str:
    """Wrap ``body`` in the tags that mark it as data for the model."""
    return f"<{tag}>\n{body}\n</{tag}>"


def inside(tag: str, text: str) -> str:
    """Return what stands between the first line that opens ``tag`` and the last that closes it."""
    return text.partition(f"<{tag}>\n")[2].rpartition(f"\n</{tag}>")[0]


def request_message(request: str) -> dict[str, Any]:
    """Return the user message that starts a turn."""
    return {"role": "user", "content": block(REQUEST_TAG, request)}


def snapshot_message(context: str) -> dict[str, Any]:
    """Return the notebook's inventory as a message of its own, which replaces older ones."""
    return {"role": "user", "content": context, "metadata": {SNAPSHOT: True}}


def opening(request: str, context: str | None = None) -> list[dict[str, Any]]:
    """Return the messages that start a turn: the notebook's inventory, if any, and the request."""
    told = [] if context is None else [snapshot_message(context)]
    return [*told, request_message(request)]


def is_snapshot(message: Any) -> bool:
    """Return whether ``message`` is an inventory, of which only the newest is rendered."""
    is_dict = isinstance(message, Mapping)
    metadata = message.get("metadata") if is_dict else getattr(message, "metadata", None)
    return isinstance(metadata, Mapping) and SNAPSHOT in metadata


def request_in(messages: Iterable[Any]) -> str:
    """Return the newest request in a transcript; empty if there is none."""
    for message in reversed(list(messages)):
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = str(message.get("content") or "")
            if f"<{REQUEST_TAG}>\n" in content:
                return inside(REQUEST_TAG, content)
    return ""


PICTURE = "picture"
# In pixels. No provider reads more, so a larger picture only costs more.
LONGEST_SIDE = 1_024
# The text that marks a picture in a transcript or a recording.
MARK = "as drawn (picture "

_DATA = "data:image/png;base64,"
_PNG = b"\x89PNG\r\n\x1a\n"
# Anthropic's formula; OpenAI's tiles give about the same.
_PIXELS_PER_TOKEN = 750


def picture_message(title: str, source: str, png: bytes) -> dict[str, Any]:
    """Return the message that shows ``png``; its digest is computed from ``source``."""
    digest = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    words = f"The chart {f'{title!r} ' if title else ''}{MARK}{digest})"
    pixels = {"png_base64": base64.b64encode(png).decode("ascii")}
    return {"role": "user", "content": words, PICTURE: pixels}


def is_picture(message: Any) -> bool:
    """Return whether ``message`` shows a picture rather than anybody's words."""
    return isinstance(message, Mapping) and PICTURE in message


def without_pixels(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the text of an old picture."""
    kept = {key: value for key, value in message.items() if key != PICTURE}
    return {**kept, "content": f"{message['content']}: older, no longer shown"}


def sent_to(messages: Iterable[dict[str, Any]], *, sees: bool) -> list[dict[str, Any]]:
    """Return ``messages`` as a model with or without vision is sent them."""
    told = messages if sees else (each for each in messages if PICTURE not in each)
    return [_as_parts(each) if PICTURE in each else each for each in told]


def _as_parts(message: dict[str, Any]) -> dict[str, Any]:
    url = {"url": f"{_DATA}{message[PICTURE]['png_base64']}"}
    parts = [{"type": "text", "text": message["content"]}, {"type": "image_url", "image_url": url}]
    return {"role": message["role"], "content": parts}


def pictures_in(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pixels of ``message`` as base64, from either of its forms."""
    if PICTURE in message:
        yield message[PICTURE]["png_base64"]
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        url = (part.get("image_url") or {}).get("url", "") if isinstance(part, Mapping) else ""
        if url.startswith(_DATA):
            yield url.removeprefix(_DATA)


def tokens_of(png_base64: str) -> int:
    """Estimate the tokens of a picture."""
    width, height = size_of(base64.b64decode(png_base64[:64]))
    return math.ceil(width * height / _PIXELS_PER_TOKEN)


def size_of(png: bytes) -> tuple[int, int]:
    """Return the width and height of a PNG in pixels; zeros if it is not one."""
    if not png.startswith(_PNG) or len(png) < 24:
        return 0, 0
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
