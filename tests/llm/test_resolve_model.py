"""A name becomes a model, or a sentence that says what is missing; nothing heavy is imported."""

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.resolve import check_model, resolve_model
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.llm import chokepoint, litellm_model, providers
from parsimony_kernel.llm.chokepoint import call_llm
from parsimony_kernel.llm.litellm_model import LiteLLMModel, self_check
from parsimony_kernel.llm.providers import (
    PROVIDERS,
    facts_of,
    is_known,
    known,
    price_in_words,
    suggestion,
)
from parsimony_kernel.offline.model import OfflineModel
from parsimony_kernel.testing.scripted import ScriptedModel

ROOT = Path(__file__).parents[2]


def test_model_object_resolves_to_itself() -> None:
    model = ScriptedModel([])
    assert resolve_model(model) is model


@pytest.mark.parametrize(
    ("config", "name", "made"),
    [
        ("openai/gpt-5", "openai/gpt-5", LiteLLMModel),
        ({"model": "openai/gpt-5", "temperature": 0}, "openai/gpt-5", LiteLLMModel),
        ("offline", "offline", OfflineModel),
        ({"model": "offline"}, "offline", OfflineModel),
    ],
)
def test_name_or_configuration_becomes_a_model(config: Any, name: str, made: type) -> None:
    model = resolve_model(config, {})
    assert (model.name, type(model)) == (name, made)


@pytest.mark.parametrize("config", ["", " ", {}, {"model": None}])
def test_configuration_without_name_is_refused(config: Any) -> None:
    with pytest.raises(ValueError, match="names no model"):
        resolve_model(config, {})


KEYS: list[tuple[str, str]] = [
    ("openai/gpt-5", "OPENAI_API_KEY"),
    ("gpt-4o", "OPENAI_API_KEY"),
    ("o3-mini", "OPENAI_API_KEY"),
    ("anthropic/claude-x", "ANTHROPIC_API_KEY"),
    ("claude-x", "ANTHROPIC_API_KEY"),
    ("gemini/gemini-x", "GEMINI_API_KEY"),
    ("mistral/mistral-x", "MISTRAL_API_KEY"),
    ("groq/llama", "GROQ_API_KEY"),
    ("openrouter/a/b", "OPENROUTER_API_KEY"),
    ("azure/mine", "AZURE_API_KEY"),
]


@pytest.mark.parametrize(
    ("name", "environ", "said"),
    [
        *((name, {"HOME": "/"}, variable) for name, variable in KEYS),
        *((name, {variable: "value"}, None) for name, variable in KEYS),
        ("gemini/x", {"GOOGLE_API_KEY": "value"}, None),
        *((keyless, {}, None) for keyless in ("offline", "ollama/llama3", "vertex_ai/x")),
        *((wrong, {}, "provider/model") for wrong in ("", "ofline", "my-model")),
        ("opnai/x", {}, "Did you mean 'openai'?"),
        ("anthropik/x", {}, "Did you mean 'anthropic'?"),
    ],
)
def test_name_is_checked_and_what_is_missing_is_named(
    name: str, environ: dict[str, str], said: str | None
) -> None:
    failure = check_model(name, environ)
    assert (failure is None) is (said is None)
    if failure is not None:
        assert failure.kind is FailureKind.capability_gap
        assert str(said) in failure.explanation
        assert repr(name) in failure.blockers[0]


async def refusal(model: LiteLLMModel) -> str:
    """Why the model was not asked."""
    request = ModelRequest([{"role": "user", "content": "go"}])
    (last,) = [item async for item in call_llm(model, request, cancellation=CancellationRequest())]
    assert isinstance(last, Failure)
    return last.explanation


