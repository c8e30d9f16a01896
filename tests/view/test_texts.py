"""One record, three texts."""

import html.parser
import re
from typing import Any

import mistune
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_events import (
    PIXEL,
    RUNS,
    asked_model,
    code,
    figure,
    published,
    question,
    started,
    trouble,
)

from parsimony_kernel.agent import events as ev
from parsimony_kernel.view.blocks import FigureBlock, lasting
from parsimony_kernel.view.bundle import VEGALITE_MIME, bundle
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import html_of
from parsimony_kernel.view.markdown import markdown_of
from parsimony_kernel.view.run_view import metadata_of
from parsimony_kernel.view.text import text_of

SENTENCES = {
    "done": ("plot it", "I look first.", "x = 1", "hello", "2001", "My chart", "Made", ".vl.json"),
    "suspended": ("Which column of", "Several fit.", "temp_max", "%agent answer 2"),
    "answered": ("answered", "temp_min", "No longer in the notebook", "df"),
    "recovered": ("the provider is busy", "attempt 2 of 3", "trying again"),
    "rerouted": ("going on with openai/b", "Most of the token budget is used", "to the end"),
    "handed_off": ("Handed over", "no data", "no file", "add one"),
    "stopped": ("Stopped early", "the rest", "a fact"),
    "cancelled": ("Stopped", "by the user", "stopped"),
}

_NAMES = """
    div style section p strong span em code pre details summary ul ol li table caption thead tbody
    tr th td figure img br
"""
TAGS = frozenset(_NAMES.split())
ATTRIBUTES = {
    "class", "aria-label", "role", "aria-level", "aria-live", "scope", "tabindex", "src", "alt",
    "open",
}  # fmt: skip


class Parsed(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def assert_harmless(text: str) -> Parsed:
    parsed = Parsed(text)
    for tag, attributes in parsed.tags:
        assert tag in TAGS, tag
        assert set(attributes) <= ATTRIBUTES, attributes
        for name, value in attributes.items():
            if name == "src":
                assert re.match(r"data:image/(png|svg\+xml);base64,[A-Za-z0-9+/=]*\Z", value or "")
    return parsed


@pytest.mark.parametrize("name", RUNS)
def test_all_three_say_the_same(name: str) -> None:
    blocks = lasting(replay(RUNS[name]).blocks)
    seen = Parsed(html_of(blocks)).words
    marked = re.sub(r"\\(.)", r"\1", markdown_of(blocks))
    plain = " ".join(text_of(blocks).split())
    for sentence in SENTENCES[name]:
        assert sentence in seen, sentence
        assert sentence in marked, sentence
        assert sentence in plain, sentence


@pytest.mark.parametrize("name", RUNS)
def test_the_plain_text_fits_eighty_columns(name: str) -> None:
    for line in text_of(replay(RUNS[name]).blocks).splitlines():
        assert len(line) <= 80 or " " not in line.strip(), line


def test_code_in_words_is_code_in_a_question_too() -> None:
    written = html_of(lasting(replay(RUNS["suspended"]).blocks))
    assert "Which column of <code>df</code>?" in written
    assert "`df`" not in written


@pytest.mark.parametrize("name", RUNS)
def test_what_differs_from_run_to_run_is_only_in_the_metadata(name: str) -> None:
    view = replay(RUNS[name])
    data, _ = bundle(lasting(view.blocks))
    for volatile in ("0123456789abcdef", "1,234", "1234", "0.25", "1.5 s"):
        assert volatile not in str(data)
    assert metadata_of(view)["parsimony"]["run_id"] == "0123456789abcdef"


def test_the_same_run_gives_the_same_bytes() -> None:
    for name, events in RUNS.items():
        first, again = (bundle(lasting(replay(events).blocks)) for _ in range(2))
        assert first == again, name


def test_a_chart_alone_is_drawn_by_the_front_end_with_pixels_and_words_beside_it() -> None:
    (chart,) = [b for b in replay(RUNS["done"]).blocks if isinstance(b, FigureBlock)]
    data, metadata = bundle([chart])
    assert set(data) == {VEGALITE_MIME, "image/png", "text/plain"}
    assert data[VEGALITE_MIME]["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
    assert "line chart of x by year" in data["text/plain"]
    assert metadata["image/png"]["alt"] == "line chart of x by year"


def test_a_chart_among_other_blocks_is_an_image_with_its_words() -> None:
    images = [
        attributes
        for tag, attributes in Parsed(html_of(replay(RUNS["done"]).blocks)).tags
        if tag == "img"
    ]
    assert images == [{"src": f"data:image/png;base64,{PIXEL}", "alt": "line chart of x by year"}]


def test_ten_megabytes_give_a_bounded_record() -> None:
    flood = "x<&" * 3_500_000
    run = [started(flood), *code(flood, stdout=flood), ev.RunCompleted(summary=flood)]
    data, _ = bundle(lasting(replay(run).blocks))
    assert all(len(text) < 600_000 for text in data.values())
    assert "left out" in data["text/plain"]


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><button data-commandlinker-command="x">go</button>',
    "[click](javascript:alert(1)) ![i](https://example.com/x.png)",
    "\x1b[31mred\x1b]8;;https://example.com\x07link\x1b]8;;\x07",
    "\u202egnp.exe\u2066 \x00 \ud800",
    "``` \n</pre></code></details>\n````",
    "| a | b |\n|---|---|\n$x$ {x} &lt;b&gt; https://example.com www.example.com",
    "</style><style>*{display:none}</style>",
]
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=60))


