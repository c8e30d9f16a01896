"""Reports: Quarto Markdown whose references to artifacts are pinned to snapshots.

The rule of the place: what a model or a person writes names an artifact by its variable, title or
id; what is stored names one snapshot, so that a report says the same for ever. A report runs no
code and includes no file, whoever renders it: its words are ``markup``'s plain ones. What a
renderer is told beside the file (a filter, an engine, another format) is out of its reach. Pure
functions of texts.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import unescape
from urllib.parse import unquote

from parsimony_kernel.artifacts.markup import (
    LABEL,
    Fence,
    MarkupError,
    alone,
    append_line,
    cleaned,
    code_end,
    in_tables,
    parts,
    plain,
    tick_runs,
)
from parsimony_kernel.artifacts.store import (
    LogEntry,
    UnknownArtifactError,
    parse_reference,
    reference,
)
from parsimony_kernel.identity import ArtifactRef

MAX_BODY = 500_000
MAX_REFERENCES = 200
LANGUAGE = "en"

_WRITTEN = re.compile(
    rf"""(?P<mark>!?)\[(?P<label>{LABEL})\]\([ \t]{{0,9}}
      (?:<artifact:(?P<angled>[^<>\n]{{1,500}})>|artifact:(?P<plain>[^()<>"\n]{{1,500}}?))
      (?:[ \t]{{1,9}}"[^"\n]{{0,500}}")?[ \t]{{0,9}}\)
    |\{{\{{[ \t]{{0,9}}artifact[ \t]{{1,9}}(?P<called>[^{{}}|\n]{{1,500}}?)[ \t]{{0,9}}
      (?:\|(?P<words>[^{{}}\n]{{0,1000}}))?\}}\}}""",
    re.VERBOSE,
)
_ODD = re.compile(
    rf"(?:!\[{LABEL})?\]\([ \t]{{0,9}}<?artifact:|\{{\{{[ \t]{{0,9}}artifact\b|\{{\.artifact\b"
)
_OPENING = re.compile(r'::: \{\.artifact ref="(?P<ref>[^"`<${}\\\n]+)"\}')
_SPAN = re.compile(
    rf'\[(?P<label>{LABEL})\]\{{\.artifact ref="(?P<ref>[^"`<${{}}\\\n]{{1,600}})"\}}'
)
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_DOCUMENT = re.compile(
    r'---\ntitle: (?P<title>"[^\n]*")\nlang: (?P<language>"[^\n]*")\n.*?\n---\n\n(?P<body>.*)',
    re.DOTALL,
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#$^~|@])")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]<>#$^~|@])")
_STEP = re.compile(r"\\.|`+|\[")

# What would make a renderer run code, read files or pass HTML through, and can be told.
_REFUSED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\{\s{0,9}\{\s{0,9}<"),
        "it holds a shortcode ({{< … >}}): write the text itself",
    ),
    (
        re.compile(r"(?:```|~~~)[ \t]{0,99}\{[ \t]{0,99}(?!=)|`[ \t]{0,99}\{[A-Za-z]+\}"),
        "it holds a cell that would be run ({python}): publish the result and refer to it, and "
        "show code as ```python",
    ),
    (
        re.compile(
            r"\{[ \t]{0,99}=[ \t]{0,99}[A-Za-z0-9_-]{1,99}[ \t]{0,99}\}|(?:```|~~~)[ \t]{0,99}\{"
        ),
        "it passes raw text through ({=html}): write it in Markdown",
    ),
)
_OWN_HEADER = re.compile(r"---[ \t]*\n[ \t]*\S")
_HEADER_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.M)
# What knitr would run wherever it stands.
_INLINE_R = re.compile(r"`r[ #]")


class ReportError(ValueError):
    """A report cannot be published as it is. ``str()`` is one sentence with the remedy."""


@dataclass(frozen=True)
class Report:
    """A report as it is stored. ``body`` is Markdown with pinned references."""

    title: str
    language: str
    body: str


@dataclass(frozen=True)
class Mention:
    """A pinned reference in a body. ``label`` is Markdown of one line."""

    ref: ArtifactRef
    label: str


def draft(title: str, body: str, find: Callable[[str], LogEntry], language: str = "") -> Report:
    """The report that ``body`` is when its references are pinned.

    An artifact is named by ``![Caption](artifact:name)`` or ``{{artifact name | Caption}}``, alone
    on a line to be shown, within a sentence to be linked. What is pinned already stays as it is.
    Drawn up again, a drafted body is the same.

    Args:
        body: Markdown; a first heading that repeats the title is left out.
        find: the artifact that a name stands for; raises ``UnknownArtifactError``.
        language: a tag such as ``en`` or ``de-AT``.

    Raises:
        ReportError: the body is empty or too long, would run code, or holds a reference that
            cannot be read.
        UnknownArtifactError: names that ``find`` does not know, all of them in one message.
    """
    language = language or LANGUAGE
    if not _LANGUAGE.fullmatch(language):
        raise ReportError(f"{language!r} is no language tag: write one like 'en' or 'de-AT'.")
    title = " ".join(cleaned(title).split())
    _refuse(title)
    text = _without_title(cleaned(body).strip("\n"), title).rstrip()
    if len(text) > MAX_BODY:
        raise ReportError(
            f"The report has {len(text):,} characters and {MAX_BODY:,} are allowed: shorten it, "
            "or refer to artifacts in the place of their content."
        )
    _refuse(text)
    written = _Draft(find).of(text)
    if not written.strip():
        raise ReportError("The report is empty: write at least a sentence.")
    return Report(title, language, written)


def _refuse(text: str) -> None:
    spelled = unescape(text)
    for pattern, reason in _REFUSED:
        if pattern.search(text) or pattern.search(spelled):
            raise ReportError(f"The report cannot be published, for {reason}.")
    opened = _OWN_HEADER.match(text.lstrip())
    if opened is not None and _HEADER_END.search(text.lstrip(), opened.end()):
        raise ReportError(
            "The report cannot be published, for it begins with a header of its own: leave it "
            "out, the title is given beside the body."
        )


def _without_title(body: str, title: str) -> str:
    first, _, rest = body.partition("\n")
    is_title = first.startswith("# ") and first[2:].strip(" #").casefold() == title.casefold()
    return rest.lstrip("\n") if is_title else body


class _Draft:
    """A body on its way to being plain, with its references pinned."""

    def __init__(self, find: Callable[[str], LogEntry]) -> None:
        self._find = find
        self._unknown: dict[str, None] = {}
        self._count = 0

    def of(self, text: str) -> str:
        try:
            written = "\n".join(self._lines(list(parts(text)))).strip("\n").rstrip()
        except MarkupError as exc:
            raise ReportError(f"The report cannot be published, for {exc}.") from exc
        if self._unknown:
            raise UnknownArtifactError(" ".join(self._unknown))
        if self._count > MAX_REFERENCES:
            raise ReportError(
                f"The report refers to artifacts {self._count:,} times and {MAX_REFERENCES} are "
                "allowed: split it into several."
            )
        if found := _INLINE_R.search(written):
            raise ReportError(
                f"The report cannot be published, for {written[found.start() :][:20]!r} would be "
                "run by R: write a blank after the backtick."
            )
        return written

    def _lines(self, lines: list[Fence | str]) -> list[str]:
        written: list[str] = []
        tables = in_tables(lines)
        after_block = False
        rest = iter(enumerate(lines))
        for number, line in rest:
            if block := self._as_block(lines, number):
                if isinstance(line, str) and line.startswith(":::"):
                    next(rest), next(rest)
                _separate(written)
                written.append(block)
                after_block = True
            elif isinstance(line, str):
                if after_block and line.strip():
                    _separate(written)
                after_block = after_block and not line.strip()
                words = partial(plain, in_table=tables[number], special=self._reference)
                append_line(written, line, words)
        return written

    def _as_block(self, lines: Sequence[Fence | str], number: int) -> str:
        """What stands alone at ``number``, if it does: a fence or an artifact that is shown."""
        line = lines[number]
        if isinstance(line, Fence):
            return line.plain
        if (own := _own_block(lines, number)) is not None:
            return _block(self._pinned(*own))
        if line.lstrip(" \t>").startswith(":::") and "{.artifact" in line:
            raise _damaged(line.strip())
        indent = len(line) - len(line.lstrip(" "))
        match = _WRITTEN.fullmatch(line.strip(" \t")) if indent < 4 else None
        mention = self._mention(match) if match and match["mark"] != "" else None
        return _block(mention) if mention else ""

    def _reference(self, line: str, at: int) -> tuple[str, int] | None:
        """The reference that begins in ``line`` at ``at`` as it is pinned, and where it ends."""
        if match := _WRITTEN.match(line, at):
            mention = self._mention(match)
            return (_span(mention) if mention else match[0]), match.end()
        if own := _SPAN.match(line, at):
            return _span(self._pinned(own["ref"], own["label"])), own.end()
        if odd := _ODD.match(line, at):
            if odd[0].startswith("{."):
                raise _damaged(line[at:])
            start = max(line.rfind("[", 0, at), 0) if odd[0].startswith("]") else at
            raise ReportError(
                f"The reference {line[start : start + 60]!r} cannot be read: write "
                "![Caption](artifact:name)."
            )
        return None

    def _mention(self, match: re.Match[str]) -> Mention | None:
        self._count += 1
        name = match["angled"] or match["called"] or unquote(match["plain"] or "")
        try:
            entry = self._find(name)
        except UnknownArtifactError as exc:
            self._unknown[str(exc)] = None
            return None
        label = " ".join((match["label"] or match["words"] or "").split())
        return Mention(entry.ref, label or _SPECIAL.sub(r"\\\1", entry.name))

    def _pinned(self, ref: str, label: str) -> Mention:
        self._count += 1
        try:
            return Mention(parse_reference(ref), label)
        except ValueError as exc:
            raise ReportError(f"A pinned reference is damaged: {exc}") from exc


def _separate(written: list[str]) -> None:
    if written and written[-1].strip():
        written.append("")


def _damaged(text: str) -> ReportError:
    return ReportError(
        f"The pinned reference {text[:80]!r} is damaged: write the artifact again as "
        "![Caption](artifact:name)."
    )


def _block(mention: Mention) -> str:
    return f'::: {{.artifact ref="{reference(mention.ref)}"}}\n{alone(mention.label)}\n:::'


def _span(mention: Mention) -> str:
    # It may stand in a table.
    label = plain(mention.label, in_table=True)
    return f'[{label}]{{.artifact ref="{reference(mention.ref)}"}}'


def _own_block(lines: Sequence[Fence | str], number: int) -> tuple[str, str] | None:
    """The reference and the label of the pinned block that begins at ``number``."""
    match lines[number : number + 3]:
        case [str(first), str(label), ":::"] if label.strip():
            opening = _OPENING.fullmatch(first)
            return None if opening is None else (opening["ref"], label)
    return None


@dataclass(frozen=True)
class _Found:
    ref: str
    label: str
    is_block: bool


def _pieces(body: str) -> Iterator[str | _Found]:
    """``body`` in order: its texts, and the pinned references between them."""
    lines = list(parts(body))
    rest = iter(enumerate(lines))
    for number, line in rest:
        if number:
            yield "\n"
        if isinstance(line, Fence):
            yield line.source
        elif (own := _own_block(lines, number)) is not None:
            next(rest), next(rest)
            yield _Found(own[0], own[1], is_block=True)
        else:
            yield from _spans(line)


def _spans(line: str) -> Iterator[str | _Found]:
    runs = tick_runs(line)
    done = at = 0
    while step := _STEP.search(line, at):
        at = step.end()
        if step[0][0] == "`":
            at = code_end(line, step.start(), runs) or at
        elif step[0] == "[" and (own := _SPAN.match(line, step.start())):
            yield line[done : step.start()]
            yield _Found(own["ref"], own["label"], is_block=False)
            done = at = own.end()
    yield line[done:]


def pinned_in(text: str) -> tuple[ArtifactRef, ...]:
    """The snapshots that ``text`` refers to, each once, in the order of first mention.

    References that are damaged are left out.
    """
    found: dict[ArtifactRef, None] = {}
    for piece in _pieces(text):
        if isinstance(piece, _Found):
            with suppress(ValueError):
                found[parse_reference(piece.ref)] = None
    return tuple(found)


def with_mentions(
    body: str, *, shown: Callable[[Mention], str], linked: Callable[[Mention], str]
) -> str:
    """``body`` with its pinned references replaced: those shown as a block, and those linked."""

    def replaced(piece: str | _Found) -> str:
        if isinstance(piece, str):
            return piece
        change = shown if piece.is_block else linked
        return change(Mention(parse_reference(piece.ref), piece.label))

    return "".join(map(replaced, _pieces(body)))


def words_of(body: str) -> str:
    """``body`` with the labels of its references and without the snapshots."""
    return with_mentions(body, shown=lambda m: f"![{m.label}]", linked=lambda m: f"[{m.label}]")


def pinned_anew(body: str, newest: Callable[[ArtifactRef], ArtifactRef]) -> str:
    """``body`` with each pinned snapshot replaced by what ``newest`` gives for it."""

    def renewed(mention: Mention) -> Mention:
        return Mention(newest(mention.ref), mention.label)

    return with_mentions(
        body,
        shown=lambda mention: _block(renewed(mention)),
        linked=lambda mention: _span(renewed(mention)),
    )


def compose(report: Report) -> bytes:
    """``report`` as a ``.qmd`` file, which Quarto renders without running anything."""
    # Pandoc reads the title as Markdown.
    title = json.dumps(_SPECIAL.sub(r"\\\1", report.title), ensure_ascii=False)
    return (
        f'---\ntitle: {title}\nlang: "{report.language}"\nengine: markdown\nformat:\n  html:\n'
        "    embed-resources: true\nexecute:\n  enabled: false\n---\n\n"
        f"{report.body}\n"
    ).encode()


def parse(data: bytes) -> Report:
    """What ``compose`` was given. ``ReportError`` when ``data`` is no report of ours."""
    found = _DOCUMENT.fullmatch(data.decode("utf-8", "replace"))
    if found is None:
        raise ReportError("The report cannot be read: publish it again.")
    title, language = json.loads(found["title"]), json.loads(found["language"])
    return Report(_ESCAPED.sub(r"\1", title), language, found["body"].removesuffix("\n"))
