"""State becomes a prompt, here and nowhere else.

Pure and byte-stable: the same state gives the same bytes, inputs are only read, outputs are fresh
dicts. No clock, no randomness, no knowledge of providers, so that a provider's prompt cache stays
warm from one iteration to the next.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal
from xml.sax.saxutils import quoteattr

from parsimony_kernel.agent.failure.kinds import Failure
from parsimony_kernel.agent.state import RunState

RECENT_ITERATIONS_DEFAULT = 2

Mode = Literal["default", "minimal"]

_MINIMAL_TEXT = 160


def render_for_llm(
    state: RunState,
    *,
    instructions: str | None = None,
    tools_block: str | None = None,
    capabilities_preamble: str = "",
) -> list[dict[str, Any]]:
    """The messages of the next request, in litellm's shape.

    In order: the system prompt; ``state.pending_instruction`` as a user message; the conversation
    with old tool results compacted; what was learned from failures.
    """
    messages: list[dict[str, Any]] = []
    system = "\n\n".join(
        part for part in (instructions, capabilities_preamble, tools_block) if part
    )
    if system:
        messages.append({"role": "system", "content": system})
    if state.pending_instruction:
        messages.append({"role": "user", "content": state.pending_instruction})
    messages.extend(_conversation(state.messages))
    lessons = render_lessons_learned(state.lessons_learned)
    if lessons:
        messages.append(
            {
                "role": "user",
                "content": f"<context_addendum>\n{lessons}\n</context_addendum>",
            }
        )
    return messages


def recent_iterations_cutoff(
    messages: Sequence[Any], *, n_iterations: int = RECENT_ITERATIONS_DEFAULT
) -> int:
    """The index of the ``n_iterations``-last assistant message; 0 when there are fewer."""
    seen = 0
    for index in range(len(messages) - 1, -1, -1):
        if _role(messages[index]) == "assistant":
            seen += 1
            if seen == n_iterations:
                return index
    return 0


def infer_message_mode(
    *, index: int, is_last_tool_message: bool, role: str, default_cutoff: int
) -> Mode:
    """``minimal`` for a tool result before the cutoff that is not the newest; else ``default``."""
    if role != "tool" or is_last_tool_message or index >= default_cutoff:
        return "default"
    return "minimal"


def select_messages_to_render(messages: Sequence[Any]) -> list[Any]:
    """All messages, but of those that are snapshots of the context only the newest."""
    newest = max(
        (i for i, message in enumerate(messages) if _is_snapshot(message)),
        default=-1,
    )
    return [
        message for i, message in enumerate(messages) if i == newest or not _is_snapshot(message)
    ]


def render_lessons_learned(lessons: Iterable[Failure]) -> str:
    """The remembered failures as an XML block; empty when there are none."""
    rows = [
        "  <failure"
        f" kind={quoteattr(str(lesson.kind))}"
        f" explanation={quoteattr(lesson.explanation)}"
        + (f" blockers={quoteattr('; '.join(lesson.blockers))}" if lesson.blockers else "")
        + " />"
        for lesson in lessons
    ]
    if not rows:
        return ""
    return "\n".join(["<lessons_learned>", *rows, "</lessons_learned>"])


def _conversation(messages: Sequence[Any]) -> Iterable[dict[str, Any]]:
    selected = select_messages_to_render(messages)
    cutoff = recent_iterations_cutoff(selected)
    last_tool = max((i for i, m in enumerate(selected) if _role(m) == "tool"), default=-1)
    for index, message in enumerate(selected):
        mode = infer_message_mode(
            index=index,
            is_last_tool_message=index == last_tool,
            role=_role(message),
            default_cutoff=cutoff,
        )
        yield _render(message, mode)


def _role(message: Any) -> str:
    return str(message["role"] if isinstance(message, dict) else message.role)


def _is_snapshot(message: Any) -> bool:
    metadata = (
        message.get("metadata") if isinstance(message, dict) else getattr(message, "metadata", None)
    )
    return isinstance(metadata, dict) and "context_snapshot" in metadata


def _render(message: Any, mode: Mode) -> dict[str, Any]:
    if not isinstance(message, dict):
        return dict(message.to_llm(mode))
    fresh = {key: _copy(value) for key, value in message.items() if key != "metadata"}
    if mode == "minimal":
        fresh["content"] = minimal_content(fresh.get("content"))
    return fresh


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value


def minimal_content(content: Any) -> str:
    """An old tool result in a line: what was asked, how it ended, which variables there are.

    Variables keep their columns' names, since later steps refer to them; samples, printed text
    and displayed values go.
    """
    text = content if isinstance(content, str) else json.dumps(content, default=str)
    try:
        envelope = json.loads(text)
    except ValueError:
        envelope = None
    if not isinstance(envelope, dict) or "requested" not in envelope:
        return text if len(text) <= _MINIMAL_TEXT else f"{text[:_MINIMAL_TEXT]}… [older, shortened]"
    kept = {
        key: envelope[key]
        for key in ("error", "requested", "error_type", "message", "state")
        if key in envelope
    }
    result = envelope.get("result")
    if isinstance(result, dict):
        kept["result"] = _skeleton(result)
    kept["older_result_shortened"] = True
    return json.dumps(kept, ensure_ascii=False)


def _skeleton(result: dict[str, Any]) -> dict[str, Any]:
    if "outputs" not in result and "variables" not in result and "stdout" not in result:
        return {key: value for key, value in result.items() if isinstance(value, str | bool | int)}
    variables = result.get("variables")
    if not isinstance(variables, list):
        return {}
    return {"variables": [_bare(variable) for variable in variables if isinstance(variable, dict)]}


def _bare(variable: dict[str, Any]) -> dict[str, Any]:
    kept = ("name", "type", "rows", "title", "more_columns")
    bare: dict[str, Any] = {key: variable[key] for key in kept if key in variable}
    columns = variable.get("columns")
    if isinstance(columns, list):
        bare["columns"] = [
            {key: column[key] for key in ("name", "dtype") if key in column}
            for column in columns
            if isinstance(column, dict)
        ]
    return bare
