"""Reports: what may be written, what is pinned, and the page that people read."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from html import unescape as html_unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from parsimony_kernel.artifacts import html
from parsimony_kernel.artifacts.html import Exhibit, render_page, write_page
from parsimony_kernel.artifacts.markup import LINKS, parts
from parsimony_kernel.artifacts.publish import Published, Publisher, PublishError
from parsimony_kernel.artifacts.reports import (
    MAX_BODY,
    Report,
    ReportError,
    compose,
    draft,
    parse,
    pinned_in,
)
from parsimony_kernel.artifacts.store import (
    ArtifactStore,
    LogEntry,
    SnapshotError,
    UnknownArtifactError,
    reference,
)
from parsimony_kernel.identity import content_sha
from parsimony_kernel.lineage.ledger import VariableOrigin
from parsimony_kernel.testing.clock import ManualClock

SHA = content_sha(b"chart")


def _find(words: str) -> LogEntry:
    if words.startswith("no"):
        raise UnknownArtifactError(f"There is no artifact {words!r}.")
    return LogEntry(kind="chart", logical_id=content_sha(words.encode()), content_sha=SHA,
                    title=f"About {words}")  # fmt: skip


def _ref(words: str) -> str:
    return reference(_find(words).ref)


# -- what is written


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("![Cap](artifact:sales)", "Cap"),
        ("![Cap *x*](artifact:sales)", "Cap *x*"),
        ('![Cap](artifact:sales "hover")', "Cap"),
        ("![Cap](<artifact:sales>)", "Cap"),
        ("  ![Cap \\] y](artifact:sales)  ", "Cap \\] y"),
        ("{{artifact sales}}", "About sales"),
        ("{{ artifact sales | The  words }}", "The words"),
        ("![](artifact:sales)", "About sales"),
    ],
)
def test_a_reference_alone_on_a_line_is_a_block_that_quarto_shows_as_its_caption(
    written: str, label: str
) -> None:
    report = draft("T", f"Before.\n{written}\nAfter.", _find)
    block = f'::: {{.artifact ref="{_ref("sales")}"}}\n{label}\n:::'
    assert report.body == f"Before.\n\n{block}\n\nAfter."
    assert pinned_in(report.body) == (_find("sales").ref,)


@pytest.mark.parametrize(
    ("written", "name", "label"),
    [
        ("See ![the curve](artifact:sales).", "sales", "the curve"),
        ("See [the curve](artifact:sales).", "sales", "the curve"),
        ("- ![in a list](artifact:Monthly sales)", "Monthly sales", "in a list"),
        ("See [it](artifact:Monthly%20sales).", "Monthly sales", "it"),
        ("See [it](<artifact:Mean (EUR)>).", "Mean (EUR)", "it"),
        ("See {{artifact Mean (EUR)|it}}.", "Mean (EUR)", "it"),
        ("> {{artifact sales}}", "sales", "About sales"),
    ],
)
def test_a_reference_within_words_is_a_span(written: str, name: str, label: str) -> None:
    body = draft("T", written, _find).body
    assert f'[{label}]{{.artifact ref="{_ref(name)}"}}' in body
    assert pinned_in(body) == (_find(name).ref,)


@pytest.mark.parametrize(
    "code",
    [
        "```\n![Cap](artifact:no)\n```",
        "Write `![Cap](artifact:no)` or ``{{artifact no}} ` `` there.",
        'A `[x]{.artifact ref="y"}` is pinned.',
    ],
)
def test_what_stands_in_code_is_no_reference(code: str) -> None:
    assert draft("T", code, _find).body == code


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("~~~~ md\nx\n~~~\ny\n~~~~", "```md\nx\n~~~\ny\n```"),
        ("  ```py title\n  x\n    y\n ```", "```py\nx\n  y\n```"),
        ("~~~\n``` {a\n~~~", "````\n``` {a\n````"),
        ("```\n{{artifact no}}", "```\n{{artifact no}}\n```"),
        ("words\n```\nx\n```\nmore", "words\n\n```\nx\n```\n\nmore"),
        ("```yaml\n---\na: 1\n\n---\n```", " ```yaml\n ---\n a: 1\n\n ---\n ```"),
        ("`r = 0.3` and ```x```", "` r = 0.3 ` and ` x `"),
        ("``` ` `` ```", r"\`\`\` \` \`\` \`\`\`"),
    ],
)  # fmt: skip
def test_code_is_written_as_every_renderer_reads_it(written: str, stored: str) -> None:
    if "``` {" in written:
        with pytest.raises(ReportError, match="would be run"):
            draft("T", written, _find)
        return
    assert draft("T", written, _find).body == stored
    assert draft("T", stored, _find).body == stored


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("Hello\n\n---\nfilters: [x]\n---\n\nmore", "Hello\n\n***\nfilters: [x]\n\n***\n\nmore"),
        ("> ---\n> a: 1\n> ---", "> ***\n> a: 1\n> ***"),
        ("- ---\n  a: 1\n  ---\nend", "***\n  a: 1\n\n  ***\nend"),
        ("| a | b |\n| --- | --- |\n| 1 | 2 |", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
        ("a | b\n--- | ---\n1 | 2", "a | b\n--- | ----\n1 | 2"),
        ("Heading\n-------\nwords", "## Heading\nwords"),
        ("--- ---\na b", "***\na b"),
        ("+---+\n| x |\n+---+", "\\+---+\n| x |\n\\+---+"),
        ("<b>x</b> a < b <https://a.b> <x@y.z>", "\\<b>x\\</b> a < b <https://a.b> <x@y.z>"),
        ("\\<b> \\\\<b>", "\\<b> \\\\\\<b>"),
        ("\\`<b>`", "\\`\\<b>\\`"),
        ("`<b>` [a](`) <b> `", "`<b>` [a]\\(`) <b> `"),
        ("| ` | <b> ` |\n|---|---|", "| \\` | \\<b> \\` |\n|---|---|"),
        ("| `<b> \\| ` |\n|---|", "| `<b> \\| ` |\n|---|"),
        ("`a\n<b>`", "\\`a\n\\<b>\\`"),
        ("$x$ \\input{/etc/passwd} C:\\data", "\\$x\\$ \\\\input\\{/etc/passwd} C:\\\\data"),
        ("[@cite] a@b.c @fig-x", "[\\@cite] a@b.c \\@fig-x"),
        ("[x]{.content-hidden} # a {#b}", "[x]\\{.content-hidden} # a \\{#b}"),
        ("x\n:::: {.content-visible}\ny\n::::", "x\n\ny"),
        ("[x](javascript:a) [y](data.csv) [z](#a)", "[x]\\(javascript:a) [y]\\(data.csv) [z](#a)"),
        ("[x](&#106;avascript:a)", "[x]\\(&#106;avascript:a)"),
        ("[x]: /etc/passwd\n\n![x] ![y][x]", "[x]\\: /etc/passwd\n\n\\![x] \\![y][x]"),
        ("![far](https://a.b/c.png)", "[far](https://a.b/c.png)"),
        ("![a [b] c](/etc/passwd)", "\\![a [b] c]\\(/etc/passwd)"),
        (r"\{\{< include /etc/passwd >}}", r"\{\{< include /etc/passwd >}}"),
        ("a\u2028---\u2028b\x00c", "a --- b c"),
    ],
)  # fmt: skip
def test_what_only_some_renderers_act_on_is_written_as_words(written: str, stored: str) -> None:
    assert draft("T", written, _find).body == stored
    assert draft("T", stored, _find).body == stored


def _acts(body: str, *, tables: bool) -> list[str]:
    """What a renderer of CommonMark that lets everything through would act on."""
    markdown = MarkdownIt("commonmark", {"html": True})
    markdown.validateLink = lambda _address: True  # type: ignore[assignment,method-assign]
    if tables:
        markdown.enable("table")
    tokens = markdown.parse(body)
    every = tokens + [child for token in tokens for child in token.children or []]
    found = [token.type for token in every if token.type in {"html_block", "html_inline", "image"}]
    links = [str(token.attrGet("href")) for token in every if token.type == "link_open"]
    return found + [link for link in links if not link.lower().startswith(LINKS)]


# The header that Quarto looks for in the whole of a file, as its source has it.
_METADATA = re.compile(
    r"^---[ \t]*[\r\n]+(?![ \t]*[\r\n]+)[\W\w]*?[\r\n]+(?:---|\.\.\.)[ \t]*$", re.M
)
_HOSTILE = st.lists(
    st.sampled_from(
        ["`", "``", "```", "~~~", "<b>", "<!--", "](", ")", "[", "!", "\n", "\n\n", "---", "- ",
         "> ", "1. ", "    ", " ", "|", "|-|-|", "\\", "{", "}", "x", "$", '"', "https://a", "<https://a",
         ">", ":::", "[x]: ", "/etc", "\t", "+-", "# ", "***", "{=html}", "*", "_"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(_HOSTILE)
def test_no_text_makes_a_body_on_which_a_renderer_acts(text: str) -> None:
    try:
        body = draft("T", text, _find).body
    except ReportError:
        return
    assert draft("T", body, _find).body == body
    assert [_acts(body, tables=tables) for tables in (False, True)] == [[], []]
    assert not _METADATA.search(body)
    outside = "\n".join(part for part in parts(body) if isinstance(part, str))
    assert not re.search(r"^[ \t>]*(---|:::|~~~|```)[ \t]*$", outside, re.M)


def test_a_title_is_words_for_pandoc_too() -> None:
    report = draft("A *b* <script> \\x $y$ {{artifact}} :", "Words.", _find)
    text = compose(report).decode()
    assert parse(text.encode()) == report
    assert "<script>" not in text.replace("\\\\<", "")
    assert "engine: markdown\n" in text
    with pytest.raises(ReportError, match="shortcode"):
        draft("{{< env HOME >}}", "Words.", _find)


def test_every_unknown_name_is_said_at_once() -> None:
    body = "{{artifact none}} ![x](artifact:nowhere) {{artifact none}}"
    with pytest.raises(UnknownArtifactError) as caught:
        draft("T", body, _find)
    assert str(caught.value) == ("There is no artifact 'none'. There is no artifact 'nowhere'.")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("# T\n", "empty"),
        ("\n:::: {.x}\n:::", "empty"),
        ("x" * 500_001, "500,001 characters"),
        ("---\ntitle: x\nfilters: [evil.lua]\n---\nWords", "header of its own"),
        ("{{< include /etc/passwd >}}", "shortcode"),
        ("```\n{{< include /etc/passwd >}}\n```", "shortcode"),
        ("```{python}\n1\n```", "would be run"),
        ("> ~~~ { r }\n> 1\n> ~~~", "would be run"),
        ("the value `{python} x`", "would be run"),
        ("```{=html}\n<script>\n```", "raw text"),
        ("`<b>`{=html}", "raw text"),
        ("`<b>`{ =html5_x }", "raw text"),
        ("\u00a0```{python}\nx\n```", "would be run"),
        ("- ``` {.python .cell-code}\n  x\n  ```", "would be run"),
        ("````\n```{r}\n````", "would be run"),
        ("- ```python\n  x\n  ```", "begin and end the fence at the left margin"),
        ("> ```\n> {{artifact no}}\n> ```", "begin and end the fence at the left margin"),
        ("    ```\n    x\n    ```", "begin and end the fence at the left margin"),
        ("```\n`r 1 + 1`\n```", "would be run by R"),
        ("{ { < include /etc/passwd >}}", "shortcode"),
        ("&lbrace;&#123;&lt; include /etc/passwd >}}", "shortcode"),
        ("---\n# c\nexecute:\n  enabled: true\n---\nx", "header of its own"),
        ("---\n{filters: [x.lua]}\n...\nx", "header of its own"),
        ('---\n"filters": [x.lua]\n---\nx', "header of its own"),
        ("![](/etc/passwd)", "is published: publish the chart"),
        ("![x](file:///etc/passwd)", "is published: publish the chart"),
        ("![x](data:image/png;base64,x)", "is published: publish the chart"),
        ("![x](artifact:)", "cannot be read"),
        ("{{artifact }}", "cannot be read"),
        ('::: {.artifact ref="chart/a"}\nx\n:::', "no reference"),
        ('::: {.artifact ref="picture/a@b"}\nx\n:::', "not a kind"),
        ('::: {.artifact ref="chart/a@b"}\none\ntwo\n:::', "is damaged"),
        ("[x]{.artifact}", "is damaged"),
        ("{{artifact sales}}\n\n" * 201, "201 times"),
    ],
)
def test_what_a_report_may_not_hold_is_said_in_one_sentence(body: str, words: str) -> None:
    with pytest.raises(ReportError, match=re.escape(words)) as caught:
        draft("T", body, _find)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "piece",
    ["[\\\\", "[\\[", "{{artifact ", "![a](artifact:", "![ artifact )", "[a]{.artifact ref=", "` ",
     "{{ ", "![x](<artifact:", '![x](artifact:a "', "artifact ) ", "![", "[a](b", "](", "- ",
     "> ", "1. ", "a) ", "1. 1. ", "\\`", "<https://", "![a](https://", "](((", '](a "', "|-",
     "---\n", ":::\n", "~~~x", "```x\n", "&lbrace;", "![[", "x@", "{=", "``` ",
     "[a](artifact:a   ", "{{artifact a| "],
)  # fmt: skip
def test_no_text_is_read_more_than_a_bounded_number_of_times(piece: str) -> None:
    # Where the work grew with the square of the length, this would take minutes.
    text = piece * (MAX_BODY // len(piece))
    with suppress(ReportError, UnknownArtifactError):
        draft("T", text, _find)


@pytest.mark.parametrize(
    "text",
    [
        " ".join("`" * length for length in range(1, 980)),
        "![a](artifact:x" + " " * (MAX_BODY - 20),
        "{{artifact" + " " * (MAX_BODY - 20),
        "](" + "(" * (MAX_BODY - 20),
        "> " * 200_000 + "---",
        "[" + "`" * 499 + "\n",
        "\n".join(['::: {.artifact ref="chart/a@b"}'] * 10_000),
        "- " * 200_000 + "```",
        "---\nx\n" * 60_000,
        "``" + "`x``" * 100_000,
    ],
)
def test_no_text_of_one_long_line_is_read_again_and_again(text: str) -> None:
    with suppress(ReportError, UnknownArtifactError):
        draft("T", text, _find)
    assert pinned_in(text) == ()


def test_a_language_is_a_tag() -> None:
    assert draft("T", "Wörter.", _find, "de-AT").language == "de-AT"
    with pytest.raises(ReportError, match="language tag"):
        draft("T", "x", _find, 'en" onload="x')


def test_a_heading_that_repeats_the_title_is_left_out() -> None:
    assert draft("A title", "# A Title\n\nWords.", _find).body == "Words."
    assert draft("A title", "# Another\n\nWords.", _find).body == "# Another\n\nWords."


@given(st.text(), st.text(alphabet="abr$@+`~[](){}|:!#-<>\\ \n\"='", max_size=200))
def test_a_report_reads_back_as_it_was_and_is_pinned_once_for_all(title: str, body: str) -> None:
    try:
        report = draft(title, body, _find)
    except ReportError:
        return
    assert parse(compose(report)) == report
    assert draft(title, report.body, _find) == report


def test_a_file_that_is_no_report_is_said() -> None:
    for data in (b"", b"---\ntitle: x\n---\n", b"\xff"):
        with pytest.raises(ReportError, match="publish it again"):
            parse(data)


# -- publishing

FRAME = pd.DataFrame({"month": pd.date_range("2024-01-01", periods=12, freq="MS"), "t": range(12)})


def _origin(name: str) -> VariableOrigin:
    return VariableOrigin(
        name=name,
        version=1,
        actor="agent",
        notebook_path="work.ipynb",
        cell_id="c",
        run_id="r",
        code=f"{name} = made()",
        code_sha="0",
        sources=("data.csv",),
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def publisher(tmp_path: Path, clock: ManualClock) -> Publisher:
    (tmp_path / "data.csv").write_text("t\n1\n")
    made = Publisher(ArtifactStore(tmp_path), notebook_path="work.ipynb", clock=clock, quarto="")
    _dataset(made)
    chart = alt.Chart(FRAME).mark_line().encode(x="month:T", y="t:Q")
    made.publish_chart(
        chart, variable="curve", title="The curve", lineage=[_origin("curve")], run_id="r"
    )
    return made


def _dataset(publisher: Publisher, frame: pd.DataFrame = FRAME) -> Published:
    return publisher.publish_dataset(
        frame,
        variable="monthly",
        title="By month",
        lineage=[_origin("monthly")],
        run_id="r",
        script="monthly = made()  # <all>",
    )


BODY = "Some words.\n\n![Mean *t*](artifact:curve)\n\nSee [the table](artifact:monthly).\n"


def test_a_report_is_published_with_what_it_shows_and_its_page(publisher: Publisher) -> None:
    published = publisher.publish_report("How warm?", BODY, run_id="r")
    store = publisher.store
    entry = store.latest("report", published.ref.logical_id)
    assert entry is not None
    assert published.path.endswith(".qmd")
    assert published.page == "reports/how_warm.html"
    assert (store.root / published.page).is_file()
    shown = [publisher.find("curve").ref, publisher.find("monthly").ref]
    assert entry.embedded == tuple(map(reference, shown))
    assert (entry.live_name, entry.notebook, entry.run_id) == ("how_warm", "work.ipynb", "r")
    text = store.read(published.ref).decode()
    assert pinned_in(text) == tuple(shown)
    assert "2026" not in text


def test_an_unknown_artifact_leaves_nothing_behind(publisher: Publisher) -> None:
    before = publisher.store.list()
    with pytest.raises(UnknownArtifactError, match=r"did you mean .*\(curve\)"):
        publisher.publish_report("T", "![x](artifact:curv)", run_id="r")
    assert publisher.store.list() == before
    assert not (publisher.store.root / "reports").exists()


def test_a_damaged_artifact_is_not_shown(publisher: Publisher) -> None:
    (publisher.store.root / publisher.find("curve").path).write_bytes(b"{}")
    with pytest.raises(SnapshotError, match="damaged"):
        publisher.publish_report("T", BODY, run_id="r")
    assert not (publisher.store.root / "reports").exists()


def test_the_same_report_again_is_the_same_snapshot_and_the_same_page(
    publisher: Publisher, clock: ManualClock
) -> None:
    first = publisher.publish_report("T", BODY, run_id="r")
    page = (publisher.store.root / first.page).read_bytes()
    clock.advance(3600)
    again = publisher.publish_report("T", BODY, run_id="r2")
    assert (again.ref, again.page, again.reused) == (first.ref, first.page, True)
    assert (publisher.store.root / first.page).read_bytes() == page


def test_a_report_keeps_the_snapshots_that_it_was_pinned_to(publisher: Publisher) -> None:
    first = publisher.publish_report("T", BODY, run_id="r")
    old = publisher.store.read(first.ref)
    _dataset(publisher, FRAME.assign(t=0))
    assert publisher.store.read(first.ref) == old
    second = publisher.publish_report("T", BODY, run_id="r")
    assert second.ref.logical_id == first.ref.logical_id
    assert second.ref.content_sha != first.ref.content_sha


def test_an_edit_is_a_new_snapshot_of_the_same_report(publisher: Publisher) -> None:
    first = publisher.publish_report("T", BODY, description="D", run_id="r")
    _dataset(publisher, FRAME.assign(t=0))
    edited = publisher.edit_report("T", "Some words.", "Other words.", run_id="r2")
    assert edited.ref.logical_id == first.ref.logical_id
    text = publisher.store.read(edited.ref).decode()
    assert text == publisher.store.read(first.ref).decode().replace("Some", "Other")
    assert "Other words." in (publisher.store.root / edited.page).read_text()
    entry = publisher.find("T")
    assert (entry.ref, entry.description) == (edited.ref, "D")


def test_an_edit_may_show_something_else_and_it_stays_the_same_report(
    publisher: Publisher,
) -> None:
    first = publisher.publish_report("T", BODY, run_id="r")
    new = "Words.\n\n![Table](artifact:monthly)"
    edited = publisher.edit_report(first.ref.logical_id[:8], "Some words.", new, run_id="r2")
    assert edited.ref.logical_id == first.ref.logical_id
    kinds = [ref.kind for ref in pinned_in(publisher.store.read(edited.ref).decode())]
    assert kinds == ["dataset", "chart"]


def test_an_edit_that_this_run_has_made_is_not_made_again(publisher: Publisher) -> None:
    publisher.publish_report("T", BODY, run_id="r")
    edits = [publisher.edit_report("T", "words", "words and words", run_id="r2") for _ in range(2)]
    assert edits[0].ref == edits[1].ref
    assert [edit.reused for edit in edits] == [False, True]


def test_a_renewed_report_shows_the_newest_and_stays_with_its_notebook(
    publisher: Publisher,
) -> None:
    (publisher.store.root / "work.ipynb").write_text("{}")
    first = publisher.publish_report("T", f"{BODY}\n![: odd](artifact:monthly)", run_id="r")
    anyone = Publisher(publisher.store, notebook_path="another.ipynb", quarto="")
    same = anyone.renew_report(publisher.find("T"))
    assert (same.ref, same.reused, same.page) == (first.ref, True, first.page)
    table = _dataset(publisher, FRAME.assign(t=0))
    renewed = anyone.renew_report(publisher.find("T"))
    assert renewed.ref.logical_id == first.ref.logical_id
    assert pinned_in(publisher.store.read(renewed.ref).decode()) == (
        publisher.find("curve").ref,
        table.ref,
    )
    old = publisher.store.read(first.ref).decode()
    was = next(ref for ref in pinned_in(old) if ref.kind == "dataset")
    assert publisher.store.read(renewed.ref).decode() == old.replace(
        reference(was), reference(table.ref)
    )
    assert publisher.find("T").notebook == "work.ipynb"
    assert publisher.edit_report("T", "Some", "Other", run_id="r").page == first.page


@pytest.mark.parametrize(
    ("old", "words"),
    [("nothing like it", "not in the report 'T': read it"), ("e", "times in"), ("", "is empty")],
)
def test_an_edit_needs_a_text_that_stands_there_once(
    publisher: Publisher, old: str, words: str
) -> None:
    publisher.publish_report("T", BODY, run_id="r")
    with pytest.raises(PublishError, match=words):
        publisher.edit_report("T", old, "x", run_id="r")


def test_what_is_no_report_is_not_edited_as_one(publisher: Publisher) -> None:
    with pytest.raises(PublishError, match="is a chart and no report"):
        publisher.edit_report("curve", "a", "b", run_id="r")


def test_titles_that_share_their_letters_have_names_and_pages_of_their_own(
    publisher: Publisher,
) -> None:
    long = "Revenue and costs of all the branches in Austria and in Germany, "
    titles = ["A", "A+", "A#", f"{long}north", f"{long}south", "😀", "---", "++", "C", "C++", "con"]
    made = [publisher.publish_report(title, f"About {title!r}.", run_id="r") for title in titles]
    assert len({each.page for each in made}) == len(titles)
    assert len({entry.live_name for entry in publisher.store.list() if entry.kind == "report"}) == (
        len(titles)
    )
    assert (made[0].page, made[8].page) == ("reports/a.html", "reports/c.html")
    for title, each in zip(titles, made, strict=True):
        assert f"About {title!r}." in html_unescape(_page(publisher, each))


def test_two_reports_of_one_title_have_a_page_each(publisher: Publisher) -> None:
    first = publisher.publish_report("T", BODY, run_id="r")
    other = publisher.publish_report("T", "Words alone.", run_id="r")
    assert (first.page, other.page) == ("reports/t.html", "reports/t-2.html")
    again = publisher.publish_report("T", f"{BODY}\nMore.", run_id="r")
    assert again.page == first.page
    assert "Words alone." in _page(publisher, other)


def test_a_renewed_page_says_of_when_its_sentences_are(
    publisher: Publisher, clock: ManualClock
) -> None:
    first = publisher.publish_report("T", BODY, run_id="r")
    assert "The sentences are of" not in _page(publisher, first)
    for days, values in ((1, 0), (2, 5)):
        clock.advance(86_400)
        _dataset(publisher, FRAME.assign(t=values))
        page = _page(publisher, publisher.renew_report(publisher.find("T")))
        seen = _assert_needs_nothing(page)
        told = (
            "The sentences are of 2026-01-01 00:00 UTC; the figures, the tables and what is "
            f"linked were renewed on 2026-01-0{days + 1} 00:00 UTC."
        )
        assert told in seen.text
    same = publisher.renew_report(publisher.find("T"))
    assert _page(publisher, same) == page
    edited = publisher.edit_report("T", "Some", "New", run_id="r2")
    assert "The sentences are of" not in _page(publisher, edited)


def test_a_page_that_cannot_be_written_is_a_note_on_a_report_that_is_there(
    publisher: Publisher,
) -> None:
    (publisher.store.root / "reports").write_text("a file")
    published = publisher.publish_report("T", BODY, run_id="r")
    assert publisher.store.read(published.ref)
    assert published.page == ""
    assert published.note.startswith("The page was not written. Cannot")


# -- the page


class _Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


_HARMLESS = set(
    re.findall(
        r"\w+",
        "html head meta title style body main footer h1 h2 h3 h4 h5 h6 p a em strong s "
        "code pre hr br ul ol li blockquote table thead tbody tr th td figure figcaption "
        "img div dl dt dd details summary time span",
    )
)


def _assert_needs_nothing(page: str) -> _Seen:
    seen = _Seen(page)
    assert {tag for tag, _ in seen.tags} <= _HARMLESS
    for tag, attributes in seen.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert set(attributes) <= {
            "lang", "charset", "http-equiv", "content", "name", "href", "rel", "id", "class",
            "scope", "src", "alt", "title", "datetime", "tabindex", "role", "aria-label", "style",
            "start",
        }  # fmt: skip
        assert str(attributes.get("style", "")) in {
            "", "text-align:left", "text-align:right", "text-align:center"
        }  # fmt: skip
    assert all(str(each["src"]).startswith("data:image/") for each in seen.all("img"))
    for each in seen.all("a"):
        assert str(each["href"]).lower().startswith(("http://", "https://", "mailto:", "#"))
    levels = [int(tag[1]) for tag, _ in seen.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    return seen


def _page(publisher: Publisher, published: Published) -> str:
    return (publisher.store.root / published.page).read_text()


def test_a_page_tells_what_it_shows_and_where_it_comes_from(publisher: Publisher) -> None:
    published = publisher.publish_report(
        "How warm?", f"{BODY}\n![Table](artifact:monthly)", language="de", run_id="r"
    )
    page = _page(publisher, published)
    seen = _assert_needs_nothing(page)
    assert seen.all("html") == [{"lang": "de"}]
    assert "<title>How warm?</title>" in page
    (image,) = seen.all("img")
    assert image["alt"] == "Mean *t*: line chart of t by month"
    assert "(12 rows, 2 columns; the first 10 rows shown)" in seen.text
    assert "2024-01-01" in seen.text
    ids = {str(attributes["id"]) for _, attributes in seen.tags if "id" in attributes}
    assert {"artifact-1", "source-1", "artifact-2", "source-2"} <= ids
    targets = {str(each["href"])[1:] for each in seen.all("a")}
    assert targets <= ids
    curve = publisher.find("curve")
    for told in ("# %% agent\ncurve = made()", "monthly = made()  # <all>", "data.csv",
                 curve.logical_id[:12], curve.content_sha[:12], published.ref.content_sha[:12],
                 "work.ipynb", "2026-01-01 00:00 UTC"):  # fmt: skip
        assert told in seen.text


def test_headings_begin_below_the_title_and_none_is_skipped(publisher: Publisher) -> None:
    body = "# One\n\n#### Deep\n\n###### Deeper\n\n## Two\n\n# Three\n\n### Four"
    page = _page(publisher, publisher.publish_report("T", body, run_id="r"))
    _assert_needs_nothing(page)
    main = page[: page.index("</main>")]
    assert re.findall(r"<(h\d)>", main) == ["h1", "h2", "h3", "h4", "h3", "h2", "h3"]


_EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'&amp;"


def test_whatever_comes_from_outside_is_only_text(publisher: Publisher) -> None:
    store = publisher.store
    frame = pd.DataFrame({_EVIL: [_EVIL, None]})
    hostile = Publisher(store, notebook_path=f"{_EVIL[:20]}.ipynb", quarto="")
    hostile.publish_dataset(
        frame,
        variable="evil",
        title=_EVIL,
        description=_EVIL,
        lineage=[_origin("evil").model_copy(update={"code": _EVIL, "sources": (_EVIL,)})],
        run_id="r",
    )
    chart = alt.Chart(FRAME, title=_EVIL).mark_line().encode(x="month:T", y="t:Q")
    hostile.publish_chart(
        chart, variable="pic", title="p", description=_EVIL, lineage=[_origin("pic")], run_id="r"
    )
    body = f"{_EVIL}\n\n{{{{artifact evil}}}}\n\n![{_EVIL.replace('[', '')}](artifact:pic)\n\n"
    body += f"[x](javascript:alert(1)) [y](data:text/html,x) [z](file:///etc/passwd) <{_EVIL}>"
    body += "\n\n![far](https://example.org/x.png) <https://example.org> | a |\n"
    published = hostile.publish_report(_EVIL, body, description=_EVIL, run_id="r")
    page = _page(hostile, published)
    seen = _assert_needs_nothing(page)
    assert "<script" not in page
    assert "onerror" in seen.text
    assert "default-src 'none'" in str(seen.all("meta"))


@given(st.text(alphabet="ab`~*_[](){}|:!#-+<>\\/ \n\"='&1.", max_size=300))
def test_no_words_make_a_page_that_needs_anything_or_runs(body: str) -> None:
    try:
        report = draft("T", body, _find)
    except ReportError:
        return
    ref = _find("sales").ref
    entry = LogEntry(kind="report", logical_id="a", content_sha="b")
    shown = {ref: Exhibit(_find("sales"), b"{}")}
    _assert_needs_nothing(render_page(report, shown, entry).html)


def test_a_chart_whose_data_lies_elsewhere_is_told_in_words(publisher: Publisher) -> None:
    far = alt.Chart("https://example.invalid/x.csv").mark_line().encode(x="a:T", y="b:Q")
    publisher.publish_chart(far, variable="far", title="Far", lineage=[_origin("far")], run_id="r")
    page = _page(publisher, publisher.publish_report("T", "![Far](artifact:far)", run_id="r"))
    assert "Far: line chart of b by a. No picture could be made" in _assert_needs_nothing(page).text


def test_a_chart_that_is_large_as_a_drawing_is_a_picture(publisher: Publisher) -> None:
    many = pd.DataFrame({"x": range(4000), "y": range(4000)})
    publisher.publish_chart(
        alt.Chart(many).mark_point().encode(x="x:Q", y="y:Q"),
        variable="many",
        title="Many",
        lineage=[_origin("many")],
        run_id="r",
    )
    page = _page(publisher, publisher.publish_report("T", "{{artifact many}}", run_id="r"))
    (image,) = _assert_needs_nothing(page).all("img")
    assert str(image["src"]).startswith("data:image/png;base64,")


def test_a_script_is_shown_as_code_and_a_report_by_its_title(publisher: Publisher) -> None:
    publisher.publish_notebook("if 1 < 2:\n    pass", name="steps", run_id="r")
    publisher.publish_report("Earlier", "Words.", run_id="r")
    body = "{{artifact steps}}\n\n{{artifact Earlier}}"
    seen = _assert_needs_nothing(_page(publisher, publisher.publish_report("T", body, run_id="r")))
    assert "if 1 < 2:\n    pass" in seen.text
    assert "Earlier · Source 2" in seen.text


# -- the file

ONE, OTHER = content_sha(b"one"), content_sha(b"other")


def test_a_page_that_was_changed_by_hand_is_left_alone(tmp_path: Path) -> None:
    first = write_page(tmp_path, "t", "<p>one</p>", ONE)
    assert first == tmp_path / "t.html"
    assert write_page(tmp_path, "t", "<p>two</p>", ONE) == first
    changed = first.read_bytes().replace(b"two", b"2")
    first.write_bytes(changed)
    second = tmp_path / "t-2.html"
    assert write_page(tmp_path, "t", "<p>three</p>", ONE) == second
    assert write_page(tmp_path, "t", "<p>four</p>", ONE) == second
    assert first.read_bytes() == changed
    assert b"four" in second.read_bytes()


def test_the_page_of_another_report_of_that_name_is_left_alone(tmp_path: Path) -> None:
    first = write_page(tmp_path, "t", "<p>one</p>", ONE)
    was = first.read_bytes()
    second = write_page(tmp_path, "t", "<p>other</p>", OTHER)
    assert second == tmp_path / "t-2.html"
    assert write_page(tmp_path, "t", "<p>again</p>", OTHER) == second
    assert first.read_bytes() == was
    first.unlink()
    assert write_page(tmp_path, "t", "<p>stays</p>", OTHER) == second
    assert write_page(tmp_path, "t", "<p>back</p>", ONE) == first
    assert sorted(tmp_path.iterdir()) == [second, first]


def test_a_page_with_a_stamp_of_another_report_pasted_in_is_not_taken_for_it(
    tmp_path: Path,
) -> None:
    first = write_page(tmp_path, "t", "<p>one</p>", ONE)
    first.write_bytes(first.read_bytes().replace(ONE.encode(), OTHER.encode()))
    write_page(tmp_path, "u", "<!-- parsimony-report -->", ONE)
    stamp = first.read_bytes()[len(b"<p>one</p>") :]
    first.write_bytes(b"<p>mine</p>" + stamp)
    assert write_page(tmp_path, "t", "<p>other</p>", OTHER) == tmp_path / "t-2.html"


@pytest.mark.parametrize("there", [b"", b"<p>mine</p>", b"\xff\x00", b"x" * 10_000])
def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path, there: bytes) -> None:
    (tmp_path / "t.html").write_bytes(there)
    assert write_page(tmp_path, "t", "<p>one</p>", ONE) == tmp_path / "t-2.html"
    assert (tmp_path / "t.html").read_bytes() == there


def test_what_is_no_file_in_the_place_of_a_page_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "t.html").mkdir()
    os.mkfifo(tmp_path / "t-2.html")
    (tmp_path / "t-3.html").symlink_to("nowhere")
    assert write_page(tmp_path, "t", "<p>one</p>", ONE) == tmp_path / "t-4.html"


# -- Quarto, played by a program

_QUARTO = """#!{python}
import pathlib, re, sys
assert sys.argv[1:] == ["render", "report.qmd", "--to", "html", "--no-execute"], sys.argv
text = pathlib.Path("report.qmd").read_text()
header, body = re.fullmatch(r"---\\n(.*?)\\n---\\n\\n(.*)", text, re.DOTALL).groups()
{deed}
"""
_RENDERS = """
words = "".join(f"<p>{part}</p>" for part in body.strip().split("\\n\\n"))
pathlib.Path("report.html").write_text(
    "<!DOCTYPE html><html><head lang='x'><script src='https://example.org/x.js'></script>"
    "<link rel='stylesheet' href='x.css'></head><body>by quarto " + words + "</body></html>")
