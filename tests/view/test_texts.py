"""One record, three texts."""

import json
import math
import re

import pytest
from markup import Parsed
from record_events import FRAME, PIXEL, RUNS, code, figure, sections, started

from parsimony_kernel.core.events import AgentEvent, Handoff, RunCompleted, StateSnapshot, ToolEvent
from parsimony_kernel.view.blocks import FigureBlock, lasting, metadata_of
from parsimony_kernel.view.escape import fit, shortened
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import VEGALITE_MIME, bundle, figure_bundle, html_of
from parsimony_kernel.view.outline import segment_of
from parsimony_kernel.view.parts import Title, Verbatim
from parsimony_kernel.view.plain_text import markdown_of, record_of, text_of, wrapped

SENTENCES = {
    "done": ("plot it", "I look first.", "x = 1", "hello", "2001", "My chart", "Made"),
    "suspended": ("Which column of", "Several fit.", "temp_max", "%agent answer NUMBER"),
    "answered": ("temp_min", "(you chose)", "No longer in the notebook", "df"),
    "recovered": ("the provider is busy", "attempt 2 of 3", "trying again"),
    "rerouted": ("going on with openai/b", "Most of the token budget is used"),
    "handed_off": ("I can't do this", "no data", "no file", "add one"),
    "stopped": ("Stopped early", "the rest", "a fact"),
    "cancelled": ("Stopped", "by the user", "stopped"),
}


@pytest.mark.parametrize("name", RUNS)
def test_text_markdown_and_html_agree(name: str) -> None:
    read = sections(lasting(replay(RUNS[name]).blocks))
    seen = Parsed(html_of(read)).words
    marked = re.sub(r"\\(.)", r"\1", markdown_of(read))
    plain = " ".join(text_of(read).split())
    for text in (seen, marked, plain):
        assert [sentence for sentence in SENTENCES[name] if sentence not in text] == []


def test_answer_and_its_table_begin_within_ten_lines() -> None:
    """In a terminal the record is printed once, at the end."""
    ended = RunCompleted(summary="A summary of two lines. " * 5)
    steps = [each for n in range(4) for each in code(f"x = {n}", f"c{n}", stdout="hello")]
    run = [started("show it"), *steps, *code("df", "d", outputs=[FRAME]), ended]
    request, _, *first = record_of(replay(run).blocks).splitlines()[:10]
    assert request == "show it"
    assert first[0].startswith("A summary of two lines.")
    assert "2001" in "\n".join(first)


SAID = "The mean is 138.4."
MARKED = ToolEvent(
    tool_name="return_done",
    tool_call_id="d",
    tool_type="termination",
    completed=True,
    arguments={"summary": SAID},
    ok=True,
    result={"result": "The run has ended.", "not_found": ["138.4", "`df_2`"]},
)
REFUSED = MARKED.model_copy(
    update={"ok": False, "result": {"error": "validation_failed", "not_found": ["`df_2`"]}}
)
GIVEN_UP = Handoff(rationale="I cannot go on.", blockers=("none",))


@pytest.mark.parametrize(
    ("events", "line"),
    [([MARKED, RunCompleted(summary=SAID)], "138.4, `df_2`"), ([REFUSED, GIVEN_UP], "`df_2`")],
    ids=["marked", "refused, and nothing better came"],
)
def test_unsupported_answer_keeps_its_mark(events: list[AgentEvent], line: str) -> None:
    read = sections(lasting(replay([started(), *events]).blocks))
    marked = re.sub(r"\\(.)", r"\1", markdown_of(read))
    for text in (Parsed(html_of(read)).words, marked, text_of(read)):
        places = [text.index(each) for each in (SAID, "Not found in a result", line)]
        assert places == sorted(places)


def test_refused_answer_is_replaced_by_better_one() -> None:
    better = MARKED.model_copy(update={"result": {"result": "The run has ended."}})
    events = [started(), REFUSED, better, RunCompleted(summary="The mean is 9.")]
    plain = text_of(segment_of(lasting(replay(events).blocks)).head)
    assert SAID not in plain
    assert "Not found" not in plain


@pytest.mark.parametrize("name", RUNS)
def test_plain_text_fits_eighty_columns(name: str) -> None:
    for line in record_of(replay(RUNS[name]).blocks).splitlines():
        assert len(line) <= 80 or " " not in line.strip(), line


def test_code_spans_are_kept_in_questions() -> None:
    written = html_of(sections(replay(RUNS["suspended"]).blocks))
    assert re.search("Which column of <code[^>]*>df</code>\\?", written)
    assert "`df`" not in written


