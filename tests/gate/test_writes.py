"""Each write is done once, and what is not known of one is found out."""

import asyncio
import functools
import http.client
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import numpy as np
import pytest
from pydantic import BaseModel, Field, SecretStr

from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.choices import OUTCOME
from parsimony_kernel.core.effects import Effects, MemoryEffects, Standing, action_sha
from parsimony_kernel.core.kinds import EFFECT_KEY, HELD, Action, Effect, Failure, FailureKind
from parsimony_kernel.core.state import RunState
from parsimony_kernel.gate.approval import Approval, Approving
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.stages import STAGES
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.run_log import JournalEffects
from parsimony_kernel.tools import Tool, ToolResult, Tools, tool

RUN = "r1"
INPUTS = {"to": "ann"}
KEY = action_sha("send", INPUTS, run_id=RUN)
SOON = 0.01
# Late enough for a thread to have begun on a busy machine.
BEGUN = 0.5


class Office:
    """A place outside that letters reach, and what stands in the record at that moment."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.sent: list[str] = []
        self.seen: list[Standing | None] = []

    def take(self, to: str) -> str:
        self.seen.append(self.effects.standing(KEY))
        self.sent.append(to)
        return f"letter {len(self.sent)} to {to}"


@pytest.fixture(params=["memory", "journal"])
def effects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Effects]:
    if request.param == "memory":
        yield MemoryEffects()
        return
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    yield JournalEffects(journal, RUN)
    journal.close()


@pytest.fixture
def office(effects: Effects) -> Office:
    return Office(effects)


def sending(office: Office, then: Callable[[], Any] = lambda: None, **options: Any) -> Tool:
    """A write whose letter arrives; then it does what ``then`` says."""

    @tool(name="send", effect="write", **options)
    async def send(to: str) -> Any:
        """Send a letter."""
        said = office.take(to)
        ending = then()
        if asyncio.iscoroutine(ending):
            ending = await ending
        return said if ending is None else ending

    return send


def sending_late(office: Office) -> tuple[Tool, Callable[[], bool]]:
    """A write that waits for a thread of its own, and what lets that go and waits for it."""
    release, done = threading.Event(), threading.Event()

    @tool(name="send", effect="write", timeout_s=BEGUN, reconcile=functools.partial(letter, office))
    def late(to: str) -> None:
        """Send later."""

        def send() -> None:
            release.wait()
            office.sent.append(to)
            done.set()

        sender = threading.Thread(target=send)
        sender.start()
        sender.join()

    def arrived() -> bool:
        release.set()
        return done.wait(60)

    return late, arrived


def raising(error: BaseException) -> Callable[..., None]:
    def then(*_: Any) -> None:
        raise error

    return then


async def hanging() -> None:
    await asyncio.Event().wait()


def gate_of(*tools: Tool, effects: Effects) -> Gate:
    return Gate(Tools(tools), timeout_s=5, effects=effects, run_id=RUN)


def asking(write: Tool, effects: Effects) -> Gate:
    """A gate at which writes wait for a person."""
    stages = (*STAGES, Approving(Approval.guarded, lambda code: ()).stage)
    return Gate(Tools([write]), timeout_s=5, stages=stages, effects=effects, run_id=RUN)


async def sent(write: Tool, effects: Effects) -> StepOutcome:
    return await gate_of(write, effects=effects).step("send", INPUTS)


def failure_of(outcome: StepOutcome) -> Failure:
    assert outcome.failure is not None
    return outcome.failure


async def test_intent_is_recorded_before_body_and_commit_after(office: Office) -> None:
    outcome = await sent(sending(office), office.effects)
    assert outcome.envelope["result"] == "letter 1 to ann"
    assert office.seen == [Standing("intended")]
    assert office.effects.standing(KEY) == Standing("committed", "letter 1 to ann")


class Till:
    """A place outside that takes money, and the tool that pays there."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.paid: list[Any] = []

    def pay(self, id: str, amount: int = 10, note: Any = None, **more: int | float) -> str:
        """Pay."""
        self.paid.append(amount)
        return f"receipt {len(self.paid)}"

    async def step(self, run_id: str = RUN, **inputs: Any) -> StepOutcome:
        paying = tool(effect="write")(self.pay)
        gate = Gate(Tools([paying]), timeout_s=5, effects=self.effects, run_id=run_id)
        return await gate.step("pay", {"id": "A1", **inputs})


