"""One attempt, a valid transcript, and an end to every wait."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import repeat
from typing import Any

import pytest

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import Beat, ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.core.kinds import Failure, FailureKind, FailureType
from parsimony_kernel.llm import chokepoint
from parsimony_kernel.llm.chokepoint import (
    CLOSING_S,
    FINISHING_S,
    MAX_ANSWER_LENGTH,
    call_llm,
    live_calls_allowed,
)
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, call, say
from tests.fast_loop import fast_loop

REQUEST = ModelRequest([{"role": "user", "content": "go"}], timeout_s=60)
HEL = Delta("Hel")
GONE = ConnectionResetError("gone")
TRANSIENT = FailureKind.transient_provider
GAP = FailureKind.capability_gap


async def for_ever() -> None:
    await asyncio.Event().wait()


class Fake:
    """A model that streams ``items``: it raises an exception, and awaits a function.

    ``closed`` says that the stream was ended, which raises ``at_close``.
    """

    name = "fake"

    def __init__(self, *items: Any, endless: Any = None, at_close: Any = None) -> None:
        self._items: Iterable[Any] = repeat(endless) if endless is not None else items
        self._at_close = at_close
        self.opened = asyncio.Event()
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        try:
            self.opened.set()
            for item in self._items:
                if isinstance(item, BaseException):
                    raise item
                if callable(item):
                    await item()
                else:
                    yield item
        finally:
            self.closed = True
            if self._at_close is not None:
                raise self._at_close


async def all_of(
    model: ChatModel, request: ModelRequest = REQUEST, **given: Any
) -> list[Delta | Beat | Completion | Failure]:
    given.setdefault("cancellation", CancellationRequest())
    return [item async for item in call_llm(model, request, **given)]


async def failure_of(model: ChatModel, request: ModelRequest = REQUEST, **given: Any) -> Failure:
    *_, last = await all_of(model, request, **given)
    assert isinstance(last, Failure)
    return last


async def nothing_else_runs() -> bool:
    for _ in range(3):  # a generator that was dropped is closed by a task of the loop's own
        await asyncio.sleep(0)
    return asyncio.all_tasks() == {asyncio.current_task()}


async def test_model_gets_repaired_transcript_and_caller_keeps_own() -> None:
    model = ScriptedModel([say("fine")])
    broken: list[dict[str, Any]] = [
        {"role": "assistant", "content": None},
        {"role": "user", "content": "go", "x": 1},
    ]
    words, answer = await all_of(model, ModelRequest(broken))
    assert words == Delta("fine")
    assert isinstance(answer, Completion)
    assert await nothing_else_runs()
    assert model.requests[0].messages == [{"role": "user", "content": "go"}]
    assert broken[1] == {"role": "user", "content": "go", "x": 1}


# Stop.


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("begins", [(), (HEL,)], ids=["silent", "speaking"])
async def test_cancel_ends_wait_and_closes_stream(begins: Any, in_thread: bool) -> None:
    fake, cancellation = Fake(*begins, for_ever), CancellationRequest()
    stream = call_llm(fake, REQUEST, cancellation=cancellation)
    for item in begins:
        assert await anext(stream) == item
    waiting = asyncio.ensure_future(anext(stream))
    await fake.opened.wait()
    if in_thread:
        await asyncio.to_thread(cancellation.set, "stop it")
    else:
        cancellation.set("stop it")
    with pytest.raises(Cancelled, match="stop it"):
        await waiting
    assert fake.closed
    assert await nothing_else_runs()


async def test_nothing_is_emitted_after_cancel() -> None:
    cancellation = CancellationRequest()
    fake = Fake(*[Delta("more ")] * 100, say("all"))
    stream = call_llm(fake, REQUEST, cancellation=cancellation)
    await anext(stream)
    cancellation.set()
    with pytest.raises(Cancelled):
        await anext(stream)


async def test_stubborn_stream_does_not_delay_stop() -> None:
    released = asyncio.Event()

    async def swallows_the_cancel() -> None:
        try:
            await for_ever()
        except asyncio.CancelledError:
            await released.wait()

    cancellation = CancellationRequest()
    stream = call_llm(Fake(HEL, swallows_the_cancel), REQUEST, cancellation=cancellation)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    async with fast_loop(0.01) as passed:
        cancellation.set()
        with pytest.raises(Cancelled):
            await waiting
        assert CLOSING_S <= passed() + 0.01 < 2 * CLOSING_S
    released.set()
    await asyncio.sleep(0)


@pytest.mark.parametrize("item", [Delta("x"), Delta(reasoning="x"), Delta()])
async def test_busy_stream_can_be_cancelled(item: Delta) -> None:
    fake, cancellation = Fake(endless=item), CancellationRequest()
    reading = asyncio.ensure_future(all_of(fake, cancellation=cancellation))
    await fake.opened.wait()
    cancellation.set("enough")
    with pytest.raises(Cancelled, match="enough"):
        await reading
    assert fake.closed
    assert await nothing_else_runs()


async def test_keyboard_interrupt_in_model_stops_run_only() -> None:
    with pytest.raises(Cancelled, match="by a KeyboardInterrupt within"):
        await all_of(Fake(HEL, KeyboardInterrupt()))
    assert await nothing_else_runs()


# Readers.


async def test_early_leaving_reader_leaves_nothing_running() -> None:
    fake = Fake(HEL, for_ever)
    stream = call_llm(fake, REQUEST, cancellation=CancellationRequest())
    await anext(stream)
    await stream.aclose()
    assert fake.closed
    assert await nothing_else_runs()


async def test_cancelled_reader_leaves_nothing_running() -> None:
    fake = Fake(for_ever)
    reading = asyncio.ensure_future(all_of(fake))
    await fake.opened.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert fake.closed
    assert await nothing_else_runs()


async def test_reader_stopping_at_completion_leaves_nothing_running() -> None:
    async for item in call_llm(Fake(say("hi")), REQUEST, cancellation=CancellationRequest()):
        if isinstance(item, Completion):
            break
    assert await nothing_else_runs()


# Time.


@pytest.mark.parametrize("begins", [(), (HEL,)], ids=["silent", "speaking"])
async def test_silence_past_limit_is_a_timeout(begins: Any) -> None:
    fake, clock = Fake(*begins, for_ever), ManualClock()
    last = await failure_of(fake, clock=clock)
    assert (last.kind, last.type) == (TRANSIENT, FailureType.TIMEOUT)
    begun = {"answer_tokens": 1} if begins else {}
    told = {"type": FailureType.TIMEOUT, "silence_s": 60.0, "model": "fake", **begun}
    assert last.metadata == told
    assert last.partial_data == ("Hel" if begins else None)
    assert clock.monotonic() == 60.0
    assert fake.closed


async def test_keepalives_extend_a_long_answer_silently() -> None:
    clock = ManualClock()
    pieces = [lambda: clock.sleep(50), Delta()] * 10
    items = await all_of(Fake(*pieces, call("run_code", code="1")), clock=clock)
    assert [type(item) for item in items] == [Completion]
    assert clock.monotonic() == 500.0


async def test_reader_time_is_not_model_silence() -> None:
    clock = ManualClock()
    stream = call_llm(
        Fake(Delta("Hello"), say("Hello")), REQUEST, cancellation=CancellationRequest(), clock=clock
    )
    await anext(stream)
    assert clock.monotonic() == 0.0
    await clock.sleep(1000)
    assert isinstance(await anext(stream), Completion)


async def test_busy_stream_ends_after_answer_deadline() -> None:
    fake, clock = Fake(endless=Delta("x")), ManualClock(auto=False)
    request = ModelRequest(REQUEST.messages, deadline_s=5.0)
    heard: list[Any] = []
    stream = call_llm(fake, request, cancellation=CancellationRequest(), clock=clock)
    async for item in stream:
        heard.append(item)
        if len(heard) in (100, 200):
            clock.advance(6.0 if len(heard) == 100 else FINISHING_S)
    assert isinstance(heard[-1], Failure)
    assert heard[-1].kind is FailureKind.time_limit
    assert len(heard) > 200


async def test_silent_model_ends_at_answer_deadline() -> None:
    request = ModelRequest(REQUEST.messages, timeout_s=900.0, deadline_s=5.0)
    last = await failure_of(Fake(Delta(), for_ever), request, clock=ManualClock())
    assert last.kind is FailureKind.time_limit
    assert last.metadata["answer_s"] == 5.0


@pytest.mark.parametrize("every_s", [5e-324, 1e-6, 1.0])
async def test_waiting_events_come_once_a_second_at_most(every_s: float) -> None:
    request = ModelRequest(REQUEST.messages, timeout_s=60, heartbeat_s=every_s)
    *beats, last = await all_of(Fake(for_ever), request, clock=ManualClock())
    assert beats == [Beat(float(second)) for second in range(1, 60)]
    assert isinstance(last, Failure)
    assert last.type is FailureType.TIMEOUT


# Length.


@pytest.mark.parametrize(
    "item", [Delta("x" * 1000), Delta(reasoning="y" * 1000), Delta("x" * 500, "y" * 500)]
)
async def test_endless_answer_is_cut_at_its_maximum(item: Delta) -> None:
    fake = Fake(endless=item)
    *deltas, last = await all_of(fake)
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.output_truncated
    assert f"{MAX_ANSWER_LENGTH:,}" in last.explanation
    assert len(deltas) == MAX_ANSWER_LENGTH // 1000
    assert fake.closed


async def test_single_chunk_answer_has_the_same_maximum() -> None:
    most = "x" * MAX_ANSWER_LENGTH
    assert isinstance((await all_of(Fake(Delta(most), say(most))))[-1], Completion)
    last = await failure_of(Fake(say(f"{most}x")))
    assert last.kind is FailureKind.output_truncated


async def test_unread_output_is_bounded() -> None:
    fake = Fake(endless=Delta("x" * 1000))
    stream = call_llm(fake, REQUEST, cancellation=CancellationRequest())
    await anext(stream)
    while not fake.closed:  # the reader is busy; without an end this loop has none either
        await asyncio.sleep(0)
    await stream.aclose()


# What is no answer.


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        ([], TRANSIENT),
        ([HEL], TRANSIENT),
        ([Completion(choices=())], TRANSIENT),
        ([GONE], TRANSIENT),
        ([asyncio.CancelledError()], TRANSIENT),
        ([SystemExit(3)], GAP),
    ],
)
async def test_stream_without_answer_is_a_failure(items: list[Any], kind: FailureKind) -> None:
    last = await failure_of(Fake(*items))
    assert (last.kind, last.metadata["model"]) == (kind, "fake")
    assert last.partial_data == ("Hel" if items == [HEL] else None)
    assert ("answer_tokens" in last.metadata) is (items == [HEL])
    assert await nothing_else_runs()


@pytest.mark.parametrize(
    ("items", "tokens"),
    [
        ([Delta("t" * 4000, "r" * 4000)], 2001),
        ([Delta()] * 300, 300),  # the arguments of a call, which are no text
    ],
)
async def test_broken_answer_keeps_its_text_and_tokens(items: list[Delta], tokens: int) -> None:
    last = await failure_of(Fake(*items, GONE))
    assert last.kind is TRANSIENT
    assert last.partial_data == (items[0].text or None)
    assert last.metadata["answer_tokens"] == tokens


@pytest.mark.parametrize("item", [None, 5, "text", Beat(1.0), Delta(5), Completion(choices=None)])  # type: ignore[arg-type]
async def test_foreign_stream_item_is_a_clear_failure(item: Any) -> None:
    fake = Fake(HEL, item)
    last = await failure_of(fake)
    assert last.kind is GAP
    assert last.blockers[0].startswith("The model's adapter gave ")
    assert last.partial_data == "Hel"
    assert fake.closed


async def test_model_raising_before_streaming_is_a_failure() -> None:
    class Unready(Fake):
        def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
            raise ModuleNotFoundError("No module named 'litellm'")

    last = await failure_of(Unready())
    assert last.kind is GAP
    assert "No module named 'litellm'" in last.blockers[0]


async def test_nothing_after_the_completion_spoils_it() -> None:
    words, last = await all_of(Fake(say("first"), say("second"), at_close=OSError("not closed")))
    assert words == Delta("first")  # words that came in one piece are read like any other
    assert isinstance(last, Completion)
    assert last.message.content == "first"


@pytest.mark.parametrize(
    ("value", "allowed"), [("", True), ("on", True), ("off", False), (" OFF ", False), ("0", False)]
)
def test_live_calls_can_be_disabled_from_outside(
    value: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chokepoint, "LIVE_CALLS_ALLOWED", True)
    assert live_calls_allowed({"PARSIMONY_LIVE_CALLS": value}) is allowed
