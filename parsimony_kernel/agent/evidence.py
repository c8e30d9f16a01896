"""What a run has observed, read from its transcript.

Observed is what the person wrote, what tools answered, and what earlier turns came to. What the
model only said in this run is not.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.prompts import CHANGES_TAG, CONTEXT_TAG
from parsimony_kernel.core.conversation import REQUEST_TAG, is_snapshot
from parsimony_kernel.core.pictures import is_picture

# File systems keep times coarsely.
_COARSE_S = 2.0


def results(messages: Sequence[Any]) -> list[str]:
    """What tools have answered in the run, the oldest first."""
    held = [_plain(message) for message in messages]
    return [_text(each) for each in held[_begin(held) :] if each.get("role") == "tool"]


def words(messages: Sequence[Any]) -> list[str]:
    """What the person wrote, what the notebook says, and what earlier turns came to."""
    held = [_plain(message) for message in messages]
    begin = _begin(held)
    told = (m for i, m in enumerate(held) if i < begin or m.get("role") == "user")
    return [_text(m) for m in told if not is_picture(m)]


def earlier(messages: Sequence[Any]) -> Iterator[str]:
    """What earlier turns came to, and what the notebook says is published."""
    held = [_plain(message) for message in messages]
    begin = _begin(held)
    for message in held[:begin]:
        if message.get("role") == "assistant":
            yield _text(message)
    inventories = [_text(each) for each in held if is_snapshot(each)]
    published = _inventory(inventories[-1]).get("artifacts") if inventories else ()
    yield from (json.dumps(each, ensure_ascii=False) for each in published or ())


def said(messages: Iterable[Any]) -> str:
    """The person's own words: requests and answers, without what the notebook adds to them."""
    spoken = []
    for message in map(_plain, messages):
        text = _text(message)
        if message.get("role") != "user" or is_snapshot(message) or is_picture(message):
            continue
        if text.startswith(f"<{CHANGES_TAG}>"):
            continue
        _, opening, request = text.partition(f"<{REQUEST_TAG}>")
        spoken.append(request.removesuffix(f"</{REQUEST_TAG}>") if opening else text)
    return "\n".join(each.strip() for each in spoken)


def came_since(path: str, started_at: str, folder: Path | None = None) -> bool:
    """Whether ``path``, relative to ``folder``, is a file that was written since ``started_at``.

    ``started_at`` is a date in ISO 8601; the folder is the process's own when ``None``.
    """
    named = Path(path)
    if named.is_absolute() or ".." in named.parts:
        return False
    try:
        written_s = ((folder or Path.cwd()) / named).stat().st_mtime
        return written_s >= datetime.fromisoformat(started_at).timestamp() - _COARSE_S
    except (OSError, ValueError):
        return False


def _plain(message: Any) -> dict[str, Any]:
    held: dict[str, Any] = message if isinstance(message, dict) else message.to_llm("default")
    return held


def _text(message: dict[str, Any]) -> str:
    return str(message.get("content") or "")


def _begin(messages: Sequence[dict[str, Any]]) -> int:
    """Where the run's own messages begin."""
    return max((i for i, message in enumerate(messages) if _is_request(message)), default=0)


def _is_request(message: dict[str, Any]) -> bool:
    text = _text(message)
    is_whole = text.startswith(f"<{REQUEST_TAG}>") and text.endswith(f"</{REQUEST_TAG}>")
    return message.get("role") == "user" and is_whole


def _inventory(text: str) -> dict[str, Any]:
    block = text.partition(f"<{CONTEXT_TAG}>")[2].partition(f"</{CONTEXT_TAG}>")[0]
    try:
        given = json.loads(block)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}