async def test_reordered_arguments_are_the_same_write(effects: Effects) -> None:
    till = Till(effects)
    same: list[dict[str, Any]] = [
        {"amount": 10}, {"amount": "10"}, {}, {"amount": 10.0}, {"note": None}
    ]  # fmt: skip
    for inputs in same:
        assert (await till.step(**inputs)).envelope["result"] == "receipt 1"
    assert till.paid == [10]
    others: list[dict[str, Any]] = [{"fee": 2, "note": [1]}, {"fee": 2.0, "note": [1.0]}]
    for noted in others:
        assert (await till.step(**noted)).envelope["result"] == "receipt 2"
    assert (await till.step(amount=11)).envelope["result"] == "receipt 3"


async def test_equivalent_write_of_another_run_blocks(effects: Effects) -> None:
    till = Till(effects)
    inputs = {"id": "A1", "amount": 10, "note": None}
    assert effects.intend(action_sha("pay", inputs, run_id="r2"), "pay", inputs)
    assert failure_of(await till.step(amount="10")).effect is Effect.uncertain
    assert till.paid == []


async def test_approval_covers_equivalent_arguments() -> None:
    till = Till(MemoryEffects())
    gate = asking(tool(effect="write")(till.pay), effects=till.effects)
    held = failure_of(await gate.step("pay", {"id": "A1"})).metadata[HELD]
    assert not (await gate.step("pay", {"id": "A1", "amount": 11}, approved=held)).ok
    assert (await gate.step("pay", {"id": "A1", "amount": "10"}, approved=held)).ok


class Letter(BaseModel):
    to: str
    stamp: str = Field(default_factory=lambda: uuid4().hex)


async def test_unserializable_arguments_are_compared_as_sent(effects: Effects) -> None:
    sent: list[str] = []

    @tool(effect="write")
    def send(letter: Letter, code: SecretStr, copies: int = 1) -> None:
        """Send."""
        sent.append(f"{letter.to} {code.get_secret_value()}")

    gate = gate_of(send, effects=effects)
    for code, copies in (("a", 1), ("a", "1"), ("b", 1)):
        inputs = {"letter": {"to": "ann"}, "code": code, "copies": copies}
        assert (await gate.step("send", inputs)).ok
    assert sent == ["ann a", "ann b"]


async def test_write_without_hooks_is_recorded_in_process() -> None:
    agent = SimpleNamespace(model_config="offline")
    state = RunState(run_id=RUN)
    first, second = (RunContext.of(agent).hooks.effects(state) for _ in range(2))
    office = Office(first)
    write = sending(office)
    inputs = {"to": uuid4().hex}
    for effects in (first, second):
        assert (await gate_of(write, effects=effects).step("send", inputs)).ok
    assert office.sent == [inputs["to"]]


async def in_another_run(write: Tool, effects: Effects, run_id: str = "r2") -> StepOutcome:
    gate = Gate(Tools([write]), timeout_s=5, effects=effects, run_id=run_id)
    return await gate.step("send", INPUTS)


def begun(effects: Effects) -> None:
    """An intent of a run that was killed before it could say more."""
    assert effects.intend(KEY, "send", INPUTS)


@pytest.mark.parametrize("happened", [True, False])
async def test_unknown_write_is_asked_about_and_the_answer_settles_both_runs(
    office: Office, happened: bool
) -> None:
    begun(office.effects)
    write = sending(office)
    failure = failure_of(await in_another_run(write, office.effects))
    assert (failure.effect, failure.suggested_action) == (Effect.uncertain, Action.ask_user)
    assert office.sent == []
    key = failure.metadata[EFFECT_KEY]
    assert key == action_sha("send", INPUTS, run_id="r2")
    if happened:
        office.effects.commit(key, {"confirmed": True})
        assert (await in_another_run(write, office.effects)).envelope["result"] == {
            "confirmed": True
        }
        assert (await sent(write, office.effects)).envelope["result"] == {"confirmed": True}
        assert office.sent == []
    else:
        office.effects.withdraw(key)
        assert office.effects.standing(KEY) is None
        assert (await in_another_run(write, office.effects)).ok
        assert office.sent == ["ann"]


def test_first_of_two_intents_wins(effects: Effects) -> None:
    assert effects.intend("k1", "send", {"to": "ann", "n": 1})
    assert not effects.intend("k1", "send", {"n": 1, "to": "ann"})
    assert not effects.intend("k2", "send", {"n": 1, "to": "ann"})
    assert effects.intend("k3", "send", {"to": "ann", "n": 2})
    standing = effects.standing("k2", "send", {"to": "ann", "n": 1})
    assert standing == Standing("intended", others=("k1",))


