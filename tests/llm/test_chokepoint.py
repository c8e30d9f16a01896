"""One attempt, a valid transcript, and an end to every wait."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import Beat, ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.llm import chokepoint
from parsimony_kernel.llm.chokepoint import (
    CLOSING_S,
    FINISHING_S,
    MAX_ANSWER_LENGTH,
    call_llm,
    live_calls_allowed,
)
from parsimony_kernel.testing.manual_clock import ManualClock, fast_loop
from parsimony_kernel.testing.scripted import ScriptedModel, call, say

REQUEST = ModelRequest([{"role": "user", "content": "go"}], timeout_s=60)
Play = Callable[["Fake"], AsyncIterator[Any]]


class Fake:
    """A model whose stream is one function; ``closed`` says that the stream was ended."""

    name = "fake"

    def __init__(self, play: Play) -> None:
        self._play = play
        self.item = Delta()
        self.opened = asyncio.Event()
        self.closed = False

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        try:
            self.opened.set()
            async for item in self._play(self):
                yield item
        finally:
            self.closed = True


async def waits_for_ever(fake: Fake) -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield


async def speaks_then_waits(fake: Fake) -> AsyncIterator[Any]:
    yield Delta("Hel")
    await asyncio.Event().wait()


async def swallows_the_cancel(fake: Fake) -> AsyncIterator[Any]:
    yield Delta("Hel")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await released.wait()


released: asyncio.Event


async def all_of(
    model: ChatModel, request: ModelRequest = REQUEST, **given: Any
) -> list[Delta | Beat | Completion | Failure]:
    given.setdefault("cancellation", CancellationRequest())
    return [item async for item in call_llm(model, request, **given)]


async def nothing_else_runs() -> bool:
    for _ in range(3):  # a generator that was dropped is closed by a task of the loop's own
        await asyncio.sleep(0)
    return asyncio.all_tasks() == {asyncio.current_task()}


async def test_deltas_come_before_completion() -> None:
    model = ScriptedModel([say("Hello")])
    items = await all_of(model)
    assert items[0] == Delta("Hello")
    assert isinstance(items[-1], Completion)
    assert len(items) == 2
    assert await nothing_else_runs()


async def test_model_gets_repaired_transcript_and_caller_keeps_own() -> None:
    model = ScriptedModel([say("fine")])
    broken: list[dict[str, Any]] = [
        {"role": "assistant", "content": None},
        {"role": "user", "content": "go", "x": 1},
    ]
    request = ModelRequest(broken)
    async for _ in call_llm(model, request, cancellation=CancellationRequest()):
        pass
    assert model.requests[0].messages == [{"role": "user", "content": "go"}]
    assert broken[1] == {"role": "user", "content": "go", "x": 1}


@pytest.mark.parametrize("play", [waits_for_ever, speaks_then_waits])
async def test_cancel_ends_wait_and_closes_stream(play: Play) -> None:
    fake, cancellation = Fake(play), CancellationRequest()
    stream = call_llm(fake, REQUEST, cancellation=cancellation)
    if play is speaks_then_waits:
        assert await anext(stream) == Delta("Hel")
    waiting = asyncio.ensure_future(anext(stream))
    await fake.opened.wait()
    cancellation.set("stop it")
    with pytest.raises(Cancelled, match="stop it"):
        await waiting
    assert fake.closed
    assert await nothing_else_runs()


async def test_cancel_from_another_thread_is_heard() -> None:
    fake, cancellation = Fake(waits_for_ever), CancellationRequest()
    waiting = asyncio.ensure_future(all_of(fake, cancellation=cancellation))
    await fake.opened.wait()
    await asyncio.to_thread(cancellation.set, "from a thread")
    with pytest.raises(Cancelled, match="from a thread"):
        await waiting
    assert fake.closed


async def test_nothing_is_emitted_after_cancel() -> None:
    async def chatters(fake: Fake) -> AsyncIterator[Any]:
        for _ in range(100):
            yield Delta("more ")
        yield say("all")

    cancellation = CancellationRequest()
    stream = call_llm(Fake(chatters), REQUEST, cancellation=cancellation)
    await anext(stream)
    cancellation.set()
    with pytest.raises(Cancelled):
        await anext(stream)


async def test_stubborn_stream_does_not_delay_stop() -> None:
    global released
    released = asyncio.Event()
    cancellation = CancellationRequest()
    stream = call_llm(Fake(swallows_the_cancel), REQUEST, cancellation=cancellation)
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


async def test_early_leaving_reader_leaves_nothing_running() -> None:
    fake = Fake(speaks_then_waits)
    stream = call_llm(fake, REQUEST, cancellation=CancellationRequest())
    await anext(stream)
    await stream.aclose()
    assert fake.closed
    assert await nothing_else_runs()


async def test_cancelled_reader_leaves_nothing_running() -> None:
    fake = Fake(waits_for_ever)
    reading = asyncio.ensure_future(all_of(fake))
    await fake.opened.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert fake.closed
    assert await nothing_else_runs()


async def test_reader_stopping_at_completion_leaves_nothing_running() -> None:
    async for item in call_llm(
        ScriptedModel([say("hi")]), REQUEST, cancellation=CancellationRequest()
    ):
        if isinstance(item, Completion):
            break
    assert await nothing_else_runs()


@pytest.mark.parametrize("play", [waits_for_ever, speaks_then_waits])
async def test_silence_past_limit_is_a_timeout(play: Play) -> None:
    fake, clock = Fake(play), ManualClock()
    *_, last = await all_of(fake, clock=clock)
    assert isinstance(last, Failure)
    assert (last.kind, last.type) == (FailureKind.transient_provider, FailureType.TIMEOUT)
    begun = {"answer_tokens": 1} if play is speaks_then_waits else {}
    assert last.metadata == {
        "type": FailureType.TIMEOUT,
        "silence_s": 60.0,
        "model": "fake",
        **begun,
    }
    assert last.partial_data == ("Hel" if play is speaks_then_waits else None)
    assert clock.monotonic() == 60.0
    assert fake.closed


async def test_keepalives_extend_a_long_answer_silently() -> None:
    clock = ManualClock()

    async def writes_code(fake: Fake) -> AsyncIterator[Any]:
        for _ in range(10):
            await clock.sleep(50)
            yield Delta()
        yield call("run_code", code="1")

    items = await all_of(Fake(writes_code), clock=clock)
    assert [type(item) for item in items] == [Completion]
    assert clock.monotonic() == 500.0


async def test_reader_time_is_not_model_silence() -> None:
    clock = ManualClock()
    model = ScriptedModel([say("Hello")])
    stream = call_llm(model, REQUEST, cancellation=CancellationRequest(), clock=clock)
    await anext(stream)
    await clock.sleep(1000)
    assert isinstance(await anext(stream), Completion)


async def test_scripted_answer_takes_no_virtual_time() -> None:
    clock = ManualClock()
    await all_of(ScriptedModel([say("Hello")]), clock=clock)
    assert clock.monotonic() == 0.0


async def gushes(fake: Fake) -> AsyncIterator[Any]:
    """Never waits and never ends."""
    while True:
        yield fake.item


def gush(item: Delta) -> Fake:
    fake = Fake(gushes)
    fake.item = item
    return fake


@pytest.mark.parametrize("item", [Delta("x"), Delta(reasoning="x"), Delta()])
async def test_busy_stream_can_be_cancelled(item: Delta) -> None:
    fake, cancellation = gush(item), CancellationRequest()
    reading = asyncio.ensure_future(all_of(fake, cancellation=cancellation))
    await fake.opened.wait()
    cancellation.set("enough")
    with pytest.raises(Cancelled, match="enough"):
        await reading
    assert fake.closed
    assert await nothing_else_runs()


async def test_busy_stream_ends_after_answer_deadline() -> None:
    fake, clock = gush(Delta("x")), ManualClock(auto=False)
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
    async def waits(fake: Fake) -> AsyncIterator[Any]:
        yield Delta()
        await asyncio.Event().wait()

    request = ModelRequest(REQUEST.messages, timeout_s=900.0, deadline_s=5.0)
    clock = ManualClock()
    *_, last = await all_of(Fake(waits), request=request, clock=clock)
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.time_limit
    assert last.metadata["answer_s"] == 5.0


@pytest.mark.parametrize(
    "item", [Delta("x" * 1000), Delta(reasoning="y" * 1000), Delta("x" * 500, "y" * 500)]
)
async def test_endless_answer_is_cut_at_its_maximum(item: Delta) -> None:
    fake = gush(item)
    *deltas, last = await all_of(fake)
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.output_truncated
    assert f"{MAX_ANSWER_LENGTH:,}" in last.explanation
    assert len(deltas) == MAX_ANSWER_LENGTH // 1000
    assert fake.closed


async def test_single_chunk_answer_has_the_same_maximum() -> None:
    async def tells_twice(fake: Fake) -> AsyncIterator[Any]:
        yield Delta("x" * MAX_ANSWER_LENGTH)
        yield say("x" * MAX_ANSWER_LENGTH)

    *_, last = await all_of(Fake(tells_twice))
    assert isinstance(last, Completion)
    (last,) = await all_of(ScriptedModel([say("x" * (MAX_ANSWER_LENGTH + 1))]))
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.output_truncated


async def test_unread_output_is_bounded() -> None:
    fake = gush(Delta("x" * 1000))
    stream = call_llm(fake, REQUEST, cancellation=CancellationRequest())
    await anext(stream)
    while not fake.closed:  # the reader is busy; without an end this loop has none either
        await asyncio.sleep(0)
    await stream.aclose()


async def test_broken_answer_reports_its_tokens() -> None:
    async def breaks(fake: Fake) -> AsyncIterator[Any]:
        yield Delta("t" * 4000, "r" * 4000)
        raise ConnectionResetError("gone")

    async def breaks_in_a_call(fake: Fake) -> AsyncIterator[Any]:
        for _ in range(300):  # the arguments of a call, which are no text
            yield Delta()
        raise ConnectionResetError("gone")

    for play, tokens in ((breaks, 2001), (breaks_in_a_call, 300)):
        *_, last = await all_of(Fake(play))
        assert isinstance(last, Failure)
        assert last.metadata["answer_tokens"] == tokens


async def test_answer_that_never_began_reports_no_tokens() -> None:
    (last,) = await all_of(ScriptedModel([ConnectionResetError("gone")]))
    assert isinstance(last, Failure)
    assert "answer_tokens" not in last.metadata


@pytest.mark.parametrize("every_s", [5e-324, 1e-6, 1.0])
async def test_waiting_events_come_once_a_second_at_most(every_s: float) -> None:
    request = ModelRequest(REQUEST.messages, timeout_s=60, heartbeat_s=every_s)
    stream = call_llm(
        Fake(waits_for_ever), request, cancellation=CancellationRequest(), clock=ManualClock()
    )
    *beats, last = [item async for item in stream]
    assert beats == [Beat(float(second)) for second in range(1, 60)]
    assert isinstance(last, Failure)
    assert last.type is FailureType.TIMEOUT


@pytest.mark.parametrize("item", [None, 5, "text", Beat(1.0), Delta(5), Completion(choices=None)])  # type: ignore[arg-type]
async def test_foreign_stream_item_is_a_clear_failure(item: Any) -> None:
    async def gives(fake: Fake) -> AsyncIterator[Any]:
        yield Delta("Hel")
        yield item

    fake = Fake(gives)
    *_, last = await all_of(fake)
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.capability_gap
    assert last.blockers[0].startswith("The model's adapter gave ")
    assert last.partial_data == "Hel"
    assert fake.closed


async def test_events_after_completion_are_ignored() -> None:
    async def goes_on(fake: Fake) -> AsyncIterator[Any]:
        yield say("first")
        yield say("second")

    items = await all_of(Fake(goes_on))
    assert [type(item) for item in items] == [Delta, Completion]
    assert isinstance(items[-1], Completion)
    assert items[-1].message.content == "first"


async def test_exiting_adapter_is_a_failure() -> None:
    async def exits(fake: Fake) -> AsyncIterator[Any]:
        raise SystemExit(3)
        yield

    (last,) = await all_of(Fake(exits))
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.capability_gap


async def test_invalid_secrets_do_not_spoil_the_failure() -> None:
    class Careless(Fake):
        secrets = None

    async def breaks(fake: Fake) -> AsyncIterator[Any]:
        raise ConnectionResetError("gone")
        yield

    (last,) = await all_of(Careless(breaks))
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.transient_provider


async def test_exception_is_a_failure_with_partial_text() -> None:
    async def breaks(fake: Fake) -> AsyncIterator[Any]:
        yield Delta("Hel", "hm")
        raise ConnectionResetError("gone")

    *_, last = await all_of(Fake(breaks))
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.transient_provider
    assert last.partial_data == "Hel"
    assert last.metadata["model"] == "fake"
    assert await nothing_else_runs()


async def test_model_raising_before_streaming_is_a_failure() -> None:
    class Unready:
        name = "unready"

        def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
            raise ModuleNotFoundError("No module named 'litellm'")

    (last,) = await all_of(Unready())
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.capability_gap
    assert "No module named 'litellm'" in last.blockers[0]


@pytest.mark.parametrize("answer", [[], [Delta("Hel")], [Completion(choices=())]])
async def test_stream_without_answer_is_transient(answer: list[Any]) -> None:
    async def plays(fake: Fake) -> AsyncIterator[Any]:
        for item in answer:
            yield item

    *_, last = await all_of(Fake(plays))
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.transient_provider


async def test_self_cancelling_client_does_not_hang() -> None:
    async def gives_up(fake: Fake) -> AsyncIterator[Any]:
        raise asyncio.CancelledError
        yield

    (last,) = await all_of(Fake(gives_up))
    assert isinstance(last, Failure)
    assert last.kind is FailureKind.transient_provider


async def test_keyboard_interrupt_in_model_stops_run_only() -> None:
    async def interrupts(fake: Fake) -> AsyncIterator[Any]:
        yield Delta("Hel")
        raise KeyboardInterrupt

    with pytest.raises(Cancelled, match="by a KeyboardInterrupt within"):
        await all_of(Fake(interrupts))
    assert await nothing_else_runs()


async def test_error_on_close_does_not_spoil_answer() -> None:
    async def ends_badly(fake: Fake) -> AsyncIterator[Any]:
        try:
            yield say("done")
        finally:
            raise OSError("could not close")

    said, last = await all_of(Fake(ends_badly))
    assert said == Delta("done")  # words that came in one piece are read like any other
    assert isinstance(last, Completion)


@pytest.mark.parametrize(
    ("value", "allowed"), [("", True), ("on", True), ("off", False), (" OFF ", False), ("0", False)]
)
def test_live_calls_can_be_disabled_from_outside(
    value: str, allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chokepoint, "LIVE_CALLS_ALLOWED", True)
    assert live_calls_allowed({"PARSIMONY_LIVE_CALLS": value}) is allowed


def test_chokepoint_imports_no_client() -> None:
    """The offline path stays light: a client is imported for the first live request."""
    script = (
        "import sys; import parsimony_kernel.llm.chokepoint, parsimony_kernel.agent.resolve; "
        "print(sorted({'litellm', 'openai', 'httpx', 'aiohttp', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
