"""The words that every run begins with.

Text and its assembly, nothing else. The context's JSON comes from outputs that are bounded
already; values from data stand in it as JSON strings, marked as data.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from parsimony_kernel.core.conversation import block
from parsimony_kernel.core.reading import variable_in_text
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


# What an inventory always says, in its order.
_ALWAYS = {"working_folder": "", "files": [], "variables": [], "more_variables": 0, "artifacts": []}


def notebook_context(
    *, around: Mapping[str, Any] | None = None, secrets: Secrets | None = None, **told: Any
) -> str:
    """The inventory of a notebook as a block of the first message, without ``secrets``.

    Args:
        around: the date and the versions of what code may use.
        secrets: those of the process's environment by default.
        told: ``working_folder``, ``files``, ``variables``, ``more_variables`` (how many more there
            are) and ``artifacts``; and where there is any: ``replaceable``, names that the turn
            which this one replaces has bound, free to bind again; ``kept_back``, what is not told,
            so that nobody takes it for missing; ``answers``, which hold, by their questions.
    """
    given = {name: value for name, value in told.items() if value}
    inventory = {**(around or {}), **_ALWAYS, **given}
    return block(CONTEXT_TAG, _data((secrets or Secrets()).of_json(inventory)))


def context_in_text(message: str, described: set[tuple[str, ...]] | None = None) -> str:
    """The block of ``notebook_context`` with the columns of each table in one line.

    What a model reads. The built-in one reads the block as it is. ``described`` are the columns
    whose values have been told; it is added to.
    """
    begin, end = block(CONTEXT_TAG, "\0").split("\0")
    if not (message.startswith(begin) and message.endswith(end)):
        return message
    inventory = json.loads(message[len(begin) : -len(end)])
    inventory["variables"] = [variable_in_text(e, described) for e in inventory["variables"]]
    return block(CONTEXT_TAG, _data(inventory))


def notebook_changes(*, gone: Iterable[str], changed: Iterable[str]) -> str | None:
    """What became of the namespace while a question waited; ``None`` when nothing did."""
    told = {"gone": [*gone], "changed": [*changed]}
    return block(CHANGES_TAG, _data(told)) if any(told.values()) else None
