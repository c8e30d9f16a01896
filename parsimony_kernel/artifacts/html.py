"""A report as one HTML file that needs nothing else: no script, no address that is fetched.

The rule of the place: every text that comes from outside is escaped here or by the Markdown
library with raw HTML off, and the page's own policy forbids whatever slips through.
"""

import base64
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from parsimony_kernel.artifacts.chart_words import describe_chart
from parsimony_kernel.artifacts.codecs import CodecError, render_png, render_svg, table_head
from parsimony_kernel.artifacts.markup import LINKS
from parsimony_kernel.artifacts.reports import Mention, Report, with_mentions
from parsimony_kernel.artifacts.store import SHORT_ID, LogEntry
from parsimony_kernel.identity import ArtifactRef, content_sha
from parsimony_kernel.storage import durable

_MAX_SVG_BYTES = 300_000
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_STAMP = re.compile(
    r"<!-- parsimony-report (?P<logical_id>[0-9a-f]{64}) (?P<sha>[0-9a-f]{64}) -->\n\Z"
)

STYLE = files(__package__).joinpath("page.css").read_text("utf-8").strip()


@dataclass(frozen=True)
class Exhibit:
    """An artifact that a report refers to: its line of the log, its bytes, its code."""

    entry: LogEntry
    data: bytes
    code: str = ""


def render_page(
    report: Report,
    exhibits: Mapping[ArtifactRef, Exhibit],
    published: LogEntry,
    *,
    worded_at: str = "",
) -> str:
    """``report`` as a page.

    Args:
        exhibits: what it refers to, in the order in which it is numbered.
        published: the report's own line of the log.
        worded_at: when its sentences were written, where what it shows is newer.
    """
    numbers = {ref: number for number, ref in enumerate(exhibits, start=1)}
    token = f"exhibit{published.content_sha[:16]}n"
    figures: list[str] = []
    ids: set[int] = set()

    def shown(mention: Mention) -> str:
        number = numbers[mention.ref]
        anchor = "" if number in ids else f' id="artifact-{number}"'
        ids.add(number)
        figures.append(_figure(exhibits[mention.ref], mention.label, number, anchor))
        return f"{token}{len(figures)}e"

    def linked(mention: Mention) -> str:
        return f"[{mention.label}](#source-{numbers[mention.ref]})"

    body = with_mentions(report.body, shown=shown, linked=linked)
    aged = _aged(worded_at, published) if worded_at else ""
    footer = _footer(exhibits, published)
    words = _markdown().render(body, {})
    placed = _placed(words, token, figures)
    title = escape(report.title)
    return (
        f'<!doctype html>\n<html lang="{escape(report.language)}">\n<head>\n'
        f'<meta charset="utf-8">\n{_head()}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{aged}{words if placed is None else placed}</main>\n{footer}</body>\n</html>\n"
    )


def _head() -> str:
    return (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<style>\n{STYLE}\n</style>\n"
    )


def _placed(words: str, token: str, figures: Sequence[str]) -> str | None:
    """``words`` with the figures in their places; ``None`` when a place is not there once."""
    for number, figure in enumerate(figures, start=1):
        before, found, after = words.partition(f"<p>{token}{number}e</p>")
        if not found or f"{token}{number}e" in after:
            return None
        words = f"{before}{figure}{after}"
    return words


# -- the words


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt  # deferred: only reports need it

    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    markdown.validateLink = _is_link  # type: ignore[assignment,method-assign]
    markdown.core.ruler.push("headings", _order_headings)
    markdown.add_render_rule("image", _image_as_link)
    markdown.add_render_rule("link_open", _link_open)
    return markdown


def _is_link(address: str) -> bool:
    return address.strip().lower().startswith(LINKS)


def _order_headings(state: Any) -> None:
    """The title is the first level: headings begin at the second, and none is skipped."""
    open_levels: list[tuple[int, int]] = []
    for token in state.tokens:
        if token.type == "heading_open":
            written = int(token.tag[1:])
            while open_levels and open_levels[-1][0] >= written:
                open_levels.pop()
            level = min(open_levels[-1][1] + 1 if open_levels else 2, 6)
            open_levels.append((written, level))
            token.tag = f"h{level}"
        elif token.type == "heading_close":
            token.tag = f"h{open_levels[-1][1]}"