def run_of(words: str) -> list[ev.AgentEvent]:
    frame: dict[str, Any] = {
        "type": "dataframe",
        "rows": 1,
        "columns": [{"name": words, "dtype": words, "samples": [words]}],
        "preview_columns": [words],
        "preview": [[words]],
    }
    value = {"type": "primitive", "python_type": "str", "text": words}
    return [
        started(words, shared=(words,)),
        ev.TextDelta(content=words),
        ev.ReasoningDelta(content=words),
        *code(words, stdout=words, stderr=words, outputs=[frame, value, figure({"title": words})]),
        published({"mark": words}).model_copy(update={"title": words, "path": words}),
        trouble().model_copy(update={"message": words, "failure": None, "fallback": words}),
        ev.BudgetWarning(guard=words, used=1, limit=2),
        ev.Heartbeat(model=words, silent_s=20),
        question(question=words, context=words, choices=(words, "other")),
        started(words, reply=words, gone=(words,)),
        asked_model(),
        ev.Handoff(rationale=words, blockers=(words,), suggested_next_steps=(words,)),
    ]


def loadable(events: list[ev.AgentEvent]) -> list[ev.AgentEvent]:
    """As the journal would give them back: no lone surrogates."""
    return [ev.parse_event(event.model_dump(mode="python")) for event in events]


@settings(max_examples=60, deadline=None)
@given(texts)
def test_no_text_becomes_markup_in_html(words: str) -> None:
    assert_harmless(html_of(replay(loadable(run_of(words))).blocks))


_MARKUP = mistune.create_markdown(escape=False, plugins=["table", "strikethrough", "url"])


@settings(max_examples=60, deadline=None)
@given(texts)
def test_no_text_becomes_markup_in_markdown(words: str) -> None:
    written = str(_MARKUP(markdown_of(replay(loadable(run_of(words))).blocks)))
    for tag, attributes in Parsed(written).tags:
        assert tag not in {"a", "script", "style", "button", "iframe", "input"}, written
        assert not any(name.startswith(("on", "data-")) for name in attributes), written
        if tag == "img":
            assert str(attributes.get("src", "")).startswith("data:image/"), written


@settings(max_examples=60, deadline=None)
@given(texts)
def test_no_text_reaches_the_terminal_as_a_control(words: str) -> None:
    shown = text_of(replay(loadable(run_of(words))).blocks)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
