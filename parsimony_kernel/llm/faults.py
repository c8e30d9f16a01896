"""What a provider's exception means.

One table, most specific row first, and one function that reads it. Exceptions are told apart by
the names of their classes and by their attributes along the whole cause chain, so nothing here
imports a client library, and a row holds for whichever client raised. ``litellm`` wraps, renames
and invents on the way (a reset becomes a 500, a 503 a ``BadRequestError``), hence a status counts
before a class, and a status that only litellm claims counts for nothing once the connection broke.

A failure that leaves here carries no key: every foreign word in it went through ``scrub``.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from parsimony_kernel.agent.failure.causes import (
    ANSWER_REFUSED,
    CAPABILITY_GAP,
    CONTEXT_EXCEEDED,
    PROVIDER_FAULT,
    Cause,
)
from parsimony_kernel.agent.failure.kinds import Failure, FailureRaised
from parsimony_kernel.llm.redaction import scrub

_SAID_LENGTH = 300


@dataclass(frozen=True)
class Row:
    """One meaning: any of names, codes, statuses or phrases is enough.

    ``sentence`` may hold ``{status}`` (such as " (status 503)", or nothing), ``{said}`` (": " and
    the provider's own words, or nothing) and ``{name}`` (the exception's class). ``remedy`` is
    what a person can do; a row with one has the sentence as its blocker.
    """

    cause: Cause
    sentence: str
    names: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    phrases: re.Pattern[str] | None = None
    remedy: str = ""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _any(*phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases), re.IGNORECASE)


_BROKEN = _set(
    "ConnectionError APIConnectionError NetworkError TransportError ProtocolError "
    "RemoteProtocolError ClientConnectionError ClientPayloadError ServerDisconnectedError "
    "IncompleteRead gaierror MidStreamFallbackError StreamBroken CancelledError"
)
_UNREADABLE = _set("JSONDecodeError APIResponseValidationError")

TABLE: tuple[Row, ...] = (
    Row(
        CAPABILITY_GAP,
        "The model's client library cannot be used{said}.",
        names=_set("ImportError"),
        phrases=_any(r"\bNo module named "),
        remedy="Install what is missing into the kernel's environment, or reinstall litellm.",
    ),
    Row(
        CAPABILITY_GAP,
        "The provider's certificate could not be verified.",
        names=_set("SSLCertVerificationError ClientConnectorCertificateError"),
        phrases=_any("CERTIFICATE_VERIFY_FAILED"),
        remedy="Point SSL_CERT_FILE to the certificates that your network uses.",
    ),
    Row(
        CONTEXT_EXCEEDED,
        "The request is longer than the model's context{status}.",
        names=_set("ContextWindowExceededError"),
        codes=_set("context_length_exceeded request_too_large"),
        statuses=frozenset({413}),
        phrases=_any(
            r"maximum context length",
            r"context[ _](length|window)[^.]{0,40}exceed",
            r"exceed[^.]{0,40}context (length|window)",
            r"prompt is too long",
            r"request too large for",
            r"input token count[^.]{0,60}exceeds",
        ),
    ),
    Row(
        ANSWER_REFUSED,
        "The provider refused the request under its content policy{status}.",
        names=_set("ContentPolicyViolationError RejectedRequestError"),
        codes=_set(
            "content_policy_violation content_filter responsibleaipolicyviolation "
            "data_inspection_failed prohibited_content"
        ),
        phrases=_any(r"content management policy", r"content[ _]policy[ _]violation"),
    ),
    Row(
        CAPABILITY_GAP,
        "The account's quota or credit at the provider is used up{status}.",
        names=_set("BudgetExceededError"),
        codes=_set(
            "insufficient_quota billing_hard_limit_reached billing_not_active insufficient_balance"
        ),
        statuses=frozenset({402}),
        # Gemini says "exceeded your current quota" of a minute's limit: only the code is telling.
        phrases=_any(r"credit balance is too low"),
        remedy="Check the account's billing, or choose another model.",
    ),
    Row(
        CAPABILITY_GAP,
        "No API key was given for the model.",
        phrases=_any(
            r"\bmissing credentials\b", r"\bmissing \w+ api key\b", r"api_key client option must"
        ),
        remedy="Set the provider's environment variable to a key, then start the turn again.",
    ),
    Row(
        CAPABILITY_GAP,
        "The provider did not accept the API key{status}.",
        # The provider's words are left out: some echo the key.
        names=_set("AuthenticationError"),
        codes=_set("invalid_api_key authentication_error api_key_invalid"),
        statuses=frozenset({401}),
        phrases=_any(r"api key not valid"),
        remedy="Set the provider's environment variable to a valid key, then start the turn again.",
    ),
    Row(
        CAPABILITY_GAP,
        "The API key may not use this model or this endpoint{status}.",
        names=_set("PermissionDeniedError"),
        codes=_set("permission_error"),
        statuses=frozenset({403}),
        remedy="Ask the provider for access, or choose another model.",
    ),
    Row(
        CAPABILITY_GAP,
        "The model's name does not say which provider it belongs to.",
        names=_set("LiteLLMUnknownProvider"),
        phrases=_any(r"LLM Provider NOT provided"),
        remedy="Write provider/model, such as openai/gpt-5.",
    ),
    Row(
        CAPABILITY_GAP,
        "The provider does not know the model{status}{said}.",
        names=_set("NotFoundError"),
        codes=_set("model_not_found deploymentnotfound not_found_error"),
        statuses=frozenset({404, 410}),
        remedy="Check the model's name, written provider/model, and the address of the endpoint.",
    ),
    Row(
        PROVIDER_FAULT,
        "The provider limits the rate of requests{status}.",
        names=_set("RateLimitError"),
        codes=_set("rate_limit_error rate_limit_exceeded resource_exhausted"),
        statuses=frozenset({429}),
    ),
    Row(
        PROVIDER_FAULT,
        "The provider did not answer in time{status}.",
        names=_set("Timeout TimeoutError TimeoutException APITimeoutError"),
        statuses=frozenset({408, 504}),
    ),
    Row(
        PROVIDER_FAULT,
        "The provider has a fault of its own{status}.",
        codes=_set("overloaded_error server_error"),
        statuses=frozenset({425, 500, 502, 503, *range(520, 530)}),
    ),
    Row(
        PROVIDER_FAULT,
        "The provider's answer could not be read.",
        names=_UNREADABLE,
    ),
    Row(
        PROVIDER_FAULT,
        "No connection to the provider could be made.",
        names=_set("ConnectError ClientConnectorError ConnectionRefusedError gaierror"),
    ),
    Row(
        PROVIDER_FAULT,
        "The connection to the provider broke off.",
        names=_BROKEN,
    ),
    Row(
        PROVIDER_FAULT,
        "The provider has a fault of its own.",
        names=_set("InternalServerError ServiceUnavailableError BadGatewayError"),
    ),
    Row(
        CAPABILITY_GAP,
        "The provider refused the request{status}{said}.",
        names=_set("BadRequestError UnprocessableEntityError"),
        statuses=frozenset(range(400, 500)),
        remedy="Check the model's settings, or choose another model.",
    ),
    Row(
        CAPABILITY_GAP,
        "The model could not be asked: {name}{said}.",
        names=_set("BaseException"),
        remedy="Choose another model; if it happens again, report it with this sentence.",
    ),
)


def translate(
    exc: BaseException,
    *,
    secrets: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Failure:
    """The failure that ``exc`` means. Never raises, and never returns ``None``.

    Args:
        exc: what a client raised; its causes, contexts and groups are looked at too.
        secrets: values that must not appear in the text, such as a key from the configuration.
        environ: where ``scrub`` finds more of them; the process's environment by default.

    ``metadata`` holds ``type``, ``exception``, and where they are known ``status_code``,
    ``retry_after_s`` (seconds) and ``remedy``.
    """
    chain = tuple(chain_of(exc))
    for link in chain:
        if isinstance(link, FailureRaised):
            return link.failure
    seen = _Evidence.of(chain)
    row = next(row for row in TABLE if seen.meets(row))
    shows_status = "{status}" in row.sentence and seen.status is not None
    said = scrub(seen.said, secrets=secrets, environ=environ)
    sentence = row.sentence.format(
        status=f" (status {seen.status})" if shows_status else "",
        said=f": {said}" if said else "",
        name=type(exc).__name__,
    )
    metadata: dict[str, Any] = {"exception": type(exc).__name__}
    if shows_status:
        metadata["status_code"] = seen.status
    if seen.retry_after_s is not None:
        metadata["retry_after_s"] = seen.retry_after_s
    if row.remedy:
        metadata["remedy"] = row.remedy
    return row.cause.failure(
        f"{sentence} {row.remedy}" if row.remedy else sentence,
        blockers=(sentence,) if row.remedy else (),
        **metadata,
    )


@dataclass(frozen=True)
class _Evidence:
    """What a chain of exceptions shows, outermost first."""

    names: frozenset[str]
    codes: frozenset[str]
    status: int | None
    text: str
    said: str
    retry_after_s: float | None

    @classmethod
    def of(cls, chain: tuple[BaseException, ...]) -> "_Evidence":
        bodies = [body for link in chain if isinstance(body := error_body(link), Mapping)]
        texts = [text_of(link) for link in chain]
        names = frozenset(each.__name__ for link in chain for each in type(link).__mro__)
        wire = [status for link in chain if not _is_wrapper(link) if (status := status_of(link))]
        claimed = [status for link in chain if _is_wrapper(link) if (status := status_of(link))]
        statuses = wire if wire or names & (_BROKEN | _UNREADABLE) else claimed
        waits = (retry_after(link) for link in chain)
        told = next((str(body["message"]) for body in bodies if body.get("message")), None)
        return cls(
            names=names,
            codes=frozenset(
                code.lower()
                for link in (*chain, *bodies)
                for name in ("code", "type", "status")
                if isinstance(
                    code := link.get(name) if isinstance(link, Mapping) else peek(link, name), str
                )
            ),
            status=statuses[0] if statuses else None,
            text="\n".join(texts),
            said=_one_line(told if told is not None else _unwrapped(texts[0])),
            retry_after_s=next((wait for wait in waits if wait is not None), None),
        )

    def meets(self, row: Row) -> bool:
        return bool(
            row.names & self.names
            or row.codes & self.codes
            or self.status in row.statuses
            or (row.phrases is not None and row.phrases.search(self.text))
        )


def chain_of(exc: BaseException) -> Iterator[BaseException]:
    """``exc`` and whatever led to it, each once, nearest first."""
    waiting: list[BaseException] = [exc]
    seen: set[int] = set()
    while waiting:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting.extend(
            each
            for each in (
                # litellm keeps the reason of a broken stream in an attribute.
                peek(link, "original_exception"),
                link.__cause__,
                None if link.__suppress_context__ else link.__context__,
                *(link.exceptions if isinstance(link, BaseExceptionGroup) else ()),
            )
            if isinstance(each, BaseException)
        )


def peek(thing: object, name: str) -> Any:
    """An attribute, or ``None`` where there is none or it breaks."""
    try:
        return getattr(thing, name, None)
    except Exception:  # a foreign property may do anything, and its trouble is not the news
        return None


def text_of(exc: BaseException) -> str:
    """The exception's words, without a traceback in them; empty where they cannot be had."""
    try:
        # litellm writes whole tracebacks into its messages; they are neither words nor evidence.
        return str(exc).partition("Traceback (most recent call last)")[0]
    except Exception:  # the same holds for a foreign __str__
        return ""