"""


def _quarto(folder: Path, deed: str) -> str:
    program = folder / "quarto"
    program.write_text(_QUARTO.format(python=sys.executable, deed=deed))
    program.chmod(0o755)
    return str(program)


def _rendered(program: str, body: str) -> Any:
    report = draft("T", body, _find)
    exhibits = {ref: Exhibit(_find("sales"), b'{"mark":"bar"}') for ref in pinned_in(report.body)}
    entry = LogEntry(kind="report", logical_id="a", content_sha="b")
    return render_page(report, exhibits, entry, quarto=program)


def test_quarto_renders_the_words_and_we_the_figures_and_the_sources(tmp_path: Path) -> None:
    page = _rendered(
        _quarto(tmp_path, _RENDERS), "Words.\n\n{{artifact sales}}\n\n[a](artifact:sales)"
    )
    assert page.note == ""
    assert "by quarto" in page.html
    assert "<script" not in page.html
    assert "<link" not in page.html
    assert page.html.count("<figure") == 1
    assert "[a](#source-1)" in page.html
    assert 'id="source-1"' in page.html
    assert "default-src 'none'" in page.html


def test_quarto_gets_no_image_no_header_and_nothing_to_run(tmp_path: Path) -> None:
    keep = tmp_path / "kept"
    deed = f"pathlib.Path({str(keep)!r}).write_text(text)" + _RENDERS
    _rendered(_quarto(tmp_path, deed), "![x](https://a.b)\n\n---\n\nfilters: [x]\n\n---\n\nend")
    header, body = keep.read_text().removeprefix("---\n").split("\n---\n", 1)
    assert '"enabled": false' in header
    assert "-raw_html" in header
    assert "![" not in body
    assert not re.search("^---$", body, re.M)


_FAILS: list[tuple[str, Callable[[str], bool]]] = [
    ("print('no LaTeX', file=sys.stderr); sys.exit(3)", lambda note: "(no LaTeX)" in note),
    ("sys.exit(3)", lambda note: "it ended with 3" in note),
    ("pass", lambda note: "it wrote no page" in note),
    (
        "pathlib.Path('report.html').write_text('<body></body>')",
        lambda note: "left out a figure" in note,
    ),
    ("import time; time.sleep(600)", lambda note: "it took longer than" in note),
]


@pytest.mark.parametrize(("deed", "is_told"), _FAILS, ids=[deed[:20] for deed, _ in _FAILS])
def test_where_quarto_fails_the_page_is_rendered_without_it_and_that_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    deed: str,
    is_told: Callable[[str], bool],
) -> None:
    if "sleep" in deed:
        monkeypatch.setattr(html, "QUARTO_TIMEOUT_S", 0.2)
    page = _rendered(_quarto(tmp_path, deed), "Words.\n\n{{artifact sales}}")
    assert is_told(page.note), page.note
    _assert_needs_nothing(page.html)
    assert page.html == _rendered_without("Words.\n\n{{artifact sales}}")


def test_a_program_that_is_not_there_is_a_note(tmp_path: Path) -> None:
    page = _rendered(str(tmp_path / "quarto"), "Words.")
    assert "No such file" in page.note


def _rendered_without(body: str) -> str:
    report: Report = draft("T", body, _find)
    entry = LogEntry(kind="report", logical_id="a", content_sha="b")
    exhibits = {ref: Exhibit(_find("sales"), b'{"mark":"bar"}') for ref in pinned_in(report.body)}
    return render_page(report, exhibits, entry).html
