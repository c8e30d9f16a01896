"""Proxies and certificates, as the environment sets them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from parsimony_kernel.doctor.finding import Finding, doubtful, well, wrong

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
_LOCAL = ("localhost", "127.0.0.1")
# As litellm reads it.
_OFF, _ON = "false", "true"


def findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    yield _proxy(environ)
    yield from (_bundle(name, environ[name]) for name in _BUNDLES if environ.get(name))
    if environ.get("SSL_VERIFY"):
        yield _verification(environ["SSL_VERIFY"])


def without_credentials(url: str) -> str:
    """``url`` without the name and password, the query and the fragment."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
    except ValueError:
        return "an address that cannot be read"
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme else f"{place}{parts.path}"


def _proxy(environ: Mapping[str, str]) -> Finding:
    there = {name: value for name in _PROXIES if (value := _either(environ, name))}
    if not there:
        return well("proxy", "none is set")
    says = ", ".join(f"{name} is {without_credentials(url)}" for name, url in there.items())
    spared = set(re.split(r"[\s,]+", _either(environ, "NO_PROXY").lower()))
    missing = [] if "*" in spared else [name for name in _LOCAL if name not in spared]
    if missing:
        return doubtful(
            "proxy",
            f"{says}; NO_PROXY lacks {' and '.join(missing)}, where local models are",
            f"Add {','.join(missing)} to NO_PROXY.",
        )
    return well("proxy", says)


def _either(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.lower()) or environ.get(name) or ""


def _bundle(name: str, value: str) -> Finding:
    place = Path(value)
    if place.is_file() or (name == "REQUESTS_CA_BUNDLE" and place.is_dir()):
        return well("certificates", f"{name} is {value}")
    return wrong(
        "certificates",
        f"{name} is {value!r}, where there is no file",
        f"Set {name} to a file of certificates in PEM form, or unset it.",
    )


def _verification(value: str) -> Finding:
    if value.strip().lower() == _OFF:
        return doubtful(
            "certificates",
            "SSL_VERIFY is off: anyone in between can read keys and data",
            "Unset SSL_VERIFY, and set SSL_CERT_FILE to your organisation's certificates.",
        )
    if value.strip().lower() == _ON or Path(value).exists():
        return well("certificates", f"SSL_VERIFY is {value}")
    return wrong(
        "certificates",
        f"SSL_VERIFY is {value!r}, which is no file and neither True nor False",
        "Unset it, or set it to a file of certificates in PEM form.",
    )