@pytest.mark.parametrize("name", RUNS)
def test_run_differences_are_metadata_only(name: str) -> None:
    view = replay(RUNS[name])
    data = bundle(sections(lasting(view.blocks)))
    for volatile in ("0123456789abcdef", "1,234", "1234", "0.25", "1.5 s"):
        assert volatile not in str(data)
    assert metadata_of(view)["parsimony"]["run_id"] == "0123456789abcdef"


@pytest.mark.parametrize("absurd", [math.inf, -math.inf, math.nan])
def test_absurd_number_is_null_in_metadata(absurd: float) -> None:
    view = replay(RUNS["done"])
    view.use(priced_usd=absurd, elapsed_s=absurd, model="\ud800")
    written = json.dumps(metadata_of(view), allow_nan=False, ensure_ascii=False).encode()
    assert json.loads(written)["parsimony"]["cost_usd"] is None
    view.use(priced_usd=0.00002, elapsed_s=1.1 + 2.2)
    facts = metadata_of(view)["parsimony"]
    assert (facts["cost_usd"], facts["elapsed_s"]) == (0.00002, 3.3)


def test_lone_chart_is_vega_with_png_and_text() -> None:
    (chart,) = [b for b in replay(RUNS["done"]).blocks if isinstance(b, FigureBlock)]
    data, metadata = figure_bundle(chart)
    assert set(data) == {VEGALITE_MIME, "image/png", "text/plain"}
    assert data[VEGALITE_MIME]["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
    assert "line chart of x by year" in data["text/plain"]
    assert metadata["image/png"]["alt"] == "line chart of x by year"


def test_chart_among_blocks_is_an_image_with_text() -> None:
    (image,) = Parsed(html_of(sections(replay(RUNS["done"]).blocks))).all("img")
    assert image["src"] == f"data:image/png;base64,{PIXEL}"
    assert image["alt"] == "line chart of x by year"


@pytest.mark.parametrize("described", ["", "By year", "line chart of x by year"])
def test_undrawable_chart_is_told_once(described: str) -> None:
    told = {**figure(), "spec": None, "title": "", "description": described}
    words = Parsed(html_of(sections(replay([started(), *code(outputs=[told])]).blocks))).words
    shown = words.partition("figure 1")[2]
    assert shown.count(described or "A chart without a description") == 1 + bool(described)
    assert described or ":" not in shown.partition("A chart")[0]


def test_wide_table_is_complete_in_eighty_columns() -> None:
    names = [f"a_rather_long_column_{number}" for number in range(12)]
    wide = {
        "type": "dataframe",
        "rows": 1,
        "columns": [{"name": name, "dtype": "int64"} for name in names],
        "preview_columns": names,
        "preview": [[f"value {number}" for number in range(12)]],
    }
    text = record_of(replay([started(), *code(outputs=[wide])]).blocks)
    for number, name in enumerate(names):
        assert name in text
        assert f"value {number}" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_highlighted_code_reads_unchanged() -> None:
    source = 'def f(x):\n\n    return "a < b" + str(x)  # why\n'
    written = html_of(sections(replay([started(), *code(source)]).blocks))
    assert source.strip() in Parsed(written).words
    assert 'class="pc-k"' in written
    assert 'class="pc-s2"' in written


def test_scrollable_region_is_focusable_and_named() -> None:
    run = [started(), *code(stdout="hello", outputs=[{**FRAME, "name": "df"}])]
    parsed = Parsed(html_of(sections(replay(run).blocks)))
    scrolls = ("pk-code", "pk-out", "pk-scroll")
    scrolling = [each for _, each in parsed.tags if each.get("class") in scrolls]
    labels = ["Code of step 1", "Printed, Step 1", "df: 3 rows, 1 column"]
    assert [each["aria-label"] for each in scrolling] == labels
    assert all(each["tabindex"] == "0" and each["role"] for each in scrolling)


@pytest.mark.parametrize("name", RUNS)
def test_record_has_one_live_region(name: str) -> None:
    (root, attributes), *rest = Parsed(html_of(sections(replay(RUNS[name]).blocks))).tags
    assert (root, attributes["aria-live"]) == ("div", "polite")
    for tag, inner in rest:
        assert inner.get("aria-live", "off") == "off"
        assert "status" not in (inner.get("role") or "")
        if tag == "pre" or inner.get("role") == "region":
            assert inner["aria-live"] == "off"


@pytest.mark.parametrize("name", RUNS)
def test_text_survives_attribute_sanitizing(name: str) -> None:
    read = sections(replay(RUNS[name]).blocks)
    taken = re.compile(r' (?:aria-[a-z]+|role|tabindex|style|class)="[^"]*"')
    bare = Parsed(taken.sub("", html_of(read))).words
    for section in read:
        for part in section.parts:
            if isinstance(part, Title):
                assert part.name in bare
                assert part.state in bare
            elif isinstance(part, Verbatim) and not part.language:
                assert part.label in bare


@pytest.mark.parametrize("width", [20, 80])
def test_indented_long_word_fits_width(width: int) -> None:
    word = "".join(map(str, range(60)))
    lines = wrapped((f"a\n{' ' * 30}{word} end\n    short",), width)
    assert max(map(len, lines)) <= width
    assert word in "".join(lines)
    assert lines[-1] == "    short"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("漢字", 4, "漢字"),
        ("漢字", 3, "漢…"),
        ("漢字", 2, "…"),
    ],
)
def test_truncation_fits_wide_characters(text: str, width: int, shown: str) -> None:
    assert shortened(text, width) == shown


