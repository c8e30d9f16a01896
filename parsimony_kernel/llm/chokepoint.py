"""The only way out to a model.

One attempt per call, and four promises: what is sent is a valid transcript, a cancel ends the
wait at once and leaves nothing running, silence has a limit, and whatever goes wrong comes back
as a ``Failure``. Trying again is the funnel's.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parsimony_kernel.agent.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.llm.base import Beat, ChatModel, Completion, Delta, ModelRequest, StandInError
from parsimony_kernel.llm.faults import translate
from parsimony_kernel.llm.transcript import repair
from parsimony_kernel.triage.taxonomy import FailureType

# False in a test suite: then a model that would leave this machine refuses, so that a forgotten
# stand-in is an error and not a bill. PARSIMONY_LIVE_CALLS=off does the same from outside.
LIVE_CALLS_ALLOWED = True

# How long a stream may take to close once it is no longer wanted. It is real time, whatever the
# clock: this bounds a foreign library's cleanup, which a stopped run must not wait for.
CLOSING_S = 0.25


def live_calls_allowed(environ: Mapping[str, str]) -> bool:
    """Whether a request may leave this machine."""
    switch = environ.get("PARSIMONY_LIVE_CALLS", "").strip().lower()
    return LIVE_CALLS_ALLOWED and switch not in {"off", "0", "no", "false"}


@dataclass(frozen=True)
class _Broke:
    """The stream ended without a completion; ``exc`` is why, if it said so."""

    exc: BaseException | None


@dataclass(frozen=True)
class _Silent:
    seconds: float


@dataclass(frozen=True)
class _TooLong:
    seconds: float


_Heard = Delta | Completion | Beat | _Broke | _Silent | _TooLong | None


class _Line:
    """What was heard from the model and not read yet, and when it was last heard."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._items: asyncio.Queue[_Heard] = asyncio.Queue()
        self._heard_at = clock.monotonic()

    async def listen(self, model: ChatModel, request: ModelRequest) -> None:
        """Put down what ``model`` says, up to its completion or its end."""
        try:
            stream = model.stream(request)
            try:
                async for item in stream:
                    self._heard_at = self._clock.monotonic()
                    self._items.put_nowait(item)
                    if isinstance(item, Completion):
                        return
            finally:
                await _close(stream)
            self._items.put_nowait(_Broke(None))
        except Exception as exc:  # a foreign boundary: the table decides what it means
            self._items.put_nowait(_Broke(exc))
        except asyncio.CancelledError as exc:
            # Read by nobody when we cancelled; else a client cancelled itself.
            self._items.put_nowait(_Broke(exc))
            raise

    async def time_silence(self, limit_s: float, heartbeat_s: float | None) -> None:
        """Put down a beat for each ``heartbeat_s`` seconds in which nothing was heard, and a mark
        after ``limit_s``."""
        beats, heard_at = 0, self._heard_at
        while (silent := self._clock.monotonic() - self._heard_at) < limit_s:
            if heard_at != self._heard_at:
                beats, heard_at = 0, self._heard_at
            wait = limit_s - silent
            if heartbeat_s is not None:
                if silent >= heartbeat_s * (beats + 1):
                    beats = int(silent // heartbeat_s)
                    self._items.put_nowait(Beat(silent))
                wait = min(wait, heartbeat_s * (beats + 1) - silent)
            await self._clock.sleep(wait)
        self._items.put_nowait(_Silent(self._clock.monotonic() - self._heard_at))

    async def time_answer(self, limit_s: float | None) -> None:
        """Put down a mark once the answer has taken ``limit_s`` seconds."""
        if limit_s is not None:
            await self._clock.sleep(limit_s)
            self._items.put_nowait(_TooLong(limit_s))

    async def wake(self, cancellation: CancellationRequest) -> None:
        """Wake the reader when the run is to stop."""
        await cancellation.wait()
        self._items.put_nowait(None)

    async def next(self) -> _Heard:
        return await self._items.get()


async def call_llm(
    model: ChatModel,
    request: ModelRequest,
    *,
    cancellation: CancellationRequest,
    clock: Clock = SYSTEM_CLOCK,
    repair: Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]] = repair,
) -> AsyncGenerator[Delta | Beat | Completion | Failure, None]:
    """Ask ``model`` once.

    Yields any number of ``Delta`` and ``Beat``, and last, exactly one ``Completion`` or
    ``Failure``. A failure after some text holds that text as ``partial_data``; its ``metadata``
    names the model. ``repair`` may be that of a ``Repairer``, which knows earlier requests.

    ``request.timeout_s`` limits the model's silence, not the whole answer, and time that the
    caller spends between two items does not count.

    Raises ``Cancelled`` once ``cancellation`` is set, before the first token or between chunks,
    after the stream was closed. ``StandInError`` passes through: it speaks to a test.
    """
    if cancellation.is_set:
        raise Cancelled(cancellation.reason)
    line = _Line(clock)
    sent = replace(request, messages=repair(request.messages))
    tasks = {
        asyncio.create_task(line.listen(model, sent)),
        asyncio.create_task(line.time_silence(request.timeout_s, request.heartbeat_s)),
        asyncio.create_task(line.time_answer(request.deadline_s)),
        asyncio.create_task(line.wake(cancellation)),
    }
    text: list[str] = []
    last: Completion | Failure | None = None
    try:
        while last is None:
            item = await line.next()
            if cancellation.is_set:
                raise Cancelled(cancellation.reason)
            match item:
                case Delta():
                    text.append(item.text)
                    # An empty delta is a sign of life, of interest to the silence alone.
                    if item.text or item.reasoning:
                        yield item
                case Beat():
                    yield item
                case Completion(choices=()):
                    last = _transient("The provider's response holds no answer.")
                case Completion():
                    last = item
                    if item.message.content and not any(text):
                        # It came in one piece; people read it like any other.
                        yield Delta(item.message.content)
                case _Silent(seconds):
                    last = _transient(
                        f"The model was silent for {seconds:.0f} s.",
                        type=FailureType.TIMEOUT,
                        silence_s=seconds,
                    )
                case _TooLong(seconds):
                    last = Failure(
                        FailureKind.time_limit,
                        f"the time of the run was over {seconds:.0f} s into the model's answer",
                        metadata={"answer_s": seconds},
                    )
                case _Broke(None):
                    last = _transient("The model's answer ended before it was complete.")
                case _Broke(StandInError() as exc):
                    raise exc
                case _Broke(BaseException() as exc):
                    last = translate(exc, secrets=getattr(model, "secrets", ()))
    finally:
        await _end(tasks)
    # After the clean-up, so that a caller who stops reading here leaves nothing running.
    if isinstance(last, Failure):
        last = replace(
            last,
            partial_data="".join(text) or last.partial_data,
            metadata={**last.metadata, "model": model.name},
        )
    yield last


async def _close(stream: AsyncIterator[Any]) -> None:
    closing = getattr(stream, "aclose", None)
    if closing is not None:
        await closing()


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    _, stuck = await asyncio.wait(tasks, timeout=CLOSING_S)
    for task in stuck:
        # It was told to stop; whatever it says later is of no interest to anybody.
        task.add_done_callback(lambda late: late.cancelled() or late.exception())


def _transient(
    sentence: str, *, type: FailureType = FailureType.EXTERNAL_FAULT, **measured: float
) -> Failure:
    return Failure(FailureKind.transient_provider, sentence, metadata={"type": type, **measured})
