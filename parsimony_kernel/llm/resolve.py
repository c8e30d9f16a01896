"""From what a person configured to a model, and whether it can work before it is asked."""

import os
from collections.abc import Mapping
from typing import Any

from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.llm import credentials, litellm_model
from parsimony_kernel.llm.base import ChatModel

OFFLINE = "offline"


def resolve_model(
    config: Mapping[str, Any] | ChatModel | str, environ: Mapping[str, str] = os.environ
) -> ChatModel:
    """The model that ``config`` means.

    A ``ChatModel`` is itself; ``"offline"`` is the embedded one; any other name, or a mapping of
    litellm's keyword arguments, is a provider's. Nothing is imported or asked for it yet.

    Raises ``ValueError`` when no model is named.
    """
    if isinstance(config, Mapping | str):
        settings = {"model": config} if isinstance(config, str) else config
        if settings.get("model") == OFFLINE:
            # Deferred: a session with a provider's model has no use for the grammar.
            from parsimony_kernel.llm.offline.model import OfflineModel

            return OfflineModel()
        return litellm_model.LiteLLMModel(settings, environ)
    return config


def check_model(name: str, environ: Mapping[str, str] = os.environ) -> Failure | None:
    """Why the model ``name`` cannot work here, or ``None``; asks nobody and imports nothing."""
    if name == OFFLINE:
        return None
    if credentials.provider_of(name) is None:
        sentence = f"{name!r} does not say which provider it belongs to."
        remedy = "Write provider/model, such as 'openai/gpt-5', or 'offline'."
        return Failure(
            FailureKind.capability_gap,
            f"{sentence} {remedy}",
            blockers=(sentence,),
            metadata={"remedy": remedy},
        )
    problem = litellm_model.self_check()
    if problem:
        return litellm_model.unusable(problem)
    variable = credentials.missing_variable({"model": name}, environ)
    return None if variable is None else litellm_model.no_key(name, variable)
