"""Pages that Quarto renders, played by a program."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.artifacts import html
from parsimony_kernel.artifacts.html import Exhibit, render_page
from parsimony_kernel.artifacts.reports import Report, draft, pinned_in
from parsimony_kernel.artifacts.store import LogEntry
from tests.artifacts.report_cases import assert_needs_nothing, find

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
    report = draft("T", body, find)
    exhibits = {ref: Exhibit(find("sales"), b'{"mark":"bar"}') for ref in pinned_in(report.body)}
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
    assert_needs_nothing(page.html)
    assert page.html == _rendered_without("Words.\n\n{{artifact sales}}")


def test_a_program_that_is_not_there_is_a_note(tmp_path: Path) -> None:
    page = _rendered(str(tmp_path / "quarto"), "Words.")
    assert "No such file" in page.note


def _rendered_without(body: str) -> str:
    report: Report = draft("T", body, find)
    entry = LogEntry(kind="report", logical_id="a", content_sha="b")
    exhibits = {ref: Exhibit(find("sales"), b'{"mark":"bar"}') for ref in pinned_in(report.body)}
    return render_page(report, exhibits, entry).html
