"""The renderer: the only place that turns state into a prompt.

Pure and byte-stable: the same state gives the same bytes, inputs are only read, outputs are fresh
dicts. It knows no clock, randomness or provider, so a provider's prompt cache stays warm from one
iteration to the next. ``render_for_llm`` follows document 002 and keeps the results of two
iterations. A run uses ``IncrementalRenderer``, which keeps results by size, renders only new
messages, and renders results as text.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from parsimony_kernel.agent.prompts import context_in_text
from parsimony_kernel.core.conversation import block, is_picture, is_snapshot, without_pixels
from parsimony_kernel.core.kinds import SOLVED, Failure
from parsimony_kernel.core.result_text import as_text, envelope_in, in_brief, text_in_brief
from parsimony_kernel.core.state import RunState

RECENT_ITERATIONS_DEFAULT = 2

# See ``RunState.compaction``.
MAX_COMPACTION = 2

Mode = Literal["default", "minimal"]

# In characters. When a run's results exceed the first size, all but the newest two are shortened
# at once, and again after each further growth by the second size. In between, only the end of a
# request changes, which keeps the provider's prompt cache valid.
KEPT_RESULTS = 48 * 1024
MORE_RESULTS = 16 * 1024


def render_for_llm(
    state: RunState,
    *,
    instructions: str | None = None,
    tools_block: str | None = None,
    capabilities_preamble: str = "",
) -> list[dict[str, Any]]:
    """Render the next request in litellm's format, as document 002 specifies.

    In order: the system prompt; ``state.pending_instruction`` as a user message; the conversation
    with old tool results compacted; the lessons from failures; the pinned constraints.
    """
    selected, compaction = select_messages_to_render(state.messages), state.compaction
    cutoff = len(selected) if compaction else recent_iterations_cutoff(selected)
    results = [index for index, each in enumerate(selected) if _role(each) == "tool"]
    newest = results[-1] if results and compaction < 2 else -1
    modes = (
        infer_message_mode(
            index=i, is_last_tool_message=i == newest, role=_role(each), default_cutoff=cutoff
        )
        for i, each in enumerate(selected)
    )
    return [
        *_said("system", "\n\n", instructions, capabilities_preamble, tools_block),
        *_said("user", "", state.pending_instruction),
        *map(_render, selected, modes),
        *_addendum(state, render_lessons_learned(state.lessons_learned)),
    ]


class IncrementalRenderer:
    """Incremental renderer for one run's requests; it shortens old results by size.

    A message rendered before is returned as the same dict until it is shortened, so callers must
    copy it before changing it. Relies on ``RunState.messages`` growing at its end only; a replaced
    or cut list is detected and rendered again.

    Args:
        instructions: the system prompt.
        callable_: the names of the tools that the requests describe; all if empty.
    """

    def __init__(self, instructions: str | None = None, callable_: Sequence[str] = ()) -> None:
        self._system = _said("system", "", instructions)
        self._callable = callable_
        self._begin(True, KEPT_RESULTS)

    def _begin(self, in_text: bool, most: int) -> None:
        self._manner = in_text, most
        self._known = self._callable  # the callable tools as last stated
        self._columns: set[tuple[str, ...]] = set()  # columns whose values were listed
        # How many messages of the state were rendered, and the last of them.
        self._read, self._newest = 0, None
        self._told: list[dict[str, Any]] = []
        # By index: results and images that are still complete, and the size of these results.
        self._whole: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._allowed = most

    def render(
        self, state: RunState, *, in_text: bool = True, most: int = KEPT_RESULTS
    ) -> list[dict[str, Any]]:
        """Render the next request.

        The order is that of ``render_for_llm``, except that ``state.pending_instruction``, which
        holds for one request only, is in the last message, so that it doesn't invalidate the
        prompt cache.

        Args:
            state: the run's state.
            in_text: render results as text; otherwise as complete envelopes.
            most: how many characters of results to keep before old ones are shortened.
        """
        self._take_in(state.messages, in_text, most)
        if state.compaction:
            self._shorten(MAX_COMPACTION - state.compaction)
        lessons = lessons_to_mind(state.lessons_learned)
        return [*self._system, *self._told, *_addendum(state, lessons, state.pending_instruction)]

    def _take_in(self, messages: Sequence[Any], in_text: bool, most: int) -> None:
        read = self._read
        grew = read <= len(messages) and (not read or messages[read - 1] is self._newest)
        added: Sequence[Any] = messages[read:] if grew else ()
        # A newer snapshot of the context replaces an older one in the middle.
        is_replaced = read > 0 and any(map(is_snapshot, added))
        if not grew or is_replaced or self._manner != (in_text, most):
            self._begin(in_text, most)
            added = messages
        self._read, self._newest = len(messages), messages[-1] if messages else None
        for message in select_messages_to_render(added):
            index, entry = len(self._told), self._in_full(message, in_text)
            self._told.append(entry)
            if in_text and is_picture(message):
                self._whole[index] = message
            elif in_text and _role(message) == "tool":
                self._whole[index] = message
                self._sizes[index] = len(str(entry["content"]))
                # The cut moves in steps; between them only the end of a request changes.
                if len(self._sizes) > 2 and sum(self._sizes.values()) > self._allowed:
                    self._shorten(2)
                    self._allowed = sum(self._sizes.values()) + min(MORE_RESULTS, most)

    def _shorten(self, kept: int) -> None:
        """Shorten all results but the ``kept`` newest, and the images before these."""
        newest = list(self._sizes)[-kept:] if kept > 0 else []
        cut = newest[0] if newest else len(self._told)
        for index in [each for each in self._whole if each < cut]:
            self._told[index] = _render(self._whole.pop(index), "minimal")
            self._sizes.pop(index, None)

    def _in_full(self, message: Any, in_text: bool) -> dict[str, Any]:
        entry = _render(message, "default")
        if in_text and is_snapshot(message):
            entry["content"] = context_in_text(str(entry["content"]), self._columns)
        envelope = envelope_in(entry["content"]) if in_text and entry["role"] == "tool" else None
        if envelope is not None:
            following = envelope.get("valid_next_actions")
            named = following if isinstance(following, list) else ()
            described = [each for each in named if not self._callable or each in self._callable]
            envelope["valid_next_actions"] = described
            entry["content"] = as_text(envelope, self._known, self._columns)
            # A question lists none; after the answer the earlier tools are callable again.
            self._known = described or self._known
        return entry


def recent_iterations_cutoff(
    messages: Sequence[Any], *, n_iterations: int = RECENT_ITERATIONS_DEFAULT
) -> int:
    """Return the index of the ``n_iterations``-last assistant message; 0 when there are fewer."""
    answers = [index for index, each in enumerate(messages) if _role(each) == "assistant"]
    return answers[-n_iterations] if 0 < n_iterations <= len(answers) else 0


def infer_message_mode(
    *, index: int, is_last_tool_message: bool, role: str, default_cutoff: int
) -> Mode:
    """Return ``minimal`` for a tool result before the cutoff, except the newest; else
    ``default``."""
    if role != "tool" or is_last_tool_message or index >= default_cutoff:
        return "default"
    return "minimal"


def select_messages_to_render(messages: Sequence[Any]) -> list[Any]:
    """Drop all context snapshots except the newest."""
    newest = max((i for i, each in enumerate(messages) if is_snapshot(each)), default=-1)
    return [each for i, each in enumerate(messages) if i == newest or not is_snapshot(each)]


def render_lessons_learned(lessons: Iterable[Failure]) -> str:
    """Render the remembered failures as an XML block; empty when there are none."""
    rows = [
        f"  <failure kind={quoteattr(str(each.kind))} explanation={quoteattr(each.explanation)}"
        + (f" blockers={quoteattr('; '.join(each.blockers))}" if each.blockers else "")
        + " />"
        for each in lessons
    ]
    return block("lessons_learned", "\n".join(rows)) if rows else ""


def render_pinned_constraints(constraints: Sequence[str]) -> str:
    """Render the pinned constraints as bullets; empty when there are none."""
    bullets = "\n".join(f"- {' '.join(escape(each).split())}" for each in constraints)
    return block("pinned_constraints", bullets) if bullets else ""


def lessons_to_mind(lessons: Iterable[Failure]) -> str:
    """Render the unsolved failures, each once; empty when there are none."""
    open_ones = {each.explanation: each for each in lessons if not each.metadata.get(SOLVED)}
    entry = render_lessons_learned(open_ones.values())
    return f"What has gone wrong in this run, and is not solved yet:\n{entry}" if entry else ""


def _said(role: str, between: str, *parts: str | None) -> list[dict[str, Any]]:
    """Join the non-empty parts into one message; no message without any."""
    content = between.join(filter(None, parts))
    return [{"role": role, "content": content}] if content else []


def _addendum(state: RunState, lessons: str, pending: str | None = None) -> list[dict[str, Any]]:
    pinned = render_pinned_constraints(state.pinned_constraints)
    body = "\n".join(filter(None, (lessons, _plan(state), pending, pinned)))
    return _said("user", "", body and block("context_addendum", body))


def _plan(state: RunState) -> str:
    """Render the plan, since the results that contain it may have been shortened."""
    done = state.done_subgoals
    rows = [f"- {'done' if each in done else 'open'}: {escape(each)}" for each in state.subgoals]
    return block("plan", "\n".join(rows)) if rows else ""


def _role(message: Any) -> str:
    return str(message["role"] if isinstance(message, dict) else message.role)


def _render(message: Any, mode: Mode) -> dict[str, Any]:
    if not isinstance(message, dict):
        return dict(message.to_llm(mode))
    fresh = deepcopy({key: value for key, value in message.items() if key != "metadata"})
    if mode == "default":
        return fresh
    if is_picture(message):
        return without_pixels(fresh)
    content = fresh.get("content")
    envelope = envelope_in(content)
    fresh["content"] = text_in_brief(str(content)) if envelope is None else in_brief(envelope)
    return fresh
