"""Resolve model configurations, and check that a model can work before it is asked."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from parsimony_kernel.core.chat import OFFLINE, ChatModel
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.text import from_json
from parsimony_kernel.llm import litellm_model, providers
from parsimony_kernel.llm.faults import gap
from parsimony_kernel.llm.providers import is_known, known, suggestion

Config = Mapping[str, Any] | ChatModel | str

# Environment variables that apply to every model given by name.
ALIASES, PARAMETERS = "PARSIMONY_MODEL_ALIASES", "PARSIMONY_MODEL_PARAMETERS"
EFFORT = "PARSIMONY_EFFORT"
_OURS = {"model", "messages", "tools", "stream", "stream_options", "timeout"}


def resolve_model(config: Config, environ: Mapping[str, str] = os.environ) -> ChatModel:
    """Resolve ``config`` to a model.

    A ``ChatModel`` is returned unchanged; ``"offline"`` is the built-in rule-based model (no LLM);
    any other name, or a mapping of litellm's keyword arguments, is a provider's model. Nothing is
    imported or requested for that yet.

    Raises ``ValueError`` when no model is named.
    """
    if not isinstance(config, Mapping | str):
        return config
    settings = _named(config, environ) if isinstance(config, str) else config
    if settings.get("model") != OFFLINE:
        return litellm_model.LiteLLMModel(settings, environ)
    # Deferred: a session with a provider's model has no use for the grammar.
    from parsimony_kernel.offline.model import OfflineModel

    return OfflineModel()


def resolve_models(
    config: Config | Sequence[Config], environ: Mapping[str, str] = os.environ
) -> tuple[ChatModel, ...]:
    """Resolve ``config`` to a fallback chain, the preferred model first.

    A list has one item per model; a string can name several, separated by commas. Raises
    ``ValueError`` when no model is named.
    """
    if isinstance(config, str):
        config = names_in(config, environ)
    if not isinstance(config, Sequence):
        return (resolve_model(config, environ),)
    if not config:
        raise ValueError(f"no model is named. {suggestion(environ)}")
    return tuple(resolve_model(each, environ) for each in config)


def names_in(models: str, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Split comma-separated model names, replacing aliases by their models.

    Raises ``ValueError`` for aliases that can't be parsed.
    """
    known = aliases(environ.get(ALIASES, ""))
    names = (part.strip() for part in models.split(","))
    return tuple(known.get(name, name) for name in names if name)


def aliases(text: str) -> dict[str, str]:
    """Parse short names of models: ``fast=openai/gpt-5-mini, deep=anthropic/claude-opus-4-5``.

    Raises ``ValueError`` with the expected format.
    """
    found = dict(_pairs(text))
    if not all(model and isinstance(model, str) for model in found.values()):
        raise ValueError("names with their models, for example fast=openai/gpt-5-mini")
    return found


def parameters(text: str) -> dict[str, Any]:
    """Parse model parameters: ``temperature=0.2, top_p=0.9`` or a JSON object.

    Raises ``ValueError`` with the expected format.
    """
    found = json.loads(text) if text.lstrip().startswith("{") else dict(_pairs(text))
    for name in found:
        if name in _OURS or name.endswith("retries"):
            raise ValueError(f"parameters of a model, and {name} is the agent's own")
        if name.endswith("key"):
            raise ValueError(f"no {name}: a key belongs in the environment")
    return found


def _pairs(text: str) -> list[tuple[str, Any]]:
    pairs = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = re.fullmatch(r"([\w.-]+)\s*=\s*(\S.*)", part)
        if found is None:
            raise ValueError("names and values, for example temperature=0.2, top_p=0.9")
        pairs.append((found[1], from_json(found[2], found[2])))
    return pairs


def _named(name: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return litellm's arguments for ``name``, including those set for every model."""
    effort = environ.get(EFFORT, "").strip().lower()
    return {
        **parameters(environ.get(PARAMETERS, "")),
        **({"reasoning_effort": effort} if effort else {}),
        "model": aliases(environ.get(ALIASES, "")).get(name, name),
    }


def check_models(models: str, environ: Mapping[str, str] = os.environ) -> Failure | None:
    """Check comma-separated models; return the first failure or ``None``. See ``check_model``."""
    checked = (check_model(name, environ) for name in names_in(models, environ) or (models,))
    return next((failure for failure in checked if failure is not None), None)


def check_model(name: str, environ: Mapping[str, str] = os.environ) -> Failure | None:
    """Return why the model ``name`` can't work here, or ``None``.

    Sends no request and doesn't import litellm.
    """
    if name == OFFLINE:
        return None
    provider = providers.provider_of(name)
    if provider is None:
        sentence = f"There is no model {name!r} without its provider."
        return gap(
            sentence,
            "Write provider/model, such as openai/gpt-5, or 'offline' for the built-in rules. "
            f"{suggestion(environ)}",
        )
    if not is_known(provider):
        return gap(f"litellm has no provider {provider!r}, as {name!r} says.", _nearest(provider))
    if problem := litellm_model.self_check():
        return litellm_model.unusable(problem)
    if base := providers.missing_base(name, environ):
        sentence = f"There is no address for the model {name!r}."
        return gap(sentence, f"Set {base} to its server's, such as http://127.0.0.1:8000/v1.")
    variable = providers.missing_variable({"model": name}, environ)
    return None if variable is None else litellm_model.no_key(name, variable)


def _nearest(provider: str) -> str:
    near = nearest(provider, sorted(known()))
    meant = f"Did you mean {near!r}? " if near else ""
    return f"{meant}For any server that speaks OpenAI's API, write openai/ and set OPENAI_BASE_URL."
