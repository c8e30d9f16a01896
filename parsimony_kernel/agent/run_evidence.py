"""Observations of a run, extracted from its transcript.

The person's words, tool results and the outcomes of earlier turns are observations. Statements of
the model in this run are not.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.prompts import CHANGES_TAG, CONTEXT_TAG
from parsimony_kernel.core.conversation import REQUEST_TAG, block, inside, is_picture, is_snapshot
from parsimony_kernel.core.text import from_json

# Some file systems store modification times coarsely.
_COARSE_S = 2.0


def observed(messages: Iterable[Any]) -> tuple[list[str], list[str], list[str]]:
    """Sort ``messages`` into observations; the run's own messages begin with its request.

    Returns:
        Three lists, each with the oldest first: tool results of this run; the person's words, the
        notebook's inventory and earlier turns; outcomes of earlier turns and published artifacts.
    """
    held = [_plain(message) for message in messages]
    begin = max((i for i, message in enumerate(held) if _is_request(message)), default=0)
    before, own = held[:begin], held[begin:]
    requests = [*before, *(each for each in own if each.get("role") == "user")]
    inventories = [_text(each) for each in held if is_snapshot(each)]
    published = _inventory(inventories[-1]).get("artifacts") if inventories else ()
    outcomes = [_text(each) for each in before if each.get("role") == "assistant"]
    return (
        [_text(each) for each in own if each.get("role") == "tool"],
        [_text(each) for each in requests if not is_picture(each)],
        outcomes + [json.dumps(each, ensure_ascii=False) for each in published or ()],
    )


def persons_words(messages: Iterable[Any]) -> str:
    """Return the person's own words: requests and answers, without the notebook's additions."""
    spoken = []
    for message in map(_plain, messages):
        text = _text(message)
        is_added = is_snapshot(message) or is_picture(message)
        if message.get("role") != "user" or is_added or text.startswith(f"<{CHANGES_TAG}>"):
            continue
        _, opening, request = text.partition(f"<{REQUEST_TAG}>")
        spoken.append(request.removesuffix(f"</{REQUEST_TAG}>") if opening else text)
    return "\n".join(each.strip() for each in spoken)


def came_since(path: str, started_at: str) -> bool:
    """Whether a file was modified since ``started_at`` (ISO 8601).

    ``path`` is relative to the working folder; any other path gives ``False``.
    """
    named = Path(path)
    if named.is_absolute() or ".." in named.parts:
        return False
    with suppress(OSError, ValueError):
        return named.stat().st_mtime >= datetime.fromisoformat(started_at).timestamp() - _COARSE_S
    return False


def _plain(message: Any) -> dict[str, Any]:
    held: dict[str, Any] = message if isinstance(message, dict) else message.to_llm("default")
    return held


def _text(message: dict[str, Any]) -> str:
    return str(message.get("content") or "")


def _is_request(message: dict[str, Any]) -> bool:
    text = _text(message)
    is_whole = text == block(REQUEST_TAG, inside(REQUEST_TAG, text))
    return message.get("role") == "user" and is_whole


def _inventory(text: str) -> dict[str, Any]:
    given = from_json(text.partition(f"<{CONTEXT_TAG}>")[2].partition(f"</{CONTEXT_TAG}>")[0])
    return given if isinstance(given, dict) else {}