def test_withdrawal_keeps_other_runs_commit(effects: Effects) -> None:
    effects.intend("k1", "send", INPUTS)
    effects.commit("k1", "one")
    assert effects.intend("k2", "send", INPUTS)
    effects.withdraw("k2")
    assert effects.standing("k1", "send", INPUTS) == Standing("committed", "one")
    assert effects.standing("k2", "send", INPUTS) is None


async def test_replayed_write_is_not_asked_about(office: Office) -> None:
    gate = asking(sending(office), effects=office.effects)
    asked = failure_of(await gate.step("send", INPUTS))
    assert asked.metadata["question"] == "May send run?"
    assert office.sent == []
    assert (await gate.step("send", INPUTS, approved=asked.metadata[HELD])).ok
    again = (await gate.step("send", INPUTS)).envelope
    assert again["result"] == "letter 1 to ann"
    assert "from the record" in again["note"]
    other = failure_of(await gate.step("send", {"to": "bob"}))
    assert other.metadata["question"] == "May send run?"
    assert office.sent == ["ann"]


async def test_unknown_outcome_is_asked_about_before_approval(office: Office) -> None:
    begun(office.effects)
    gate = asking(sending(office), effects=office.effects)
    unknown = failure_of(await gate.step("send", INPUTS))
    assert unknown.metadata["question"] == "Did send take effect?"
    office.effects.withdraw(unknown.metadata[EFFECT_KEY])
    failure = failure_of(await gate.step("send", INPUTS))
    assert failure.metadata["question"] == "May send run?"
    assert office.sent == []


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def test_write_with_unprintable_answer_is_recorded(office: Office) -> None:
    write = sending(office, Unshowable)
    outcome = await sent(write, office.effects)
    assert outcome.ok
    assert "cannot be shown" in outcome.envelope["result"]
    assert (await sent(write, office.effects)).ok
    assert office.sent == ["ann"]


class ReadTimeout(Exception):
    """As a client names it that is not imported here."""


def wrapped(error: BaseException, *, hidden: bool = False) -> Callable[[], None]:
    def then() -> None:
        try:
            raise error
        except type(error) as exc:
            raise ValueError("sending failed") from (None if hidden else exc)

    return then


def named(name: str, words: str = "", **facts: Any) -> Exception:
    """An error of a client that is not imported here."""
    error: Exception = type(name, (Exception,), {})(words)
    vars(error).update(facts)
    return error


class Response:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


IN_TRANSIT = [
    ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
    ssl.SSLZeroReturnError(6, "closed"),
    http.client.BadStatusLine("x"),
    EOFError(),
    named("HTTPStatusError", "Server error", response=Response(504)),
    named("InternalServerError", "Error code: 500", status_code=500),
    named("DeadlineExceeded", "504 Deadline Exceeded", code=504),
    named("ServiceUnavailable", "503", code=503),
    named("OperationalError", "server closed the connection unexpectedly"),
    named("AutoReconnect", "connection closed"),
    named("EndpointConnectionError", "Could not connect to the endpoint URL"),
    named("ClosedResourceError"),
    named("EndOfStream"),
    RuntimeError("Read timed out"),
    RuntimeError("Server disconnected"),
    RuntimeError("deadline exceeded"),
    RuntimeError("statement timeout"),
    RuntimeError("Timed out after 30 seconds"),
    RuntimeError("timed out while waiting for the answer"),
    RuntimeError("curl: (52) Empty reply from server"),
    RuntimeError("the server returned 502"),
    RuntimeError("Timeout 30000ms exceeded"),
    named("SMTPServerDisconnected", "please run connect() first"),
    named("APIStatusError", "500: rate limit storage is down", status_code=500),
]


