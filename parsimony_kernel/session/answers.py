"""Whether a question waits on after its answer."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from parsimony_kernel.core.events import (
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    RunCancelled,
    ToolEvent,
)
from parsimony_kernel.core.kinds import FailureKind

_ASK_AGAIN = "The question waits on: answer it again then, with %agent answer."


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
