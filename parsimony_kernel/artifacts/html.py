"""A report as one HTML file that needs nothing else: no script, no address that is fetched.

The rule of the place: every text that comes from outside is escaped here or by the Markdown
library with raw HTML off, and the page's own policy forbids whatever slips through. Quarto
renders the words where it is installed and markdown-it-py where it is not; figures, tables and
the account of where they come from are the same for both.
"""

import base64
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from parsimony_kernel.artifacts.chart_words import describe_chart
from parsimony_kernel.artifacts.codecs import CodecError, render_png, render_svg, table_head
from parsimony_kernel.artifacts.markup import LINKS
from parsimony_kernel.artifacts.reports import Mention, Report, with_mentions
from parsimony_kernel.artifacts.store import SHORT_ID, LogEntry
from parsimony_kernel.identity import ArtifactRef, content_sha
from parsimony_kernel.storage import durable

QUARTO_TIMEOUT_S = 120.0
_MAX_SVG_BYTES = 300_000
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_STAMP = re.compile(
    r"<!-- parsimony-report (?P<logical_id>[0-9a-f]{64}) (?P<sha>[0-9a-f]{64}) -->\n\Z"
)

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c1e21;--quiet:#5b6169;--rule:#d9dce1;
--wash:#f5f6f8;--link:#0b57d0}
@media (prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e7e9ec;--quiet:#a3aab4;
--rule:#383d45;--wash:#1f2329;--link:#8ab4f8}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:1.0625rem/1.65 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;
overflow-wrap:anywhere}
main,body>footer{max-width:46rem;margin:0 auto;padding:0 1.25rem}
main{padding-top:3rem}
h1,h2,h3,h4,h5,h6{line-height:1.25;margin:2em 0 .5em;text-wrap:balance}
h1{font-size:2rem;margin-top:0;letter-spacing:-.01em}h2{font-size:1.4rem}h3{font-size:1.15rem}
h4,h5,h6{font-size:1rem}
p,ul,ol{margin:0 0 1em}a{color:var(--link);text-underline-offset:.15em}
code{font:.9em/1.5 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
p code,li code,dd code{background:var(--wash);padding:.1em .3em;border-radius:3px}
pre{background:var(--wash);padding:.8rem 1rem;border-radius:6px;overflow-x:auto;
overflow-wrap:normal;font-size:.9rem}
blockquote{margin:0 0 1em;padding-left:1em;border-left:3px solid var(--rule);color:var(--quiet)}
hr{border:0;border-top:1px solid var(--rule);margin:2em 0}
figure{margin:1.75em 0}
figure img{display:block;max-width:100%;height:auto;background:#fff;border:1px solid var(--rule);
border-radius:6px;padding:.75rem;margin:0 auto}
figcaption,caption{color:var(--quiet);font-size:.9rem;line-height:1.45;margin-top:.6em;
text-align:left}
figcaption a{white-space:nowrap}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;line-height:1.4;font-variant-numeric:tabular-nums;
overflow-wrap:normal;margin:0 0 1em}
figure table{margin:0;min-width:50%}
figure td{white-space:nowrap}figure td.long{white-space:normal;min-width:20rem;
overflow-wrap:anywhere}
th,td{padding:.35em 1.2em .35em 0;border-bottom:1px solid var(--rule);text-align:left;
vertical-align:top}
thead th{border-bottom:2px solid var(--rule);white-space:nowrap}
.aged{border-left:3px solid var(--rule);padding-left:1em;color:var(--quiet);font-size:.9rem}
.number{text-align:right}.missing{color:var(--quiet)}.absent{border:1px solid var(--rule);
border-radius:6px;padding:1rem}
body>footer{margin-top:4rem;padding-top:1rem;padding-bottom:3rem;font-size:.875rem;
color:var(--quiet);line-height:1.5}
body>footer h2{font-size:1.05rem;color:var(--ink);border-top:1px solid var(--rule);
padding-top:1.5rem;margin-top:0}
body>footer ol{padding-left:1.4em}body>footer li{margin-bottom:1.25em}
body>footer strong{color:var(--ink)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1em;margin:.3em 0}
dd{margin:0}summary{cursor:pointer}:target{scroll-margin-top:2rem}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--quiet:#444;--rule:#bbb;
--wash:#f4f4f4;--link:#000}body{font-size:10.5pt}main{padding-top:0}figure,tr,li{
break-inside:avoid}h1,h2,h3{break-after:avoid}details:not([open]){display:none}}
""".strip()


@dataclass(frozen=True)
class Exhibit:
    """An artifact that a report refers to: its line of the log, its bytes, its code."""

    entry: LogEntry
    data: bytes
    code: str = ""


@dataclass(frozen=True)
class Page:
    """HTML of one file. ``note`` says in a sentence what could not be done as it should."""

    html: str
    note: str = ""


def render_page(
    report: Report,
    exhibits: Mapping[ArtifactRef, Exhibit],
    published: LogEntry,
    *,
    worded_at: str = "",
    quarto: str | None = None,
) -> Page:
    """``report`` as a page.

    Args:
        exhibits: what it refers to, in the order in which it is numbered.
        published: the report's own line of the log.
        worded_at: when its sentences were written, where what it shows is newer.
        quarto: the program of Quarto; ``None`` renders without it.
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
    note = ""
    if quarto is not None:
        rendered, note = _by_quarto(quarto, report, body)
        page = None if rendered is None else _placed(rendered, token, figures)
        if page is not None:
            return Page(_finished(page, aged + footer))
        note = note or "Quarto left out a figure, so the page was rendered without it."
    words = _markdown().render(body, {})
    placed = _placed(words, token, figures)
    title = escape(report.title)
    return Page(
        f'<!doctype html>\n<html lang="{escape(report.language)}">\n<head>\n'
        f'<meta charset="utf-8">\n{_head()}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{aged}{words if placed is None else placed}</main>\n{footer}</body>\n</html>\n",
        note,
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


# -- Quarto


def find_quarto() -> str | None:
    """The program of Quarto, where it is installed."""
    return shutil.which("quarto")


def _by_quarto(program: str, report: Report, body: str) -> tuple[str | None, str]:
    """The page that Quarto makes of ``body``, or ``None`` and why not, in a sentence."""
    header = {
        "title": report.title,
        "lang": report.language,
        "from": "markdown-raw_html-raw_tex-raw_attribute-yaml_metadata_block",
        "format": {"html": {"embed-resources": True, "minimal": True, "theme": "none"}},
        "execute": {"enabled": False},
    }
    document = f"---\n{json.dumps(header, ensure_ascii=False)}\n---\n\n{body}\n"
    with tempfile.TemporaryDirectory(prefix="parsimony-report-") as folder:
        durable.create(Path(folder) / "report.qmd", document.encode())
        failed = _run([program, "render", "report.qmd", "--to", "html", "--no-execute"], folder)
        page = Path(folder) / "report.html"
        if failed or not page.is_file():
            reason = failed or "it wrote no page"
            return None, f"Quarto could not render the report ({reason}): rendered without it."
        return durable.read(page).decode("utf-8", "replace"), ""


def _run(command: Sequence[str], folder: str) -> str:
    """Run ``command`` in ``folder``; why it failed, or nothing."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as exc:
        return exc.strerror or type(exc).__name__
    with process:
        try:
            said = process.communicate(timeout=QUARTO_TIMEOUT_S)[1]
        except subprocess.TimeoutExpired:
            _end(process)
            return f"it took longer than {QUARTO_TIMEOUT_S:g} s"
    if not process.returncode:
        return ""
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else f"it ended with {process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    # What it started belongs to its session and would outlive it.
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


def _finished(page: str, footer: str) -> str:
    """Quarto's page without scripts, with our style, our policy and the footer."""
    bare = re.sub(r"<script\b[^>]*>.*?</script\s*>", "", page, flags=re.S | re.I)
    bare = re.sub(r"<link\b[^>]*>", "", bare, flags=re.I)
    styled = re.sub(r"(<head\b[^>]*>)", lambda m: f"{m[1]}\n{_head()}", bare, count=1, flags=re.I)
    head, end, tail = styled.rpartition("</body>")
    return f"{head}{footer}{end}{tail}" if end else f"{styled}{footer}"


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
