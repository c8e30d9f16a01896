"""The system prompt and the notebook context of a run.

Text and its assembly, nothing else. The context is JSON, built from outputs of bounded size; data
values are JSON strings in it, marked as data.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from parsimony_kernel.core.conversation import block, inside
from parsimony_kernel.core.result_text import Described, variable_in_text
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
_ALWAYS = {"working_folder": "", "files": [], "variables": [], "more_variables": 0, "artifacts": []}


def notebook_context(
    *, around: Mapping[str, Any] | None = None, secrets: Secrets | None = None, **facts: Any
) -> str:
    """Render the inventory of a notebook as a block of the first message, without secrets.

    Args:
        around: the date and the package versions.
        secrets: the redactor; by default one with the secrets of the process's environment.
        facts: ``working_folder``, ``files``, ``variables``, ``more_variables`` (the number of
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