def test_oversized_record_drops_heaviest_parts() -> None:
    pieces = ["first", "x" * 200_000, "between", "y" * 100_000, "z"]
    kept = fit(pieces, lambda said: f"({said})")
    assert [len(each) for each in kept if "left out" not in each] == [5, 7, 100_000, 1]


def test_unresumable_turns_kept_values_are_above_fold() -> None:
    bound = StateSnapshot(iteration=1, variables=("rain", "wind"))
    found = segment_of(replay([started(), *code(), bound, GIVEN_UP]).blocks)
    assert "Made before that, and kept: rain, wind" in text_of(found.head)
    assert text_of([], summary=found.summary) == "1 step"


def test_fold_names_variables_missing_from_answer() -> None:
    done = RunCompleted(summary="Saved as `a` and `b_2`.", variables=("a", "b", "b_2"))
    found = segment_of(replay([started(), *code(), done]).blocks)
    assert text_of([], summary=found.summary) == "1 step · b"


@pytest.mark.parametrize(
    ("said", "read", "marked"),
    [
        ("**`x`** is *not* `y`", "x is not y", "<strong>x</strong> is not <code>y</code>"),
        ("***x***, **`a*b`**, **x**s", "x, a*b, xs", "<strong>x</strong>, <strong>a*b</strong>"),
        ("[docs](https://a.b) ![i](c.png) [m](m2)", "docs i [m](m2)", "<p>docs i [m](m2)</p>"),
        ("2*3*4, x**2 + y**2, 2 ** 3", "2*3*4, x**2 + y**2, 2 ** 3", "x**2 + y**2, 2 ** 3"),
        ("logs/*/*.csv, *.csv *p<1, **p<2", "logs/*/*.csv, *.csv *p<1, **p<2", "*/*.csv, *.csv *p"),
        ("f[0](x), __init__, _x_, &lt;", "f[0](x), __init__, _x_, &lt;", "_x_, &amp;lt;</p>"),
        (r"\*a\* C:\*.csv, (*a*)", r"\*a\* C:\*.csv, (a)", r"\*a\*"),
        ("1. a\n   - b\n2. c", "1. a\n- b\n2. c", '<ol start="2"><li>c</li></ol>'),
        ("1. a\nb\n2. c", "1. a\n   b\n2. c", "<ol><li>a<br>b</li><li>c</li></ol>"),
        ("1. a\n   ```\n   b\n   ```\n2. c", "1. a\n\n  b\n\n2. c", '<ol start="2"><li>c'),
        ("a\n\n---\n\nb", "a\n\nb", "<p>a</p><p>b</p>"),
        ("> a", "> a", "<p>&gt; a</p>"),
        (
            "a:\n| b | **c** |\n|--|--|\n| d | 1.5 |",
            "a:\nb    c\n-  ---\nd  1.5",
            '<td class="pk-n">1.5',
        ),
        ("| b |\n|--|", "b\n-", "<th"),
    ],
)
def test_markdown_of_a_model_is_read(said: str, read: str, marked: str) -> None:
    head = segment_of(lasting(replay([started(), RunCompleted(summary=said)]).blocks)).head
    assert text_of(head) == read
    assert marked in html_of(head)
    assert "](" not in markdown_of(head).replace("\\", "").replace("f[0](x)", "").replace(
        "[m](m2)", ""
    )


def test_code_request_keeps_indentation() -> None:
    asked = "Mend this:\n```python\ndef f(a):\n    if a:\n\treturn a / 0\n```"
    lines = record_of(replay([started(asked)]).blocks).splitlines()
    assert "def f(a):" in lines
    assert "    if a:" in lines
    assert "    return a / 0" in lines