def _image_as_link(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    words = renderer.renderInlineAsText(token.children or [], options, env)
    address = str(token.attrGet("src") or "")
    return f'<a href="{escape(address)}" rel="noreferrer">{escape(words or address)}</a>'


def _link_open(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    if not str(token.attrGet("href")).startswith("#"):
        token.attrSet("rel", "noreferrer")
    return str(renderer.renderToken(tokens, index, options, env))


def _inline(label: str) -> str:
    return str(_markdown().renderInline(label, {}))


def _plain(label: str) -> str:
    return re.sub(r"\\([^\w\s])", r"\1", label)


# -- the exhibits


def _figure(exhibit: Exhibit, label: str, number: int, anchor: str) -> str:
    caption = f'{_inline(label)} · <a href="#source-{number}">Source {number}</a>'
    match exhibit.entry.kind:
        case "chart":
            inner = _chart(exhibit, label)
        case "dataset" | "data_object":
            inner, size = _table(exhibit)
            caption = f"{caption} {size}"
        case "notebook":
            inner = f"<pre><code>{escape(exhibit.data.decode('utf-8', 'replace'))}</code></pre>\n"
        case _:
            inner = ""
    return f"<figure{anchor}>\n{inner}<figcaption>{caption}</figcaption>\n</figure>"


def _chart(exhibit: Exhibit, label: str) -> str:
    try:
        spec: dict[str, Any] = json.loads(exhibit.data)
        told = describe_chart(spec)
    except (ValueError, AttributeError, TypeError):
        return '<p class="absent">The chart cannot be read.</p>\n'
    words = ": ".join(part for part in (_plain(label), told) if part)
    alternative = ". ".join(part for part in (words, exhibit.entry.description) if part)
    svg, reason = render_svg(spec)
    if svg is not None and len(svg) <= _MAX_SVG_BYTES:
        return _image("image/svg+xml", svg.encode(), alternative)
    png, reason = render_png(spec)
    if png is not None:
        return _image("image/png", png, alternative)
    return f'<p class="absent">{escape(alternative)}. {escape(reason)}</p>\n'


def _image(kind: str, data: bytes, alternative: str) -> str:
    encoded = base64.b64encode(data).decode("ascii")
    return f'<img src="data:{kind};base64,{encoded}" alt="{escape(alternative)}">\n'


_NUMBERS = ("int", "uint", "double", "float", "halffloat", "decimal")


def _table(exhibit: Exhibit) -> tuple[str, str]:
    try:
        head = table_head(exhibit.data)
    except CodecError as exc:
        return f'<p class="absent">{escape(str(exc))}</p>\n', ""
    right = [kind.startswith(_NUMBERS) for kind in head.types]
    names = "".join(
        f'<th scope="col"{_NUMBER if number else ""}>{escape(name)}</th>'
        for name, number in zip(head.columns, right, strict=True)
    )
    rows = "".join("<tr>" + "".join(map(_table_cell, row, right)) + "</tr>\n" for row in head.rows)
    size = f"{_count(head.row_count, 'row')}, {_count(head.column_count, 'column')}"
    parts = []
    if len(head.rows) < head.row_count:
        parts.append(f"the first {_count(len(head.rows), 'row')}")
    if len(head.columns) < head.column_count:
        parts.append(f"the first {_count(len(head.columns), 'column')}")
    shown = f"; {' and '.join(parts)} shown" if parts else ""
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="Table">\n<table>\n<thead><tr>'
        f"{names}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n",
        f"({size}{shown})",
    )


_NUMBER = ' class="number"'


_LONG_TEXT = 30


def _table_cell(text: str, is_number: bool) -> str:
    if not text:
        return f'<td class="missing{" number" if is_number else ""}" aria-label="missing">–</td>'
    kind = _NUMBER if is_number else ' class="long"' if len(text) > _LONG_TEXT else ""
    return f"<td{kind}>{escape(text)}</td>"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# -- where it comes from


def _footer(exhibits: Mapping[ArtifactRef, Exhibit], published: LogEntry) -> str:
    items = "".join(
        _source(exhibit, number) for number, exhibit in enumerate(exhibits.values(), start=1)
    )
    listed = f"<ol>\n{items}</ol>\n" if items else "<p>The report shows no artifact.</p>\n"
    told = [f"Report {_code(published.logical_id)}, snapshot {_code(published.content_sha)}"]
    if published.notebook:
        told.append(f"published from <code>{escape(published.notebook)}</code>")
    if published.published_at:
        told.append(_time(published.published_at))
    return (
        f"<footer>\n<h2>Where this comes from</h2>\n{listed}<p>{', '.join(told)}.</p>\n</footer>\n"
    )


def _aged(worded_at: str, published: LogEntry) -> str:
    return (
        f'<p class="aged" role="note">The sentences are of {_time(worded_at)}; the figures, the '
        f"tables and what is linked were renewed on {_time(published.published_at)}. A number in "
        "a sentence is the earlier one.</p>\n"
    )


def _source(exhibit: Exhibit, number: int) -> str:
    entry = exhibit.entry
    kind = entry.kind.replace("_", " ")
    rows = [("Id", _code(entry.logical_id)), ("Snapshot", _code(entry.content_sha))]
    if entry.notebook:
        rows.append(("Notebook", f"<code>{escape(entry.notebook)}</code>"))
    if entry.published_at:
        rows.append(("Published", _time(entry.published_at)))
    for source in entry.sources:
        digest = f", SHA-256 {_code(source.sha256)}" if source.sha256 else ""
        rows.append(("Source", f"<code>{escape(source.path)}</code>{digest}"))
    details = "".join(f"<dt>{name}</dt><dd>{value}</dd>\n" for name, value in rows)
    code = (
        f"<details><summary>Code</summary><pre><code>{escape(exhibit.code)}</code></pre>"
        "</details>\n"
        if exhibit.code
        else ""
    )
    return (
        f'<li id="source-{number}"><strong>{escape(entry.name)}</strong> ({kind})\n'
        f"<dl>\n{details}</dl>\n{code}</li>\n"
    )


def _code(digest: str) -> str:
    short = digest if len(digest) <= SHORT_ID else digest[:SHORT_ID]
    return f'<code title="{escape(digest)}">{escape(short)}</code>'


def _time(iso: str) -> str:
    zone = " UTC" if iso.endswith(("+00:00", "Z")) else ""
    return f'<time datetime="{escape(iso)}">{escape(iso[:16].replace("T", " "))}{zone}</time>'


# -- the file


def write_page(folder: Path, name: str, html: str, logical_id: str) -> Path:
    """Write ``html`` to ``folder/name.html``; returns where it was written.

    Each page ends in a comment with the report's ``logical_id`` and the digest of what was
    written. The page of another report, one that somebody changed since, and what is not ours
    are left alone: the first free one of ``name.html``, ``name-2.html``, ``name-3.html`` is
    written, unless one of them is this report's already.

    Raises:
        StorageError: it could not be written.
    """
    data = html.encode("utf-8", "replace")
    stamped = data + f"<!-- parsimony-report {logical_id} {content_sha(data)} -->\n".encode()
    for path in _pages(folder, name):
        if _is_untouched(durable.read(path), logical_id):
            durable.replace(path, stamped)
            return path
    for number in itertools.count(1):
        path = folder / (f"{name}.html" if number == 1 else f"{name}-{number}.html")
        if durable.create(path, stamped):
            return path
    raise AssertionError("there is no end of numbers")


def _pages(folder: Path, name: str) -> list[Path]:
    """The files there that can be pages called ``name``, in the order of their numbers."""
    numbered = re.compile(rf"{re.escape(name)}(?:-([2-9]|[1-9]\d{{1,8}}))?\.html")
    try:
        paths = list(folder.iterdir())
    except OSError:
        return []
    matches = ((numbered.fullmatch(path.name), path) for path in paths)
    found = sorted((int(match[1] or 1), path) for match, path in matches if match)
    return [path for _, path in found if path.is_file()]


def _is_untouched(data: bytes, logical_id: str) -> bool:
    stamp = _STAMP.search(data[-200:].decode("utf-8", "replace"))
    if stamp is None or stamp["logical_id"] != logical_id:
        return False
    written = data[: data.rindex(b"<!-- parsimony-report ")]
    return hashlib.sha256(written).hexdigest() == stamp["sha"]
