"""Providers and models: their keys, their servers' addresses, and what litellm knows of them.

Of keys and addresses this holds the names of the environment variables only: a key is looked up to
check that it is set and to redact it, and is never stored. Providers that aren't listed aren't
checked; litellm reports what they lack.

Facts are read from litellm's files without importing it: the import takes seconds.
"""

import importlib.util
import ipaddress
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from parsimony_kernel.limits.budget import dollars


@dataclass(frozen=True)
class Provider:
    """A provider's variables for keys and addresses; see ``providers.toml``."""

    keys: Sequence[str]
    bases: Sequence[str] = ()
    default: str | None = None
    is_own: bool = False
    families: Sequence[str] = ()
    suggested: str | None = None


PROVIDERS = {
    name: Provider(**row)
    for name, row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}


def provider_of(model: str) -> str | None:
    """Return the provider of ``model``, by its prefix or a known model family; else ``None``."""
    prefix, slash, _ = model.partition("/")
    if slash:
        return prefix.lower()
    starts = ((name, tuple(known.families)) for name, known in PROVIDERS.items())
    return next((name for name, families in starts if model.startswith(families)), None)


def known_provider(model: object) -> Provider:
    """Look up the provider of ``model``; one without any variables if it isn't listed."""
    return PROVIDERS.get(provider_of(str(model)) or "", Provider(keys=()))


def base_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """Return the address for requests: configured, from the environment, or a server's default."""
    configured = config.get("api_base") or config.get("base_url")
    if configured:
        return str(configured)
    provider = known_provider(config.get("model", ""))
    return next(filter(None, map(environ.get, provider.bases)), provider.default)


def key_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """Return the API key of requests, as far as it is known without litellm."""
    if config.get("api_key"):
        return str(config["api_key"])
    keys = known_provider(config.get("model", "")).keys
    return next(filter(None, map(environ.get, keys)), None)


def missing_base(model: str, environ: Mapping[str, str]) -> str | None:
    """Return the unset variable for the server address of ``model``; ``None`` if none is needed."""
    provider = known_provider(model)
    if not provider.is_own or base_of({"model": model}, environ):
        return None
    return provider.bases[0]


def missing_variable(config: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """Return the unset environment variable for the key; ``None`` if no key is missing.

    An endpoint on this machine needs no key.
    """
    provider = known_provider(config.get("model", ""))
    if provider.is_own or not provider.keys:
        return None
    if key_of(config, environ) or is_loopback(base_of(config, environ)):
        return None
    return provider.keys[0]


# A value under such a name is a secret, however short.
_SECRET_NAME = re.compile(
    r"(?:key|token|secret|password|passphrase|credentials?|authorization|cookie)$", re.IGNORECASE
)
# Any header may hold a gateway's credentials, except these.
_HEADERS = frozenset({"headers", "extra_headers", "default_headers"})
_OPEN = "accept content-type http-referer referer user-agent x-title"
_OPEN_HEADERS = frozenset(_OPEN.split())
# A shorter value of a header without a secret's name is no secret.
_SECRET_LENGTH = 6


def secrets_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secret values: the API key and the secrets in ``config``.

    These are, at any depth, values with a secret's name, every header except the public ones, and
    passwords in addresses.
    """
    found = {key} if (key := key_of(config, environ)) else set()
    found.update(_secrets_in(config))
    return tuple(sorted(found))


def _secrets_in(config: Mapping[Any, Any], *, headers: bool = False) -> Iterator[str]:
    for name, value in config.items():
        named = _SECRET_NAME.search(str(name)) is not None
        if isinstance(value, Mapping):
            yield from _secrets_in(value, headers=headers or str(name).lower() in _HEADERS)
        elif isinstance(value, str):
            in_header = headers and str(name).lower() not in _OPEN_HEADERS
            # Also without the scheme, such as Bearer, since servers echo it that way.
            words = {value, value.rpartition(" ")[2]} if named or in_header else set()
            yield from (word for word in words if word and (named or len(word) >= _SECRET_LENGTH))
            if password := _password_in(value):
                yield password


def _password_in(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None


def is_loopback(url: str | None) -> bool:
    """Whether ``url`` is a loopback address."""
    try:
        host = urlsplit(url or "").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
    suggested = {name: each for name, each in PROVIDERS.items() if each.suggested}
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
