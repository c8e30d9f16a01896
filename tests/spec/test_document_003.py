"""Document 003, mechanism by mechanism, with its printed outputs and none of its traps.

Times are a manual clock's, and where the gate has a deadline the loop's clock runs ahead.
"""

import asyncio
import dataclasses
import itertools
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from parsimony_kernel.agent.events import AgentError, AgentEvent, RunCompleted, RunStarted
from parsimony_kernel.agent.failure.kinds import Effect, Failure, FailureKind
from parsimony_kernel.core.config import ActionContract
from parsimony_kernel.gate.envelope import to_text
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.loops import Repetition, not_repeating
from parsimony_kernel.gate.rules import task_stages
from parsimony_kernel.gate.stages import STAGES
from parsimony_kernel.limits.breaker import Breakers, CircuitBreaker, CircuitOpenError
from parsimony_kernel.metrics import figures
from parsimony_kernel.metrics.figures import Figures, fired
from parsimony_kernel.metrics.prometheus import AgentMetrics
from parsimony_kernel.patterns.critic import (
    ActionMismatch,
    ValidationResult,
    reflect,
    review,
    validate_action_contract,
    validated_handoff,
)
from parsimony_kernel.patterns.escalation import (
    ApprovalError,
    Approvals,
    EscalationReason,
    EscalationRequest,
    HumanInTheLoop,
)
from parsimony_kernel.patterns.guardrails import (
    BudgetExhausted,
    LoopBreaker,
    PinnedConstraintsAgent,
    TokenBudget,
)
from parsimony_kernel.patterns.retrying import (
    MAX_RETRY_AFTER_S,
    FallbackChain,
    RateLimitExceeded,
    RetryableModelError,
    UpstreamTimeout,
    UpstreamUnavailable,
    call_llm_with_retry,
    normalize_provider_error,
    recovery_path,
    with_retry,
)
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.tools import Tools, tool
from parsimony_kernel.triage.taxonomy import FailureType
from tests.fast_loop import fast_loop

from . import Fields, StatusError
from .lookup import DELAYED, DETOUR, NAMES, lookup

Call = tuple[str, Fields]


