"""The page of a report that people read."""

import re

import altair as alt
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.artifacts.page import Exhibit, render_page
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.reports import ReportError, draft
from parsimony_kernel.artifacts.store import LogEntry
from tests.artifacts.report_cases import (
    BODY,
    FRAME,
    Seen,
    assert_harmless,
    entry_of,
    find,
    origin,
    page_of,
    publish,
    publish_table,
    report,
)


def shown(publisher: Publisher, body: str) -> Seen:
    """What the page of a report of ``body`` shows."""
    return assert_harmless(page_of(publisher, report(publisher, body)))


def test_page_shows_content_and_provenance(publisher: Publisher) -> None:
    publish_table(publisher, pd.concat([FRAME] * 5, ignore_index=True))
    published = report(publisher, f"{BODY}\n![Table](artifact:monthly)", "How warm?")
    page = page_of(publisher, published)
    seen = assert_harmless(page)
    assert seen.all("html") == [{"lang": "en"}]
    assert "<title>How warm?</title>" in page
    (image,) = seen.all("img")
    assert image["alt"] == "Mean t: line chart of t by month"
    assert "(60 rows, 2 columns; the first 40 rows and 2 columns shown)" in seen.text
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


def test_title_is_the_only_heading_of_its_level(publisher: Publisher) -> None:
    seen = shown(publisher, "# One\n\n## Two\n\n### Three\n\n# Four")
    levels = [tag for tag, _ in seen.tags if re.fullmatch(r"h\d|footer", tag)]
    assert levels[: levels.index("footer")] == ["h1", "h2", "h2", "h3", "h2"]


_EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'&amp;"


def test_foreign_content_is_text_only(publisher: Publisher) -> None:
    store = publisher.store
    frame = pd.DataFrame({_EVIL: [_EVIL, None]})
    hostile = Publisher(store, notebook_path=f"{_EVIL[:20]}.ipynb")
    told = {"title": _EVIL, "lineage": [origin("evil", _EVIL, sources=(_EVIL,))]}
    publish(hostile, "dataset", frame, "evil", description=_EVIL, **told)
    chart = alt.Chart(FRAME, title=_EVIL).mark_line().encode(x="month:T", y="t:Q")
    publish(hostile, "chart", chart, "pic", description=_EVIL)
    body = f"{_EVIL}\n\n![](artifact:evil)\n\n![{_EVIL.replace('[', '')}](artifact:pic)\n\n"
    body += f"[x](javascript:alert(1)) [y](data:text/html,x) [z](file:///etc/passwd) <{_EVIL}>"
    body += "\n\n![far](https://example.org/x.png) <https://example.org> | a |\n"
    published = hostile.publish("report", body, title=_EVIL, description=_EVIL, run_id="r")
    page = page_of(hostile, published)
    seen = assert_harmless(page)
    assert "<script" not in page
    assert "onerror" in seen.text
    assert "default-src 'none'" in str(seen.all("meta"))


@given(st.text(alphabet="ab`~*_[](){}|:!#-+<>\\/ \n\"='&1.", max_size=300))
def test_page_is_self_contained_and_runs_nothing(body: str) -> None:
    try:
        report = draft("T", body, find)
    except ReportError:
        return
    entry = LogEntry(kind="report", logical_id="a", content_sha="b")
    shown = {ref: Exhibit(entry_of("sales"), b"{}") for ref in report.shown}
    assert_harmless(render_page(report, shown, entry))


def test_chart_with_remote_data_is_described(publisher: Publisher) -> None:
    far = alt.Chart("https://example.invalid/x.csv").mark_line().encode(x="a:T", y="b:Q")
    publish(publisher, "chart", far, "far")
    seen = shown(publisher, "![Far](artifact:far)")
    assert "Far: line chart of b by a. The chart could not be drawn" in seen.text


def test_script_shows_as_code_and_report_as_title(publisher: Publisher) -> None:
    publisher.publish("notebook", "if 1 < 2:\n    pass", title="steps", run_id="r")
    report(publisher, "Words.", "Earlier")
    seen = shown(publisher, "![](artifact:steps)\n\n![](artifact:Earlier)")
    assert "if 1 < 2:\n    pass" in seen.text
    assert "Earlier · Source 2" in seen.text
