"""Facts about providers and models, read from litellm's files without importing it.

The import takes seconds.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from parsimony_kernel.limits.budget import dollars
from parsimony_kernel.llm import credentials

_PRICES = "model_prices_and_context_window_backup.json"
# litellm's lists of providers, read as text; the second lists OpenAI-compatible ones.
_LISTS = ("types/utils.py", "llms/openai_like/providers.json")
_PROVIDER = re.compile(r'^    [A-Z0-9_]+ = "([^"]+)"|^  "([^"]+)": \{', re.MULTILINE)


def known() -> frozenset[str]:
    """Return all usable prefixes: litellm's own, and custom providers registered with it."""
    registered = getattr(sys.modules.get("litellm"), "custom_provider_map", ())
    return _listed() | {str(each["provider"]).lower() for each in registered}


def is_known(provider: str) -> bool:
    """Whether litellm knows ``provider``; also true when its list can't be read."""
    return not _listed() or provider in known()


@cache
def _listed() -> frozenset[str]:
    enumeration = _text_of(_LISTS[0]).partition("class LlmProviders(")[2].partition("\n\n\n")[0]
    found = _PROVIDER.findall(f"{enumeration}\n{_text_of(_LISTS[1])}")
    return frozenset("".join(each) for each in found) if enumeration else frozenset()


def _text_of(name: str) -> str:
    """Read a file of the installed litellm; empty if it can't be read."""
    spec = importlib.util.find_spec("litellm")
    try:
        return (Path(spec.origin if spec and spec.origin else "").parent / name).read_text("utf-8")
    except (OSError, ValueError):
        return ""


def suggestion(environ: Mapping[str, str]) -> str:
    """Suggest a model that could be used here, in a sentence."""
    suggested = {name: each for name, each in credentials.PROVIDERS.items() if each.suggested}
    for name, provider in suggested.items():
        if any(map(environ.get, provider.keys)):
            return f"There is a key for {name}: try {provider.suggested!r}."
    variables = [provider.keys[0] for provider in suggested.values()][:3]
    return (
        f"Set a key, such as {' or '.join(variables)}, and name a model, such as "
        f"{suggested['anthropic'].suggested!r}; with a server of your own, 'ollama_chat/NAME' or "
        "'openai/NAME'."
    )


def price_in_words(model: str) -> str:
    """Format the price of a million input and output tokens of ``model``, if it is known."""
    facts = facts_of(model)
    read, written = (facts.get(f"{way}_cost_per_token") for way in ("input", "output"))
    if read is None or written is None:
        return "price unknown"
    if not read and not written:
        return "no price per token"
    return f"{dollars(read * 1e6)} a million tokens read, {dollars(written * 1e6)} written"


def facts_of(model: str) -> Mapping[str, Any]:
    """Look up a model in litellm's price file; empty if it is unknown."""
    return _facts().get(model) or _facts().get(model.partition("/")[2]) or {}


@cache
def _facts() -> Mapping[str, Mapping[str, Any]]:
    facts: dict[str, Mapping[str, Any]] = json.loads(_text_of(_PRICES) or "{}")
    return facts
