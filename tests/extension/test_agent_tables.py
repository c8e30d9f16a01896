"""Lists as mime bundles."""

from parsimony_agent.tables import note, table


def test_a_table_is_aligned_text_and_escaped_html() -> None:
    data = table(("turn", "request"), [("1", "<b>plot</b>"), ("12", "x")], empty="none")
    assert data["text/plain"].splitlines() == ["turn  request", "1     <b>plot</b>", "12    x"]
    assert "&lt;b&gt;plot&lt;/b&gt;" in data["text/html"]
    assert "<b>" not in data["text/html"]


def test_a_row_is_one_line_of_printable_text_whatever_was_asked() -> None:
    data = table(("request",), [("a\nb\x1b[2Jc\u202ed" + "x" * 100,)], empty="none")
    row = data["text/plain"].splitlines()[1]
    assert row.startswith("a b [2Jc dxxx")
    assert row.endswith("…")
    assert len(row) == 60
    assert "\x1b" not in data["text/html"]


def test_an_empty_table_says_so() -> None:
    assert table(("a",), [], empty="Nothing <yet>.") == note("Nothing <yet>.")
    assert note("Nothing <yet>.")["text/html"] == "<p>Nothing &lt;yet&gt;.</p>"
