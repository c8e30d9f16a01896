"""Reports: Markdown that shows artifacts, each pinned to one snapshot.

The body refers to an artifact by its variable, title or id; the header pins each name to a
snapshot, so that a report's content doesn't change later. A report runs no code and includes no
file. Pure functions of texts.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import unquote

from parsimony_kernel.artifacts.store import UnknownArtifactError, parse_reference, reference
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.identity import ArtifactRef

MAX_BODY = 200_000
SCHEME = "artifact:"
LINKS = ("http://", "https://", "mailto:", "#")

_DOCUMENT = re.compile(
    r'---\ntitle: (?P<title>"[^\n]*")\nlang: "[^\n]*"\nartifacts: (?P<pins>\{.*\})\n'
    r".*?\n---\n\n(?P<body>.*)",
    re.DOTALL,
)
# A name with spaces: Markdown accepts it as an address only in angle brackets.
_SPACED = re.compile(r"\]\([ \t]{0,9}artifact:([^()<>\"\s]{1,250} [^()<>\"\n]{1,250}?)[ \t]{0,9}\)")
# A figure alone on a line, which becomes a paragraph of its own.
_FIGURE = re.compile(r"^ {0,3}!\[.{0,1000}\]\(<?artifact:[^()\n]{1,500}\)[ \t]*$", re.M)
# Characters that Pandoc interprets as Markdown in a title.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#$^~|@])")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]<>#$^~|@])")
# C0 and C1 controls except tab and newline, and line ends that not every reader recognises.
_CONTROLS = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x2028, 0x2029, 0xFEFF], " "
)
# A shortcode of Quarto can include a file.
_SHORTCODE = re.compile(r"\{\s{0,9}\{\s{0,9}<")
# A header of its own, which Pandoc would read settings from.
_HEADER = re.compile(r"^---[ \t]*\n(?=[ \t]*\S).*?^(?:---|\.\.\.)[ \t]*$", re.M | re.DOTALL)


class ReportError(SessionError, ValueError):
    """A report can't be published as it is. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class Report:
    """A report as stored.

    Args:
        title: plain text in one line.
        body: Markdown that refers to artifacts by name.
        pins: the snapshot of each name, in the order of first mention.
    """

    title: str
    body: str
    pins: Mapping[str, ArtifactRef] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[ArtifactRef, ...]:
        """The snapshots that the report refers to, without duplicates."""
        return tuple(dict.fromkeys(self.pins.values()))


def draft(title: str, body: str, find: Callable[[str], ArtifactRef]) -> Report:
    """Validate a report's text and pin the artifacts it refers to.

    ``![Caption](artifact:name)`` alone on a line shows an artifact; within a sentence it links to
    it, as ``[words](artifact:name)`` does.

    Args:
        title: the title, as plain text.
        body: Markdown; a first heading that repeats the title is dropped.
        find: resolves a name to a snapshot, or raises ``UnknownArtifactError``.

    Raises:
        ReportError: the body is empty or too long, would run code, or shows other images.
        UnknownArtifactError: ``find`` doesn't know some names; one message for all of them.
    """
    title = " ".join(_cleaned(title).split())
    text = _without_title(_cleaned(body).strip("\n"), title).rstrip()
    if not text.strip():
        raise ReportError("The report is empty: write at least a sentence.")
    if len(text) > MAX_BODY:
        raise ReportError(
            f"The report has {len(text):,} characters and {MAX_BODY:,} are allowed: shorten it, "
            "or refer to artifacts in the place of their content."
        )
    _refuse(title)
    _refuse(text)
    text = _SPACED.sub(r"](<artifact:\1>)", text)
    text = _FIGURE.sub(r"\n\g<0>\n", text).strip("\n")
    pins: dict[str, ArtifactRef] = {}
    unknown: list[str] = []
    for name in dict.fromkeys(names_in(text)):
        try:
            pins[name] = find(name)
        except UnknownArtifactError as exc:
            unknown.append(str(exc))
    if unknown:
        raise UnknownArtifactError(" ".join(unknown))
    return Report(title, text, pins)


def _cleaned(text: str) -> str:
    """Make ``text`` valid UTF-8, with ``\\n`` as line ends and spaces for control characters."""
    whole = text.encode("utf-8", "replace").decode()
    return whole.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def _without_title(body: str, title: str) -> str:
    first, _, rest = body.partition("\n")
    is_title = first.startswith("# ") and first[2:].strip(" #").casefold() == title.casefold()
    return rest.lstrip("\n") if is_title else body


def _refuse(text: str) -> None:
    if _SHORTCODE.search(text) or _SHORTCODE.search(unescape(text)) or _HEADER.search(text):
        raise ReportError(
            "The report cannot be published: it holds a shortcode ({{< … >}}) or a header of its "
            "own between two lines of ---: write the text itself, or *** for a line."
        )


# -- the words


def reader() -> Any:
    """Create a Markdown parser for reports: CommonMark with tables, without HTML."""
    from markdown_it import MarkdownIt  # deferred: only reports need it

    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.validateLink = lambda _address: True  # type: ignore[assignment,method-assign]
    return made


def artifact_named(token: Any) -> str | None:
    """Return the artifact name that a link or image refers to; ``None`` for other addresses."""
    address = unquote(str(token.attrGet("src") or token.attrGet("href") or ""))
    return address.removeprefix(SCHEME).strip() if address.startswith(SCHEME) else None


def names_in(body: str) -> list[str]:
    """Return the artifact names in ``body``, in order, with duplicates.

    Raises:
        ReportError: a name is empty, or an image is neither an artifact nor an allowed address.
    """
    found: list[str] = []
    for block in reader().parse(body):
        for token in block.children or ():
            if token.type not in ("image", "link_open"):
                continue
            name = artifact_named(token)
            if name:
                found.append(name)
            elif name is not None:
                raise ReportError(
                    "A reference to an artifact has no name: write ![Caption](artifact:name)."
                )
            elif token.type == "image" and not str(token.attrGet("src")).startswith(LINKS):
                raise ReportError(
                    f"The report shows the image {str(token.attrGet('src'))[:60]!r}, and only what "
                    "is published can be shown: publish the chart and write "
                    "![Caption](artifact:name)."
                )
    return found


# -- the file


def compose(report: Report) -> bytes:
    """Format ``report`` as a ``.qmd`` file with execution disabled in Quarto."""
    title = json.dumps(_SPECIAL.sub(r"\\\1", report.title), ensure_ascii=False)
    pins = {name: reference(ref) for name, ref in report.pins.items()}
    return (
        f'---\ntitle: {title}\nlang: "en"\n'
        f"artifacts: {json.dumps(pins, ensure_ascii=False)}\nengine: markdown\n"
        "format:\n  html:\n    embed-resources: true\nexecute:\n  enabled: false\n---\n\n"
        f"{report.body}\n"
    ).encode()


def parse(data: bytes) -> Report:
    """Parse a file written by ``compose``; ``ReportError`` if ``data`` isn't one."""
    found = _DOCUMENT.fullmatch(data.decode("utf-8", "replace"))
    try:
        if found is None:
            raise ValueError("it has no header of ours")
        title = _ESCAPED.sub(r"\1", json.loads(found["title"]))
        pins = {name: parse_reference(ref) for name, ref in json.loads(found["pins"]).items()}
        return Report(title, found["body"].removesuffix("\n"), pins)
    except (ValueError, RecursionError) as exc:
        raise ReportError(f"The report cannot be read ({exc}): publish it again.") from exc
