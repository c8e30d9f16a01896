"""Reports: Markdown that shows artifacts, each pinned to one snapshot.

The body names an artifact by its variable, title or id; the header keeps which snapshot each name
stands for, so that a report says the same for ever. A report runs no code and includes no file.
Pure functions of texts.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import unescape
from typing import Any
from urllib.parse import unquote

from parsimony_kernel.artifacts.store import (
    UnknownArtifactError,
    parse_reference,
    reference,
)
from parsimony_kernel.identity import ArtifactRef

MAX_BODY = 200_000
LANGUAGE = "en"
SCHEME = "artifact:"
LINKS = ("http://", "https://", "mailto:", "#")

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_DOCUMENT = re.compile(
    r'---\ntitle: (?P<title>"[^\n]*")\nlang: (?P<language>"[^\n]*")\nartifacts: (?P<pins>\{.*\})\n'
    r".*?\n---\n\n(?P<body>.*)",
    re.DOTALL,
)
# A name with blanks, which is no address in Markdown unless it stands in angle brackets.
_SPACED = re.compile(r"\]\([ \t]{0,9}artifact:([^()<>\"\s]{1,250} [^()<>\"\n]{1,250}?)[ \t]{0,9}\)")
_FIGURE = re.compile(r" {0,3}!\[.{0,1000}\]\(<?artifact:[^()]{1,500}\)[ \t]*")
# What Pandoc reads as Markdown in a title.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#$^~|@])")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]<>#$^~|@])")
# C0 and C1 without tab and newline, and what ends a line for some and not for others.
_CONTROLS = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x2028, 0x2029, 0xFEFF], " "
)
# What would make Quarto run code, read files or pass text through unread.
_REFUSED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\{\s{0,9}\{\s{0,9}<"),
        "it holds a shortcode ({{< … >}}): write the text itself",
    ),
    (
        re.compile(r"(?:```|~~~)[ \t]{0,99}\{[ \t]{0,99}(?!=)|`[ \t]{0,99}\{[A-Za-z]+\}|`r[ #]"),
        "it holds code that would be run ({python} or `r …`): publish the result and refer to it, "
        "and show code as ```python",
    ),
    (
        re.compile(r"\{[ \t]{0,99}=[ \t]{0,99}[A-Za-z0-9_-]{1,99}[ \t]{0,99}\}"),
        "it passes raw text through ({=html}): write it in Markdown",
    ),
)
_HEADER = re.compile(r"^---[ \t]*\n(?=[ \t]*\S)", re.M)
_HEADER_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.M)


class ReportError(ValueError):
    """A report cannot be published as it is. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class Report:
    """A report as it is stored.

    Args:
        body: Markdown, in which artifacts have names.
        pins: the snapshot that each name stands for, in the order of first mention.
    """

    title: str
    language: str
    body: str
    pins: Mapping[str, ArtifactRef] = field(default_factory=dict)

    @property
    def shown(self) -> tuple[ArtifactRef, ...]:
        """The snapshots that it refers to, each once."""
        return tuple(dict.fromkeys(self.pins.values()))

    def repinned(self, newest: Callable[[ArtifactRef], ArtifactRef]) -> "Report":
        """The same words with what ``newest`` gives for each snapshot."""
        return replace(self, pins={name: newest(ref) for name, ref in self.pins.items()})


def draft(
    title: str,
    body: str,
    find: Callable[[str], ArtifactRef],
    language: str = "",
) -> Report:
    """Check a report's words and pin what they show.

    ``![Caption](artifact:name)`` alone on a line shows an artifact, and within a sentence it
    links to it, as ``[words](artifact:name)`` does.

    Args:
        body: Markdown; a first heading that repeats the title is left out.
        find: the artifact that a name stands for; raises ``UnknownArtifactError``.
        language: a tag such as ``en`` or ``de-AT``.

    Raises:
        ReportError: the body is empty or too long, would run code, or shows what is no artifact.
        UnknownArtifactError: names that ``find`` does not know, all of them in one message.
    """
    language = language or LANGUAGE
    if not _LANGUAGE.fullmatch(language):
        raise ReportError(f"{language!r} is no language tag: write one like 'en' or 'de-AT'.")
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
    text = _with_figures_apart(text)
    mentions = names_in(text)
    return Report(title, language, text, _pinned(mentions, find))