class Desk:
    """A gate with the tools of the lookup, and which orders were looked up."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = Gate(lookup(self.asked.append), timeout_s=30)

    async def step(self, action: str, inputs: Fields) -> Fields:
        return (await self.gate.step(action, inputs)).envelope


def told(envelope: Mapping[str, Any]) -> str:
    """All that the model reads."""
    return json.dumps(envelope)


@pytest.mark.parametrize(
    ("made", "documented"),
    [
        (LoopBreaker(), {"max_steps": 15, "max_identical": 3, "same_tool_streak": 5}),
        (LoopBreaker(), {"semantic_threshold": 0.9, "tool_call_history": []}),
        (TokenBudget(), {"max_tokens": 100_000, "max_cost": 1.0, "pricing": {}}),
        (TokenBudget(), {"used_tokens": 0, "estimated_cost": 0.0}),
        (CircuitBreaker(), {"CLOSED": "closed", "OPEN": "open", "HALF_OPEN": "half_open"}),
        (CircuitBreaker(), {"failure_threshold": 5, "reset_timeout": 60.0, "state": "closed"}),
        (CircuitBreaker(2, 10), {"reset_timeout": 10, "failure_count": 0, "last_failure_time": 0}),
        (HumanInTheLoop(), {"review_threshold": 0.7, "max_retries": 3, "escalation_queue": []}),
    ],
)
def test_mechanism_has_documented_limits(made: Any, documented: Fields) -> None:
    assert {name: getattr(made, name) for name in documented} == documented


# Arguments.


async def test_wrong_name_is_rejected_in_one_sentence_naming_the_right_one() -> None:
    desk = Desk()
    rejected = await desk.step("query_db", {"order_id": "A102"})
    assert rejected["error"] == "validation_failed"
    assert "'id'" in rejected["reason"]
    assert "Traceback" not in told(rejected)
    assert "\n" not in rejected["message"]
    assert len(rejected["message"]) < 300
    assert desk.asked == []
    assert (await desk.step("query_db", {"id": "A102"}))["result"] == DELAYED
    assert desk.asked == ["A102"]


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        *(
            ({"id": each}, "id")
            for each in ("B102", "A12", "a102", "A102 ", "", 102, None, ["A102"])
        ),
        ({"id": "A102", "format": "json"}, "format"),
    ],
)
async def test_malformed_or_extra_argument_names_the_field(inputs: Any, field: str) -> None:
    desk = Desk()
    rejected = await desk.step("query_db", inputs)
    assert rejected["error"] == "validation_failed"
    assert rejected["details"]["field"] == field
    assert field == "id" or not [each for each in ("missing", "required") if each in told(rejected)]
    assert desk.asked == []


async def test_every_bad_field_is_named() -> None:
    @tool
    async def refund(id: str, amount: float, reason: str) -> None:
        """Refund."""

    gate = Gate(Tools([refund]), timeout_s=30)
    outcome = await gate.step("refund", {"id": 7, "amount": "much", "raeson": "late"})
    reason = outcome.envelope["reason"]
    assert [name for name in ("id", "amount", "reason", "raeson") if name not in reason] == []


async def test_misspelt_field_suggests_nearest_name() -> None:
    @tool
    async def search(query: str, format: str = "json") -> None:
        """Search."""

    outcome = await Gate(Tools([search]), timeout_s=30).step("search", {"qeury": "A102"})
    assert "did you mean 'query'" in outcome.envelope["reason"]


# The allow-list.


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("search_database", {"query": "order A102", "format": "json"}),
        ("fetch_order_magic", {"id": "A102"}),
    ],
)
async def test_invented_tool_never_runs_and_answer_lists_tools(name: str, inputs: Fields) -> None:
    desk = Desk()
    rejected = await desk.step(name, inputs)
    assert rejected["error"] == "unknown_action"
    assert rejected["known_actions"] == [*NAMES]
    assert [each for each in (name, *NAMES) if each not in rejected["message"]] == []
    assert desk.asked == []


# The loop breaker, a library.


def test_third_identical_call_is_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    breaker = LoopBreaker(max_identical=3)
    for ordinal in ("first", "second", "third"):
        print(f"{ordinal}:", breaker.check("query_db", {"id": "A102"}))
    assert capsys.readouterr().out == "first: False\nsecond: False\nthird: True\n"


def searches(*texts: str, field: str = "query") -> list[Call]:
    return [("search", {field: text}) for text in texts]


def others(*names: str) -> list[Call]:
    return [(name, {"id": name}) for name in names]


UNLIKE = searches("delivery of lamps", "who paid 7?", "XXXX", "north or south", "zebra in a box")
NEAR = ("where is order A102", "  Where is order A102?", "where is the order A102")
BETWEEN = others("alpha", "brave_new", "xylophone_42", "zulu_query_db")
ORDER: Call = ("query_db", {"id": "A102", "full": True})
SAME_ORDER: Call = ("query_db", {"full": True, "id": "A102"})


@pytest.mark.parametrize(
    ("calls", "identical", "trips"),
    [
        # The third identical call, wherever it comes, and however its arguments are ordered.
        ([ORDER, *others("one", "two"), SAME_ORDER, *others("four", "five"), ORDER], 3, True),
        (others(*(chr(ord("a") + n) * (n + 3) for n in range(15))), 3, False),
        (others(*(chr(ord("a") + n) * (n + 3) for n in range(16))), 3, True),
        (UNLIKE, 3, True),
        ([*UNLIKE[:4], ("get_eta", {"id": "A102"}), UNLIKE[4]], 3, False),
        *((searches(*NEAR, field=field), 3, True) for field in ("query", "prompt", "text", "task")),
        # Words are compared with those of the last calls only.
        ([*searches(NEAR[0]), *BETWEEN[:3], *searches(NEAR[1])], 2, True),
        ([*searches(NEAR[0]), *BETWEEN, *searches(NEAR[1])], 2, False),
        ([("query_db", {"id": order}) for order in ("A101", "A102", "A103")], 3, True),
    ],
)
def test_last_call_is_one_too_many(calls: list[Call], identical: int, trips: bool) -> None:
    breaker = LoopBreaker(max_identical=identical)
    checked = [breaker.check(*each) for each in calls]
    assert checked == [False] * (len(calls) - 1) + [trips]


def test_tripping_call_is_not_kept_in_history() -> None:
    breaker = LoopBreaker()
    calls = [breaker.check("query_db", {"id": "A102"}) for _ in range(4)]
    assert calls == [False, False, True, True]
    assert [past["tool"] for past in breaker.tool_call_history] == ["query_db", "query_db"]
    assert {*breaker.tool_call_history[0]} == {"tool", "args_hash", "intent_text"}
    assert not breaker.check("get_eta", {"id": "A102"})


# The run's own detector, which sees what the calls showed.


def tripped(calls: list[tuple[Call, str]]) -> int | None:
    """The position, from 1, of the first call that would be one too many."""
    seen = Repetition()
    for position, ((name, args), showed) in enumerate(calls, 1):
        if seen.before(name, args) is not None:
            return position
        seen = seen.after(name, args, showed)
    return None


def query(order: str) -> Call:
    return "query_db", {"id": order}


LOOKUPS = [query(f"A10{number}") for number in range(9)]
STATUS: Call = ("job_status", {"job": "j7"})
CODE = [("run_code", {"code": f"sales.head({number})"}) for number in range(30)]


@pytest.mark.parametrize(
    ("calls", "showed", "at"),
    [
        ([query("A102")] * 9, [DELAYED] * 9, {3}),
        (LOOKUPS, [DELAYED] * 9, {None}),
        (LOOKUPS, [f"status {n}" for n in range(9)], {None}),
        (DETOUR, [DELAYED] * 4, {3, 4}),
        (DETOUR, ["delayed", "in Hamburg", "by truck", "Friday, 10 am"], {None}),
        ([STATUS] * 3, [f"{n * 8} % done" for n in range(3)], {None}),
        ([STATUS] * 12, [f"{n * 8} % done" for n in range(12)], {None}),
        (CODE, [f"{n} rows" for n in range(30)], {None}),
    ],
    ids=[
        *("same call", "other orders", "other results", "other words", "news in other words"),
        *("polling", "polling long", "code"),
    ],
)
def test_a_loop_shows_nothing_new(calls: Any, showed: list[str], at: set[int | None]) -> None:
    assert tripped([*zip(calls, showed, strict=True)]) in at


@pytest.mark.parametrize("length", [2, 3])
def test_cycling_among_few_calls_is_a_loop(length: int) -> None:
    names = ("query_db", "get_eta", "suggest_alternative")[:length]
    turn: list[tuple[Call, str]] = [((name, {"id": "A102"}), f"{name} says so") for name in names]
    position = tripped(turn * 5)
    assert position is not None
    assert length < position <= 3 * length


async def test_refused_loop_repeats_known_result_without_running() -> None:
    asked: list[str] = []
    seen = Repetition()
    stages = (*STAGES, not_repeating(lambda: seen))
    gate = Gate(lookup(asked.append), timeout_s=30, stages=stages)
    for _ in range(2):
        outcome = await gate.step(*query("A102"))
        seen = seen.after(*query("A102"), to_text(outcome.envelope))
    outcome = await gate.step(*query("A102"))
    assert outcome.envelope["error"] == "validation_failed"
    assert DELAYED.rstrip(".") in outcome.envelope["message"]
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.loop_detected
    assert asked == ["A102", "A102"]


# The token budget.

RATES = {"order-model": {"input": 1.0, "output": 2.0}}


def small_budget(**more: Any) -> TokenBudget:
    return TokenBudget(**{"max_tokens": 1_000, "max_cost_usd": 0.01, "pricing": RATES, **more})


def test_budget_example_prints_as_stated(capsys: pytest.CaptureFixture[str]) -> None:
    budget = small_budget()
    budget.consume(200, 50, "order-model")
    print("used tokens:", budget.used_tokens)
    with pytest.raises(BudgetExhausted) as blocked:
        budget.consume(900, 20, "order-model")
    print("blocked:", str(blocked.value).split(":")[0])
    assert capsys.readouterr().out == "used tokens: 250\nblocked: Token limit exceeded\n"
    assert str(blocked.value) == "Token limit exceeded: 1170/1000"


@pytest.mark.parametrize(("tokens", "is_over"), [(1_000, False), (1_001, True)])
def test_token_limit_is_strict(tokens: int, is_over: bool) -> None:
    budget = small_budget(max_cost_usd=None)
    if is_over:
        with pytest.raises(BudgetExhausted):
            budget.consume(tokens, 0, "order-model")
    else:
        budget.consume(tokens, 0, "order-model")
    assert budget.used_tokens == tokens


def test_cost_is_per_million_and_stops_above_limit() -> None:
    budget = small_budget(max_tokens=10**9)
    budget.consume(4_000, 3_000, "order-model")
    assert budget.estimated_cost == pytest.approx(0.01)
    with pytest.raises(BudgetExhausted, match=r"^Cost limit exceeded: \$0\.02/\$0\.01$"):
        budget.consume(4_000, 3_000, "order-model")


def test_request_of_120000_tokens_exceeds_100000() -> None:
    with pytest.raises(BudgetExhausted, match="120000/100000"):
        TokenBudget(pricing=RATES).consume(110_000, 10_000, "order-model")


@pytest.mark.parametrize("limit", [0.5, 1.0, 100.0])
def test_unknown_price_stops_run_with_cost_limit(limit: float) -> None:
    with pytest.raises(BudgetExhausted, match="Pricing missing for model: another"):
        small_budget(max_cost_usd=limit).consume(1, 1, "another")


@pytest.mark.parametrize("given", [{}, {"max_cost_usd": None}, {"pricing": RATES}])
def test_unknown_price_is_fine_without_cost_limit(given: Fields) -> None:
    budget = TokenBudget(**given)
    budget.consume(10, 5, "another")
    assert budget.used_tokens == 15


@pytest.mark.parametrize(
    ("limits", "tokens", "is_near"),
    [
        ({"max_cost_usd": None}, 0, False),
        ({"max_cost_usd": None}, 790, False),
        ({"max_cost_usd": None}, 810, True),
        ({"max_tokens": 10**9}, 7_900, False),
        ({"max_tokens": 10**9}, 8_100, True),
    ],
)
def test_four_fifths_of_tokens_or_cost_is_near(limits: Fields, tokens: int, is_near: bool) -> None:
    budget = small_budget(**limits)
    budget.consume(tokens, 0, "order-model")
    assert budget.is_near == is_near


# The validated handoff.


def test_validation_result_has_documented_fields() -> None:
    assert [field.name for field in dataclasses.fields(ValidationResult)] == ["valid", "reason"]
    assert ValidationResult(True).reason == ""


def scanned(output: dict[str, object]) -> ValidationResult:
    """The carrier's own record knows of no delivery."""
    return ValidationResult(not output.get("delivered"), "the carrier has no such scan")


def has_order(output: dict[str, object]) -> ValidationResult:
    return ValidationResult("order" in output, "no order")


@pytest.mark.parametrize("validators", [[], [has_order], [has_order, scanned]])
def test_valid_payload_passes_as_same_object(validators: Any) -> None:
    output: dict[str, object] = {"order": "A102"}
    assert validated_handoff(output, validators) is output
    assert output == {"order": "A102"}


def test_invented_delivery_stops_at_first_handoff() -> None:
    asked: list[dict[str, object]] = []

    def later(output: dict[str, object]) -> ValidationResult:
        asked.append(output)
        return ValidationResult(False, "too late to matter")

    answer = validated_handoff({"order": "A102", "delivered": True}, [has_order, scanned, later])
    assert answer["status"] == "validation_failed"
    assert answer["error"] == "the carrier has no such scan"
    assert "review" in str(answer["fallback"])
    assert {*answer} == {"status", "error", "fallback"}
    assert asked == []


# Retries, as a library.


def behind(exc: Exception, cause: Exception) -> Exception:
    exc.__cause__ = cause
    return exc


FAULTS: list[tuple[Exception, type[RetryableModelError]]] = [
    (Exception("Rate limit reached"), RateLimitExceeded),
    (Exception("Timeout while reading"), UpstreamTimeout),
    (Exception("temporarily unavailable"), UpstreamUnavailable),
    (Exception("503 Service Unavailable"), UpstreamUnavailable),
    # What the printed function misses.
    (Exception("429 Too Many Requests"), RateLimitExceeded),
    (Exception("502"), UpstreamUnavailable),
    (Exception("502 Bad Gateway"), UpstreamUnavailable),
    (Exception("the request timed out"), UpstreamTimeout),
    (TimeoutError(), UpstreamTimeout),
    *((StatusError(status), RetryableModelError) for status in (429, 500, 502, 503, 504)),
    (ConnectionResetError("reset by peer"), RetryableModelError),
    (behind(RuntimeError("wrapped"), StatusError(503)), UpstreamUnavailable),
    (type("RateLimitError", (Exception,), {})("slow down"), RateLimitExceeded),
    (Exception("429"), RateLimitExceeded),
    (Exception("error code: 429"), RateLimitExceeded),
    (Exception("upstream answered with 503"), UpstreamUnavailable),
    (Exception("500 Internal Server Error"), UpstreamUnavailable),
    (Exception("the model is overloaded"), UpstreamUnavailable),
    (Exception("Request timeout"), UpstreamTimeout),
    (ValueError("bad response: 429 Too Many Requests"), RateLimitExceeded),
    (UpstreamTimeout("mine"), UpstreamTimeout),
]
LASTING: list[Exception] = [
    *(StatusError(status) for status in (400, 401, 403, 404, 422)),
    StatusError(400, "timeout must be positive"),
    StatusError(401, "rate limit tier of this key is unknown"),
    *map(
        Exception,
        (
            *("400 Bad Request: Missing required parameter 'id'", "401 Unauthorized"),
            *("status 401: the rate limit of this key", "invalid value for 'timeout'"),
            *("order 502 does not exist", "503 is not a valid id", "500 rows were expected"),
            *("404", "it costs $502", "the schema is wrong", ""),
        ),
    ),
    TypeError("f() got an unexpected keyword argument 'timeout'"),
    KeyError("timeout"),
    AttributeError("no attribute 'rate_limit'"),
    ImportError("No module named 'client'"),
    ValueError("no such model"),
]


@pytest.mark.parametrize("fault", [RateLimitExceeded, UpstreamTimeout, UpstreamUnavailable])
def test_three_faults_are_retryable_model_errors(fault: type[Exception]) -> None:
    assert issubclass(fault, RetryableModelError)
    assert issubclass(RetryableModelError, Exception)


@pytest.mark.parametrize(("exc", "fault"), FAULTS, ids=lambda each: repr(each)[:50])
def test_transient_fault_is_recognized(exc: Exception, fault: type[Exception]) -> None:
    normal = normalize_provider_error(exc)
    assert isinstance(normal, fault)
    assert str(normal) == str(exc)


@pytest.mark.parametrize("exc", LASTING, ids=repr)
def test_permanent_fault_is_returned_unchanged(exc: Exception) -> None:
    assert normalize_provider_error(exc) is exc


class Service:
    """Raises what it is given, one a call, then answers."""

    def __init__(self, *faults: BaseException) -> None:
        self.faults = list(faults)
        self.calls: list[Fields] = []

    async def __call__(self, **given: Any) -> str:
        self.calls.append(given)
        if self.faults:
            raise self.faults.pop(0)
        return "an answer"


MESSAGES = [{"role": "user", "content": "Where is A102?"}]


async def ask(service: Service, clock: ManualClock | None = None, **more: Any) -> str:
    return await call_llm_with_retry(
        MESSAGES, call_model_api=service, clock=clock or ManualClock(), **more
    )


async def test_model_is_called_with_documented_arguments() -> None:
    service = Service()
    assert await ask(service) == "an answer"
    assert service.calls == [
        {"messages": MESSAGES, "model": "primary-model", "timeout_seconds": 30}
    ]
    await ask(service, model="backup-model")
    assert service.calls[-1]["model"] == "backup-model"


@pytest.mark.parametrize("exc", [exc for exc, _ in FAULTS], ids=lambda each: repr(each)[:50])
async def test_original_exception_is_raised_after_three_attempts(exc: Exception) -> None:
    service, clock = Service(exc, exc, exc), ManualClock()
    with pytest.raises(type(exc)) as raised:
        await ask(service, clock)
    assert raised.value is exc
    assert len(service.calls) == 3
    assert len(clock.slept) == 2


async def test_third_attempt_may_succeed() -> None:
    service = Service(Exception("429 Too Many Requests"), Exception("timed out"))
    assert await ask(service) == "an answer"
    assert len(service.calls) == 3


@pytest.mark.parametrize(
    "exc",
    [*LASTING, behind(ConnectionError("client failed"), ImportError("No module named 'x'"))],
    ids=repr,
)
async def test_permanent_fault_is_never_waited_for(exc: Exception) -> None:
    service, clock = Service(exc), ManualClock()
    with pytest.raises(type(exc)) as raised:
        await ask(service, clock)
    assert raised.value is exc
    assert (len(service.calls), clock.slept) == (1, [])


async def waits(*faults: BaseException) -> list[float]:
    clock = ManualClock()
    await with_retry(Service(*faults), attempts=len(faults) + 1, clock=clock)
    return clock.slept


async def test_waits_have_exponential_jitter_up_to_thirty_seconds() -> None:
    runs = [await waits(*[StatusError(503)] * 7) for _ in range(100)]
    bounds = (2, 4, 8, 16, 30, 30, 30)
    for slept, bound in zip(zip(*runs, strict=True), bounds, strict=True):
        assert all(1 <= wait <= bound for wait in slept)
        assert len(set(slept)) > 20
        assert max(slept) > 0.8 * bound


@pytest.mark.parametrize("seconds", [0, 5, 25])
async def test_provider_retry_after_is_the_minimum_with_jitter(seconds: int) -> None:
    fault = StatusError(429, **{"retry-after": str(seconds)})
    slept = [(await waits(fault))[0] for _ in range(10)]
    assert all(max(1, seconds) <= wait < seconds + 30 for wait in slept)
    assert len(set(slept)) > 1


async def test_retry_after_of_hours_is_not_waited_for() -> None:
    clock = ManualClock()
    fault = StatusError(429, **{"retry-after": str(MAX_RETRY_AFTER_S + 1)})
    with pytest.raises(StatusError) as raised:
        await with_retry(Service(fault), clock=clock)
    assert raised.value is fault
    assert clock.slept == []


async def test_stop_is_not_retried_and_ends_a_wait() -> None:
    stopped = Service(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await with_retry(stopped, clock=ManualClock())
    assert len(stopped.calls) == 1
    clock, service = ManualClock(auto=False), Service(StatusError(503))
    waiting = asyncio.ensure_future(with_retry(service, clock=clock))
    await clock.until_asleep()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(service.calls) == 1


async def test_key_in_fault_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    await waits(StatusError(503, "down for sk-abcdefghijklmnop"))
    assert "attempt 1 failed" in caplog.text
    assert "abcdefghijklmnop" not in caplog.text


async def test_each_retry_is_logged_as_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await ask(Service(Exception("502 Bad Gateway"), Exception("502 Bad Gateway")))
    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warned) == 2
    assert all("502 Bad Gateway" in each for each in warned)


# Retry, resume, reconcile.


def test_document_calls_print_as_stated() -> None:
    assert recovery_path("timeout", "none", False) == "retry with backoff"
    assert recovery_path("timeout", "uncertain", True) == "reconcile before replay"


@pytest.mark.parametrize(
    ("error", "status", "valid"),
    [
        *itertools.product(
            ["429", "502", "503", "timeout", "worker_restarted", "400", "401", "schema", ""],
            ["none", "uncertain", "committed"],
            [True, False],
        )
    ],
)
def test_every_combination_follows_the_rule(error: str, status: str, valid: bool) -> None:
    way = "stop or escalate"
    if status == "none" and error in {"429", "502", "503", "timeout"}:
        way = "retry with backoff"
    if valid and error == "worker_restarted":
        way = "resume checkpoint"
    if status == "uncertain":
        way = "reconcile before replay"
    assert recovery_path(error, status, valid) == way


class Till:
    """A refund that reaches the bank and then hangs."""

    def __init__(self, *, reconcile: bool, hangs: bool = True) -> None:
        self.refunded: list[str] = []

        async def look_up(id: str) -> str | None:
            return f"refunded {id}" if id in self.refunded else None

        @tool(effect="write", reconcile=look_up if reconcile else None)
        async def refund(id: str) -> str:
            """Refund an order."""
            self.refunded.append(id)
            if hangs:
                await asyncio.Event().wait()
            return f"refunded {id}"

        self.gate = Gate(Tools([refund]), timeout_s=30)

    async def refund(self, order: str = "A102") -> Any:
        async with fast_loop(0.25):
            return await self.gate.step("refund", {"id": order})


async def test_timed_out_refund_is_never_blindly_repeated() -> None:
    till = Till(reconcile=False)
    first, second = await till.refund(), await till.refund()
    assert first.envelope["error"] == "action_timeout"
    assert [each.failure.effect for each in (first, second)] == [Effect.uncertain] * 2
    assert till.refunded == ["A102"]


async def test_timed_out_refund_is_reconciled() -> None:
    till = Till(reconcile=True)
    answers = [(await till.refund()).envelope for _ in range(2)]
    assert [each["result"] for each in answers] == ["refunded A102"] * 2
    assert till.refunded == ["A102"]


async def test_committed_refund_is_replayed() -> None:
    till = Till(reconcile=False, hangs=False)
    answers = [(await till.refund()).envelope for _ in range(3)]
    assert [each["result"] for each in answers] == ["refunded A102"] * 3
    await till.refund("A103")
    assert till.refunded == ["A102", "A103"]


# The action contract.

CONTRACT = {"intent": "lookup_order", "order_id": "A102"}
ALLOWED = {"query_db", "get_eta"}


def test_lookup_within_contract_is_admitted() -> None:
    assert validate_action_contract(CONTRACT, "query_db", {"id": "A102"}, {"query_db"}) == (
        "admitted"
    )


@pytest.mark.parametrize(
    ("name", "args", "wrong"),
    [
        ("calculate_shipping", {}, "tool not allowed"),
        ("calculate_shipping", {"id": "A102"}, "tool not allowed"),
        ("get_eta", {"id": "A102"}, "tool does not match intent"),
        ("get_eta", {"id": "A103"}, "tool does not match intent"),
        ("query_db", {"id": "A103"}, "order ID changed"),
        ("query_db", {}, "order ID changed"),
    ],
)
def test_contract_violations_are_reported_in_order(name: str, args: Fields, wrong: str) -> None:
    with pytest.raises(ActionMismatch) as raised:
        validate_action_contract(CONTRACT, name, args, ALLOWED)
    assert str(raised.value) == wrong


def test_other_intent_requires_no_tool() -> None:
    contract = {"intent": "estimate", "order_id": "A102"}
    assert validate_action_contract(contract, "get_eta", {"id": "A102"}, ALLOWED) == "admitted"


def test_critic_cannot_overrule_contract() -> None:
    contract = ActionContract(frozenset(ALLOWED), frozenset({"query_db"}), {"order_id": "A102"})

    def critic(name: str, args: Mapping[str, Any]) -> str:
        return "admitted: this is fine"

    for name, args in (("query_db", {"id": "A103"}), ("pay", {}), ("get_eta", {"id": "A102"})):
        assert not review(contract, name, args, critic).is_admitted
    assert review(contract, "query_db", {"id": "A102"}, lambda *_: "no!").is_admitted


@pytest.mark.parametrize(
    ("name", "order", "wrong"),
    [
        ("get_eta", "A102", "tool does not match intent"),
        ("suggest_alternative", "A102", "tool not allowed"),
        ("query_db", "A103", "order ID changed"),
    ],
)
async def test_gate_refuses_violation_naming_the_rule(name: str, order: str, wrong: str) -> None:
    contract = ActionContract(frozenset(ALLOWED), frozenset({"query_db"}), {"order_id": "A102"})
    asked: list[str] = []
    stages = (*STAGES, *task_stages(contract))
    gate = Gate(lookup(asked.append), timeout_s=30, stages=stages)
    outcome = await gate.step(name, {"id": order})
    assert outcome.envelope["error"] == "validation_failed"
    assert wrong in outcome.envelope["message"]
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.policy_violation
    assert outcome.failure.type is FailureType.CONSTRAINT_IGNORED
    assert asked == []
    assert (await gate.step("query_db", {"id": "A102"})).ok


# Reflexion.


def only_id(proposal: dict[str, str]) -> ValidationResult:
    if {*proposal} == {"id"}:
        return ValidationResult(True)
    return ValidationResult(False, "400 Bad Request: Missing required parameter 'id'")


class Writer:
    """Proposes what it was given, one after the other, and keeps what it was told."""

    def __init__(self, *proposals: dict[str, str]) -> None:
        self.proposals = list(proposals)
        self.criticised: list[tuple[dict[str, str], str]] = []
        self.told: list[tuple[str, str]] = []

    async def generate(self) -> dict[str, str]:
        return self.proposals.pop(0)

    async def critique(self, proposal: dict[str, str], reason: str) -> str:
        self.criticised.append((proposal, reason))
        return "The schema requires 'id'. This proposal is valid and may run."

    async def refine(self, proposal: dict[str, str], reason: str, said: str) -> dict[str, str]:
        self.told.append((reason, said))
        return self.proposals.pop(0)

    async def reflect(self, **more: Any) -> Any:
        validators: list[Callable[[dict[str, str]], ValidationResult]] = [only_id]
        return await reflect(self.generate, self.critique, self.refine, validators, **more)


async def test_critique_leads_to_valid_call() -> None:
    writer = Writer({"order_id": "A102"}, {"id": "A102"})
    reflection = await writer.reflect()
    assert reflection.ok
    assert reflection.proposal == {"id": "A102"}
    [(criticised, reason)] = writer.criticised
    assert (criticised, "'id'" in reason) == ({"order_id": "A102"}, True)
    [(repeated, said)] = writer.told
    assert (repeated, "The schema requires 'id'" in said) == (reason, True)


async def test_critique_is_validated_again() -> None:
    wrong = [{"order_id": "A102"}, {"orderid": "A102"}, {"order": "A102"}, {"nr": "A102"}]
    reflection = await Writer(*wrong).reflect()
    assert not reflection.ok
    assert all(trial.reason for trial in reflection.trials)


async def test_valid_call_is_not_criticized() -> None:
    writer = Writer({"id": "A102"})
    assert (await writer.reflect()).ok
    assert writer.criticised == []


@pytest.mark.parametrize("effect", [Effect.uncertain, Effect.committed])
async def test_possible_effect_is_not_proposed_again(effect: Effect) -> None:
    writer = Writer({"order_id": "A102"}, {"id": "A102"})
    reflection = await writer.reflect(effect=lambda _: effect)
    assert not reflection.ok
    assert writer.told == []


# The circuit breaker.


class Endpoint:
    """A service behind a breaker; ``trouble`` is what it raises."""

    def __init__(self, clock: ManualClock | None = None, **settings: Any) -> None:
        self.clock = clock or ManualClock()
        self.breaker = CircuitBreaker(**settings, clock=self.clock)
        self.trouble: Exception | None = None
        self.calls = 0

    async def answer(self, text: str, *, times: int = 1) -> str:
        self.calls += 1
        if self.trouble is not None:
            raise self.trouble
        return text * times

    async def call(self) -> str:
        return await self.breaker.call(self.answer, "ok")

    async def fail(self, times: int, trouble: Exception | None = None) -> None:
        self.trouble = trouble or StatusError(503)
        for _ in range(times):
            with pytest.raises(type(self.trouble)):
                await self.call()
        self.trouble = None

    @property
    def state(self) -> str:
        return self.breaker.state


