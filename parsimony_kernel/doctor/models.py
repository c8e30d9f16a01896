"""Whether the model can work, and, when that is asked for, what its endpoint says."""

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from parsimony_kernel.agent.resolve import PARAMETERS, check_model, names_in
from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.doctor.machine import Check, failed, passed, warning, without_credentials
from parsimony_kernel.llm import chokepoint, credentials
from parsimony_kernel.llm.providers import price_in_words, suggestion

_OPENAI = "https://api.openai.com/v1"
_LISTED = 5
_MOST_BYTES = 4 * 2**20


def checks(
    model: str | None, environ: Mapping[str, str], *, ask: bool, timeout_s: float
) -> Iterator[Check]:
    named = model or environ.get("PARSIMONY_MODEL") or OFFLINE
    for name in names_in(named, environ) or (named,):
        failure = check_model(name, environ)
        if failure is not None:
            remedy = str(failure.metadata.get("remedy", ""))
            says = failure.explanation.removesuffix(remedy).strip()
            yield failed("model", says, remedy or "Choose another model, or 'offline'.")
            continue
        # With its price; how to have another one, where none is set.
        built_in = f"built-in rules and no LLM. {suggestion(environ)}"
        said = built_in if name == OFFLINE else price_in_words(name)
        yield passed("model", f"{name}, {said}")
        if (credentials.provider_of(name) or "").startswith("ollama"):
            yield from _context(environ)
        if name != OFFLINE:
            yield from _endpoint(name, environ, ask, timeout_s)


def _context(environ: Mapping[str, str]) -> Iterator[Check]:
    """Whether somebody has said how long a prompt Ollama takes: it cuts a longer one silently."""
    told = environ.get(PARAMETERS, "")
    if "num_ctx" in told or environ.get("OLLAMA_CONTEXT_LENGTH"):
        yield passed("context", "the length of a prompt is set")
    else:
        yield warning(
            "context",
            "Ollama cuts a prompt silently at its num_ctx, often 4,096 tokens; a turn needs more",
            f"Set {PARAMETERS}=num_ctx=16384, or OLLAMA_CONTEXT_LENGTH for the server.",
        )


def _endpoint(
    model: str, environ: Mapping[str, str], ask: bool, timeout_s: float
) -> Iterator[Check]:
    base = credentials.base_of({"model": model}, environ)
    if base is None and credentials.provider_of(model) == "openai":
        base = _OPENAI
    if base is None:
        if ask:
            yield passed("endpoint", f"{model!r} has no address of its own here: it was not asked")
        return
    shown = without_credentials(base)
    if not base.lower().startswith(("http://", "https://")):
        remedy = "Write it with http:// or https:// before it."
        yield failed("endpoint", f"{shown} is no address of a server", remedy)
        return
    is_here = credentials.is_loopback(base)
    if is_here and not _listens(base, timeout_s):
        yield failed("endpoint", f"nothing listens at {shown}", _start(model))
    elif not ask:
        told = "something listens at" if is_here else "with --try it is asked:"
        yield passed("endpoint", f"{told} {shown}")
    elif not is_here and not chokepoint.live_calls_allowed(environ):
        remedy = "Unset PARSIMONY_LIVE_CALLS to have it asked."
        yield warning("endpoint", f"{shown} was not asked: live calls are switched off", remedy)
    else:
        yield _asked(model, base, environ, timeout_s)


def _start(model: str) -> str:
    provider = credentials.known_provider(model)
    variable = provider.bases[0] if provider and provider.bases else "OPENAI_BASE_URL"
    return f"Start the server, or set {variable} to where it is."


def _listens(base: str, timeout_s: float) -> bool:
    try:
        parts = urlsplit(base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout_s).close()
    except (OSError, ValueError):
        return False
    return True


def _asked(model: str, base: str, environ: Mapping[str, str], timeout_s: float) -> Check:
    import httpx  # deferred: seldom asked for

    is_ollama = (credentials.provider_of(model) or "").startswith("ollama")
    url = base.rstrip("/") + ("/api/tags" if is_ollama else "/models")
    shown = without_credentials(url)
    key = credentials.key_of({"model": model}, environ)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    through_proxies = not credentials.is_loopback(base)
    try:
        # A key goes to the address that a person set, and nowhere else: no redirection is followed.
        with httpx.stream(
            "GET", url, headers=headers, timeout=timeout_s, trust_env=through_proxies
        ) as told:
            # The end of a longer list, or of one that never ends, is not read.
            listed = next(told.iter_bytes(_MOST_BYTES), b"") if told.is_success else b""
    except httpx.TimeoutException:
        return failed(
            "endpoint",
            f"{shown} gave no answer in {timeout_s:g} s",
            "See whether the server is still loading, and whether a proxy is in between.",
        )
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as problem:
        return _unreached(shown, problem)
    if told.status_code != httpx.codes.OK:
        return _refused(model, shown, told.status_code)
    try:
        models = _ids(json.loads(listed))
    except ValueError:
        return failed("endpoint", f"{shown} answers, but with no list of models", _path(model))
    wanted = model.partition("/")[2] or model
    if wanted in models or f"{wanted}:latest" in models:
        return passed("endpoint", f"{shown} answers and has {wanted!r}")
    some = ", ".join(map(repr, models[:_LISTED])) or "none"
    more = f" and {len(models) - _LISTED} more" if len(models) > _LISTED else ""
    return failed(
        "endpoint",
        f"{shown} answers without {wanted!r}; it has {some}{more}",
        "Choose one of these, or load the model there.",
    )


def _ids(answer: Any) -> list[str]:
    """The models in an answer of OpenAI's form or of Ollama's; ``ValueError`` for any other."""
    try:
        listed = answer["data"] if "data" in answer else answer["models"]
        return [str(each.get("id") or each["name"]) for each in listed]
    except (AttributeError, KeyError, TypeError) as problem:
        raise ValueError("no list of models") from problem


def _refused(model: str, shown: str, status: int) -> Check:
    says = f"{shown} answers with the status {status}"
    if status not in {401, 403}:
        return failed("endpoint", says, _path(model))
    provider = credentials.known_provider(model)
    names = " or ".join(provider.keys if provider is not None else ()) or "the key"
    remedy = f"Set {names} to a key that this endpoint accepts."
    return failed("endpoint", f"{says}: the key is refused or missing", remedy)


def _path(model: str) -> str:
    if (credentials.provider_of(model) or "").startswith("ollama"):
        return "OLLAMA_API_BASE is the server without a path, such as http://localhost:11434."
    return "Look at the address: for most servers it ends in /v1."


def _unreached(shown: str, problem: Exception) -> Check:
    if "CERTIFICATE_VERIFY_FAILED" in str(problem):
        return failed(
            "endpoint",
            f"the certificate of {shown} is not trusted here",
            "Set SSL_CERT_FILE to the file with your organisation's certificates.",
        )
    return failed(
        "endpoint",
        f"{shown} cannot be reached ({type(problem).__name__})",
        "Look at the address, and at HTTPS_PROXY and NO_PROXY.",
    )