@pytest.mark.parametrize(
    "then",
    [
        raising(ConnectionResetError("reset")),
        raising(TimeoutError()),
        raising(ReadTimeout("late")),
        raising(type("PoolTimeout", (ReadTimeout,), {})("late")),
        wrapped(ConnectionError("gone")),
        raising(ExceptionGroup("both", [ValueError("a"), ConnectionError("b")])),
        raising(asyncio.CancelledError()),
        lambda: ToolResult.from_exception(ConnectionError("gone")),
        lambda: ToolResult.from_exception(named("ServiceUnavailable", "503 Service Unavailable")),
        lambda: ToolResult.from_failure(
            Failure(FailureKind.tool_error, "half done", metadata={"effect": "uncertain"})
        ),
        lambda: ToolResult.from_failure(
            Failure(FailureKind.tool_error, "half done", metadata={"effect": "maybe"})
        ),
        *map(raising, IN_TRANSIT),
    ],
)
async def test_transport_error_becomes_a_question(office: Office, then: Callable[[], Any]) -> None:
    outcome = await sent(sending(office, then), office.effects)
    failure = failure_of(outcome)
    assert failure.kind is FailureKind.tool_error
    assert failure.effect is Effect.uncertain
    assert failure.suggested_action is Action.ask_user
    assert failure.metadata["question"] == "Did send take effect?"
    assert failure.metadata["choices"] == OUTCOME
    assert failure.metadata[EFFECT_KEY] == KEY
    assert office.effects.standing(KEY) == Standing("intended")
    await sent(sending(office), office.effects)
    assert office.sent == ["ann"]


@pytest.mark.parametrize(
    "error",
    [
        named("HTTPStatusError", "Client error", response=Response(429)),
        named("RateLimitError", "slow down"),
        named("ConnectError", "[Errno 111] Connection refused"),
        named("OperationalError", "connection to server failed: Connection refused"),
        socket.gaierror(-2, "Name or service not known"),
        RuntimeError("Temporary failure in name resolution"),
        named("BadRequestError", "no such account", status_code=400),
        PermissionError(13, "Permission denied"),
    ],
    ids=repr,
)
async def test_rejected_write_may_run_again(office: Office, error: Exception) -> None:
    failure = failure_of(await sent(sending(office, raising(error)), office.effects))
    assert failure.effect is Effect.none
    assert (await sent(sending(office), office.effects)).ok


def numbers() -> Iterator[int]:
    yield 1


async def later() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("make", [numbers, later])
@pytest.mark.parametrize("effect", ["none", "write"])
async def test_generator_is_no_answer(make: Callable[[], Any], effect: Any) -> None:
    @tool(effect=effect)
    async def send(to: str) -> Any:
        """Send, or not: its generator never runs."""
        return make()

    failure = failure_of(await gate_of(send, effects=MemoryEffects()).step("send", INPUTS))
    assert "return a list of what it yields" in failure.explanation
    assert failure.effect is (Effect.uncertain if effect == "write" else Effect.none)


async def test_write_may_raise_with_effect_none(office: Office) -> None:
    then = wrapped(ConnectionError("refused"), hidden=True)
    assert failure_of(await sent(sending(office, then), office.effects)).effect is Effect.none
    assert office.effects.standing(KEY) is None


async def test_failed_write_with_effect_is_committed(office: Office) -> None:
    told = Failure(
        FailureKind.tool_error,
        "sent, but no receipt came",
        partial_data={"id": 7},
        metadata={"effect": Effect.committed},
    )
    write = sending(office, lambda: ToolResult.from_failure(told))
    assert failure_of(await sent(write, office.effects)).effect is Effect.committed
    assert (await sent(write, office.effects)).envelope["result"] == {
        "done": "sent, but no receipt came",
        "data": {"id": 7},
    }
    assert office.sent == ["ann"]


async def letter(office: Office, to: str) -> str | None:
    return f"found for {to}" if to in office.sent else None


async def yes_or_no(office: Office, to: str) -> bool:
    return to in office.sent


async def how_many(office: Office, to: str) -> bool:
    return cast(bool, office.sent.count(to))


async def as_numpy(office: Office, to: str) -> Any:
    return np.bool_(to in office.sent)


@pytest.mark.parametrize(
    ("found", "run_id"), [(letter, "r2"), (yes_or_no, RUN), (how_many, RUN), (as_numpy, RUN)]
)
@pytest.mark.parametrize("happened", [True, False])
async def test_reconciliation_settles_the_outcome_for_both_runs(
    office: Office, found: Callable[..., Any], run_id: str, happened: bool
) -> None:
    begun(office.effects)
    office.sent += ["ann"] * happened
    write = sending(office, reconcile=functools.partial(found, office))
    outcome = await in_another_run(write, office.effects, run_id)
    if happened:
        assert outcome.ok
        if found is letter:
            assert outcome.envelope["result"] == "found for ann"
        else:
            assert "it took effect, once" in outcome.envelope["note"]
        standing = office.effects.standing(KEY)
        assert standing is not None
        assert standing.state == "committed"
        assert office.sent == ["ann"]
    else:
        failure = failure_of(outcome)
        assert (failure.effect, failure.suggested_action) == (Effect.none, Action.retry)
        assert "it did not take effect" in failure.explanation
        assert office.effects.standing(KEY) is None


