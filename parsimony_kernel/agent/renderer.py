"""State becomes a prompt, here and nowhere else.

Pure and byte-stable: the same state gives the same bytes, inputs are only read, outputs are fresh
dicts. No clock, no randomness, no knowledge of providers, so that a provider's prompt cache stays
warm from one iteration to the next. ``render_for_llm`` is document 002's, which keeps the results
of two iterations; a run's ``IncrementalRenderer`` keeps them by size, at the price of what is new,
and gives them as text.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from parsimony_kernel.agent.prompts import context_in_text
from parsimony_kernel.core.conversation import block, is_snapshot
from parsimony_kernel.core.kinds import SOLVED, Failure
from parsimony_kernel.core.pictures import is_picture, without_pixels
from parsimony_kernel.core.reading import as_text, envelope_in, in_brief, text_in_brief
from parsimony_kernel.core.state import RunState

RECENT_ITERATIONS_DEFAULT = 2

# See ``RunState.compaction``.
MAX_COMPACTION = 2

Mode = Literal["default", "minimal"]

# A run keeps this much of results, in characters; then all but the newest two are shortened at
# once, and again whenever so much more has come: between that, only the end of a request is new.
KEPT_RESULTS = 48 * 1024
MORE_RESULTS = 16 * 1024


def render_for_llm(
    state: RunState,
    *,
    instructions: str | None = None,
    tools_block: str | None = None,
    capabilities_preamble: str = "",
) -> list[dict[str, Any]]:
    """Render the next request, in litellm's shape, as document 002 says.

    In order: the system prompt; ``state.pending_instruction`` as a user message; the conversation
    with old tool results compacted; the lessons from failures, and last the pinned constraints.
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
    """The messages of one run's requests, with old results shortened by size.

    A message that was rendered before is the very same dict again, until it is shortened: callers
    copy before they change one. Rests on ``RunState.messages`` growing at its end only; a list that
    was replaced or cut is noticed and rendered anew.

    Args:
        instructions: the system prompt.
        callable_: the names of the tools that the requests describe; all, where none is named.
    """

    def __init__(self, instructions: str | None = None, callable_: Sequence[str] = ()) -> None:
        self._system = _said("system", "", instructions)
        self._callable = callable_
        self._begin(True, KEPT_RESULTS)

    def _begin(self, in_text: bool, most: int) -> None:
        self._manner = in_text, most
        self._known = self._callable  # what was last said to be callable
        self._columns: set[tuple[str, ...]] = set()  # those whose values were told
        # How many messages of the state were taken in, and the last of them.
        self._read, self._newest = 0, None
        self._told: list[dict[str, Any]] = []
        # By their place: results and pictures that stand in full, and the size of such results.
        self._whole: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        self._allowed = most

    def render(
        self, state: RunState, *, in_text: bool = True, most: int = KEPT_RESULTS
    ) -> list[dict[str, Any]]:
        """Render the next request, in the order of ``render_for_llm``, except for what is said for
        one request only: that stands last, where it un-caches nothing.

        Without ``in_text`` results stand as envelopes, and all in full. ``most`` is how many
        characters of them are kept before old ones are shortened.
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
        # A newer snapshot of the context takes an older one out of the middle.
        is_replaced = read > 0 and any(map(is_snapshot, added))
        if not grew or is_replaced or self._manner != (in_text, most):
            self._begin(in_text, most)
            added = messages
        self._read, self._newest = len(messages), messages[-1] if messages else None
        for message in select_messages_to_render(added):
            index, told = len(self._told), self._in_full(message, in_text)
            self._told.append(told)
            if in_text and is_picture(message):
                self._whole[index] = message
            elif in_text and _role(message) == "tool":
                self._whole[index] = message
                self._sizes[index] = len(str(told["content"]))
                # The cut moves on in leaps: between two of them, only the end of a request is new.
                if len(self._sizes) > 2 and sum(self._sizes.values()) > self._allowed:
                    self._shorten(2)
                    self._allowed = sum(self._sizes.values()) + min(MORE_RESULTS, most)

    def _shorten(self, kept: int) -> None:
        """Shorten all results but the ``kept`` newest, with the pictures before those."""
        newest = list(self._sizes)[-kept:] if kept > 0 else []
        cut = newest[0] if newest else len(self._told)
        for index in [each for each in self._whole if each < cut]:
            self._told[index] = _render(self._whole.pop(index), "minimal")
            self._sizes.pop(index, None)

    def _in_full(self, message: Any, in_text: bool) -> dict[str, Any]:
        told = _render(message, "default")
        if in_text and is_snapshot(message):
            told["content"] = context_in_text(str(told["content"]), self._columns)
        envelope = envelope_in(told["content"]) if in_text and told["role"] == "tool" else None
        if envelope is not None:
            following = envelope.get("valid_next_actions")
            named = following if isinstance(following, list) else ()
            described = [each for each in named if not self._callable or each in self._callable]
            envelope["valid_next_actions"] = described
            told["content"] = as_text(envelope, self._known, self._columns)
            # None at a question: whoever goes on may call what could be called before.
            self._known = described or self._known
        return told


def recent_iterations_cutoff(
    messages: Sequence[Any], *, n_iterations: int = RECENT_ITERATIONS_DEFAULT
) -> int:
    """The index of the ``n_iterations``-last assistant message; 0 when there are fewer."""
    answers = [index for index, each in enumerate(messages) if _role(each) == "assistant"]
    return answers[-n_iterations] if 0 < n_iterations <= len(answers) else 0


def infer_message_mode(
    *, index: int, is_last_tool_message: bool, role: str, default_cutoff: int
) -> Mode:
    """``minimal`` for a tool result before the cutoff that is not the newest; else ``default``."""
    if role != "tool" or is_last_tool_message or index >= default_cutoff:
        return "default"
    return "minimal"


def select_messages_to_render(messages: Sequence[Any]) -> list[Any]:
    """All messages, but of those that are snapshots of the context only the newest."""
    newest = max((i for i, each in enumerate(messages) if is_snapshot(each)), default=-1)
    return [each for i, each in enumerate(messages) if i == newest or not is_snapshot(each)]


def render_lessons_learned(lessons: Iterable[Failure]) -> str:
    """The remembered failures as an XML block; empty when there are none."""
    rows = [
        f"  <failure kind={quoteattr(str(each.kind))} explanation={quoteattr(each.explanation)}"
        + (f" blockers={quoteattr('; '.join(each.blockers))}" if each.blockers else "")
        + " />"
        for each in lessons
    ]
    return block("lessons_learned", "\n".join(rows)) if rows else ""


def render_pinned_constraints(constraints: Sequence[str]) -> str:
    """The rules that stand last in every prompt, as bullets; empty when there are none."""
    bullets = "\n".join(f"- {' '.join(escape(each).split())}" for each in constraints)
    return block("pinned_constraints", bullets) if bullets else ""


def lessons_to_mind(lessons: Iterable[Failure]) -> str:
    """What went wrong and has not been solved since, each once; empty when there is nothing."""
    open_ones = {each.explanation: each for each in lessons if not each.metadata.get(SOLVED)}
    told = render_lessons_learned(open_ones.values())
    return f"What has gone wrong in this run, and is not solved yet:\n{told}" if told else ""


def _said(role: str, between: str, *parts: str | None) -> list[dict[str, Any]]:
    """The parts that there are as a message; none without any."""
    content = between.join(filter(None, parts))
    return [{"role": role, "content": content}] if content else []


def _addendum(state: RunState, lessons: str, pending: str | None = None) -> list[dict[str, Any]]:
    pinned = render_pinned_constraints(state.pinned_constraints)
    body = "\n".join(filter(None, (lessons, _plan(state), pending, pinned)))
    return _said("user", "", body and block("context_addendum", body))


def _plan(state: RunState) -> str:
    """The parts of the plan, which stand in old results that are shortened."""
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
