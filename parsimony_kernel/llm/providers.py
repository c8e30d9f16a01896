"""What can be told of providers and their models before litellm is imported, which takes seconds.

The names of providers are written down, and a test compares them; prices are read from the file
that litellm ships.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from parsimony_kernel.limits.budget import dollars
from parsimony_kernel.llm import credentials

_PRICES = "model_prices_and_context_window_backup.json"
# One for each provider whose key may be there already: the first is proposed.
SUGGESTED = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5",
    "gemini": "gemini/gemini-2.5-pro",
    "mistral": "mistral/mistral-large-latest",
    "deepseek": "deepseek/deepseek-chat",
}

_NAMES = """
a2a a2a_agent abliteration ai21 ai21_chat aiand aiml aiohttp_openai amazon_nova
anthropic anthropic_text anyscale apertis assemblyai auto_router aws_polly aws_textract
azure azure_ai azure_speech azure_text baseten bedrock bedrock_mantle bespoke bigmodel
black_forest_labs bytez cerebras charity_engine chatgpt chutes clarifai clf_ai_gateway
cloudflare codestral cognition cohere cohere_chat cometapi compactifai coralbricks
cortecs cursor custom custom_openai darkbloom dashscope databricks databricks_agent
datarobot deepgram deepinfra deepseek docker_model_runner dotprompt edenai elevenlabs
empiriolabs empower eu_jev fal_ai featherless_ai fireworks_ai friendliai galadriel gdc
gemini gigachat github github_copilot gradient_ai groq helicone heroku hosted_vllm
hostinger_router huggingface humanloop hyperbolic inception inferenceapis infinity
jina_ai kyma lambda_ai langflow langfuse langgraph laya lemonade libertai litellm_agent
litellm_proxy llamafile lm_studio manus maritalk meta meta_llama microsoft_365_copilot
milvus minimax mistral modelscope mongodb moonshot morph nace nadir nano-gpt nebius
neosantara nlp_cloud novita nscale nvidia_nim nvidia_riva oci ollama ollama_chat
oobabooga openai openai_like opencode_go openinfer openrouter opensearch ovhcloud
parallel_ai parasail perplexity petals pg_vector pinstripes poe predibase prism publicai
qwen_ai_platform qwencloud ragflow recraft reducto refuseless reka replicate runwayml
s3_vectors sagemaker sagemaker_chat sagemaker_nova sail sambanova sap scaledown scaleway
scx-ai snowflake soniox stability strands_decider streamlake synthetic tencent
tensormesh text-completion-codestral text-completion-inception text-completion-openai
together_ai topaz transcribe triton typesafe v0 valkey vercel_ai_gateway vertex_ai
vertex_ai_beta vllm volcengine voyage wally wandb watsonx watsonx_text xai xiaomi_mimo
xinference zai zerogpu
"""
PROVIDERS = frozenset(_NAMES.split())


def known() -> frozenset[str]:
    """All prefixes that can be used: litellm's, and those that a person registered with it."""
    litellm = sys.modules.get("litellm")
    registered = getattr(litellm, "custom_provider_map", ())
    return PROVIDERS | {str(each["provider"]).lower() for each in registered}


def is_known(provider: str) -> bool:
    """Whether litellm can tell what ``provider`` is."""
    return provider in known()


def suggestion(environ: Mapping[str, str]) -> str:
    """Which model could be used here, in a sentence."""
    for provider, model in SUGGESTED.items():
        config = {"model": model}
        if credentials.key_of(config, environ):
            return f"There is a key for {provider}: try {model!r}."
    variables = [credentials.VARIABLES[each][0] for each in list(SUGGESTED)[:3]]
    return (
        f"Set a key, such as {' or '.join(variables)}, and name a model, such as "
        f"{SUGGESTED['anthropic']!r}; with a server of your own, 'ollama_chat/NAME' or "
        "'openai/NAME'."
    )


def price_in_words(model: str) -> str:
    """What a million tokens of ``model`` cost, read and written, as far as that is known."""
    facts = facts_of(model)
    read, written = (facts.get(f"{way}_cost_per_token") for way in ("input", "output"))
    if read is None or written is None:
        return "price unknown"
    if not read and not written:
        return "no price per token"
    return f"{dollars(read * 1e6)} a million tokens read, {dollars(written * 1e6)} written"


def facts_of(model: str) -> Mapping[str, Any]:
    """What the file of prices says of a model; nothing where it does not know it."""
    known = _facts()
    found: Mapping[str, Any] = known.get(model) or known.get(model.partition("/")[2]) or {}
    return found


@cache
def _facts() -> Mapping[str, Mapping[str, Any]]:
    spec = importlib.util.find_spec("litellm")
    try:
        file = Path(spec.origin if spec and spec.origin else "").with_name(_PRICES)
        facts: dict[str, Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts
