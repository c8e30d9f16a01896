"""A body ends with its deadline or a stop, or is left behind and said to go on."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.kinds import Action, Effect, Failure, FailureKind, FailureType
from parsimony_kernel.core.state import SuspensionRequest, TerminationRequest
from parsimony_kernel.gate import body
from parsimony_kernel.gate.body import step_of_end
from parsimony_kernel.gate.envelope import to_text
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.tools import Tool, ToolResult, Tools, tool
from parsimony_kernel.triage.classify import RulesClassifier

SOON = 0.01
# Late enough for a thread to have begun on a busy machine.
BEGUN = 0.5


async def step(of: Tool, cancellation: CancellationRequest | None = None) -> StepOutcome:
    return await Gate(Tools([of]), timeout_s=5).step(of.name, {}, cancellation=cancellation)


def failure_of(outcome: StepOutcome) -> Failure:
    assert outcome.failure is not None
    to_text(outcome.envelope).encode()
    json.dumps(outcome.envelope, allow_nan=False)
    return outcome.failure


def giving(answer: Callable[[], Any], **options: Any) -> Tool:
    @tool(name="give", **options)
    async def give() -> Any:
        """Give what ``answer`` makes, or raise what it raises."""
        return answer()

    return give


def raising(error: BaseException, **options: Any) -> Tool:
    def raises() -> None:
        raise error

    return giving(raises, **options)


class Stubborn:
    """A tool that swallows every cancel until it is released."""

    def __init__(self, **options: Any) -> None:
        self.release = asyncio.Event()
        self.ended = asyncio.Event()
        self.started = asyncio.Event()

        @tool(name="stubborn", **options)
        async def stubborn() -> str:
            """Do not listen."""
            self.started.set()
            while not self.release.is_set():
                try:
                    await self.release.wait()
                except asyncio.CancelledError:
                    continue
            self.ended.set()
            return "late"

        self.tool = stubborn


async def test_body_that_swallows_cancel_is_left_and_reported() -> None:
    body = Stubborn(timeout_s=SOON)
    outcome = await step(body.tool)
    assert failure_of(outcome).explanation.endswith(
        "It could not be stopped and still runs, cut off."
    )
    assert not body.ended.is_set()
    before = to_text(outcome.envelope)
    body.release.set()
    await body.ended.wait()
    assert to_text(outcome.envelope) == before


async def test_stop_does_not_wait_for_stubborn_body() -> None:
    body, stop = Stubborn(), CancellationRequest()
    stepping = asyncio.ensure_future(step(body.tool, stop))
    await body.started.wait()
    stop.set("by me")
    with pytest.raises(Cancelled, match="by me; stubborn does not stop, and is cut off"):
        await stepping
    assert not body.ended.is_set()
    body.release.set()
    await body.ended.wait()


async def test_stop_reports_how_code_ended() -> None:
    stop, started = CancellationRequest(), asyncio.Event()

    @tool(tool_type="code")
    async def code() -> None:
        """Run code."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise asyncio.CancelledError("; it may write files")

    stepping = asyncio.ensure_future(step(code, stop))
    await started.wait()
    stop.set("by me")
    with pytest.raises(Cancelled, match=r"^by me; it may write files$"):
        await stepping