async def breaks(to: str) -> None:
    raise RuntimeError("the shop is closed")


async def never(to: str) -> None:
    await hanging()


async def another_signature(number: int) -> None:
    raise AssertionError(number)


@pytest.mark.parametrize("reconcile", [None, breaks, never, another_signature])
async def test_failed_reconciliation_becomes_a_question(office: Office, reconcile: Any) -> None:
    write = sending(office, hanging, timeout_s=SOON, reconcile=reconcile)
    failure = failure_of(await sent(write, office.effects))
    assert failure.effect is Effect.uncertain
    assert failure.metadata[EFFECT_KEY] == KEY
    assert office.effects.standing(KEY) == Standing("intended")
    again = failure_of(await sent(write, office.effects))
    assert "outcome of an earlier attempt is unknown" in again.explanation
    assert office.sent == ["ann"]


async def test_running_body_may_still_act_after_reconciliation(office: Office) -> None:
    late, arrived = sending_late(office)
    first = failure_of(await sent(late, office.effects))
    assert "still runs" in first.explanation
    # Nor is it believed behind another gate, or in another run.
    for outcome in (await sent(late, office.effects), await in_another_run(late, office.effects)):
        assert failure_of(outcome).effect is first.effect is Effect.uncertain
    assert await asyncio.to_thread(arrived)
    for outcome in (await sent(late, office.effects), await in_another_run(late, office.effects)):
        assert outcome.envelope["result"] == "found for ann"
    assert office.sent == ["ann"]


async def test_stopped_write_is_uncertain(office: Office) -> None:
    stop = CancellationRequest()

    async def stopped() -> None:
        stop.set()
        await hanging()

    gate = gate_of(sending(office, stopped), effects=office.effects)
    with pytest.raises(Cancelled):
        await gate.step("send", INPUTS, cancellation=stop)
    assert office.effects.standing(KEY) == Standing("intended")
    await sent(sending(office), office.effects)
    assert office.sent == ["ann"]


def failing(at: str) -> MemoryEffects:
    """A record on a disk that fails at one kind of writing."""
    effects = MemoryEffects()
    setattr(effects, at, raising(JournalError("the disk is full")))
    return effects


@pytest.mark.parametrize("at", ["standing", "intend"])
async def test_unrecordable_write_does_not_run(at: str) -> None:
    office = Office(MemoryEffects())
    failure = failure_of(await sent(sending(office), failing(at)))
    assert (failure.suggested_action, failure.effect) == (Action.handoff, Effect.none)
    assert "was not run" in failure.explanation
    assert "the disk is full" in failure.explanation
    assert office.sent == []


async def test_write_with_failing_commit_is_reported_done_and_not_repeated() -> None:
    effects = failing("commit")
    office = Office(effects)
    outcome = await sent(sending(office), effects)
    failure = failure_of(outcome)
    assert (failure.suggested_action, failure.effect) == (Action.handoff, Effect.committed)
    assert "was done" in failure.explanation
    assert outcome.envelope["result"] == "letter 1 to ann"
    await sent(sending(office), effects)
    assert office.sent == ["ann"]


async def test_failed_write_that_cannot_be_withdrawn_stays_uncertain() -> None:
    effects = failing("withdraw")
    office = Office(effects)
    failure = failure_of(await sent(sending(office, raising(ValueError("no"))), effects))
    assert "did not take effect" in failure.explanation
    assert failure_of(await sent(sending(office), effects)).effect is Effect.uncertain
    assert office.sent == ["ann"]


@pytest.mark.parametrize("state", ["intended", "committed"])
def test_commit_is_final(effects: Effects, state: str) -> None:
    effects.intend("k", "send", {})
    if state == "committed":
        effects.commit("k", [1])
    effects.withdraw("k")
    expected = Standing("committed", [1]) if state == "committed" else None
    assert effects.standing("k") == expected
    effects.intend("k", "send", {})
    assert effects.standing("k") == (expected or Standing("intended"))