async def test_request_without_key_fails_before_import(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load() -> Any:
        raise AssertionError("litellm was imported")

    monkeypatch.setattr(chokepoint, "LIVE_CALLS_ALLOWED", True)
    monkeypatch.setattr(litellm_model, "_load", load)
    monkeypatch.delitem(litellm_model.sys.modules, "litellm", raising=False)  # type: ignore[attr-defined]
    assert "OPENAI_API_KEY" in await refusal(LiteLLMModel({"model": "openai/gpt-5"}, {}))


@pytest.mark.parametrize("base", [None, "https://api.example.com/v1"])
async def test_disabled_live_calls_send_nothing(base: str | None) -> None:
    environ = {"PARSIMONY_LIVE_CALLS": "off", "OPENAI_API_KEY": "value-of-a-key"}
    model = LiteLLMModel({"model": "openai/gpt-5", "api_base": base}, environ)
    assert "PARSIMONY_LIVE_CALLS" in await refusal(model)


def test_representation_hides_key() -> None:
    model = LiteLLMModel({"model": "openai/gpt-5", "api_key": "value-of-a-key"}, {})
    assert "value-of-a-key" not in repr(model)
    assert model.secrets == ("value-of-a-key",)


BASES: list[tuple[dict[str, Any], dict[str, str], str | None]] = [
    ({"model": "openai/x", "api_base": "http://a"}, {"OPENAI_BASE_URL": "http://b"}, "http://a"),
    ({"model": "openai/x", "base_url": "http://a"}, {}, "http://a"),
    ({"model": "openai/x"}, {"OPENAI_API_BASE": "http://b"}, "http://b"),
    ({"model": "groq/x"}, {"OPENAI_API_BASE": "http://b"}, None),
]


@pytest.mark.parametrize(("config", "environ", "base"), BASES)
def test_destination_is_resolved(
    config: dict[str, Any], environ: dict[str, str], base: str | None
) -> None:
    assert providers.base_of(config, environ) == base


LOCAL = ("http://127.0.0.1:8000/v1", "http://localhost:11434", "http://[::1]:1/")
REMOTE = ("http://localhost.evil.example/", "https://api.openai.com/v1", "", None, "http://[broken")


def test_local_addresses_are_recognized() -> None:
    assert [*filter(providers.is_loopback, (*LOCAL, *REMOTE))] == [*LOCAL]


@pytest.mark.parametrize(
    ("version", "told"),
    [
        *((fit, None) for fit in ("1.105.3", "1.110.2", "1.100.0", "1.105.3.dev1")),
        *(
            (unfit, f"litellm {unfit} is installed, and only >=1.100,<=1.110.2,!=1.106.*")
            for unfit in ("1.99.9", "1.106.2", "1.111.0", "unknown")
        ),
        ("1.82.7", "compromised"),
        ("1.82.8", "compromised"),
    ],
)
def test_broken_litellm_release_names_the_fix(
    monkeypatch: pytest.MonkeyPatch, version: str, told: str | None
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    problem = self_check()
    if told is None:
        assert problem is None
    else:
        assert problem is not None
        assert told in problem
        assert "pip install 'litellm>=1.100,<=1.110.2,!=1.106.*'" in problem
        failure = check_model("openai/gpt-5", {"OPENAI_API_KEY": "value"})
        assert failure is not None
        assert problem in failure.blockers


def test_missing_litellm_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert "not installed" in str(self_check())


def test_installed_litellm_passes() -> None:
    assert self_check() is None


def test_tested_range_matches_pyproject() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (wanted,) = [line for line in declared if re.match(r"litellm\b", line)]
    compromised = {f"!={each}" for each in litellm_model._COMPROMISED}
    ours = {*litellm_model.TRIED.split(","), *compromised}
    assert set(wanted.removeprefix("litellm").split(",")) == ours


def test_known_providers_match_litellm() -> None:
    providers = {each.value for each in litellm_model.import_litellm().LlmProviders}
    assert providers < known()
    assert not any(map(is_known, ("opnai", "type", "base_url")))


@pytest.mark.parametrize(
    ("name", "server"), [each for each in providers.PROVIDERS.items() if each[1].is_own]
)
def test_own_server_is_found_by_its_variables(name: str, server: providers.Provider) -> None:
    config = {"model": f"{name}/x"}
    environ = {server.bases[0]: "http://127.0.0.1:9/v1", server.keys[0]: "value"}
    assert providers.base_of(config, environ) == "http://127.0.0.1:9/v1"
    assert providers.key_of(config, environ) == "value"
    assert check_model(f"{name}/x", environ) is None
    assert (check_model(f"{name}/x", {}) is None) is (server.default is not None)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("openai/gpt-5", "$1.25 a million tokens read, $10.00 written"),
        ("ollama/llama3", "no price per token"),
        ("openai/of-my-own", "price unknown"),
    ],
)
def test_price_is_known_before_asking(model: str, told: str) -> None:
    assert price_in_words(model) == told


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"OPENAI_API_KEY": "k"}, "There is a key for openai: try 'openai/gpt-5'."),
        ({}, "Set a key, such as ANTHROPIC_API_KEY or OPENAI_API_KEY or GEMINI_API_KEY, and name"),
    ],
)
def test_model_is_suggested_from_available_keys(environ: dict[str, str], told: str) -> None:
    assert suggestion(environ).startswith(told)


def test_every_suggested_model_has_a_price() -> None:
    suggested = filter(None, (each.suggested for each in PROVIDERS.values()))
    assert all(facts_of(model).get("input_cost_per_token") for model in suggested)
