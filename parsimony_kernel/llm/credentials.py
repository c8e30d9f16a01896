"""The environment variables of provider keys and local server addresses.

Holds names only: a key is looked up to check that it is set and to redact it, and is never stored.
Providers that aren't listed aren't checked; litellm reports what they lack.
"""

import ipaddress
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Provider:
    """A provider's variables for keys and addresses; see ``credentials.toml``."""

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
