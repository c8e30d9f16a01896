"""From what a person configured to a model, and whether it can work before it is asked."""

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.chat import OFFLINE, ChatModel
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.llm import credentials, litellm_model
from parsimony_kernel.llm.providers import is_known, known

Config = Mapping[str, Any] | ChatModel | str


def resolve_model(config: Config, environ: Mapping[str, str] = os.environ) -> ChatModel:
    """The model that ``config`` means.

    A ``ChatModel`` is itself; ``"offline"`` is the embedded one; any other name, or a mapping of
    litellm's keyword arguments, is a provider's. Nothing is imported or asked for it yet.

    Raises ``ValueError`` when no model is named.
    """
    if isinstance(config, Mapping | str):
        settings = {"model": config} if isinstance(config, str) else config
        if settings.get("model") == OFFLINE:
            # Deferred: a session with a provider's model has no use for the grammar.
            from parsimony_kernel.offline.model import OfflineModel

            return OfflineModel()
        return litellm_model.LiteLLMModel(settings, environ)
    return config


def resolve_models(
    config: Config | Sequence[Config], environ: Mapping[str, str] = os.environ
) -> tuple[ChatModel, ...]:
    """The fallback chain that ``config`` means, the preferred model first.

    A list has one member a model; a text names several with commas between them. Raises
    ``ValueError`` when no model is named.
    """
    if isinstance(config, str):
        named = names_in(config)
        if not named:
            raise ValueError("no model is named; write for instance 'openai/gpt-5'")
        return tuple(resolve_model(name, environ) for name in named)
    if isinstance(config, Sequence):
        if not config:
            raise ValueError("the list of models is empty")
        return tuple(resolve_model(each, environ) for each in config)
    return (resolve_model(config, environ),)


def names_in(models: str) -> tuple[str, ...]:
    """The models that a text names, with commas between them."""
    return tuple(name for part in models.split(",") if (name := part.strip()))


def check_models(models: str, environ: Mapping[str, str] = os.environ) -> Failure | None:
    """Why one of the models in this text cannot work here, or ``None``; see ``check_model``."""
    checked = (check_model(name, environ) for name in names_in(models) or (models,))
    return next((failure for failure in checked if failure is not None), None)


def check_model(name: str, environ: Mapping[str, str] = os.environ) -> Failure | None:
    """Why the model ``name`` cannot work here, or ``None``; asks nobody and imports nothing."""
    if name == OFFLINE:
        return None
    provider = credentials.provider_of(name)
    if provider is None:
        sentence = f"{name!r} does not say which provider it belongs to."
        return _gap(sentence, "Write provider/model, such as 'openai/gpt-5', or 'offline'.")
    if not is_known(provider):
        return _gap(f"litellm has no provider {provider!r}, as {name!r} says.", _nearest(provider))
    problem = litellm_model.self_check()
    if problem:
        return litellm_model.unusable(problem)
    base = credentials.missing_base(name, environ)
    if base is not None:
        sentence = f"There is no address for the model {name!r}."
        return _gap(sentence, f"Set {base} to its server's, such as http://127.0.0.1:8000/v1.")
    variable = credentials.missing_variable({"model": name}, environ)
    return None if variable is None else litellm_model.no_key(name, variable)


def _nearest(provider: str) -> str:
    near = difflib.get_close_matches(provider, sorted(known()), n=1, cutoff=0.5)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    return f"{meant}For any server that speaks OpenAI's API, write openai/ and set OPENAI_BASE_URL."


def _gap(sentence: str, remedy: str) -> Failure:
    return CAPABILITY_GAP.failure(f"{sentence} {remedy}", blockers=(sentence,), remedy=remedy)
