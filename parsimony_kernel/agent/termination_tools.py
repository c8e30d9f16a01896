"""The three tools that end or suspend a run.

Each validates its text and returns a request as a value; ``outcomes.terminal_event`` turns it into
an event. Their descriptions for the model are in ``prompts.toml``.
"""

from collections.abc import Callable
from typing import Any

from parsimony_kernel.agent.prompts import ENDINGS
from parsimony_kernel.core.state import SuspensionRequest, TerminationRequest
from parsimony_kernel.tools import Tool, ToolResult, Tools, tool


def _words(value: object, what: str) -> str:
    """Return ``value`` stripped; raise ``ValueError(what)`` if it is empty or not a string."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(what)
    return value.strip()


def _lines(values: object) -> tuple[str, ...]:
    held = values if isinstance(values, list | tuple) else ()
    return tuple(text for value in held if (text := str(value).strip()))


async def return_done(summary: str) -> ToolResult:
    return ToolResult(TerminationRequest(_words(summary, "return_done needs a non-empty summary")))


async def return_unable(
    rationale: str, blockers: list[str], suggested_next_steps: list[str] | None = None
) -> ToolResult:
    reason = _words(rationale, "return_unable needs a non-empty rationale")
    reasons = _lines(blockers)
    if not reasons:
        raise ValueError("return_unable needs non-empty blockers")
    return ToolResult(TerminationRequest(reason, reasons, _lines(suggested_next_steps)))


async def ask_user(
    question: str, context: str | None = None, choices: list[str] | None = None
) -> ToolResult:
    asked = _words(question, "ask_user needs a non-empty question")
    around = (context or "").strip() or None
    return ToolResult(SuspensionRequest(asked, around, _lines(choices)))


def _ends_run(function: Callable[..., Any]) -> Tool:
    words, idempotent = ENDINGS[function.__name__], function is not return_unable
    make = tool(description=words, idempotent=idempotent, tool_type="termination", terminal=True)
    return make(function)


_TOOLS = [_ends_run(each) for each in (return_done, return_unable, ask_user)]


def termination_tools() -> Tools:
    """Return ``return_done``, ``return_unable`` and ``ask_user``."""
    return Tools(_TOOLS)
