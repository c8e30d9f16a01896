"""Reports: Quarto Markdown whose references to artifacts are pinned to snapshots.

The rule of the place: what a model or a person writes names an artifact by its variable, title or
id; what is stored names one snapshot, so that a report says the same for ever. A report runs no
code and includes no file, whoever renders it. Pure functions of texts.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

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

# Every repetition below is bounded, so that no text takes longer than its length allows.
_LABEL = r"(?:[^\[\]\\\n]|\\.){0,1000}"
_FENCE = re.compile(r"[ \t>]*(?P<run>`{3,}|~{3,})(?P<info>.*)")
_CODE_SPAN = r"(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n).)*?(?<!`)(?P=ticks)(?!`)"
_WRITTEN = re.compile(
    rf"""(?P<code>{_CODE_SPAN})
    |(?P<mark>!?)\[(?P<label>{_LABEL})\]\(\s*
      (?:<artifact:(?P<angled>[^<>\n]{{1,500}})>|artifact:(?P<plain>[^()<>"\n]{{1,500}}?))
      (?:\s+"[^"\n]{{0,500}}")?\s{{0,9}}\)
    |\{{\{{\s*artifact\s+(?P<called>[^{{}}|\n]{{1,500}}?)\s{{0,9}}
      (?:\|(?P<words>[^{{}}\n]{{0,1000}}))?\}}\}}
    |(?P<odd>\]\(\s*<?artifact:|\{{\{{\s*artifact\b)""",
    re.VERBOSE | re.DOTALL,
)
# A line with a reference and blanks around it, which would hide that it stands alone.
_PADDED = re.compile(
    r"^ {0,3}((?:!\[|\{\{)(?=[^\n]{0,1000}artifact)[^\n]{0,2000}[)}])[ \t]{0,99}$", re.M
)
_BLOCK = re.compile(r'^::: \{\.artifact ref="(?P<ref>[^"\n]+)"\}\n(?P<label>.*)\n:::$', re.M)
_INLINE = re.compile(
    rf'(?P<code>{_CODE_SPAN})|\[(?P<label>{_LABEL})\]\{{\.artifact ref="(?P<ref>[^"\n]+)"\}}',
    re.DOTALL,
)
_MENTION = r'[]{.artifact ref="\g<ref>"}'
_OWN = re.compile(r"\{\.artifact\b[^}\n]{0,600}\}?")
_CODE = re.compile(_CODE_SPAN, re.DOTALL)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
_DOCUMENT = re.compile(
    r'---\ntitle: (?P<title>"[^\n]*")\nlang: (?P<language>"[^\n]*")\n.*?\n---\n\n(?P<body>.*)',
    re.DOTALL,
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#$^~|@])")

# What would make a renderer run code, read files or pass HTML through.
_REFUSED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"\{\{<"),
        "it holds a shortcode ({{< … >}}): write the text itself",
    ),
    (
        re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[ \t]*\{[ \t]*[A-Za-z]|`\{[A-Za-z]+\}", re.M),
        "it holds a cell that would be run ({python}): publish the result and refer to it, and "
        "show code as ```python",
    ),
    (
        re.compile(r"\{=[A-Za-z0-9]+\}"),
        "it passes raw text through ({=html}): write it in Markdown",
    ),
    (
        re.compile(r"\A\s*---[ \t]*\n(?:[\w-]+:.*\n|[ \t]+.*\n)+(?:---|\.\.\.)[ \t]*$", re.M),
        "it begins with a header of its own: leave it out, the title is given beside the body",
    ),
)


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
    title = " ".join(_encodable(title).split())
    text = _encodable(body).replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    text = _without_title(text, title).rstrip()
    if not text.strip():
        raise ReportError("The report is empty: write at least a sentence.")
    if len(text) > MAX_BODY:
        raise ReportError(
            f"The report has {len(text):,} characters and {MAX_BODY:,} are allowed: shorten it, "
            "or refer to artifacts in the place of their content."
        )
    for pattern, reason in _REFUSED:
        if pattern.search(text):
            raise ReportError(f"The report cannot be published, for {reason}.")
    return Report(title, language, _pin(text, find))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _without_title(body: str, title: str) -> str:
    first, _, rest = body.partition("\n")
    is_title = first.startswith("# ") and first[2:].strip(" #").casefold() == title.casefold()
    return rest.lstrip("\n") if is_title else body


def _pin(body: str, find: Callable[[str], LogEntry]) -> str:
    unknown: dict[str, None] = {}

    def pinned(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        if match["odd"]:
            line = match.string[match.start() :].partition("\n")[0]
            raise ReportError(
                f"The reference {line[:60]!r} cannot be read: write ![Caption](artifact:name)."
            )
        name = match["angled"] or match["called"] or unquote(match["plain"] or "")
        try:
            entry = find(name)
        except UnknownArtifactError as exc:
            unknown[str(exc)] = None
            return match[0]
        label = " ".join((match["label"] or match["words"] or "").split())
        mention = Mention(entry.ref, label or _SPECIAL.sub(r"\\\1", entry.name))
        if match["mark"] == "" or not _is_alone(match):
            return _span(mention)
        return _as_block(match, mention)

    text = _outside_fences(body, lambda part: _WRITTEN.sub(pinned, _PADDED.sub(r"\1", part)))
    if unknown:
        raise UnknownArtifactError(" ".join(unknown))
    if (count := len(_OWN.findall(text))) > MAX_REFERENCES:
        raise ReportError(
            f"The report refers to artifacts {count:,} times and {MAX_REFERENCES} are allowed: "
            "split it into several."
        )
    _check_pinned(text)
    return text


def _check_pinned(body: str) -> None:
    try:
        rest = with_mentions(body, shown=lambda _: "", linked=lambda _: "")
    except ValueError as exc:
        raise ReportError(f"A pinned reference is damaged: {exc}") from exc
    plain = "".join(_CODE.sub("", part) for fenced, part in _stretches(rest) if not fenced)
    if damaged := _OWN.search(plain):
        raise ReportError(
            f"The pinned reference {damaged[0][:80]!r} is damaged: write the artifact again as "
            "![Caption](artifact:name)."
        )


def _is_alone(match: re.Match[str]) -> bool:
    text = match.string
    before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    after = text[match.end() :].partition("\n")[0]
    return not before and not after


def _as_block(match: re.Match[str], mention: Mention) -> str:
    above, below = match.string[: match.start()], match.string[match.end() :]
    head = "" if not above or above.endswith("\n\n") else "\n"
    tail = "" if not below.strip("\n") or below.startswith("\n\n") else "\n"
    return f"{head}{_block(mention)}{tail}"


def _block(mention: Mention) -> str:
    label = f"\\{mention.label}" if mention.label.startswith(":") else mention.label
    return f'::: {{.artifact ref="{reference(mention.ref)}"}}\n{label}\n:::'


def _span(mention: Mention) -> str:
    return f'[{mention.label}]{{.artifact ref="{reference(mention.ref)}"}}'


def _outside_fences(body: str, change: Callable[[str], str]) -> str:
    """``body`` with ``change`` applied to each stretch of it that is no fenced code."""
    return "".join(part if fenced else change(part) for fenced, part in _stretches(body))


def _stretches(body: str) -> Iterator[tuple[bool, str]]:
    held: list[str] = []
    run = ""
    for line in _LINE.findall(body):
        found = _FENCE.match(line)
        if run:
            held.append(line)
            closes = found is not None and not found["info"].strip()
            if closes and found is not None and found["run"].startswith(run):
                yield True, "".join(held)
                held, run = [], ""
        elif found is not None and not (found["run"][0] == "`" and "`" in found["info"]):
            yield False, "".join(held)
            held, run = [line], found["run"]
        else:
            held.append(line)
    yield bool(run), "".join(held)


def pinned_in(text: str) -> tuple[ArtifactRef, ...]:
    """The snapshots that ``text`` refers to, each once, in the order of first mention.

    References that are damaged are left out.
    """
    found: dict[ArtifactRef, None] = {}
    for fenced, part in _stretches(text):
        for match in _INLINE.finditer("" if fenced else _BLOCK.sub(_MENTION, part)):
            with suppress(ValueError):
                if match["ref"]:
                    found[parse_reference(match["ref"])] = None
    return tuple(found)


def with_mentions(
    body: str, *, shown: Callable[[Mention], str], linked: Callable[[Mention], str]
) -> str:
    """``body`` with its pinned references replaced: those shown as a block, and those linked."""

    def block(match: re.Match[str]) -> str:
        label = match["label"].removeprefix("\\") if match["label"][:2] == "\\:" else match["label"]
        return shown(Mention(parse_reference(match["ref"]), label))

    def inline(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        return linked(Mention(parse_reference(match["ref"]), match["label"]))

    return _outside_fences(body, lambda part: _INLINE.sub(inline, _BLOCK.sub(block, part)))


def pinned_anew(body: str, newest: Callable[[ArtifactRef], ArtifactRef]) -> str:
    """``body`` with each pinned snapshot replaced by what ``newest`` gives for it."""

    def renewed(mention: Mention) -> Mention:
        return Mention(newest(mention.ref), mention.label)

    return with_mentions(
        body,
        shown=lambda mention: _block(renewed(mention)),
        linked=lambda mention: _span(renewed(mention)),
    )


def without_fences_of_divs(body: str) -> str:
    """``body`` without the lines that open and close Pandoc's divs, which CommonMark shows."""
    return _outside_fences(body, lambda part: re.sub(r"^:{3,}.*$\n?", "\n", part, flags=re.M))


def compose(report: Report) -> bytes:
    """``report`` as a ``.qmd`` file, which Quarto renders without running anything."""
    title = json.dumps(report.title, ensure_ascii=False)
    return (
        f'---\ntitle: {title}\nlang: "{report.language}"\nformat:\n  html:\n'
        "    embed-resources: true\nexecute:\n  enabled: false\n---\n\n"
        f"{report.body}\n"
    ).encode()


def parse(data: bytes) -> Report:
    """What ``compose`` was given. ``ReportError`` when ``data`` is no report of ours."""
    found = _DOCUMENT.fullmatch(data.decode("utf-8", "replace"))
    if found is None:
        raise ReportError("The report cannot be read: publish it again.")
    title, language = json.loads(found["title"]), json.loads(found["language"])
    return Report(title, language, found["body"].removesuffix("\n"))
