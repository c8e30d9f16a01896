"""The three tools that end a run, or suspend it.

Each checks its words and gives a request as a value; ``terminal_event`` is what comes of it.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from parsimony_kernel.agent.failure.recovery import RecoveryContext, suspend
from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.endings import SuspensionRequest, TerminationRequest
from parsimony_kernel.core.events import AgentEvent, Handoff, RunCompleted
from parsimony_kernel.core.state import RunState
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.tools import Tool, ToolResult, Tools, tool


def _ends_run(description: str, *, idempotent: bool) -> Callable[[Callable[..., Any]], Tool]:
    return tool(
        description=description, idempotent=idempotent, tool_type="termination", terminal=True
    )


def _words(value: object, what: str) -> str:
    """``value`` as words. ``ValueError`` when it is no text or has none."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(what)
    return value.strip()


def _lines(values: object) -> tuple[str, ...]:
    if not isinstance(values, list | tuple):
        return ()
    return tuple(text for value in values if (text := str(value).strip()))


@_ends_run(
    "End the run: the request is fulfilled. The summary is what the person reads first: the "
    "answer itself, in a few sentences.",
    idempotent=True,
)
async def return_done(summary: str) -> ToolResult:
    said = _words(summary, "return_done needs a non-empty summary")
    return ToolResult(TerminationRequest(said))


@_ends_run(
    "End the run: the request cannot be fulfilled here, why, and what the person could do.",
    idempotent=False,
)
async def return_unable(
    rationale: str, blockers: list[str], suggested_next_steps: list[str] | None = None
) -> ToolResult:
    said = _words(rationale, "return_unable needs a non-empty rationale")
    reasons = _lines(blockers)
    if not reasons:
        raise ValueError("return_unable needs non-empty blockers")
    return ToolResult(TerminationRequest(said, reasons, _lines(suggested_next_steps)))


@_ends_run(
    "Ask the person one question and wait, where the request can be read in several ways that "
    "differ in result. Offer choices where there are a few.",
    idempotent=True,
)
async def ask_user(
    question: str, context: str | None = None, choices: list[str] | None = None
) -> ToolResult:
    asked = _words(question, "ask_user needs a non-empty question")
    around = (context or "").strip() or None
    return ToolResult(SuspensionRequest(asked, around, _lines(choices)))


def termination_tools() -> Tools:
    """``return_done``, ``return_unable`` and ``ask_user``."""
    return Tools([return_done, return_unable, ask_user])


def terminal_event(
    request: TerminationRequest | SuspensionRequest,
    context: RecoveryContext,
    state: RunState,
    secrets: Secrets,
    variables: tuple[str, ...],
) -> AgentEvent:
    """The event with which the run of ``state``, which has bound ``variables``, ends or waits."""
    if isinstance(request, SuspensionRequest):
        return suspend(context, state, **secrets.of_prose(asdict(request)))
    if request.is_done:
        return RunCompleted(summary=request.message, variables=variables)
    return Handoff(
        rationale=request.message,
        blockers=request.blockers,
        suggested_next_steps=request.suggested_next_steps,
        failure=CAPABILITY_GAP.failure(request.message, blockers=request.blockers),
    )
