"""A model that answers from a script.

The script is consumed exactly: one request too many raises and names the request, and
``assert_exhausted`` names the answers that nobody asked for.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from parsimony_kernel.core.chat import (
    Completion,
    Delta,
    FunctionCall,
    ModelRequest,
    StandInError,
    ToolCall,
    answer,
)

Step = Completion | Callable[[ModelRequest], Completion] | BaseException


def say(text: str) -> Completion:
    """An answer in prose, without calls."""
    return answer(text)


def call(name: str, /, **arguments: Any) -> Completion:
    """An answer that requests one tool. Its id is given when it is played."""
    return raw_call(name, json.dumps(arguments, ensure_ascii=False))


def raw_call(name: str, arguments: str, *, call_id: str = "") -> Completion:
    """An answer whose argument text, and id if given, are sent exactly as written here."""
    return answer(calls=[ToolCall(call_id, FunctionCall(name, arguments))])


def calls(*each: Completion, text: str | None = None) -> Completion:
    """One answer that says ``text`` and requests the tools of ``each``, in order."""
    return answer(text, [one for step in each for one in step.message.tool_calls])


def numbered(completion: Completion, ordinal: int) -> Completion:
    """``completion`` with the ids ``call_{ordinal}_{i}`` where a call has none."""
    choice = completion.choices[0]
    calls = tuple(
        one if one.id else replace(one, id=f"call_{ordinal}_{i}")
        for i, one in enumerate(choice.message.tool_calls, start=1)
    )
    numbered = replace(choice, message=replace(choice.message, tool_calls=calls))
    return replace(completion, choices=(numbered, *completion.choices[1:]))


class ScriptedModel:
    """Plays ``steps`` in order: an answer, a function of the request, or something to raise.

    ``requests`` holds a copy of each request that was made.
    """

    def __init__(self, steps: Sequence[Step], name: str = "scripted") -> None:
        self._steps, self.name = tuple(steps), name
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """Play the next step; its reasoning and prose come as deltas first."""
        self.requests.append(copy.deepcopy(request))
        ordinal = len(self.requests)
        if ordinal > len(self._steps):
            raise StandInError(
                f"The script of {self.name!r} has {len(self._steps)} steps and this is request "
                f"{ordinal}; its last message is {_last(request)}. Add a step, or find out why "
                "the run went on."
            )
        step = self._steps[ordinal - 1]
        if isinstance(step, BaseException):
            raise step
        played = numbered(step if isinstance(step, Completion) else step(request), ordinal)
        for choice in played.choices:
            if choice.message.reasoning_content:
                yield Delta(reasoning=choice.message.reasoning_content)
            if choice.message.content:
                yield Delta(text=choice.message.content)
        yield played if played.model else replace(played, model=self.name)

    def assert_exhausted(self) -> None:
        """``AssertionError`` unless exactly as many requests were made as there are steps."""
        made, scripted = len(self.requests), len(self._steps)
        counts = f"The script of {self.name!r} has {scripted} steps and {made} requests came"
        if made > scripted:
            last = _last(self.requests[scripted])
            raise AssertionError(f"{counts}; the first too many ends with {last}.")
        if made < scripted:
            raise AssertionError(f"{counts}; the next step would have been {self._steps[made]!r}.")


def _last(request: ModelRequest) -> str:
    text = repr(request.messages[-1]) if request.messages else "none at all"
    return text if len(text) <= 400 else text[:400] + "…"


Place = Literal["first token", "mid-stream", "back-off"]


class HangingModel:
    """Never answers: at the "first token", "mid-stream", or at every "back-off"."""

    def __init__(self, place: Place) -> None:
        if place not in get_args(Place):
            raise ValueError(f"{place!r} is no place to stall; choose from {get_args(Place)}")
        self.name = f"stalling ({place})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """Stall."""
        if "back-off" in self.name:
            raise ConnectionError("the provider cannot be reached")
        if "mid-stream" in self.name:
            yield Delta("Thinking about it")
        await asyncio.Event().wait()