@pytest.mark.parametrize("then", ["answers", "raises"])
async def test_result_after_deadline_is_discarded(then: str) -> None:
    @tool(effect="write", timeout_s=SOON)
    async def late() -> str:
        """Unwind with words of its own."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if then == "raises":
                raise ValueError("nothing happened, perhaps") from None
        return "done, perhaps"

    outcome = await step(late)
    assert outcome.envelope["error"] == "action_timeout"
    failure = failure_of(outcome)
    assert failure.effect is Effect.uncertain
    assert "still runs" not in failure.explanation


def wrapped(never: Callable[[], None]) -> Tool:
    return tool(name="never", timeout_s=BEGUN)(never)


def bare(never: Any) -> Tool:
    """A tool whose function is no wrapper of ours."""
    schema = {"type": "object", "properties": {}}
    return Tool(never, "never", "Never ends.", schema, timeout_s=BEGUN)


@pytest.mark.parametrize("made", [wrapped, bare])
async def test_endless_thread_is_reported(made: Callable[[Any], Tool]) -> None:
    release = threading.Event()

    def never() -> None:
        """Never ends."""
        release.wait()

    try:
        failure = failure_of(await step(made(never)))
    finally:
        release.set()
    assert "still runs" in failure.explanation
    assert failure.effect is Effect.uncertain


async def test_thread_ending_within_grace_counts_as_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(body, "_GRACE_S", 60.0)
    release, stop = threading.Event(), CancellationRequest()
    loop = asyncio.get_running_loop()

    @tool
    def unwinding() -> None:
        """Ends a little after the stop."""
        # Not set here: the stop would interrupt this thread before everybody had heard of it.
        loop.call_soon_threadsafe(stop.set, "by me")
        release.wait()

    async def let_go() -> None:
        with pytest.raises(Cancelled):
            await stop.race(asyncio.Event().wait())
        for _ in range(20):
            await asyncio.sleep(0)
        release.set()

    letting_go = asyncio.ensure_future(let_go())
    with pytest.raises(Cancelled, match=r"^by me$"):
        await step(unwinding, stop)
    await letting_go


class OwnBase(BaseException):
    pass


class BadWords(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "error",
    [
        OwnBase("b"),
        GeneratorExit(),
        SystemExit(3),
        BaseExceptionGroup("g", [OwnBase("x")]),
        StopIteration(),
        StopAsyncIteration(),
        RecursionError(),
        BadWords(),
        ValueError("\ud800"),
        ValueError("x" * 5_000_000),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("in_thread", [False, True])
async def test_raising_body_is_tool_error(error: BaseException, in_thread: bool) -> None:
    def plainly() -> None:
        raise error

    failure = failure_of(await step(tool(plainly) if in_thread else raising(error)))
    assert failure.kind is FailureKind.tool_error
    assert failure.effect is Effect.none
    name = type(error).__name__
    expected = f"failed: {name}" if name != "StopIteration" else "StopIteration"
    assert expected in failure.explanation
    assert len(failure.explanation) < 2_100


async def test_outside_cancellation_is_no_tool_error() -> None:
    started = asyncio.Event()

    @tool
    async def wait() -> None:
        """Wait."""
        started.set()
        await asyncio.Event().wait()

    stepping = asyncio.ensure_future(step(wait))
    await started.wait()
    stepping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stepping


OOPS: Any = "oops"
FIVE: Any = 5


def failing(**metadata: Any) -> ToolResult:
    return ToolResult.from_failure(Failure(FailureKind.tool_error, "x", metadata=metadata))


@pytest.mark.parametrize(
    "made",
    [
        lambda: failing(refusal="nonsense"),
        lambda: failing(type=["nonsense"]),
        lambda: failing(envelope=[1]),
        lambda: failing(question=5, choices=7, remedy=[1]),
        lambda: ToolResult(exception_message=FIVE),
        lambda: ToolResult(failure=OOPS),
        lambda: TerminationRequest(FIVE),
        lambda: TerminationRequest("x", FIVE),
        lambda: SuspensionRequest("x", choices=(FIVE,)),
    ],
)
async def test_result_violating_its_schema_is_tool_error(made: Callable[[], Any]) -> None:
    outcome = await step(giving(made))
    failure = failure_of(outcome)
    assert failure.kind is FailureKind.tool_error
    assert isinstance(failure.metadata.get("question", ""), str)
    assert failure.effect is Effect.none
    assert failure.refusal in (None, "action_error")
    assert outcome.request is None


RESET = ConnectionResetError("reset")


@pytest.mark.parametrize(
    ("ending", "options", "effect"),
    [
        (RESET, {}, Effect.none),
        (RESET, {"effect": "write"}, Effect.uncertain),
        (RESET, {"effect": "none"}, Effect.none),
        (RESET, {"effect": "idempotent"}, Effect.none),
        (RESET, {"idempotent": True}, Effect.none),
        # An effect that nobody can read.
        ("maybe", {"idempotent": True}, Effect.none),
        ("maybe", {"idempotent": False}, Effect.uncertain),
    ],
)
async def test_effect_is_uncertain_where_it_is_unknown_and_may_count(
    ending: Any, options: dict[str, Any], effect: Effect
) -> None:
    gave_up = ending is RESET
    of = raising(RESET, **options) if gave_up else giving(lambda: failing(effect=ending), **options)
    failure = failure_of(await step(of))
    assert failure.effect is effect
    is_said = "it is not known whether it took effect" in failure.explanation
    assert is_said is (gave_up and effect is Effect.uncertain)


@pytest.mark.parametrize(
    ("retryable", "error", "action"),
    [
        (True, ValueError("x"), Action.retry),
        (False, ValueError("x"), Action.handoff),
        (True, ConnectionError("x"), Action.retry),
        (False, ConnectionError("x"), Action.handoff),
    ],
)
async def test_non_retryable_failure_is_handed_off(
    retryable: bool, error: Exception, action: Action
) -> None:
    built = raising(error, retryable_on_error=retryable)
    assert failure_of(await step(built)).suggested_action is action


class Overloaded(Exception):
    """As a client names it: a status, a wait, and a class that is not imported here."""

    status_code = 503

    def __init__(self, words: str = "later", **attributes: Any) -> None:
        super().__init__(words)
        for name, value in attributes.items():
            setattr(self, name, value)


def facts_in(outcome: StepOutcome) -> dict[str, Any]:
    facts = failure_of(outcome).metadata["facts"]
    assert facts == json.loads(json.dumps(facts, allow_nan=False))
    assert isinstance(facts, dict)
    return facts


async def test_raised_exception_reaches_classifier_only() -> None:
    def raises() -> None:
        raise ValueError("no answer") from Overloaded(retry_after=7)

    outcome = await step(giving(raises))
    facts = facts_in(outcome)
    assert (facts["status"], facts["names"]) == (503, ["ValueError"])
    assert facts["causes"] == ["Overloaded"]
    assert "503" not in to_text(outcome.envelope)
    assert "facts" not in to_text(outcome.envelope)
    assert "facts" not in failure_of(outcome).without_data().metadata
    seen = step_of_end(failure_of(outcome), "give")
    assert (seen.error, seen.exception_type) == ("no answer", "ValueError")
    assert RulesClassifier().judge([seen]) is FailureType.EXTERNAL_FAULT
    read_already = replace(seen, error="1 validation error for Order", exception_type=None)
    assert RulesClassifier().judge([read_already]) is FailureType.EXTERNAL_FAULT
    assert RulesClassifier().judge([replace(seen, metadata={})]) is FailureType.UNKNOWN


@pytest.mark.parametrize(
    "error",
    [
        Overloaded(code="x" * 5_000_000),
        ExceptionGroup("g", [Overloaded(code=f"c{each}") for each in range(500)]),
        Overloaded(response={"Error": {"Code": "\ud800"}}),
        Overloaded(headers={"retry-after": "inf"}, retry_after=float("inf")),
        Overloaded(response=type("R", (), {"headers": property(lambda self: 1 / 0)})()),
    ],
    ids=["long", "many", "half a character", "for ever", "broken"],
)
async def test_error_evidence_is_small_json(error: Exception) -> None:
    assert len(json.dumps(facts_in(await step(raising(error))))) < 12_000


@pytest.mark.parametrize("facts", ["words", {"status": {1, 2}, "names": 5}])
@pytest.mark.parametrize("said", [{}, {"error_type": 5, "error_message": ["x"]}])
async def test_tool_metadata_is_no_evidence(facts: Any, said: dict[str, Any]) -> None:
    outcome = await step(giving(lambda: failing(facts=facts, envelope=said)))
    failure = failure_of(outcome)
    assert failure.metadata["facts"] == {"error_row": ""}
    seen = step_of_end(failure, "give", index=3, inputs={"n": 1})
    assert RulesClassifier().judge([seen]) is FailureType.UNKNOWN
    assert (seen.index, seen.tool_called, seen.tool_input) == (3, "give", {"n": 1})
    assert seen.error == "x"


async def test_unreadable_object_is_passed_on_as_text() -> None:
    class Hidden:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError("mine")

    outcome = await step(giving(Hidden))
    assert outcome.ok
    assert isinstance(outcome.result.data, str)
