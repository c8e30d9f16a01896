"""Which environment variable holds which provider's key, and which a local server's address.

Names only: a key is looked up to know that it is there and to keep it out of texts, and is never
stored. A provider that is not listed is not judged; litellm will say what it lacks.
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
    """Where a provider is and what opens it; see ``credentials.toml``."""

    keys: Sequence[str]
    bases: Sequence[str] = ()
    default: str | None = None
    is_own: bool = False
    families: Sequence[str] = ()
    suggested: str | None = None


PROVIDERS = {
    name: Provider(**told)
    for name, told in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}


def provider_of(model: str) -> str | None:
    """The provider that ``model`` names by prefix or by a well-known family; else ``None``."""
    prefix, slash, _ = model.partition("/")
    if slash:
        return prefix.lower()
    starts = ((name, tuple(known.families)) for name, known in PROVIDERS.items())
    return next((name for name, families in starts if model.startswith(families)), None)


def known_provider(model: str) -> Provider | None:
    """What is known of the provider of ``model``; ``None`` for one that is not judged."""
    return PROVIDERS.get(provider_of(model) or "")


def base_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The address that requests go to: configuration, environment, a local server's default."""
    configured = config.get("api_base") or config.get("base_url")
    if configured:
        return str(configured)
    provider = known_provider(str(config.get("model", "")))
    if provider is None:
        return None
    return next(filter(None, map(environ.get, provider.bases)), provider.default)


def key_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The key that requests will carry, as far as can be known without asking litellm."""
    if config.get("api_key"):
        return str(config["api_key"])
    provider = known_provider(str(config.get("model", "")))
    names = () if provider is None else provider.keys
    return next(filter(None, map(environ.get, names)), None)


def missing_base(model: str, environ: Mapping[str, str]) -> str | None:
    """The variable that must hold the address of ``model``'s server and does not."""
    provider = known_provider(model)
    if provider is None or not provider.is_own or base_of({"model": model}, environ):
        return None
    return provider.bases[0]


def missing_variable(config: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The environment variable that should hold the key and does not; ``None`` when all is well.

    An endpoint on this machine needs no key.
    """
    provider = known_provider(str(config.get("model", "")))
    if provider is None or provider.is_own:
        return None
    if key_of(config, environ) or is_loopback(base_of(config, environ)):
        return None
    return provider.keys[0]


# A value under such a name is a secret, however short.
_SECRET_NAME = re.compile(
    r"(?:key|token|secret|password|passphrase|credentials?|authorization|cookie)$", re.IGNORECASE
)
# Any header may be what opens a gateway, but these say nothing in confidence.
_HEADERS = frozenset({"headers", "extra_headers", "default_headers"})
_OPEN = "accept content-type http-referer referer user-agent x-title"
_OPEN_HEADERS = frozenset(_OPEN.split())
# A shorter value of a header whose name does not tell is no secret.
_SECRET_LENGTH = 6


def secrets_of(config: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values that no text may show: the key, and what ``config`` holds like one.

    Those are the values under a name like a key's, at any depth, every header but the well-known
    open ones, and the password in an address.
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
            # Without the scheme too, such as Bearer: that is how it is echoed.
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
    """Whether ``url`` is an address of this machine."""
    try:
        host = urlsplit(url or "").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