def _is_wrapper(exc: BaseException) -> bool:
    return type(exc).__module__.partition(".")[0] == "litellm"


def status_of(exc: BaseException) -> int | None:
    """The HTTP status of an error that ``exc`` carries."""
    for status in (peek(exc, "status_code"), peek(peek(exc, "response"), "status_code")):
        if isinstance(status, int) and 400 <= status <= 599:
            return int(status)
    return None


def error_body(exc: BaseException) -> Any:
    """The body of the error response, its ``error`` member where it has one."""
    body = peek(exc, "body")
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        return body["error"]
    return body


def retry_after(exc: BaseException) -> float | None:
    """Seconds that the provider asks to wait, from any of the places where clients keep headers.

    A date is measured against the ``Date`` of the same response, so no clock is read.
    """
    for source in (
        peek(peek(exc, "response"), "headers"),
        peek(exc, "litellm_response_headers"),
        peek(exc, "headers"),
    ):
        try:
            headers = {str(name).lower(): str(value) for name, value in dict(source or {}).items()}
        except (TypeError, ValueError):
            continue
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            try:
                wait = float(headers[name]) * unit
            except (KeyError, ValueError):
                continue
            if math.isfinite(wait):
                return max(0.0, wait)
        try:
            until = parsedate_to_datetime(headers["retry-after"])
            return max(0.0, (until - parsedate_to_datetime(headers["date"])).total_seconds())
        except (KeyError, TypeError, ValueError):
            continue
    return None


_WRAPPING = re.compile(r"^(?:(?:litellm\.)?[A-Za-z]*(?:Error|Exception|Timeout)\s*(?::|-)\s*)+")


def _unwrapped(text: str) -> str:
    return _WRAPPING.sub("", text)


def _one_line(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= _SAID_LENGTH else line[:_SAID_LENGTH].rstrip() + "…"
