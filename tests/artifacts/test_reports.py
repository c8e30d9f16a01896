"""What a report may hold, and how it is written down and pinned."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from parsimony_kernel.artifacts.markup import LINKS, parts
from parsimony_kernel.artifacts.reports import (
    MAX_BODY,
    ReportError,
    compose,
    draft,
    parse,
    pinned_in,
)
from parsimony_kernel.artifacts.store import UnknownArtifactError
from tests.artifacts.report_cases import find, reference_to
from tests.tiers import sampled


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
    report = draft("T", f"Before.\n{written}\nAfter.", find)
    block = f'::: {{.artifact ref="{reference_to("sales")}"}}\n{label}\n:::'
    assert report.body == f"Before.\n\n{block}\n\nAfter."
    assert pinned_in(report.body) == (find("sales").ref,)


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
    body = draft("T", written, find).body
    assert f'[{label}]{{.artifact ref="{reference_to(name)}"}}' in body
    assert pinned_in(body) == (find(name).ref,)


@pytest.mark.parametrize(
    "code",
    [
        "```\n![Cap](artifact:no)\n```",
        "Write `![Cap](artifact:no)` or ``{{artifact no}} ` `` there.",
        'A `[x]{.artifact ref="y"}` is pinned.',
    ],
)
def test_what_stands_in_code_is_no_reference(code: str) -> None:
    assert draft("T", code, find).body == code


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
            draft("T", written, find)
        return
    assert draft("T", written, find).body == stored
    assert draft("T", stored, find).body == stored


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
    assert draft("T", written, find).body == stored
    assert draft("T", stored, find).body == stored


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
        body = draft("T", text, find).body
    except ReportError:
        return
    assert draft("T", body, find).body == body
    assert [_acts(body, tables=tables) for tables in (False, True)] == [[], []]
    assert not _METADATA.search(body)
    outside = "\n".join(part for part in parts(body) if isinstance(part, str))
    assert not re.search(r"^[ \t>]*(---|:::|~~~|```)[ \t]*$", outside, re.M)


def test_a_title_is_words_for_pandoc_too() -> None:
    report = draft("A *b* <script> \\x $y$ {{artifact}} :", "Words.", find)
    text = compose(report).decode()
    assert parse(text.encode()) == report
    assert "<script>" not in text.replace("\\\\<", "")
    assert "engine: markdown\n" in text
    with pytest.raises(ReportError, match="shortcode"):
        draft("{{< env HOME >}}", "Words.", find)


def test_every_unknown_name_is_said_at_once() -> None:
    body = "{{artifact none}} ![x](artifact:nowhere) {{artifact none}}"
    with pytest.raises(UnknownArtifactError) as caught:
        draft("T", body, find)
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
        draft("T", body, find)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "piece",
    sampled([
     "[\\\\", "[\\[", "{{artifact ", "![a](artifact:", "![ artifact )", "[a]{.artifact ref=", "` ",
     "{{ ", "![x](<artifact:", '![x](artifact:a "', "artifact ) ", "![", "[a](b", "](", "- ",
     "> ", "1. ", "a) ", "1. 1. ", "\\`", "<https://", "![a](https://", "](((", '](a "', "|-",
     "---\n", ":::\n", "~~~x", "```x\n", "&lbrace;", "![[", "x@", "{=", "``` ",
     "[a](artifact:a   ", "{{artifact a| "], 3),
)  # fmt: skip
def test_no_text_is_read_more_than_a_bounded_number_of_times(piece: str) -> None:
    # Where the work grew with the square of the length, this would take minutes.
    text = piece * (MAX_BODY // len(piece))
    with suppress(ReportError, UnknownArtifactError):
        draft("T", text, find)


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
        draft("T", text, find)
    assert pinned_in(text) == ()


def test_a_language_is_a_tag() -> None:
    assert draft("T", "Wörter.", find, "de-AT").language == "de-AT"
    with pytest.raises(ReportError, match="language tag"):
        draft("T", "x", find, 'en" onload="x')


def test_a_heading_that_repeats_the_title_is_left_out() -> None:
    assert draft("A title", "# A Title\n\nWords.", find).body == "Words."
    assert draft("A title", "# Another\n\nWords.", find).body == "# Another\n\nWords."


@given(st.text(), st.text(alphabet="abr$@+`~[](){}|:!#-<>\\ \n\"='", max_size=200))
def test_a_report_reads_back_as_it_was_and_is_pinned_once_for_all(title: str, body: str) -> None:
    try:
        report = draft(title, body, find)
    except ReportError:
        return
    assert parse(compose(report)) == report
    assert draft(title, report.body, find) == report


def test_a_file_that_is_no_report_is_said() -> None:
    for data in (b"", b"---\ntitle: x\n---\n", b"\xff"):
        with pytest.raises(ReportError, match="publish it again"):
            parse(data)