def _pinned(mentions: list[str], find: Callable[[str], ArtifactRef]) -> dict[str, ArtifactRef]:
    found: dict[str, ArtifactRef] = {}
    unknown: list[str] = []
    for name in dict.fromkeys(mentions):
        try:
            found[name] = find(name)
        except UnknownArtifactError as exc:
            unknown.append(str(exc))
    if unknown:
        raise UnknownArtifactError(" ".join(unknown))
    return found


def _cleaned(text: str) -> str:
    """``text`` in UTF-8, with ends of lines as ``\\n`` and blanks for control characters."""
    whole = text.encode("utf-8", "replace").decode()
    return whole.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def _without_title(body: str, title: str) -> str:
    first, _, rest = body.partition("\n")
    is_title = first.startswith("# ") and first[2:].strip(" #").casefold() == title.casefold()
    return rest.lstrip("\n") if is_title else body


def _with_figures_apart(body: str) -> str:
    """``body`` where a figure alone on a line is a paragraph of its own."""
    lines = body.split("\n")
    for block in reader().parse(body):
        if block.type == "paragraph_open" and not block.level and block.map[1] - block.map[0] > 1:
            for number in range(*block.map):
                if _FIGURE.fullmatch(lines[number]):
                    lines[number] = f"\n{lines[number]}\n"
    return "\n".join(lines).strip("\n")


def _refuse(text: str) -> None:
    spelled = unescape(text)
    for pattern, reason in _REFUSED:
        if pattern.search(text) or pattern.search(spelled):
            raise ReportError(f"The report cannot be published, for {reason}.")
    opened = _HEADER.search(text)
    if opened is not None and _HEADER_END.search(text, opened.end()):
        raise ReportError(
            "The report cannot be published, for it has a header of its own between two lines of "
            "---: leave it out, and write *** for a line across the page."
        )


# -- the words


def reader() -> Any:
    """A new reader of reports: CommonMark with tables, and without HTML."""
    from markdown_it import MarkdownIt  # deferred: only reports need it

    made = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    made.validateLink = lambda _address: True  # type: ignore[assignment,method-assign]
    return made


def artifact_named(token: Any) -> str | None:
    """The name of the artifact to which a link or image refers; ``None`` where it is to none."""
    address = unquote(str(token.attrGet("src") or token.attrGet("href") or ""))
    return address.removeprefix(SCHEME).strip() if address.startswith(SCHEME) else None


def names_in(body: str) -> list[str]:
    """The names of artifacts in the order in which they stand.

    Raises:
        ReportError: one is empty, or what is shown is no artifact.
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
    """``report`` as a ``.qmd`` file, from which Quarto runs nothing."""
    title = json.dumps(_SPECIAL.sub(r"\\\1", report.title), ensure_ascii=False)
    pins = {name: reference(ref) for name, ref in report.pins.items()}
    return (
        f'---\ntitle: {title}\nlang: "{report.language}"\n'
        f"artifacts: {json.dumps(pins, ensure_ascii=False)}\nengine: markdown\n"
        "format:\n  html:\n    embed-resources: true\nexecute:\n  enabled: false\n---\n\n"
        f"{report.body}\n"
    ).encode()


def parse(data: bytes) -> Report:
    """What ``compose`` was given. ``ReportError`` when ``data`` is no report of ours."""
    found = _DOCUMENT.fullmatch(data.decode("utf-8", "replace"))
    try:
        if found is None:
            raise ValueError("it has no header of ours")
        title = _ESCAPED.sub(r"\1", json.loads(found["title"]))
        pins = {name: parse_reference(ref) for name, ref in json.loads(found["pins"]).items()}
        body = found["body"].removesuffix("\n")
        return Report(title, json.loads(found["language"]), body, pins)
    except (ValueError, RecursionError) as exc:
        raise ReportError(f"The report cannot be read ({exc}): publish it again.") from exc
