"""Rendering a report as one self-contained HTML page: no scripts, no remote resources.

Templates escape all text, Markdown is parsed with HTML off, and the result passes an allow-list
sanitizer before it is written. The page's content security policy blocks anything that slips
through.
"""

import base64
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from parsimony_kernel.artifacts.chart_words import describe_chart
from parsimony_kernel.artifacts.codecs import render_svg, table_head
from parsimony_kernel.artifacts.reports import LINKS, Report, artifact_named, reader
from parsimony_kernel.artifacts.store import SHORT_ID, LogEntry
from parsimony_kernel.core.templates import rendered
from parsimony_kernel.core.text import counted
from parsimony_kernel.identity import ArtifactRef, content_sha
from parsimony_kernel.storage import durable

_NUMBERS = ("int", "uint", "double", "float", "halffloat", "decimal")
_STYLE = files(__package__).joinpath("page.css").read_text("utf-8").strip()
_STAMP = b"<!-- parsimony-report "

_ATTRIBUTES: dict[str, set[str]] = {
    "*": {"id", "class", "title", "role", "tabindex", "aria-label"},
    "a": {"href"},
    "img": {"src", "alt"},
    "ol": {"start"},
    "td": {"style"},
    "th": {"scope", "style"},
    "time": {"datetime"},
}
_ADDRESSES = {"href": LINKS, "src": ("data:image/svg+xml;",)}


@dataclass(frozen=True)
class Exhibit:
    """An artifact that a report refers to: its log line, its bytes and its code."""

    entry: LogEntry
    data: bytes
    code: str = ""


def render_page(
    report: Report,
    exhibits: Mapping[ArtifactRef, Exhibit],
    published: LogEntry,
    worded_at: str = "",
) -> str:
    """Render a report as an HTML page.

    Args:
        report: the report to render.
        exhibits: the artifacts it refers to, in the order of their numbers.
        published: the report's own log line; without a run if only its artifacts are newer.
        worded_at: the time at which its text was written.
    """
    from markupsafe import Markup  # deferred: only reports need it

    numbers = {ref: number for number, ref in enumerate(exhibits, start=1)}
    anchored: set[ArtifactRef] = set()

    def figure(name: str, caption: str, label: str) -> str:
        exhibit = exhibits[ref := report.pins[name]]
        is_first = ref not in anchored
        anchored.add(ref)
        return rendered(
            "artifacts/figure.html.j2",
            number=numbers[ref],
            caption=Markup(caption) if caption else exhibit.entry.name,
            is_first=is_first,
            shown=_shown(exhibit, label),
        )

    env = {"numbers": {name: numbers[ref] for name, ref in report.pins.items()}, "figure": figure}
    content = rendered(
        "artifacts/report.html.j2",
        title=report.title,
        words=Markup(_markdown().render(report.body, env)),
        exhibits=list(exhibits.values()),
        published=published,
        worded_at=worded_at,
        short=SHORT_ID,
    )
    return rendered(
        "artifacts/page.html.j2",
        title=report.title,
        style=Markup(_STYLE),
        content=Markup(_within_the_wall(content)),
    )


def _within_the_wall(html: str) -> str:
    """Sanitize ``html``: drop everything that fetches or runs something."""
    import nh3  # deferred: only reports need it

    return nh3.clean(
        html,
        tags=nh3.ALLOWED_TAGS | {"main"},
        attributes=_ATTRIBUTES,
        attribute_filter=lambda _, name, value: (
            value if value.lower().startswith(_ADDRESSES.get(name, "")) else None
        ),
        filter_style_properties={"text-align"},
        link_rel="noreferrer",
        url_schemes={"http", "https", "mailto", "data"},
    )


# -- the words


@cache
def _markdown() -> Any:
    made = reader()
    made.core.ruler.push("headings", _lower_headings)
    made.core.ruler.push("exhibits", _place_exhibits)
    made.add_render_rule("image", _image)
    made.add_render_rule("exhibit", _exhibit)
    return made


def _lower_headings(state: Any) -> None:
    """Turn headings of level one into level two: the title is the page's only one."""
    for token in state.tokens:
        if token.tag == "h1":
            token.tag = "h2"


