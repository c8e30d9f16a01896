"""Foreign text made harmless, once for each of the three texts.

Every string of a model, a tool or data passes ``plain`` before it is written anywhere, and then
``html_text``, ``as_markdown`` or ``fenced`` where it is written as such.
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
# Controls, lone surrogates, non-characters, and what reorders or hides the text around it.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u061c\u202a-\u202e\u2066-\u2069\ufeff]"
)
_ADDRESS = re.compile(r"(<[^<>\n]{1,200} at 0x)[0-9a-fA-F]{6,16}(?=[>\s])")
_FOLDERS = r"(?<![\w.-])(?:/[^/\s:\"']{1,200}){1,40}/"
_LIBRARY_PATH = re.compile(_FOLDERS + "(?:site|dist)-packages/")
_MODULE_PATH = re.compile(_FOLDERS + r"([^/\s:\"']{1,200}\.py)\b")


def plain(text: str) -> str:
    """``text`` as visible characters and newlines.

    Terminal sequences are dropped, of a line that was overwritten by carriage returns the last
    writing stays, tabs become spaces, and what is invisible or reorders becomes U+FFFD.
    """
    text = _LINE_ENDS.sub("\n", _ANSI.sub("", text))
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _HIDDEN.sub("\ufffd", text.expandtabs(4))


def inline(text: str) -> str:
    """``plain`` on one line, white space collapsed."""
    return " ".join(plain(text).split())


def steady(text: str) -> str:
    """``text`` without what differs from process to process: addresses, folders of modules.

    Recorded outputs are compared, so ``<Thing at 0x7f...>`` and the place where a library is
    installed must not be in them.
    """
    text = _ADDRESS.sub(r"\1…", text)
    return _MODULE_PATH.sub(r"\1", _LIBRARY_PATH.sub("", text)) if ".py" in text else text


SENTENCE_CHARS = 2_000
ARGUMENT_CHARS = 400
# How much of a long text is looked at, for all of which there is no room anyway.
READ_CHARS = 64_000


def cut(text: str, limit: int = SENTENCE_CHARS) -> str:
    """``text`` within ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def cut_steady(text: str) -> str:
    """``text`` as a sentence, without what differs from process to process."""
    return cut(steady(text[:READ_CHARS]))


def cut_each(texts: Iterable[str], limit: int = ARGUMENT_CHARS) -> tuple[str, ...]:
    """Each of ``texts`` within ``limit`` characters."""
    return tuple(cut(text, limit) for text in texts)


def both_ends(text: str, limit: int, *, tail: int = 0) -> str:
    """``text`` in about ``limit`` characters, of which the last ``tail`` are its end; between them
    stands how many are missing."""
    if len(text) <= limit:
        return text
    head, end = text[: limit - tail].rstrip("\n"), text[len(text) - tail :].lstrip("\n")
    return f"{head}\n… {len(text) - limit:,} characters left out …\n{end}"


def html_text(text: str) -> str:
    """``text`` for HTML, in an element or a quoted attribute."""
    return html.escape(plain(text), quote=True)


_BEFORE_BLANK = re.compile(r"\n([^\S\n]*)(?=\n)")


def unbroken(markup: str) -> str:
    """``markup`` with the same meaning and without a line that is blank."""
    return _BEFORE_BLANK.sub(r"&#10;\1", markup)


_MARKED = re.compile(r"[\\`*_\[\]|~$#@{}]|:(?=//)|(?<=www)\.|(?<=WWW)\.", re.IGNORECASE)
_LINE_START = re.compile(r"^(\s*)(?:([-+=:])|(\d{1,9})([.)]))")


def as_markdown(text: str) -> str:
    """One line of ``text`` for Markdown: no emphasis, link, image, markup, mathematics or list."""
    line = _MARKED.sub(r"\\\g<0>", inline(text))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LINE_START.sub(
        lambda found: f"\\{found[2]}" if found[2] is not None else f"{found[3]}\\{found[4]}", line
    )


def fenced(text: str, language: str = "") -> str:
    """``text`` as a fenced block, the fence longer than any within."""
    body = plain(text).strip("\n")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    return f"{fence}{language}\n{body}\n{fence}"


def broken(text: str, width: int) -> list[str]:
    """``text`` in pieces of at most ``width`` columns of a terminal and at least one character."""
    if wcswidth(text) <= width:
        return [text]
    pieces = [""]
    for char in text:
        if pieces[-1] and wcswidth(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces


def shortened(text: str, width: int) -> str:
    """``text`` in at most ``width`` columns, the cut marked with an ellipsis."""
    if wcswidth(text) <= width:
        return text
    taken = accumulate(map(wcswidth, text[:width]))
    return text[: sum(each < width for each in taken)] + "…"


# The most that a whole text takes.
TEXT_BYTES = 256 * 1024


def _size(piece: str) -> int:
    return len(piece.encode("utf-8", "replace"))


def fit(
    pieces: Sequence[str], said: Callable[[str], str], weight: Callable[[str], int] = _size
) -> list[str]:
    """``pieces`` within ``TEXT_BYTES``: in the place of those left out stands what ``said``
    makes of that. The heaviest go first, and never the first or the last piece."""
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
        kept += [said(note)] if is_gone else [pieces[at] for at in places]
    return kept
