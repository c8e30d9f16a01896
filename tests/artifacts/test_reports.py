"""What a report may hold, and how what it shows is pinned."""

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.artifacts.reports import (
    MAX_BODY,
    Report,
    ReportError,
    compose,
    draft,
    names_in,
    parse,
)
from parsimony_kernel.artifacts.store import UnknownArtifactError
from tests.artifacts.report_cases import SHA, find


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("![Cap](artifact:sales)", "sales"),
        ('![Cap](artifact:sales "hover")', "sales"),
        ("![Cap](<artifact:sales>)", "sales"),
        ("![](artifact:sales)", "sales"),
        ("See ![the curve](artifact:sales).", "sales"),
        ("See [the *curve*](artifact:sales).", "sales"),
        ("- ![in a list](artifact:Monthly sales)", "Monthly sales"),
        ("See [it](artifact:Monthly%20sales).", "Monthly sales"),
        ("See [it](<artifact:Mean (EUR)>).", "Mean (EUR)"),
        ("| [it](artifact:Umsätze) |\n|---|", "Umsätze"),
    ],
)
def test_references_are_pinned(written: str, name: str) -> None:
    report = draft("T", written, find)
    assert report.pins == {name: find(name)}


def test_figure_on_own_line_is_its_own_paragraph() -> None:
    report = draft("T", "Before.\n![Cap](artifact:sales)\n![Cap](artifact:b)\nAfter.", find)
    assert [line.strip() for line in report.body.split("\n\n")] == [
        "Before.", "![Cap](artifact:sales)", "![Cap](artifact:b)", "After."
    ]  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "```\nx ![Cap](artifact:no)\n```",
        "Write `![Cap](artifact:no)` or `` [x](artifact:no) ` `` there.",
        "    ![Cap](artifact:no)",
        "\\![Cap]\\(artifact:no)",
    ],
)
def test_reference_in_code_is_ignored(code: str) -> None:
    report = draft("T", f"Words.\n\n{code}", find)
    assert report == Report("T", f"Words.\n\n{code}")


def test_all_unknown_names_are_reported() -> None:
    body = "[x](artifact:none) ![x](artifact:nowhere) [y](artifact:none)"
    with pytest.raises(UnknownArtifactError) as caught:
        draft("T", body, find)
    assert str(caught.value) == "There is no artifact 'none'. There is no artifact 'nowhere'."


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("# T\n", "empty"),
        ("x" * (MAX_BODY + 1), "200,001 characters"),
        ("---\ntitle: x\nfilters: [evil.lua]\n---\nWords", "header of its own"),
        ("Words\n\n---\n# c\nexecute:\n  enabled: true\n---\nx", "header of its own"),
        ("---\n{filters: [x.lua]}\n...\nx", "header of its own"),
        ("{{< include /etc/passwd >}}", "shortcode"),
        ("```\n{{< include /etc/passwd >}}\n```", "shortcode"),
        ("{ { < include /etc/passwd >}}", "shortcode"),
        ("&lbrace;&#123;&lt; include /etc/passwd >}}", "shortcode"),
        ("![](/etc/passwd)", "publish the chart"),
        ("![x](file:///etc/passwd)", "publish the chart"),
        ("![x](data:image/png;base64,x)", "publish the chart"),
        ("![x](artifact:)", "has no name"),
    ],
)
def test_invalid_report_is_one_sentence(body: str, words: str) -> None:
    with pytest.raises(ReportError, match=re.escape(words)) as caught:
        draft("T", body, find)
    assert "\n" not in str(caught.value)


QUICK = (
    "](", "` ", "1. 1. ", "\\`", "|-", "x@", "[a](artifact:a   ", "```x\n", "<https://", "> ",
)  # fmt: skip
LONG = (
    "[\\\\", "[\\[", "![a](artifact:", '![x](artifact:a "', "![", "[a](b", "- ", "1. ", "a) ",
    "![a](https://", "](((", '](a "', "---\n", ":::\n", "~~~x", "&lbrace;", "![[", "{=", "``` ",
    "---\nx\n", "**a*", "[a]: b\n",
)  # fmt: skip


@pytest.mark.parametrize(
    "piece", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in LONG)]
)
def test_parsing_is_bounded(piece: str) -> None:
    # Where the work grew with the square of the length, this would take minutes.
    text = piece * (MAX_BODY // len(piece))
    with suppress(ReportError, UnknownArtifactError):
        draft("T", text, find)


def test_heading_repeating_title_is_dropped() -> None:
    assert draft("A title", "# A Title\n\nWords.", find).body == "Words."
    assert draft("A title", "# Another\n\nWords.", find).body == "# Another\n\nWords."


def test_file_runs_nothing_and_title_is_plain_for_pandoc() -> None:
    report = draft("A *b* <script> \\x $y$ {{artifact}} :", "![x](artifact:a)", find)
    text = compose(report).decode()
    assert parse(text.encode()) == report
    assert "<script>" not in text.replace("\\\\<", "")
    assert "engine: markdown\n" in text
    assert "  enabled: false\n" in text
    assert json.loads(text.split("artifacts: ")[1].split("\n")[0])["a"].endswith(f"@{SHA}")
    with pytest.raises(ReportError, match="shortcode"):
        draft("{{< env HOME >}}", "Words.", find)


@given(st.text(), st.text(alphabet="abr$@+`~[](){}|:!#-<>\\ \n\"='", max_size=200))
def test_report_round_trips(title: str, body: str) -> None:
    try:
        report = draft(title, body, find)
    except ReportError:
        return
    assert parse(compose(report)) == report
    assert set(names_in(report.body)) == set(report.pins)


def test_report_of_an_older_version_in_another_language_is_read() -> None:
    report = draft("Verkäufe", "Mehr.", find)
    older = compose(report).replace(b'lang: "en"', b'lang: "de-AT"')
    assert b"de-AT" in older
    assert parse(older) == report


def test_non_report_file_is_reported() -> None:
    for data in (b"", b"---\ntitle: x\n---\n", b"\xff"):
        with pytest.raises(ReportError, match="publish it again"):
            parse(data)