async def pending(breaker: CircuitBreaker) -> tuple[asyncio.Future[str], asyncio.Task[str]]:
    """A call that is under way until the future is set."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    began = asyncio.Event()

    async def slow() -> str:
        began.set()
        return await answer

    task = asyncio.ensure_future(breaker.call(slow))
    await began.wait()
    return answer, task


async def test_call_passes_arguments_and_result() -> None:
    endpoint = Endpoint()
    assert await endpoint.breaker.call(endpoint.answer, "ab", times=2) == "abab"


FAULT, BAD = StatusError(503), StatusError(400)


@pytest.mark.parametrize(
    ("steps", "state", "failures", "calls"),
    [
        ([*[FAULT] * 4], "closed", 4, 4),
        ([*[FAULT] * 5], "open", 5, 5),
        ([*[FAULT] * 5, None], "open", 5, 5),
        ([*[FAULT] * 4, None] * 4, "closed", 0, 20),
        ([*[FAULT] * 5, 59, None], "open", 5, 5),
        ([*[FAULT] * 5, 61], "half_open", 5, 5),
        ([*[FAULT] * 5, 61, None], "closed", 0, 6),
        ([*[FAULT] * 5, 61, FAULT, 59, None], "open", 6, 6),
        ([*[BAD] * 20], "closed", 0, 20),
        ([*[StatusError(401)] * 20], "closed", 0, 20),
    ],
)
async def test_breaker_opens_after_five_failures_and_lets_one_trial_pass(
    steps: list[Exception | float | None], state: str, failures: int, calls: int
) -> None:
    """A step is a call that raises, or does not, or seconds that pass."""
    endpoint = Endpoint()
    for step in steps:
        if isinstance(step, int):
            endpoint.clock.advance(step)
            continue
        endpoint.trouble = step  # type: ignore[assignment]
        with suppress(StatusError, CircuitOpenError):
            assert await endpoint.call() == "ok"
    assert (endpoint.state, endpoint.breaker.failure_count) == (state, failures)
    assert endpoint.calls == calls


async def test_exactly_one_waiter_is_the_trial() -> None:
    endpoint = Endpoint()
    await endpoint.fail(5)
    endpoint.clock.advance(61)
    answer, trial = await pending(endpoint.breaker)
    others = await asyncio.gather(*(endpoint.call() for _ in range(20)), return_exceptions=True)
    assert {type(each) for each in others} == {CircuitOpenError}
    answer.set_result("back")
    assert await trial == "back"
    assert await endpoint.call() == "ok"


async def test_cancelled_trial_frees_its_slot() -> None:
    endpoint = Endpoint()
    await endpoint.fail(5)
    endpoint.clock.advance(61)
    _, trial = await pending(endpoint.breaker)
    trial.cancel()
    await asyncio.wait({trial})
    assert await endpoint.call() == "ok"


async def test_silent_trial_frees_its_slot_in_time() -> None:
    endpoint = Endpoint(probe_lease_s=100)
    await endpoint.fail(5)
    endpoint.clock.advance(61)
    endpoint.breaker.admit()
    with pytest.raises(CircuitOpenError):
        await endpoint.call()
    endpoint.clock.advance(101)
    assert await endpoint.call() == "ok"


@pytest.mark.parametrize("fails", [True, False])
async def test_late_result_of_older_call_changes_nothing(fails: bool) -> None:
    endpoint = Endpoint()
    answer, late = await pending(endpoint.breaker)
    await endpoint.fail(5)
    endpoint.clock.advance(30)
    answer.set_exception(StatusError(503)) if fails else answer.set_result("late")
    await asyncio.wait({late})
    assert (late.exception() is not None) == fails
    assert endpoint.state == "open"
    endpoint.clock.advance(31)
    assert endpoint.state == "half_open"


class LeapingClock(ManualClock):
    """Its wall clock is set forward by a year."""

    def now(self) -> datetime:
        """A year later than it was."""
        return super().now() + timedelta(days=365 * bool(self.monotonic()))


async def test_clock_jump_lets_nothing_through() -> None:
    endpoint = Endpoint(LeapingClock())
    await endpoint.fail(5)
    endpoint.clock.advance(1)
    with pytest.raises(CircuitOpenError):
        await endpoint.call()


async def test_workers_share_one_store() -> None:
    clock = ManualClock()
    store = Breakers(clock)
    first, second = (Endpoint(clock, store=store, name="orders") for _ in range(2))
    await first.fail(5)
    assert second.state == "open"
    with pytest.raises(CircuitOpenError):
        await second.call()
    clock.advance(61)
    _, trial = await pending(first.breaker)
    with pytest.raises(CircuitOpenError):
        await second.call()
    trial.cancel()
    await asyncio.wait({trial})


# The fallback chain.

Strategy = Callable[[str], Awaitable[str | None]]
AGENTS = ("primary_agent", "backup_agent", "direct_generation")


class Degrading:
    """A chain whose strategies answer what they are given, or raise it."""

    def __init__(self, *outcomes: str | Exception | None, kind: str = "unknown") -> None:
        self.tried: list[str] = []
        ways = {
            name: self.way(name, outcome) for name, outcome in zip(AGENTS, outcomes, strict=True)
        }
        self.chain = FallbackChain(**ways, classify=lambda _: kind)

    def way(self, name: str, outcome: str | Exception | None) -> Strategy:
        async def strategy(task: str) -> str | None:
            self.tried.append(name)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return strategy


DOWN = ConnectionError("down")


@pytest.mark.parametrize(
    ("outcomes", "answer", "tried"),
    [
        (("full", "simple", "direct"), "full", 1),
        ((DOWN, "simple", "direct"), "simple", 2),
        ((DOWN, DOWN, "direct"), "direct", 3),
        (("", "simple", "direct"), "simple", 2),
        (("  \n", None, "direct"), "direct", 3),
    ],
)
async def test_first_valid_answer_is_returned(outcomes: Any, answer: str, tried: int) -> None:
    degrading = Degrading(*outcomes)
    assert await degrading.chain.execute("Say hello") == answer
    assert degrading.tried == [*AGENTS[:tried]]


@pytest.mark.parametrize("kind", ["greeting", "search"])
async def test_static_text_is_last_resort_without_data(kind: str) -> None:
    degrading = Degrading(DOWN, DOWN, DOWN, kind=kind)
    answer = await degrading.chain.execute("Hello")
    assert answer == FallbackChain.FALLBACK_RESPONSES[kind]


@pytest.mark.parametrize("kind", ["greeting", "search", "unknown"])
async def test_live_data_is_never_generated(kind: str) -> None:
    degrading = Degrading(DOWN, "", "It arrives on Friday.", kind=kind)
    answer = await degrading.chain.execute("Where is A102?", requires_live_data=True)
    assert answer == FallbackChain.DEFAULT_RESPONSE


@pytest.mark.parametrize("outcomes", [("full", "x", "x"), (DOWN, "full", "x")])
async def test_live_data_comes_from_capable_agent(outcomes: tuple[Any, ...]) -> None:
    degrading = Degrading(*outcomes)
    assert await degrading.chain.execute("Where is A102?", requires_live_data=True) == "full"


async def test_total_failure_says_what_to_do() -> None:
    answer = await Degrading(DOWN, DOWN, DOWN).chain.execute("Where is A102?")
    assert answer == FallbackChain.DEFAULT_RESPONSE
    said = answer.lower()
    assert "unavailable" in said
    assert "retry" in said or "again" in said
    assert "support" in said


async def test_empty_chain_says_so() -> None:
    assert await FallbackChain().execute("Where is A102?") == FallbackChain.DEFAULT_RESPONSE


async def test_each_failed_strategy_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    await Degrading(DOWN, "", "direct").chain.execute("Say hello")
    said = caplog.text
    assert [name in said for name in AGENTS] == [True, True, False]


# Pinned constraints.


def prompt_of(history: list[Fields], task: str = "Refund A102") -> str:
    return PinnedConstraintsAgent("You serve customers.").build_prompt(history, task)


@pytest.mark.parametrize("length", [0, 3, 200])
def test_prompt_ends_with_three_to_five_constraints(length: int) -> None:
    prompt = prompt_of([{"role": "user", "content": f"message {n}"} for n in range(length)])
    head, constraints = prompt.split("CRITICAL CONSTRAINTS (must follow):")
    lines = constraints.strip().splitlines()
    assert 3 <= len(lines) <= 5
    assert [line.split(". ")[0] for line in lines] == [
        str(number) for number in range(1, len(lines) + 1)
    ]
    assert head.rstrip().endswith("Refund A102")


def test_prompt_parts_are_in_documented_order() -> None:
    prompt = prompt_of([{"role": "user", "content": "Hello"}])
    parts = [
        "You serve customers.",
        "=== CONVERSATION HISTORY ===",
        "user: Hello",
        "=== CURRENT TASK ===",
        "Refund A102",
        "CRITICAL CONSTRAINTS (must follow):",
    ]
    assert PinnedConstraintsAgent(parts[0]).base_system_prompt == parts[0]
    assert prompt.startswith(parts[0])
    assert [each for each in prompt.splitlines() if each in parts] == parts


def test_prompt_history_is_last_ten_messages() -> None:
    lines = prompt_of([{"role": "user", "content": f"message {n}"} for n in range(25)]).splitlines()
    assert [each for each in lines if each.startswith("user: ")] == [
        f"user: message {n}" for n in range(15, 25)
    ]


def test_class_constraints_end_its_prompts() -> None:
    pinned: Any = PinnedConstraintsAgent
    constraints = pinned.CRITICAL_CONSTRAINTS
    assert prompt_of([]).rstrip().endswith(constraints.strip())


@pytest.mark.parametrize("about", ["personal", "confirm", "clear|uncertain", "ten|10"])
def test_shipped_constraints_cover_the_document(about: str) -> None:
    pinned = prompt_of([]).split("CRITICAL CONSTRAINTS")[1].lower()
    assert any(word in pinned for word in about.split("|"))


# Escalation.


def test_exactly_five_escalation_reasons() -> None:
    names = "POLICY_REVIEW REPEATED_FAILURES SAFETY_CHECK VALIDATION_FAILED MAX_STEPS_EXCEEDED"
    assert {each.name: each.value for each in EscalationReason} == {
        name: name.lower() for name in names.split()
    }


def test_escalation_request_has_documented_fields() -> None:
    names = [field.name for field in dataclasses.fields(EscalationRequest)]
    assert names == ["reason", "context", "priority", "suggested_action"]


@pytest.mark.parametrize(
    ("action", "failures", "score", "reason", "priority"),
    [
        ("read", 0, None, None, 0),
        ("read", 2, None, None, 0),
        ("read", 3, None, "repeated_failures", 2),
        ("read", 9, None, "repeated_failures", 2),
        ("read", 0, 0.7, None, 0),
        ("read", 0, 0.69, "policy_review", 3),
        ("read", 0, 0.0, "policy_review", 3),
        ("delete", 0, None, "safety_check", 1),
        ("modify", 0, None, "safety_check", 1),
        ("transfer", 0, None, "safety_check", 1),
        ("refund", 0, None, "safety_check", 1),
        ("refund_order", 0, None, "safety_check", 1),
        ("Delete", 0, None, "safety_check", 1),
        ("read", 0, float("nan"), "policy_review", 3),
        # The most severe, where the printed class reports the first.
        ("refund", 3, 0.1, "safety_check", 1),
        ("refund", 0, 0.1, "safety_check", 1),
        ("read", 3, 0.1, "repeated_failures", 2),
    ],
)
def test_most_severe_reason_escalates(
    action: str, failures: int, score: float | None, reason: str | None, priority: int
) -> None:
    state: dict[str, object] = {"action_type": action, "order": "A102"}
    request = HumanInTheLoop().should_escalate(state, failures, score)
    assert (request and request.reason.value) == reason
    if request is not None:
        assert request.priority == priority
        assert request.context == state
        assert request.suggested_action


def test_escalation_thresholds_are_configurable() -> None:
    desk = HumanInTheLoop(review_threshold=0.5, max_retries=1)
    assert desk.should_escalate({}, policy_score=0.6) is None
    assert desk.should_escalate({}, failure_count=1) is not None


async def test_escalation_is_queued_not_approved() -> None:
    desk = HumanInTheLoop()
    request = desk.should_escalate({"action_type": "refund"})
    assert request is not None
    answers = [await desk.handle_escalation(request) for _ in range(2)]
    assert answers[0] == {
        "status": "escalated",
        "ticket_id": "ESC-1",
        "reason": "safety_check",
        "priority": 1,
        "review_decision": {"decision": "pending", "action_hash": "not-approved"},
    }
    assert answers[1]["ticket_id"] == "ESC-2"
    assert desk.escalation_queue == [request, request]


REFUND = ("refund", {"id": "A102", "amount": 20})


def approved(clock: ManualClock | None = None) -> tuple[Approvals, str]:
    approvals = Approvals(clock=clock or ManualClock())
    asked = approvals.ask(*REFUND)
    assert approvals.decide(asked, approved=True)
    return approvals, asked


def test_approval_is_single_use() -> None:
    approvals, asked = approved()
    assert not any(approvals.decide(asked, approved=True) for _ in range(1_000))
    other = approvals.ask(*REFUND)
    approvals.spend(asked, *REFUND)
    for spent in (asked, asked, other):
        with pytest.raises(ApprovalError):
            approvals.spend(spent, *REFUND)


@pytest.mark.parametrize(
    "changed",
    [
        ("refund", {"id": "A102", "amount": 200}),
        ("refund", {"id": "A103", "amount": 20}),
        ("refund", {"id": "A102"}),
        ("transfer", {"id": "A102", "amount": 20}),
    ],
)
def test_approval_is_checked_against_action(changed: tuple[str, Fields]) -> None:
    approvals, asked = approved()
    with pytest.raises(ApprovalError):
        approvals.spend(asked, *changed)


def test_approval_expires() -> None:
    clock = ManualClock()
    approvals, asked = approved(clock)
    clock.advance(10 * 86_400)
    with pytest.raises(ApprovalError):
        approvals.spend(asked, *REFUND)


# Metrics and alerts.


def by_hand() -> AgentMetrics:
    metrics = AgentMetrics()
    metrics.step_count.labels(agent="orders").observe(4)
    metrics.loop_detected.labels(agent="orders").inc()
    metrics.fallback_triggered.labels(strategy="backup_agent").inc()
    metrics.interventions_triggered.labels(agent="orders", intervention="retry").inc()
    metrics.safe_recoveries.labels(agent="orders", intervention="retry").inc()
    metrics.validation_failures.labels(agent="orders", reason="schema").inc()
    metrics.validated_outputs.labels(agent="orders").inc()
    metrics.token_usage.labels(model="order-model").observe(1_170)
    return metrics


def samples(metrics: AgentMetrics) -> dict[str, list[dict[str, str]]]:
    shown: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(metrics.exposition()):
        for sample in family.samples:
            shown.setdefault(sample.name, []).append(sample.labels)
    return shown


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("agent_steps_per_run_count", {"agent": "orders"}),
        ("agent_loops_total", {"agent": "orders"}),
        ("agent_fallbacks_total", {"strategy": "backup_agent"}),
        ("agent_interventions_total", {"agent": "orders", "intervention": "retry"}),
        ("agent_safe_recoveries_total", {"agent": "orders", "intervention": "retry"}),
        ("agent_validation_failures_total", {"agent": "orders", "reason": "schema"}),
        ("agent_validated_outputs_total", {"agent": "orders"}),
        ("agent_tokens_per_run_count", {"model": "order-model"}),
    ],
)
def test_metric_has_documented_name_and_labels(name: str, labels: dict[str, str]) -> None:
    assert samples(by_hand())[name] == [labels]


def bounds(metrics: AgentMetrics, name: str) -> list[float]:
    return [float(labels["le"]) for labels in samples(metrics)[f"{name}_bucket"]]


def test_steps_use_documented_buckets() -> None:
    expected = [1, 3, 5, 8, 10, 15, 20, 30, float("inf")]
    assert bounds(by_hand(), "agent_steps_per_run") == expected


def test_tokens_use_token_buckets() -> None:
    limits = bounds(by_hand(), "agent_tokens_per_run")
    apart = [500, 3_000, 20_000, 79_000, 99_000]
    where = [next(limit for limit in limits if tokens <= limit) for tokens in apart]
    assert len({*where}) == len(apart)
    assert float("inf") not in where


def test_metrics_can_be_created_twice() -> None:
    first, second = by_hand(), by_hand()
    assert samples(first).keys() == samples(second).keys()


def test_seventy_two_safe_ends_give_rate_072() -> None:
    metrics = AgentMetrics()
    for intervention, started, safe in (
        ("validation", 40, 30),
        ("loop", 20, 15),
        ("timeout", 25, 17),
        ("fallback", 15, 10),
    ):
        metrics.interventions_triggered.labels("orders", intervention).inc(started)
        metrics.safe_recoveries.labels("orders", intervention).inc(safe)
    assert metrics.recovery_rate == pytest.approx(0.72)
    assert Figures(executions=500, intervened=100, recovered=72).recovery_rate == 0.72


def test_rejection_rate_is_share_of_validated() -> None:
    metrics = AgentMetrics()
    metrics.validated_outputs.labels("orders").inc(200)
    metrics.validation_failures.labels("orders", "schema").inc(3)
    metrics.validation_failures.labels("orders", "facts").inc(1)
    assert metrics.validation_rejection_rate == pytest.approx(0.02)


def trace(*errors: AgentError) -> list[AgentEvent]:
    start = RunStarted(run_id="r", request="Where is A102?", model="m")
    return [start, *errors, RunCompleted(summary="It is delayed.")]


def error(kind: FailureKind, **more: Any) -> AgentError:
    return AgentError(message="x", failure=Failure(kind, "x"), recoverable=True, **more)


LOOP = error(FailureKind.loop_detected, action="narrow_scope")
FALLBACK = error(FailureKind.transient_provider, action="retry", fallback="backup-model")


def test_loop_and_fallback_rates_are_shares_of_traces() -> None:
    found = figures.of_runs([*[trace()] * 17, trace(LOOP, LOOP), trace(LOOP, FALLBACK), trace()])
    assert found.executions == 20
    assert found.loop_rate == pytest.approx(0.10)
    assert found.fallback_rate == pytest.approx(0.05)
    assert (found.intervened, found.recovered, found.recovery_rate) == (2, 2, 1.0)


@pytest.mark.parametrize(
    ("on_it", "beyond"),
    [
        ({"executions": 100, "looped": 5}, {"executions": 100, "looped": 6}),
        ({"executions": 100, "fell_back": 10}, {"executions": 100, "fell_back": 11}),
        ({"p99_steps": 15}, {"p99_steps": 16}),
        ({"p99_budget_share": 0.80}, {"p99_budget_share": 0.81}),
        (
            {"validated": 100, "rejections": {"schema": 2}},
            {"validated": 100, "rejections": {"schema": 3}},
        ),
        ({"open_breakers": ()}, {"open_breakers": ("orders",)}),
    ],
)
def test_each_alert_fires_above_its_threshold(on_it: Fields, beyond: Fields) -> None:
    assert fired(Figures(**on_it)) == ()
    assert len(fired(Figures(**beyond))) == 1


def test_recovery_rate_below_baseline_is_an_alert() -> None:
    found = Figures(executions=500, intervened=100, recovered=72)
    assert fired(found, recovery_baseline=0.72) == ()
    assert len(fired(found, recovery_baseline=0.80)) == 1
