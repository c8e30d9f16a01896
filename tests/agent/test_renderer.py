"""The prompt as a pure function of the state."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.failure import Failure, FailureKind
from parsimony_kernel.agent.renderer import (
    IncrementalRenderer,
    render_for_llm,
)
from parsimony_kernel.core.state import RunState

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def step(number: int, result: str = "x" * 1_400) -> list[Message]:
    name = f"c{number}"
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": name, "name": "f", "content": result},
    ]


def run_of(steps: int) -> list[Message]:
    return [user("go"), *(message for n in range(steps) for message in step(n))]


texts = st.text(max_size=30)
messages = st.lists(
    st.one_of(
        texts.map(user),
        st.builds(lambda n, t: step(n, t), st.integers(0, 9), st.text(max_size=600)),
    ),
    max_size=8,
).map(lambda parts: [m for part in parts for m in (part if isinstance(part, list) else [part])])


snapshots = st.builds(
    lambda text: {"role": "user", "content": text, "metadata": {"context_snapshot": True}}, texts
)
growth = st.lists(
    st.tuples(st.one_of(messages, st.lists(snapshots, max_size=2)), st.integers(0, 2)), max_size=6
)


@given(growth, st.booleans())
def test_incremental_rendering_equals_full_rendering(
    parts: list[tuple[list[Message], int]], replaced: bool
) -> None:
    renderer, state = IncrementalRenderer("I"), RunState()
    for number, (added, compaction) in enumerate(parts):
        if replaced and number == 2:
            state.messages = [user("a list of its own")]
        state.messages.extend(added)
        state.compaction = max(state.compaction, compaction)
        state.pending_instruction = "now" if number % 2 else None
        rendered = renderer.render(state)
        whole = IncrementalRenderer("I").render(state)
        assert json.dumps(rendered) == json.dumps(whole)


def test_rendered_messages_are_not_rendered_again() -> None:
    renderer, state = IncrementalRenderer(), RunState(messages=run_of(5))
    earlier = renderer.render(state)
    state.messages.extend(step(5))
    later = renderer.render(state)
    assert all(a is b for a, b in zip(earlier, later, strict=False))


def test_results_are_compacted_in_leaps() -> None:
    """Between two cuts a request begins with the whole one before it."""
    renderer, state = IncrementalRenderer(), RunState(messages=[user("go")])
    shortened = []
    for number in range(40):
        state.messages.extend(step(number, "x" * 2_000))
        rendered = renderer.render(state)
        tools = [m["content"] for m in rendered if m["role"] == "tool"]
        shortened.append(sum("shortened" in each for each in tools))
    assert shortened[:24] == [0] * 24
    assert sorted(set(shortened)) == [0, 23, 32]


def test_pinned_constraints_come_last() -> None:
    state = RunState(
        messages=run_of(1),
        lessons_learned=[Failure(FailureKind.tool_error, 'a "b" <c>', ("x", "y"))],
        pinned_constraints=["No <b>bold</b> claims.", "One\nline."],
    )
    assert render_for_llm(state)[-1]["content"] == (
        "<context_addendum>\n<lessons_learned>\n"
        '  <failure kind="tool_error" explanation=\'a "b" &lt;c&gt;\' blockers="x; y" />\n'
        "</lessons_learned>\n<pinned_constraints>\n"
        "- No &lt;b&gt;bold&lt;/b&gt; claims.\n- One line.\n"
        "</pinned_constraints>\n</context_addendum>"
    )


def test_compaction_shortens_all_but_the_newest_result() -> None:
    def shortened(level: int) -> list[bool]:
        rendered = render_for_llm(RunState(messages=run_of(3), compaction=level))
        return ["shortened" in m["content"] for m in rendered if m["role"] == "tool"]

    assert [shortened(level) for level in (0, 1, 2)] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
