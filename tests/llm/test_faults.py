"""Each shape of a provider's exception has one meaning, and no text that leaves holds a key."""

import socket
import ssl
import warnings
from typing import Any

import pytest

from parsimony_kernel.core.error_table import ROWS
from parsimony_kernel.core.kinds import Failure, FailureKind, FailureRaised, FailureType
from parsimony_kernel.llm import litellm_model
from parsimony_kernel.llm.faults import translate

TRANSIENT = FailureKind.transient_provider
GAP = FailureKind.capability_gap
OVERFLOW = FailureKind.scope_too_large
REFUSED = FailureKind.output_refused


class Response:
    def __init__(self, status_code: int, headers: dict[str, str] | None = None) -> None:
        self.status_code = status_code
        self.headers = headers or {}


def shaped(
    name: str, text: str = "", /, bases: tuple[type, ...] = (Exception,), **given: Any
) -> Any:
    """An exception of a class called ``name``, as some client might define it."""
    exc = type(name, bases, {})(text)
    for attribute, value in given.items():
        setattr(exc, attribute, value)
    return exc


def caused(outer: BaseException, cause: BaseException) -> BaseException:
    outer.__cause__ = cause
    return outer


def during(outer: BaseException, context: BaseException) -> BaseException:
    outer.__context__ = context
    return outer


def status(number: int, words: str = "", **given: Any) -> Any:
    return shaped("E", words, status_code=number, **given)


MISSING = ImportError("boto3")
TYPES = {
    TRANSIENT: FailureType.EXTERNAL_FAULT,
    GAP: FailureType.UNKNOWN,
    OVERFLOW: FailureType.CONTEXT_OVERFLOW,
    REFUSED: FailureType.CONSTRAINT_IGNORED,
}
# Shapes without a client library, by what each of them means.
SHAPES: dict[FailureKind, dict[str, BaseException]] = {
    TRANSIENT: {
        **{f"status {code}": status(code) for code in (408, 429, 500, 502, 503, 504, 529)},
        "status of a response": shaped("E", response=Response(503)),
        "reset": ConnectionResetError(104, "reset by peer"),
        "refused": ConnectionRefusedError(111, "refused"),
        "name service": socket.gaierror(-2, "unknown"),
        "timeout": TimeoutError(),
        "overloaded event": shaped("APIError", body={"type": "overloaded_error", "message": "x"}),
        "bedrock throttles tokens": status(429, "Too many tokens, please wait."),
        "gemini's limit per minute": status(429, "You exceeded your current quota"),
        # Where neither a class nor a status says anything, the text may, but only of weather.
        "limit in words": RuntimeError("429 Too Many Requests"),
        "deadline in words": RuntimeError("deadline exceeded"),
        "a group": ExceptionGroup("several", [status(429)]),
    },
    GAP: {
        **{f"status {code}": status(code) for code in (400, 401, 402, 403, 404, 422)},
        "used up": status(429, code="insufficient_quota"),
        "missing package": ModuleNotFoundError("No module named 'mcp'"),
        "missing package below a connection error": caused(status(500), MISSING),
        "missing package in the context": during(status(500), MISSING),
        "missing package told in words only": shaped(
            "APIConnectionError", "litellm.APIConnectionError: No module named 'mcp'"
        ),
        "certificate": ssl.SSLCertVerificationError("self-signed"),
        "no key": shaped("OpenAIError", "Missing credentials. Please pass an `api_key`"),
        "gemini's bad key": status(400, "API key not valid. Please pass one."),
        "no provider": status(400, "LLM Provider NOT provided. You passed x"),
        "credit": status(400, "Your credit balance is too low to access the API"),
        "unknown": ZeroDivisionError("division by zero"),
        "mistake in words": RuntimeError("unexpected keyword argument"),
        "number of a key": KeyError("429"),
        "storage of ours": shaped("StorageError", "disk full"),
    },
    OVERFLOW: {
        "openai's window": status(400, body={"error": {"code": "context_length_exceeded"}}),
        "anthropic's window": status(400, "prompt is too long: 210000 tokens > 200000 maximum"),
        "gemini's window": status(400, "The input token count (120) exceeds the maximum number"),
        "bedrock's window": status(400, "Input is too long for requested model."),
        "status 413": status(413),
    },
    REFUSED: {"azure's filter": status(400, "triggered Azure's content management policy")},
}


@pytest.mark.parametrize(
    ("exc", "kind"),
    [
        pytest.param(exc, kind, id=name)
        for kind, shapes in SHAPES.items()
        for name, exc in shapes.items()
    ],
)
def test_error_shape_has_one_meaning(exc: BaseException, kind: FailureKind) -> None:
    failure = translate(exc, environ={})
    assert (failure.kind, failure.type) == (kind, TYPES[kind]), failure.explanation
    if kind is GAP:
        assert failure.blockers
        assert failure.metadata["remedy"] in failure.explanation


@pytest.fixture(scope="module")
def litellm() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what litellm warns of at import is its own affair
        return litellm_model.import_litellm()


