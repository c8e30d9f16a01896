"""Lists as mime bundles, and verbatim text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from parsimony_agent.overview import literal
from parsimony_agent.tables import WIDTH, note, table
from parsimony_kernel.view.escape import plain

_ESCAPED = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[tr])")


def test_table_is_aligned_text_and_escaped_html() -> None:
    data = table(("turn", "request"), [("1", "<b>plot</b>"), ("12", "x")], empty="none")
    assert data["text/plain"].splitlines() == ["turn  request", "1     <b>plot</b>", "12    x"]
    assert "&lt;b&gt;plot&lt;/b&gt;" in data["text/html"]
    assert "<b>" not in data["text/html"]


def test_row_is_one_printable_line() -> None:
    data = table(("request",), [("a\nb\x1b[2Jc\u202ed" + "x" * 100,)], empty="none")
    row = data["text/plain"].splitlines()[1]
    assert row.startswith("a bc\ufffddxxx")
    assert row.endswith("…")
    assert len(row) == 60
    assert "\x1b" not in data["text/html"]


def test_empty_table_says_so() -> None:
    assert table(("a",), [], empty="Nothing <yet>.") == note("Nothing <yet>.")
    assert note("Nothing <yet>.")["text/html"] == "<p>Nothing &lt;yet&gt;.</p>"


@pytest.mark.parametrize("text", ["word " * 100, "x" * 500, "日本語" * 100, "a\u0301" * 300])
def test_text_fits_terminal_width(text: str) -> None:
    rows = [("1", text, "m" * 40), ("2", "m" * 40, text)]
    data = table(("turn", "words", "model"), rows, empty="none", widest=300)
    lines = data["text/plain"].splitlines()
    assert max(map(wcswidth, lines)) <= WIDTH
    assert "".join("".join(lines).split()).count("m") >= 80


@pytest.mark.parametrize("word", ["x" * 200, "日本語" * 30, "a\u0301" * 90])
def test_long_word_is_broken_without_loss(word: str) -> None:
    data = table(("words",), [(word,)], empty="none", widest=300)
    _, *lines = data["text/plain"].splitlines()
    assert len(lines) > 1
    assert "".join(lines) == word


def test_long_cell_wraps_alone() -> None:
    words = " ".join(f"w{number}" for number in range(40))
    data = table(("step", "words"), [("12", words), ("13", "x")], empty="none", widest=400)
    head, first, *more, last = data["text/plain"].splitlines()
    assert (head, first[:6], last) == ("step  words", "12    ", "13    x")
    assert {line[:6] for line in more} == {"      "}
    assert " ".join(line[6:] for line in (first, *more)) == words


@given(st.text(st.characters(exclude_categories=())))
def test_verbatim_text_hides_and_reorders_nothing(text: str) -> None:
    shown = literal(text)
    assert plain(shown) == shown
    assert shown.replace("\n", "").isprintable()
    if "\\" not in text:
        assert _ESCAPED.sub(lambda m: m[0].encode().decode("unicode_escape"), shown) == text
