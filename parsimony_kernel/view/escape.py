"""Sanitise foreign text, for each of the three formats.

Every string from a model, a tool or data passes through ``plain`` first, and then through
``html_text``, ``as_markdown`` or ``fenced`` in the writer of that format.
"""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, groupby

from wcwidth import wcswidth

_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]"
)
_LINE_ENDS = re.compile("\r\n|[\x0b\x0c\x85\u2028\u2029]")
# Controls, lone surrogates, non-characters, and characters that reorder or hide text.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u061c\u202a-\u202e\u2066-\u2069\ufeff]"
)
_ADDRESS = re.compile(r"(<[^<>\n]{1,200} at 0x)[0-9a-fA-F]{6,16}(?=[>\s])")
# Possessive: what comes before a slash holds none, so no shorter match of it can help.
_FOLDERS = r"(?<![\w.-])(?:/[^/\s:\"']{1,200}+){1,40}/"
_LIBRARY_PATH = re.compile(_FOLDERS + "(?:site|dist)-packages/")
_MODULE_PATH = re.compile(_FOLDERS + r"([^/\s:\"']{1,200}\.py)\b")
# How Python words a missing file.
MISSING_FILE = re.compile(r"\bFileNotFoundError: \[Errno 2\] No such file or directory: ")


def plain(text: str) -> str:
    """Reduce ``text`` to visible characters and newlines.

    Terminal sequences are dropped, a line overwritten by carriage returns keeps its last version,
    tabs become spaces, and invisible or reordering characters become U+FFFD.
    """
    text = _LINE_ENDS.sub("\n", _ANSI.sub("", text))
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _HIDDEN.sub("\ufffd", text.expandtabs(4))


def inline(text: str) -> str:
    """Return ``plain`` text on one line, with white space collapsed."""
    return " ".join(plain(text).split())


def steady(text: str) -> str:
    """Remove what differs between processes from ``text``: addresses, and folders of modules.

    Recorded outputs are compared, so they must not contain ``<Thing at 0x7f...>`` or the place
    where a library is installed.
    """
    text = _ADDRESS.sub(r"\1…", text)
    text = _LIBRARY_PATH.sub("", text) if "-packages/" in text else text
    return _MODULE_PATH.sub(r"\1", text) if ".py" in text else text


SENTENCE_CHARS = 2_000
ARGUMENT_CHARS = 400
# The part of a long text that is processed; the display has no room for more.
READ_CHARS = 64_000


def cut(text: str, limit: int = SENTENCE_CHARS) -> str:
    """Cut ``text`` to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_steady(text: str) -> str:
    """Return an error's ``text`` as a sentence, without what differs between processes."""
    return cut(MISSING_FILE.sub("There is no file ", steady(text[:READ_CHARS])))


def cut_each(texts: Iterable[str], limit: int = ARGUMENT_CHARS) -> tuple[str, ...]:
    """Cut each of ``texts`` to ``limit`` characters."""
    return tuple(cut(text, limit) for text in texts)


def both_ends(text: str, limit: int, *, tail: int = 0) -> str:
    """Cut ``text`` in the middle, to about ``limit`` characters with the last ``tail`` as its end.

    A line in between says how many are missing.
    """
    if len(text) <= limit:
        return text
    head, end = text[: limit - tail].rstrip("\n"), text[len(text) - tail :].lstrip("\n")
    return f"{head}\n… {len(text) - limit:,} characters left out …\n{end}"


def html_text(text: str) -> str:
    """Escape ``text`` for HTML, in an element or a quoted attribute."""
    return html.escape(plain(text), quote=True)


_BEFORE_BLANK = re.compile(r"\n([^\S\n]*)(?=\n)")


def unbroken(markup: str) -> str:
    """Return ``markup`` with the same meaning and without blank lines."""
    return _BEFORE_BLANK.sub(r"&#10;\1", markup)


_MARKED = re.compile(r"[\\`*_\[\]|~$#@{}]|:(?=//)|(?<=www)\.|(?<=WWW)\.", re.IGNORECASE)
_LINE_START = re.compile(r"^(\s*)(?:([-+=:])|(\d{1,9})([.)]))")


def as_markdown(text: str) -> str:
    """Escape a line for Markdown: no emphasis, links, images, markup, mathematics or lists."""
    line = _MARKED.sub(r"\\\g<0>", inline(text))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINE_START.sub(
        lambda found: f"\\{found[2]}" if found[2] is not None else f"{found[3]}\\{found[4]}", line
    )


def fenced(text: str, language: str = "") -> str:
    """Return ``text`` as a fenced block, with a fence longer than any inside."""
    body = plain(text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    return f"{fence}{language}\n{body}\n{fence}"


def broken(text: str, width: int) -> list[str]:
    """Split ``text`` into pieces of at most ``width`` terminal columns (at least one character)."""
    pieces = [""]
    for char in text:
        if pieces[-1] and wcswidth(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces


def shortened(text: str, width: int) -> str:
    """Cut ``text`` to ``width`` terminal columns, with an ellipsis at the cut."""
    if wcswidth(text) <= width:
        return text
    taken = accumulate(map(wcswidth, text[:width]))
    return text[: sum(each < width for each in taken)] + "…"


# The size limit of a whole text.
TEXT_BYTES = 256 * 1024


def _size(piece: str) -> int:
    return len(piece.encode("utf-8", "replace"))


def fit(
    pieces: Sequence[str], describe: Callable[[str], str], weight: Callable[[str], int] = _size
) -> list[str]:
    """Limit ``pieces`` to ``TEXT_BYTES``, describing what is left out by ``describe``.

    The heaviest are left out first, but never the first or the last piece.
    """
    sizes = [weight(piece) + 2 for piece in pieces]
    total, gone = sum(sizes), set[int]()
    for at in sorted(range(1, len(pieces) - 1), key=lambda at: -sizes[at]):
        if total <= TEXT_BYTES:
            break
        total -= sizes[at] - (0 if {at - 1, at + 1} & gone else 200)
        gone.add(at)
    kept: list[str] = []
    for is_gone, run in groupby(range(len(pieces)), gone.__contains__):
        places = list(run)
        parts = f"{len(places):,} parts" if places[1:] else "1 part"
        note = f"{parts} of this record left out here to keep it small"
        kept += [describe(note)] if is_gone else [pieces[at] for at in places]
    return kept
