"""Foreign words in every field of a record stay words, in every form that it takes."""

import re
from functools import cache
from typing import Any

import markdown_it
import mistune
import nbformat
import pytest
from hostile_run import WORDS, loadable, run_of
from hypothesis import given, settings
from hypothesis import strategies as st
from markup import Parsed, assert_harmless
from nbconvert import MarkdownExporter
from record_events import code, sections, started

from parsimony_kernel.core import events as ev
from parsimony_kernel.view.blocks import Block, FigureBlock, RunView, lasting
from parsimony_kernel.view.escape import unbroken
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import bundle, figure_bundle, html_of
from parsimony_kernel.view.plain_text import markdown_of, record_of
from tests.tiers import sampled

texts = st.one_of(st.sampled_from(WORDS), st.text(max_size=60))


def hostile(words: str) -> RunView:
    return replay(loadable(run_of(words)))


def test_run_contains_every_block_kind() -> None:
    moving = {type(block) for block in replay(run_of("words")[:3]).blocks}
    assert {type(block) for block in hostile("words").blocks} | moving == set(
        Block.__subclasses__()
    )


@settings(max_examples=settings().max_examples // 4)
@given(texts)
def test_text_never_becomes_html_markup(words: str) -> None:
    for blocks in (hostile(words).blocks, replay(loadable(run_of(words)[:5])).blocks):
        assert_harmless(html_of(sections(blocks)))


_MARKUP = mistune.create_markdown(escape=False, plugins=["table", "strikethrough", "url"])
_COMMON = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


@settings(max_examples=settings().max_examples // 4)
@given(texts)
def test_text_never_becomes_markdown_markup(words: str) -> None:
    source = markdown_of(sections(hostile(words).blocks))
    for written in (str(_MARKUP(source)), _COMMON.render(source)):
        for tag, attributes in Parsed(written).tags:
            assert tag not in {"a", "img", "script", "style", "button", "iframe", "input"}, written
            assert tag not in {"h1", "h2", "h3", "h4", "h5", "h6", "hr"}, written
            assert not any(name.startswith(("on", "data-")) for name in attributes), written


@cache
def _exporter() -> MarkdownExporter:
    return MarkdownExporter()


@cache
def exported(words: str) -> str:
    """The record as a notebook's converter writes it into Markdown, in words alone."""
    view = hostile(words)
    shown = [(bundle([each]), dict[str, Any]()) for each in sections(lasting(view.blocks))]
    shown += [figure_bundle(each) for each in view.blocks if isinstance(each, FigureBlock)]
    outputs = []
    for data, metadata in shown:
        data.pop("image/png", None)  # would be a file of its own
        outputs.append(nbformat.v4.new_output("display_data", data=data, metadata=metadata))
    cell = nbformat.v4.new_code_cell("", outputs=outputs)
    written, _ = _exporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    return str(written)


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("behind", sampled(["", "x\n\n", "\n\n\n", "x\n \n", "x\n\t\n\n"], 6))
def test_markdown_export_has_no_foreign_markup(words: str, behind: str) -> None:
    source = exported(behind + words)
    assert "parsimony-record" in source
    parsed = assert_harmless(_COMMON.render(source))
    assert not parsed.all("h1")


@pytest.mark.parametrize("words", WORDS)
def test_styleless_renderer_prints_no_styles(words: str) -> None:
    """GitHub shows the tag ``<style>`` as text, and what is in it as what it would be without."""
    rendered = _COMMON.render(exported(words)).replace("<style>", "&lt;style>")
    assert "--pk-" in rendered
    assert "--pk-" not in Parsed(rendered.replace("</style>", "&lt;/style>")).words


@given(st.text(alphabet="ab \t\n\u00a0\u3000", max_size=40))
def test_blank_lines_are_removed_only(text: str) -> None:
    lines = unbroken(f"<pre>{text}</pre>").split("\n")
    assert all(line.strip() for line in lines)
    assert "\n".join(lines).replace("&#10;", "\n") == f"<pre>{text}</pre>"


@settings(max_examples=settings().max_examples // 4)
@given(texts)
def test_text_never_controls_terminal(words: str) -> None:
    shown = record_of(hostile(words).blocks)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)


@pytest.mark.parametrize("piece", ["x<&\n\n", "[a](/b/c.py)"])
def test_megabyte_in_every_field_is_bounded(piece: str) -> None:
    flood = piece * (1_000_000 // len(piece))
    data = bundle(sections(lasting(replay(run_of(flood)).blocks)))
    assert all(len(text) < 600_000 for text in data.values())
    assert "left out" in data["text/plain"]
    assert_harmless(data["text/html"])


@pytest.mark.parametrize("piece", ["a\n\n", "```\na\n```\n", "`a`", "- a\n", "&", "**a**", "# a\n"])
def test_intricate_text_keeps_request_and_outcome(piece: str) -> None:
    words = piece * (20_000 // len(piece))
    view = replay([started(words), ev.TextDelta(content=words), ev.RunCompleted(summary=words)])
    parsed = Parsed(html_of(sections(lasting(view.blocks))))
    labels = {str(each["aria-label"]) for each in parsed.all("section")}
    assert {"Request", "Result"} <= labels


def test_code_of_many_tokens_is_uncoloured() -> None:
    written = html_of(sections(replay([started(), *code("1+" * 3_000)]).blocks))
    assert "1+" * 3_000 in written
