"""What an agent did, step by step. Nothing is ever taken out of it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from parsimony_kernel.triage.taxonomy import Step


class Trajectory(Sequence[Step]):
    """Steps in the order in which they were taken; a rollback keeps them."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps = list(steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, oldest first."""
        return tuple(self._steps)

    def append(self, step: Step) -> None:
        """Add the newest step."""
        self._steps.append(step)

    def last_n_steps(self, n: int) -> list[Step]:
        """The newest ``n`` steps, oldest first; all of them when there are fewer."""
        return self._steps[-n:] if n > 0 else []

    def replay_from(self, index: int) -> list[Step]:
        """The steps whose ``index`` is at least ``index``, oldest first."""
        return [step for step in self._steps if step.index >= index]

    @overload
    def __getitem__(self, at: int) -> Step: ...

    @overload
    def __getitem__(self, at: slice) -> list[Step]: ...

    def __getitem__(self, at: int | slice) -> Step | list[Step]:
        return self._steps[at]

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def __repr__(self) -> str:
        return f"Trajectory({self._steps!r})"


def from_messages(messages: Iterable[Any]) -> Trajectory:
    """The trajectory of a transcript: one step per requested call, with what it answered."""
    trajectory: list[Step] = []
    answers: dict[str, Any] = {}
    calls: list[tuple[str, str, Any, str | None]] = []
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        if message.get("role") == "tool":
            answers[str(message.get("tool_call_id"))] = message.get("content")
        for call in message.get("tool_calls") or ():
            function = call["function"]
            calls.append(
                (str(call["id"]), function["name"], function["arguments"], message.get("content"))
            )
    for index, (call_id, name, arguments, said) in enumerate(calls):
        answer = _read(answers.get(call_id))
        error = answer.get("error") if isinstance(answer, Mapping) else None
        trajectory.append(
            Step(
                index=index,
                action=name,
                tool_called=name,
                tool_input=_read(arguments),
                tool_output=None if error else answer,
                llm_output=said,
                error=None if error is None else _told(answer),
                exception_type=answer.get("error_type") if error else None,
                metadata={"refusal": error} if error else {},
            )
        )
    return Trajectory(trajectory)


def _read(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text


def _told(envelope: Mapping[str, Any]) -> str:
    return str(
        envelope.get("error_message") or envelope.get("message") or envelope.get("error") or ""
    )
