"""The system prompt and the notebook context of a run, and the observations in its transcript.

The context is JSON, built from outputs of bounded size; data values are JSON strings in it, marked
as data. Only ``came_since`` looks at the disk.

Of a transcript, the person's words, tool results and the outcomes of earlier turns are
observations. Statements of the model in this run are not.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from parsimony_kernel.core.conversation import REQUEST_TAG, block, inside, is_picture, is_snapshot
from parsimony_kernel.core.result_text import Described, variable_in_text
from parsimony_kernel.core.text import from_json
from parsimony_kernel.llm.secrets import Secrets

_WORDS = tomllib.loads((files(__package__) / "prompts.toml").read_text(encoding="utf-8"))
INSTRUCTIONS: str = _WORDS["instructions"]
FINISH_WITHIN_BUDGET: str = _WORDS["finish_within_budget"]
GONE_BACK: dict[str, str] = _WORDS["gone_back"]
ENDINGS: dict[str, str] = _WORDS["endings"]

CONTEXT_TAG = "notebook_context"
CHANGES_TAG = "notebook_changes"


def _data(value: Mapping[str, Any]) -> str:
    # "</" cannot close the block from inside a JSON string.
    return json.dumps(value, ensure_ascii=False, default=str).replace("</", "<\\/")


# The fields that every inventory has, in their order.
_ALWAYS = {
    "working_folder": "",
    "files": [],
    "variables": [],
    "more_variables": "",
    "artifacts": [],
}


def notebook_context(
    *, around: Mapping[str, Any] | None = None, secrets: Secrets | None = None, **facts: Any
) -> str:
    """Render the inventory of a notebook as a block of the first message, without secrets.

    Args:
        around: the date and the package versions.
        secrets: the redactor; by default one with the secrets of the process's environment.
        facts: ``working_folder``, ``files``, ``variables``, ``more_variables`` (the names of
            unlisted ones) and ``artifacts``. Optional: ``replaceable``, the names bound by the turn
            that this one replaces, free to bind again; ``kept_back``, the withheld items, so that
            nobody takes them for missing; ``answers``, which still apply, by their questions.
    """
    given = {name: value for name, value in facts.items() if value}
    inventory = {**(around or {}), **_ALWAYS, **given}
    return block(CONTEXT_TAG, _data((secrets or Secrets()).of_json(inventory)))


def context_in_text(message: str, described: Described) -> str:
    """Rewrite a block of ``notebook_context`` with the columns of each table in one line.

    This is for language models; the built-in rule-based model reads the block unchanged.
    ``described`` holds the columns whose values were already listed, and is updated.
    """
    body = inside(CONTEXT_TAG, message)
    if message != block(CONTEXT_TAG, body):
        return message
    inventory = json.loads(body)
    inventory["variables"] = [variable_in_text(e, described) for e in inventory["variables"]]
    return block(CONTEXT_TAG, _data(inventory))


def notebook_changes(*, gone: Iterable[str], changed: Iterable[str]) -> str | None:
    """Render the changes of the namespace while a question waited; ``None`` without any."""
    facts = {"gone": [*gone], "changed": [*changed]}
    return block(CHANGES_TAG, _data(facts)) if any(facts.values()) else None


# Some file systems store modification times coarsely.
_COARSE_S = 2.0


def split_at_request(messages: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return the messages before a run, of earlier turns too, and its own, its request first."""
    held = [_plain(message) for message in messages]
    begin = max((i for i, message in enumerate(held) if _is_request(message)), default=0)
    return held[:begin], held[begin:]


def observed(messages: Iterable[Any]) -> tuple[list[str], list[str], list[str]]:
    """Sort ``messages`` into observations.

    Returns:
        Three lists, each with the oldest first: tool results of this run; the person's words, the
        notebook's inventory and earlier turns; outcomes of earlier turns and published artifacts.
    """
    before, own = split_at_request(messages)
    requests = [*before, *(each for each in own if each.get("role") == "user")]
    inventories = [_text(each) for each in (*before, *own) if is_snapshot(each)]
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
    return message.get("role") == "user" and text == block(REQUEST_TAG, inside(REQUEST_TAG, text))


def _inventory(text: str) -> dict[str, Any]:
    given = from_json(text.partition(f"<{CONTEXT_TAG}>")[2].partition(f"</{CONTEXT_TAG}>")[0])
    return given if isinstance(given, dict) else {}
