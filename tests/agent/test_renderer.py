"""The prompt as a pure function of the state."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.renderer import IncrementalRenderer, render_for_llm
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.result_text import as_text, envelope_in, in_brief
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.envelope import refused, succeeded, to_text
from tests.transcripts import Message, answered, called, user


def step(number: int, result: str = "x" * 1_400) -> list[Message]:
    return [called("f", f"c{number}"), answered("f", result, f"c{number}")]


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


snapshots = st.builds(lambda text: {**user(text), "metadata": {"context_snapshot": True}}, texts)
growth = st.lists(
    st.tuples(st.one_of(messages, st.lists(snapshots, max_size=2)), st.integers(0, 2)), max_size=6
)


@given(growth, st.booleans())
def test_incremental_equals_whole(parts: list[tuple[list[Message], int]], replaced: bool) -> None:
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


# What a model reads of the gate's answers.


ACTIONS = ["run_code", "return_done"]


async def answer(code: str) -> dict[str, Any]:
    output = await CodeExecutor().execute("import pandas as pd\n" + code)
    return succeeded("run_code", output, state="running", valid_next_actions=ACTIONS)


async def told_of(code: str) -> str:
    return as_text(await answer(code), ACTIONS, set())


def table(rows: int, columns: int = 2) -> str:
    cells = {f"c{number}": list(range(rows)) for number in range(columns)}
    return f"df = pd.DataFrame({cells!r})\ndf['name'] = 'a'\ndf"


async def test_short_table_is_shown_whole_with_one_header() -> None:
    assert await told_of("df = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\ndf") == (
        "table, 2 rows: a (int64), b (str, 1 missing)\na  b\n1  x\n2\n"
        "`df`: table, 2 rows, columns as the table shown"
    )


async def test_long_table_shows_both_ends_as_sample() -> None:
    assert (await told_of(table(100))).splitlines()[1:] == [
        "c0  c1  name",
        *(f"{n:2}  {n:2}     a" for n in range(10)),
        " …",
        *(f"{n:2}  {n:2}     a" for n in range(95, 100)),
        "(some values of each column, not rows: c0: 0, 1, 2, 3, 4; c1: 0, 1, 2, 3, 4; name: a)",
        "`df`: table, 100 rows, columns as the table shown",
    ]


@pytest.mark.parametrize("rows", [40, 41])
async def test_whole_table_has_at_most_forty_rows(rows: int) -> None:
    lines = (await told_of(table(rows))).splitlines()
    assert ("some values" in "\n".join(lines)) == (rows > 40)
    assert sum(line.endswith("  a") for line in lines) == (40 if rows == 40 else 15)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print('one\\n  two')", "one\n  two"),
        ("print('a')\nprint(pd.DataFrame({'x': [1.5]}))\nprint('b')",
         "a\ntable, 1 row: x (float64)\n  x\n1.5\nb"),
        ("print(pd.DataFrame({'x': [1.5]}))", "table, 1 row: x (float64)\n  x\n1.5"),
        ("n = 3\nn", "3 (int)\n`n`: 3 (int)"),
        ("pd.Series({'a': 2}, name='n')", "series, 1 value: index (index, str), n (int64)\n"
                                          "index  n\n    a  2"),
        ("pd.DataFrame({'s': ['sales ']})", "table, 1 row: s (str)\n       s\n'sales '"),
        ("pd.DataFrame({'sales ': [1.5]})", "table, 1 row: 'sales ' (float64)\n'sales '\n     1.5"),
        ("1234567.25", "1234567.25 (float)"),
        ("pd.Series([1234567.256], name='x')",
         "series, 1 value: x (float64)\n         x\n1234567.26"),
        ("s = pd.Series([1, 2])\ns",
         "unnamed series, 2 values: value (int64)\nvalue\n    1\n    2\n"
         "`s`: unnamed series, 2 values, columns as the unnamed series shown"),
        ("df = pd.DataFrame({'a': [1]})\ns = df.a\ndf",
         "table, 1 row: a (int64)\na\n1\n`df`: table, 1 row, columns as the table shown\n"
         "`s`: series, 1 value, columns as the table shown"),
        ("None", "Done."),
    ],
)  # fmt: skip
async def test_step_results_are_rendered(code: str, told: str) -> None:
    assert await told_of(code) == told


def test_refusal_names_next_call_and_failure_appears_once() -> None:
    failure = Failure(FailureKind.tool_error, "no column 'x'")
    envelope = refused("run_code", failure, state="running", valid_next_actions=ACTIONS)
    assert as_text(envelope, ACTIONS, set()) == "Failed (action_error): no column 'x'"
    envelope["error"] = "invalid_transition"
    assert as_text(envelope, ACTIONS, set()) == (
        "Refused, nothing was run (invalid_transition): no column 'x'\n"
        "You may call now: run_code, return_done"
    )


@pytest.mark.parametrize(
    ("following", "told"),
    [
        ([["f", "g"], ["g"], ["g"]], ["0", "1\nYou may call now: g", "2"]),
        # A question in between.
        ([["f", "g", "rare"], [], ["f", "g", "rare"]], ["0", "1", "2"]),
    ],
)
def test_next_calls_appear_only_when_changed(following: list[list[str]], told: list[str]) -> None:
    given = [
        to_text(succeeded("f", number, state="s", valid_next_actions=names))
        for number, names in enumerate(following)
    ]
    messages = [answered("f", text, f"c{number}") for number, text in enumerate(given)]
    rendered = IncrementalRenderer(callable_=["f", "g"]).render(RunState(messages=messages))
    assert [each["content"] for each in rendered] == told


async def test_older_answer_keeps_beginnings_and_names() -> None:
    envelope = await answer(f"print('x' * 900)\n{table(30)}")
    told = in_brief(envelope)
    assert "x" * 600 + "…" in told
    assert "x" * 601 not in told
    assert told.splitlines()[-9:] == [
        "table, 30 rows: c0, c1, name",
        "c0  c1  name",
        *(f" {n}   {n}     a" for n in range(5)),
        "…",
        "`df`: table, 30 rows, columns as the table shown",
    ]
    assert len(told) < len(as_text(envelope, (), set())) * 0.8


async def test_tables_that_differ_in_their_last_columns_are_not_alike() -> None:
    code = "one = pd.DataFrame({f'c{n}': [n] for n in range(50)})\ntwo = one.drop(columns='c49')"
    assert "columns as" not in await told_of(code)


def test_digests_are_not_rendered() -> None:
    path = f".ockham/charts/{'1d' * 32}/{'2e' * 32}.vl.json"
    digests = {"content_sha": "0f" * 32, "path": path, "reused": False}
    result = {"kind": "chart", "title": "Rain", **digests}
    envelope = succeeded("return_chart", result, state="s", valid_next_actions=ACTIONS)
    assert as_text(envelope, ACTIONS, set()) == "kind: chart\ntitle: Rain"


async def test_repeated_output_is_rendered_once() -> None:
    """Values of a column once in a run; a table like another one by its columns."""
    code = (
        "one = pd.DataFrame({'c': range(100), 'd': 'x'})\ntwo = one[one.c > 50]\n"
        "three = one.rename(columns={'c': 'e'})\nprint(one.head(2))\nfour = one.tail(3)\nfour"
    )
    seen: set[tuple[str, ...]] = set()
    first, again = await answer(code), await answer("five = pd.DataFrame({'c': range(50)})")
    assert as_text(first, ACTIONS, seen).splitlines()[-4:] == [
        "`four`: table, 3 rows, columns as the second table shown",
        "`one`: table, 100 rows, columns as the first table shown",
        "`three`: table, 100 rows: e (int64), d (str) "
        "(some values of each column, not rows: e: 0, 1, 2, 3, 4; d: x)",
        "`two`: table, 49 rows, columns as the second table shown",
    ]
    assert as_text(again, ACTIONS, seen).startswith("`five`: table, 50 rows: c (int64) (some")
    assert as_text(again, ACTIONS, seen) == "`five`: table, 50 rows: c (int64)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("np.float64(16.25)", "16.25 (x)"),
        ("[np.int64(1), np.float64(0.5)]", "[1, 0.5] (x)"),
        ("<http.client.HTTPResponse object at 0x7f92c89743c0>",
         "<http.client.HTTPResponse object> (x)"),
        ("Generator(PCG64) at 0x7F92C89743C0", "Generator(PCG64) (x)"),
    ],
)  # fmt: skip
def test_run_specific_details_are_left_out(text: str, told: str) -> None:
    result = {"type": "primitive", "python_type": "x", "text": text}
    envelope = succeeded("f", result, state="s", valid_next_actions=ACTIONS)
    assert as_text(envelope, ACTIONS, set()) == told


def test_foreign_text_is_unchanged() -> None:
    for content in ("plain", '{"a": 1}', "{", json.dumps([1])):
        assert envelope_in(content) is None
