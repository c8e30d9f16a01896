"""How an answer is read, and whether its question waits on after it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from parsimony_kernel.agent.events import (
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    RunCancelled,
    ToolEvent,
)
from parsimony_kernel.agent.failure.kinds import FailureKind
from parsimony_kernel.notebook.turns import SessionError

_ASK_AGAIN = "The question waits on: answer it again then, with %agent answer."


def resolve(reply: str, choices: list[str]) -> str:
    """The answer that is meant: a number picks that choice, quotes keep it a number.

    ``SessionError`` when it is empty, or there is no such choice.
    """
    text = reply.strip()
    if not text:
        raise SessionError(
            "The answer is empty. Give the number of a choice or some words: %agent answer 2"
        )
    if text in choices or not choices:
        return text
    if text.isdecimal():
        number = int(text)
        if not 1 <= number <= len(choices):
            raise SessionError(
                f"There is no choice {text}; there are {len(choices)}, numbered from 1. To answer "
                f'with the number itself, put it in quotes: %agent answer "{text}"'
            )
        return choices[number - 1]
    quoted = len(text) > 2 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


async def or_ask_again(
    stream: AsyncGenerator[AgentEvent, None],
) -> AsyncGenerator[AgentEvent, None]:
    """``stream``; when its model could not be reached at all, the end says how to go on."""
    ran = False
    async with aclosing(stream):
        async for event in stream:
            ran = ran or is_doing(event)
            if isinstance(event, Handoff) and not ran and came_to_nothing(event):
                steps = (*event.suggested_next_steps, _ASK_AGAIN)
                yield event.model_copy(update={"suggested_next_steps": steps})
            else:
                yield event


def is_doing(event: AgentEvent) -> bool:
    """Whether something was begun that an answer must not begin again."""
    return isinstance(event, LLMCallCompleted | ToolEvent)


def came_to_nothing(event: AgentEvent) -> bool:
    """Whether a run that did nothing ended for a reason that passes."""
    if isinstance(event, RunCancelled):
        return True
    failure = event.failure if isinstance(event, Handoff) else None
    return failure is not None and failure.kind in (
        FailureKind.capability_gap,
        FailureKind.transient_provider,
    )
