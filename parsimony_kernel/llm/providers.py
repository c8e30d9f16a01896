"""The providers that litellm knows, by the prefix of a model's name.

Written down, because asking litellm costs seconds; a test compares them.
"""

import sys

_NAMES = """
a2a a2a_agent ai21 ai21_chat aiml aiohttp_openai amazon_nova anthropic anthropic_text
anyscale apertis assemblyai auto_router aws_polly aws_textract azure azure_ai azure_speech
azure_text baseten bedrock bedrock_mantle black_forest_labs bytez cerebras charity_engine
chatgpt chutes clarifai cloudflare codestral cognition cohere cohere_chat cometapi
compactifai cortecs cursor custom custom_openai darkbloom dashscope databricks datarobot
deepgram deepinfra deepseek docker_model_runner dotprompt edenai elevenlabs empower fal_ai
featherless_ai fireworks_ai friendliai galadriel gdc gemini gigachat github github_copilot
gradient_ai groq helicone heroku hosted_vllm huggingface humanloop hyperbolic inception
infinity jina_ai lambda_ai langflow langfuse langgraph lemonade libertai litellm_agent
litellm_proxy llamafile lm_studio manus maritalk meta meta_llama milvus minimax mistral
modelscope mongodb moonshot morph nadir nano-gpt nebius neosantara nlp_cloud novita nscale
nvidia_nim nvidia_riva oci ollama ollama_chat oobabooga openai openai_like openrouter
ovhcloud parasail perplexity petals pg_vector pinstripes poe predibase prism publicai
qwen_ai_platform qwencloud ragflow recraft reducto replicate runwayml s3_vectors sagemaker
sagemaker_chat sagemaker_nova sail sambanova sap scaleway scx-ai snowflake soniox stability
strands_decider synthetic tencent tensormesh text-completion-codestral
text-completion-inception text-completion-openai together_ai topaz transcribe triton typesafe
v0 valkey vercel_ai_gateway vertex_ai vertex_ai_beta vllm volcengine voyage wandb watsonx
watsonx_text xai xiaomi_mimo xinference zai
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