def _place_exhibits(state: Any) -> None:
    """Turn image-only paragraphs into exhibits, and point artifact links to the source list."""
    for at, token in enumerate(state.tokens):
        children = token.children or []
        for child in children:
            if child.type == "link_open" and (name := artifact_named(child)) is not None:
                child.attrSet("href", f"#source-{state.env['numbers'][name]}")
        is_alone = len(children) == 1 and state.tokens[at - 1].type == "paragraph_open"
        if is_alone and children[0].type == "image" and artifact_named(children[0]) is not None:
            token.type = "exhibit"
            for around in (state.tokens[at - 1], state.tokens[at + 1]):
                around.hidden = True


def _exhibit(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    (image,) = tokens[index].children
    words = image.children or []
    caption = renderer.renderInline(words, options, env)
    label = renderer.renderInlineAsText(words, options, env)
    return str(env["figure"](artifact_named(image), caption, label))


def _image(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    """Render an inline image as a link, because pages fetch nothing."""
    image = tokens[index]
    name, address = artifact_named(image), str(image.attrGet("src") or "")
    words = renderer.renderInlineAsText(image.children or [], options, env)
    if name is not None:
        address = f"#source-{env['numbers'][name]}"
    return f'<a href="{escape(address)}">{escape(words or name or address)}</a>'


# -- the exhibits


def _shown(exhibit: Exhibit, label: str) -> dict[str, Any]:
    """Return the template variables of a figure, by kind of artifact."""
    match exhibit.entry.kind:
        case "chart":
            return _chart(exhibit, label)
        case "dataset" | "data_object":
            return _table(exhibit)
        case "notebook":
            return {"code": exhibit.data.decode("utf-8", "replace")}
    return {}


def _chart(exhibit: Exhibit, label: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(exhibit.data)
    title = ": ".join(filter(None, (label, describe_chart(spec))))
    alternative = ". ".join(filter(None, (title, exhibit.entry.description)))
    svg, reason = render_svg(spec)
    if svg is None:
        return {"problem": f"{alternative}. {reason}"}
    drawn = base64.b64encode(svg.encode()).decode("ascii")
    return {"picture": f"data:image/svg+xml;base64,{drawn}", "alternative": alternative}


def _table(exhibit: Exhibit) -> dict[str, Any]:
    head = table_head(exhibit.data)
    shown = counted(len(head.rows), "row"), counted(len(head.columns), "column")
    whole = counted(head.row_count, "row"), counted(head.column_count, "column")
    first = "" if shown == whole else f"; the first {' and '.join(shown)} shown"
    return {
        "columns": head.columns,
        "rows": head.rows,
        "is_number": [kind.startswith(_NUMBERS) for kind in head.types],
        "size": f" ({', '.join(whole)}{first})",
    }


# -- the file


def write_page(folder: Path, name: str, html: str, logical_id: str) -> Path:
    """Write ``html`` to ``folder/name.html`` and return the path that was written.

    Each page ends in a comment with a digest of the report's ``logical_id`` and the page. Pages of
    other reports, edited pages and foreign files are never overwritten: of ``name.html``,
    ``name-2.html``, … the first is written that is free or an untouched page of this report.

    Raises:
        StorageError: it could not be written.
    """
    data = html.encode("utf-8", "replace")
    stamped = data + _stamp(data, logical_id)
    for suffix in itertools.chain([""], (f"-{number}" for number in itertools.count(2))):
        path = folder / f"{name}{suffix}.html"
        if durable.create(path, stamped):
            break
        if path.is_file() and _is_untouched(durable.read(path), logical_id):
            durable.replace(path, stamped)
            break
    return path


def _stamp(data: bytes, logical_id: str) -> bytes:
    return _STAMP + content_sha(logical_id.encode() + data).encode() + b" -->\n"


def _is_untouched(page: bytes, logical_id: str) -> bool:
    data, mark, stamp = page.rpartition(_STAMP)
    return bool(mark) and mark + stamp == _stamp(data, logical_id)
