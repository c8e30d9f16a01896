"""The chokepoint: the only code that calls a model.

Each call is one attempt, with five guarantees: the sent transcript is valid; a cancel ends the wait
at once and leaves nothing running; silence and the length of an answer are limited; the result has
the promised types; and every error comes back as a ``Failure``. Retries are left to the funnel.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from parsimony_kernel.core import causes
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import (
    Beat,
    ChatModel,
    Completion,
    Delta,
    Message,
    ModelRequest,
    StandInError,
)
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.conversation import sent_to
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.limits.budget import tokens_said
from parsimony_kernel.llm.coerce import read, secrets_of
from parsimony_kernel.llm.extras import given_back
from parsimony_kernel.llm.faults import translate
from parsimony_kernel.llm.transcript import repair

# Set to False in a test suite: then a model that would leave this machine refuses, so that a
# forgotten fake is an error and not a bill. PARSIMONY_LIVE_CALLS=off does the same from outside.
LIVE_CALLS_ALLOWED = True

# How long a cancelled stream may take to close, in real seconds whatever the clock: a stopped run
# must not wait for a foreign library's cleanup.
CLOSING_S = 0.25

# Characters of one answer, reasoning included; an empty piece counts as one. A stream may be
# endless.
MAX_ANSWER_LENGTH = 5_000_000

# Extra seconds for an answer that has begun when the run's time is over.
FINISHING_S = 120.0

# Heartbeats are for people: more than one a second is noise.
MIN_HEARTBEAT_S = 1.0

_NO_ANSWER = "The provider's response holds no answer."

# How many items are received before the reader, a cancel and the timers get their turn, since a
# stream may never wait.
_AT_A_TIME = 8


def live_calls_allowed(environ: Mapping[str, str]) -> bool:
    """Whether a request may leave this machine."""
    switch = environ.get("PARSIMONY_LIVE_CALLS", "").strip().lower()
    return LIVE_CALLS_ALLOWED and switch not in {"off", "0", "no", "false"}


# A model's output, its failure, a deviation from a test script, or ``None``: check for a cancel.
_Heard = Delta | Completion | Beat | Failure | StandInError | Cancelled | None


class _Line:
    """The queue between the model's stream and its reader, with the time of the last item."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.heard: asyncio.Queue[_Heard] = asyncio.Queue()
        self._heard_at = clock.monotonic()
        self._has_begun = False

    async def listen(self, model: ChatModel, request: ModelRequest) -> None:
        """Queue the items of the model's stream, until it completes, ends or gets too long."""
        length = heard = 0
        try:
            stream = model.stream(request)
            try:
                async for given in stream:
                    self._heard_at = self._clock.monotonic()
                    item = read(given, model=model.name)
                    whole = isinstance(item, Completion)
                    length = _length(item) if whole else length + _length(item)
                    if length > MAX_ANSWER_LENGTH:
                        cut = f"the model's answer was cut off at {MAX_ANSWER_LENGTH:,} characters"
                        self.heard.put_nowait(causes.ANSWER_CUT_OFF.failure(cut))
                        return
                    self.heard.put_nowait(item)
                    if whole:
                        return
                    # An empty first item may only mean that the client was imported.
                    if heard or length > 1:
                        self._has_begun = True
                    heard += 1
                    if heard % _AT_A_TIME == 0:
                        await asyncio.sleep(0)
            finally:
                await close(stream)
            self.heard.put_nowait(
                causes.PROVIDER_FAULT.failure("The model's answer ended before it was complete.")
            )
        except StandInError as exc:
            self.heard.put_nowait(exc)
        except KeyboardInterrupt:
            # Raised out of a task, it would end the event loop, and with it a kernel.
            self.heard.put_nowait(Cancelled(f"stopped by a KeyboardInterrupt within {model.name}"))
        except BaseException as exc:  # boundary: tool - a provider; the table says what it means
            # Nobody reads this when we cancelled; otherwise the client cancelled itself.
            self.heard.put_nowait(translate(exc, secrets=secrets_of(model)))
            if isinstance(exc, asyncio.CancelledError):
                raise

    async def time_silence(self, limit_s: float, heartbeat_s: float | None) -> None:
        """Queue a beat for every ``heartbeat_s`` seconds of silence, and a failure after
        ``limit_s``."""
        if heartbeat_s is not None:
            heartbeat_s = max(heartbeat_s, MIN_HEARTBEAT_S)
        beats, heard_at = 0, self._heard_at
        while (silent := self._clock.monotonic() - self._heard_at) < limit_s:
            if heard_at != self._heard_at:
                beats, heard_at = 0, self._heard_at
            wait = limit_s - silent
            if heartbeat_s is not None:
                if silent >= heartbeat_s * (beats + 1):
                    beats = int(silent // heartbeat_s)
                    self.heard.put_nowait(Beat(silent))
                wait = min(wait, heartbeat_s * (beats + 1) - silent)
            await self._clock.sleep(wait)
        silence_s = self._clock.monotonic() - self._heard_at
        sentence = f"The model was silent for {silence_s:.0f} s."
        self.heard.put_nowait(causes.PROVIDER_SILENT.failure(sentence, silence_s=silence_s))

    async def time_answer(self, limit_s: float | None) -> None:
        """Queue a failure once the answer has taken ``limit_s`` seconds, or ``FINISHING_S`` more
        if it has begun by then."""
        if limit_s is None:
            return
        asked_at = self._clock.monotonic()
        await self._clock.sleep(limit_s)
        if self._has_begun:
            await self._clock.sleep(FINISHING_S)
        answer_s = self._clock.monotonic() - asked_at
        sentence = f"the time of the run was over {answer_s:.0f} s into the model's answer"
        self.heard.put_nowait(causes.TIME_USED.failure(sentence, answer_s=answer_s))


async def call_llm(
    model: ChatModel,
    request: ModelRequest,
    *,
    cancellation: CancellationRequest,
    clock: Clock = SYSTEM_CLOCK,
    repair: Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]] = repair,
) -> AsyncGenerator[Delta | Beat | Completion | Failure, None]:
    """Ask ``model`` once.

    ``request.timeout_s`` limits the model's silence, not the whole answer; time that the caller
    spends between two items doesn't count.

    Args:
        model: the model to ask.
        request: its messages, tools and limits.
        cancellation: stops the call.
        clock: measures silence and the deadline.
        repair: repairs the transcript; that of a ``Repairer`` reuses earlier repairs.

    Yields:
        Any number of ``Delta`` and ``Beat``, then exactly one ``Completion`` or ``Failure``. A
        failure after some text keeps that text as ``partial_data``; its ``metadata`` names the
        model, and estimates the ``answer_tokens`` of an answer that had begun.

    Raises:
        Cancelled: ``cancellation`` is set, before the first token or between chunks (raised once
            the stream is closed), or the model raised ``KeyboardInterrupt``.
        StandInError: a test's fake model was misused; passes through to the test.
    """
    if cancellation.is_set:
        raise Cancelled(cancellation.reason)
    line = _Line(clock)
    sees = bool(getattr(model, "sees_pictures", False))
    messages = given_back(repair(request.messages), model.name)
    sent = replace(request, messages=sent_to(messages, sees=sees))
    tasks = {
        asyncio.create_task(line.listen(model, sent)),
        asyncio.create_task(line.time_silence(request.timeout_s, request.heartbeat_s)),
        asyncio.create_task(line.time_answer(request.deadline_s)),
    }
    text: list[str] = []
    reasoning: list[str] = []
    last: Completion | Failure | None = None
    try:
        with cancellation.calling(lambda: line.heard.put_nowait(None)):
            while last is None:
                item = await line.heard.get()
                if cancellation.is_set:
                    raise Cancelled(cancellation.reason)
                match item:
                    case Delta():
                        text.append(item.text)
                        reasoning.append(item.reasoning)
                        # An empty delta is only a sign of life; it ends the silence.
                        if item.text or item.reasoning:
                            yield item
                    case Beat():
                        yield item
                    case Completion(choices=()):
                        last = causes.PROVIDER_FAULT.failure(_NO_ANSWER)
                    case Completion():
                        last = item
                        if item.message.content and not any(text):
                            # The answer wasn't streamed: yield its text, so that people read it.
                            yield Delta(item.message.content)
                    case Failure():
                        last = item
                    case StandInError() | Cancelled():
                        raise item
    finally:
        await _end(tasks)
    # After the clean-up, so that a caller who stops reading here leaves nothing running.
    if isinstance(last, Failure):
        message = Message("".join(text), reasoning_content="".join(reasoning))
        facts: dict[str, Any] = {"model": model.name}
        if text:  # a piece of a call is an empty delta, and holds a token or so like any other
            facts["answer_tokens"] = max(len(text), tokens_said(message))
        last = replace(last.noting(facts), partial_data=message.content or last.partial_data)
    yield last


def _length(item: Delta | Completion) -> int:
    if isinstance(item, Delta):
        return max(1, len(item.text) + len(item.reasoning))
    return sum(
        len(choice.message.content or "") + len(choice.message.reasoning_content or "")
        for choice in item.choices
    )


async def close(stream: AsyncIterator[Any]) -> None:
    """Close a stream that can be closed."""
    closing = getattr(stream, "aclose", None)
    if closing is not None:
        await closing()


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    _, stuck = await asyncio.wait(tasks, timeout=CLOSING_S)
    for task in stuck:
        # It was cancelled; retrieve its late exception, so that asyncio doesn't report it.
        task.add_done_callback(lambda late: late.cancelled() or late.exception())
