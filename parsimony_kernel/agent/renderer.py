"""State becomes a prompt, here and nowhere else.

Pure and byte-stable: the same state gives the same bytes, inputs are only read, outputs are fresh
dicts. No clock, no randomness, no knowledge of providers, so that a provider's prompt cache stays
warm from one iteration to the next. ``render_for_llm`` is document 002's, which keeps the results
of two iterations; a run's ``IncrementalRenderer`` keeps them by size, at the price of what is new,
and gives them as text.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from parsimony_kernel.agent.prompts import context_in_text
from parsimony_kernel.core.conversation import is_snapshot
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
    """The messages of the next request, in litellm's shape.

    In order: the system prompt; ``state.pending_instruction`` as a user message; the conversation
    with old tool results compacted; what was learned from failures, and last the pinned
    constraints.
    """
    pending = state.pending_instruction
    return [
        *_system(instructions, capabilities_preamble, tools_block),
        *([{"role": "user", "content": pending}] if pending else []),
        *_conversation(state),
        *_addendum(state, render_lessons_learned(state.lessons_learned)),
    ]


class IncrementalRenderer:
    """The messages of one run's requests, with old results shortened by size.

    A message that was rendered before is the very same dict again: callers copy before they
    change one. Rests on ``RunState.messages`` growing at its end only; a list that was replaced
    or cut is noticed and rendered anew.

    Args:
        callable_: the names of the tools that the requests describe; all, where none is named.
    """

    def __init__(self, callable_: Sequence[str] = ()) -> None:
        self._callable = list(callable_)
        self._system: list[dict[str, Any]] = []
        self._begin(0, True, KEPT_RESULTS)

    def _begin(self, compaction: int, in_text: bool, most: int) -> None:
        self._manner = compaction, in_text, most
        self._known: Sequence[str] = self._callable  # what was last said to be callable
        self._columns: set[tuple[str, str]] = set()  # those whose values were told
        self._read = 0  # how many messages of the state were taken in, and the last of them
        self._newest: Any = None
        self._has_snapshot = False
        self._whole: list[dict[str, Any]] = []
        self._can_shrink: dict[int, Any] = {}  # by their place: results and pictures
        self._brief: dict[int, dict[str, Any]] = {}
        self._last_result = -1
        self._cut = _Cut(most)

    def render(
        self,
        state: RunState,
        *,
        instructions: str | None = None,
        in_text: bool = True,
        most: int = KEPT_RESULTS,
    ) -> list[dict[str, Any]]:
        """The messages of the next request, in the order of ``render_for_llm``, but for what is
        said for one request only: that stands last, where it un-caches nothing.

        Without ``in_text`` results stand as envelopes, and all in full. ``most`` is how many
        characters of them are kept before old ones are shortened.
        """
        self._take_in(state.messages, state.compaction, in_text, most)
        if (system := _system(instructions)) != self._system:
            self._system = system
        told, lessons = list(self._whole), lessons_to_mind(state.lessons_learned)
        cutoff = len(told) if state.compaction else self._cut.index
        kept = self._last_result if state.compaction < 2 else -1
        for index, message in self._can_shrink.items() if cutoff else ():
            if index < cutoff and index != kept:
                if index not in self._brief:
                    self._brief[index] = _render(message, "minimal")
                told[index] = self._brief[index]
        addendum = _addendum(state, lessons, state.pending_instruction or "")
        return [*self._system, *told, *addendum]

    def _take_in(self, messages: Sequence[Any], compaction: int, in_text: bool, most: int) -> None:
        read = self._read
        grew = read <= len(messages) and (not read or messages[read - 1] is self._newest)
        added: Sequence[Any] = messages[read:] if grew else ()
        # A newer snapshot of the context takes an older one out of the middle.
        is_replaced = self._has_snapshot and any(map(is_snapshot, added))
        if not grew or is_replaced or self._manner != (compaction, in_text, most):
            self._begin(compaction, in_text, most)
            added = messages
        self._has_snapshot = self._has_snapshot or any(map(is_snapshot, added))
        self._read = len(messages)
        self._newest = messages[-1] if messages else None
        for message in select_messages_to_render(added):
            index = len(self._whole)
            self._whole.append(self._told(message, in_text))
            is_result = _role(message) == "tool"
            if is_result:
                self._cut.add(index, len(str(self._whole[index]["content"])))
                self._last_result = index
            if in_text and (is_result or is_picture(message)):
                self._can_shrink[index] = message

    def _told(self, message: Any, in_text: bool) -> dict[str, Any]:
        """``message`` in full."""
        told = _render(message, "default")
        if in_text and is_snapshot(message):
            return {**told, "content": context_in_text(str(told["content"]))}
        is_ours = in_text and isinstance(message, dict) and message["role"] == "tool"
        envelope = envelope_in(message["content"]) if is_ours else None
        if envelope is None:
            return told
        following = envelope.get("valid_next_actions")
        named = following if isinstance(following, list) else ()
        described = [each for each in named if not self._callable or each in self._callable]
        envelope["valid_next_actions"] = described
        told["content"] = as_text(envelope, self._known, self._columns)
        # None at a question: whoever goes on may call what could be called before.
        self._known = described or self._known
        return told


class _Cut:
    """The index before which a run shortens results: it moves on in leaps."""

    def __init__(self, most: int) -> None:
        self.index = 0
        self._most = most
        self._allowed = most
        self._kept: list[tuple[int, int]] = []  # results behind it: index and size
        self._size = 0

    def add(self, index: int, size: int) -> None:
        """Take in the result that stands at ``index`` and has ``size`` characters in full."""
        self._kept.append((index, size))
        self._size += size
        if self._size > self._allowed and len(self._kept) > 2:
            self._kept = self._kept[-2:]
            self.index = self._kept[0][0]
            self._size = sum(each for _, each in self._kept)
            self._allowed = self._size + min(MORE_RESULTS, self._most)


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
    newest = max((i for i, message in enumerate(messages) if is_snapshot(message)), default=-1)
    return [
        message for i, message in enumerate(messages) if i == newest or not is_snapshot(message)
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


def render_pinned_constraints(constraints: Sequence[str]) -> str:
    """The rules that stand last in every prompt, as bullets; empty when there are none."""
    if not constraints:
        return ""
    bullets = (f"- {' '.join(escape(each).split())}" for each in constraints)
    return "\n".join(["<pinned_constraints>", *bullets, "</pinned_constraints>"])


def lessons_to_mind(lessons: Iterable[Failure]) -> str:
    """What went wrong and has not been solved since, each once; empty when there is nothing."""
    open_ones = {each.explanation: each for each in lessons if not each.metadata.get(SOLVED)}
    told = render_lessons_learned(open_ones.values())
    return f"What has gone wrong in this run, and is not solved yet:\n{told}" if told else ""


def _system(*parts: str | None) -> list[dict[str, Any]]:
    content = "\n\n".join(filter(None, parts))
    return [{"role": "system", "content": content}] if content else []


def _addendum(state: RunState, lessons: str, pending: str = "") -> list[dict[str, Any]]:
    pinned = render_pinned_constraints(state.pinned_constraints)
    body = "\n".join(filter(None, (lessons, _plan(state), pending, pinned)))
    content = f"<context_addendum>\n{body}\n</context_addendum>"
    return [{"role": "user", "content": content}] if body else []


def _plan(state: RunState) -> str:
    """The parts of the plan, which stand in old results that are shortened."""
    rows = [
        f"- {'done' if goal in state.done_subgoals else 'open'}: {escape(goal)}"
        for goal in state.subgoals
    ]
    return "\n".join(["<plan>", *rows, "</plan>"]) if rows else ""


def _conversation(state: RunState) -> Iterator[dict[str, Any]]:
    selected, compaction = select_messages_to_render(state.messages), state.compaction
    cutoff = len(selected) if compaction else recent_iterations_cutoff(selected)
    results = [index for index, each in enumerate(selected) if _role(each) == "tool"]
    kept = results[-1] if results and compaction < 2 else -1
    for index, message in enumerate(selected):
        mode = infer_message_mode(
            index=index,
            is_last_tool_message=index == kept,
            role=_role(message),
            default_cutoff=cutoff,
        )
        yield _render(message, mode)


def _role(message: Any) -> str:
    return str(message["role"] if isinstance(message, dict) else message.role)


def _render(message: Any, mode: Mode) -> dict[str, Any]:
    if not isinstance(message, dict):
        return dict(message.to_llm(mode))
    fresh = {key: _copy(value) for key, value in message.items() if key != "metadata"}
    if mode == "minimal" and is_picture(message):
        return without_pixels(fresh)
    if mode == "minimal":
        fresh["content"] = _shortened(fresh.get("content"))
    return fresh


def _shortened(content: Any) -> str:
    envelope = envelope_in(content)
    return text_in_brief(str(content)) if envelope is None else in_brief(envelope)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value