BY = ("openai", "gpt-5")  # the provider and the model of most of them
REAL: list[tuple[str, tuple[Any, ...], FailureKind, int | None]] = [
    ("RateLimitError", ("slow", *BY), TRANSIENT, 429),
    ("InternalServerError", ("boom", *BY), TRANSIENT, 500),
    ("ServiceUnavailableError", ("boom", *BY), TRANSIENT, 503),
    ("BadGatewayError", ("boom", *BY), TRANSIENT, 502),
    ("APIError", (500, "boom", *BY), TRANSIENT, 500),
    ("Timeout", ("late", *BY[::-1]), TRANSIENT, None),
    # litellm calls a connection that failed a 500, which nobody ever sent.
    ("APIConnectionError", ("gone", *BY), TRANSIENT, None),
    ("APIResponseValidationError", ("odd", *BY), TRANSIENT, None),
    ("MidStreamFallbackError", ("cut", *BY[::-1]), TRANSIENT, None),
    ("AuthenticationError", ("no", *BY), GAP, 401),
    ("NotFoundError", ("no model", *BY[::-1]), GAP, 404),
    ("BadRequestError", ("bad", *BY[::-1]), GAP, 400),
    ("UnsupportedParamsError", ("no tools", "openai"), GAP, 400),
    ("BudgetExceededError", (2.0, 1.0), GAP, None),
    ("ContextWindowExceededError", ("long", *BY[::-1]), OVERFLOW, 400),
    ("ContentPolicyViolationError", ("no", *BY[::-1]), REFUSED, 400),
]


@pytest.mark.parametrize(("name", "given", "kind", "status"), REAL, ids=[r[0] for r in REAL])
def test_litellm_exceptions_are_classified(
    litellm: Any, name: str, given: tuple[Any, ...], kind: FailureKind, status: int | None
) -> None:
    failure = translate(getattr(litellm.exceptions, name)(*given), environ={})
    assert failure.kind is kind, failure.explanation
    if status is not None:
        assert failure.metadata["status_code"] == status
    elif failure.kind is TRANSIENT:
        assert failure.metadata.get("status_code") in (None, 429)


def test_every_litellm_exception_has_a_row(litellm: Any) -> None:
    """A new class of litellm's shows here, before it shows to a person as 'could not be asked'."""
    rows = [row for row in ROWS.values() if row.asked != "tool"]
    named = frozenset().union(*(row.marks | row.weak | row.behind for row in rows))
    strangers = {
        exc.__name__
        for exc in litellm.LITELLM_EXCEPTION_TYPES
        if not named & {each.__name__ for each in exc.__mro__}
    }
    told_by_their_status = {"APIError", "OpenAIError"}
    assert strangers <= told_by_their_status | {"GuardrailRaisedException", "BlockedPiiEntityError"}


def test_every_provider_row_has_a_sentence() -> None:
    told = {row.name for row in ROWS.values() if row.sentence}
    assert told == {row.name for row in ROWS.values() if row.asked != "tool"} | {"deadline"}


DAY = "Fri, 02 Jan 2026"
WAITS: list[tuple[dict[str, str], float | None]] = [
    ({"Retry-After": "7"}, 7.0),
    ({"retry-after": "0.5"}, 0.5),
    ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ({"retry-after": "-3"}, 0.0),
    ({"retry-after": f"{DAY} 00:00:30 GMT", "date": f"{DAY} 00:00:00 GMT"}, 30.0),
    ({"retry-after": f"{DAY} 00:00:30 GMT"}, None),
    ({"retry-after": "soon"}, None),
    ({"retry-after": "nan"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "wait"), WAITS)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], wait: float | None) -> None:
    for exc in (
        shaped("E", status_code=429, response=Response(429, headers)),
        shaped("E", status_code=429, litellm_response_headers=headers),
        caused(shaped("E", status_code=429), shaped("E", response=Response(429, headers))),
    ):
        assert translate(exc, environ={}).metadata.get("retry_after_s") == wait


def test_raised_failure_passes_unchanged() -> None:
    failure = Failure(FailureKind.tool_error, "known")
    assert translate(caused(RuntimeError("outer"), FailureRaised(failure))) is failure


def test_suppressed_context_is_no_evidence() -> None:
    exc = during(shaped("E", status_code=429), ImportError("tried and went on"))
    exc.__suppress_context__ = True
    assert translate(exc).kind is TRANSIENT


def test_circular_cause_chain_ends() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__context__, second.__context__ = second, first
    assert "RuntimeError" in translate(first).explanation


def test_unreadable_exception_is_still_a_failure() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        @property
        def response(self) -> Any:
            raise RuntimeError("no response")

    assert "Hostile" in translate(Hostile()).explanation


def test_unknown_exception_is_quoted() -> None:
    failure = translate(LookupError("the cat is gone"), environ={})
    assert failure.explanation.startswith("The model could not be asked: LookupError: the cat is")
    assert failure.metadata["exception"] == "LookupError"


def test_long_message_is_capped_and_unwrapped() -> None:
    text = "litellm.BadRequestError: OpenAIException - " + "so\n" * 500
    failure = translate(shaped("BadRequestError", text, status_code=400), environ={})
    assert len(failure.explanation) < 500
    assert "The provider refused the request (HTTP 400): so so" in failure.explanation
