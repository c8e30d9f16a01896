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
KEPT_RESULTS = 48_000
MORE_RESULTS = 16_000


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
    return [
        *_head(instructions, tools_block, capabilities_preamble),
        *_pending(state),
        *_conversation(state),
        *_addendum(state, lessons=render_lessons_learned(state.lessons_learned)),
    ]


class IncrementalRenderer:
    """The messages of one run's requests, with old results shortened by size.

    A message that was rendered before is the very same dict again: callers copy before they
    change one. Rests on messages that never change, and on tool results in one order.

    Args:
        callable_: the names of the tools that the requests describe; all, where none is named.
    """

    def __init__(self, callable_: Sequence[str] = ()) -> None:
        self._callable = list(callable_)
        self._known: Sequence[str] = self._callable  # what was last said to be callable
        self._columns: set[tuple[str, str]] = set()  # those whose values were told
        self._head: list[dict[str, Any]] = []
        # By id and manner; each message is kept beside, so that its id stays its own.
        self._rendered: dict[tuple[int, str], tuple[Any, dict[str, Any]]] = {}

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
        head = list(_head(instructions))
        if head != self._head:
            self._head = head
        selected = select_messages_to_render(state.messages)
        cutoff = _cut(selected, most) if in_text else 0
        compaction = state.compaction if in_text else 0
        lessons, pending = lessons_to_mind(state.lessons_learned), state.pending_instruction or ""
        return [
            *self._head,
            *(
                self._told(message, "text" if in_text and mode == "default" else mode)
                for message, mode in _with_modes(selected, cutoff, compaction)
            ),
            *_addendum(state, lessons=lessons, pending=pending),
        ]

    def _told(self, message: Any, manner: str) -> dict[str, Any]:
        known = self._rendered.get((id(message), manner))
        if known is not None:
            return known[1]
        told = _render(message, "minimal" if manner == "minimal" else "default")
        if manner == "text":
            self._put_in_text(message, told)
        self._rendered[id(message), manner] = message, told
        return told

    def _put_in_text(self, message: Any, told: dict[str, Any]) -> None:
        is_ours = isinstance(message, dict) and message["role"] == "tool"
        envelope = envelope_in(message["content"]) if is_ours else None
        if envelope is None:
            return
        following = envelope.get("valid_next_actions")
        named = following if isinstance(following, list) else ()
        described = [each for each in named if not self._callable or each in self._callable]
        envelope["valid_next_actions"] = described
        told["content"] = as_text(envelope, self._known, self._columns)
        # None at a question: whoever goes on may call what could be called before.
        self._known = described or self._known


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
    old = [i for i, m in enumerate(messages) if _role(m) == "user" and is_snapshot(m)][:-1]
    return [message for i, message in enumerate(messages) if i not in old] if old else [*messages]


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


def _head(
    instructions: str | None, tools_block: str | None = None, capabilities_preamble: str = ""
) -> Iterator[dict[str, Any]]:
    parts = [part for part in (instructions, capabilities_preamble, tools_block) if part]
    if parts:
        yield {"role": "system", "content": "\n\n".join(parts)}


def _pending(state: RunState) -> Iterator[dict[str, Any]]:
    if state.pending_instruction:
        yield {"role": "user", "content": state.pending_instruction}


def _addendum(state: RunState, *, lessons: str, pending: str = "") -> Iterator[dict[str, Any]]:
    pinned = render_pinned_constraints(state.pinned_constraints)
    body = "\n".join(part for part in (lessons, _plan(state), pending, pinned) if part)
    if body:
        yield {"role": "user", "content": f"<context_addendum>\n{body}\n</context_addendum>"}


def _plan(state: RunState) -> str:
    """The parts of the plan, which stand in old results that are shortened."""
    rows = [
        f"- {'done' if goal in state.done_subgoals else 'open'}: {escape(goal)}"
        for goal in state.subgoals
    ]
    return "\n".join(["<plan>", *rows, "</plan>"]) if rows else ""


def _conversation(state: RunState) -> Iterator[dict[str, Any]]:
    selected = select_messages_to_render(state.messages)
    cutoff = recent_iterations_cutoff(selected)
    for message, mode in _with_modes(selected, cutoff, state.compaction):
        yield _render(message, mode)


def _cut(messages: Sequence[Any], most: int) -> int:
    """The index before which a run shortens results: it moves on in leaps."""
    cutoff, allowed, size = 0, most, 0
    full: list[tuple[int, int]] = []  # results behind it: index and size
    for index, message in enumerate(messages):
        if _role(message) != "tool":
            continue
        content = message["content"] if isinstance(message, dict) else message.content
        full.append((index, len(str(content))))
        size += full[-1][1]
        if size > allowed and len(full) > 2:
            full = full[-2:]
            cutoff, size = full[0][0], sum(each for _, each in full)
            allowed = size + min(MORE_RESULTS, most)
    return cutoff


def _with_modes(
    messages: Sequence[Any], cutoff: int, compaction: int
) -> Iterator[tuple[Any, Mode]]:
    """Each message with how much of it is told; ``compaction`` shortens results behind the cut."""
    newest = range(len(messages) - 1, -1, -1)
    last_tool = next((i for i in newest if _role(messages[i]) == "tool"), -1)
    cutoff = len(messages) if compaction else cutoff
    for index, message in enumerate(messages):
        role = _role(message)
        if role == "user" and is_picture(message):
            role = "tool"
        if role != "tool":
            yield message, "default"
            continue
        is_newest = index == last_tool and compaction < 2
        yield (
            message,
            infer_message_mode(
                index=index, is_last_tool_message=is_newest, role=role, default_cutoff=cutoff
            ),
        )


def _role(message: Any) -> str:
    role: str = message["role"] if isinstance(message, dict) else message.role
    return role


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
