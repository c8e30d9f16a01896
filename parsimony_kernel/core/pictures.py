"""Pictures in a transcript: separate messages, each after the result that it illustrates.

Within a run such a message is text, with the pixels under ``picture``. A model with vision is sent
them as content parts; other models are not sent the message at all.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

KEY = "picture"
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
    return {"role": "user", "content": words, KEY: pixels}


def is_picture(message: Any) -> bool:
    """Return whether ``message`` shows a picture rather than anybody's words."""
    return isinstance(message, Mapping) and KEY in message


def without_pixels(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the text of an old picture."""
    kept = {key: value for key, value in message.items() if key != KEY}
    return {**kept, "content": f"{message['content']}: older, no longer shown"}


def sent_to(messages: Iterable[dict[str, Any]], *, sees: bool) -> list[dict[str, Any]]:
    """Return ``messages`` as a model with or without vision is sent them."""
    told = messages if sees else (each for each in messages if KEY not in each)
    return [_as_parts(each) if KEY in each else each for each in told]


def _as_parts(message: dict[str, Any]) -> dict[str, Any]:
    url = {"url": f"{_DATA}{message[KEY]['png_base64']}"}
    parts = [{"type": "text", "text": message["content"]}, {"type": "image_url", "image_url": url}]
    return {"role": message["role"], "content": parts}


def pictures_in(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pixels of ``message`` as base64, from either of its forms."""
    if KEY in message:
        yield message[KEY]["png_base64"]
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
