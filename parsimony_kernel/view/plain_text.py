"""Render the record as plain text, and as GitHub's Markdown.

Plain text is for terminals, screen readers and other plain front ends. Its sentences and tables
keep within the width; code, printed output and machine names (paths, commands) are never broken,
since that would make them wrong. The Markdown has no headings, which a front end would list in the
table of contents, no raw HTML and no links; code and tables are in fences longer than any inside.
"""

from collections.abc import Iterable, Iterator, Sequence

from wcwidth import wcswidth

from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view import parts as pt
from parsimony_kernel.view.escape import as_markdown, broken, fenced, fit, inline, plain, shortened
from parsimony_kernel.view.outline import outline, segment_of


def text_of(sections: Iterable[pt.Section], width: int = 80, summary: pt.Sentence = ()) -> str:
    """Render ``sections`` in lines of at most ``width`` columns where they can be broken.

    With a ``summary``, they come under it.
    """
    pieces = ["\n".join(wrapped(summary, width))] if summary else []
    pieces += ["\n".join(_section(section, width)) for section in sections]
    return "\n\n".join(fit([piece for piece in pieces if piece], lambda note: f"({note})"))


def record_of(blocks: Sequence[bl.Block], width: int = 80) -> str:
    """Render a turn in reading order: the answer, its chart or table, and the work."""
    found = segment_of(blocks, echo=True)
    shown = [] if found.figure is None else [outline(found.figure)]
    parts = (text_of([*found.head, *shown], width), text_of(found.work, width, found.summary))
    return "\n\n".join(filter(None, parts))


# Marks machine words while a sentence is wrapped; foreign text cannot contain it.
_WHOLE = "\0"
_DEEPEST = 40


def wrapped(spans: pt.Sentence, width: int, first: str = "", rest: str = "") -> list[str]:
    """Wrap ``spans`` into lines, the first prefixed by ``first`` and the others by ``rest``.

    A word wider than a line is broken, but not in a ``Mono``. The indentation of further lines is
    kept, as in code.
    """
    lines: list[str] = []
    for paragraph in "".join(map(_joinable, spans)).split("\n"):
        line = rest if lines else first
        if lines and paragraph.strip():
            line += " " * min(_DEEPEST, len(paragraph) - len(paragraph.lstrip()))
        gap = ""
        for marked in paragraph.split():
            word = marked.replace(_WHOLE, "")
            room = width - wcswidth(rest)
            for piece in [word] if word != marked or len(word) < room // 2 else broken(word, room):
                if (gap or lines) and wcswidth(line + gap + piece) > width:
                    # Drop the indentation if it leaves no room for the first word.
                    lines += [line] if gap else []
                    line, gap = rest, ""
                line, gap = line + gap + piece, " "
        lines.append(line.rstrip())
    return lines


def _joinable(span: pt.Span) -> str:
    if isinstance(span, pt.Mono):
        return " ".join(_WHOLE + word for word in inline(span.text).split())
    return plain(span if isinstance(span, str) else span.text)


def _section(section: pt.Section, width: int) -> list[str]:
    indent = "  " if any(isinstance(part, pt.Title) for part in section.parts) else ""
    lines: list[str] = []
    for part in section.parts:
        lines.extend(_part(part, width, indent, after=lines))
    return lines


def _part(part: pt.Part, width: int, indent: str, after: Sequence[str]) -> list[str]:
    match part:
        case pt.Title():
            line = " · ".join(inline(each) for each in (part.name, part.detail, part.state) if each)
            return wrapped((line,), width, "", "  ")
        case pt.Paragraph():
            gap = [""] if after and not indent and after[-1] else []
            return gap + wrapped(part.spans, width, indent, indent)
        case pt.Items():
            return list(_items(part, width, f"{indent}  " if indent else ""))
        case pt.Verbatim(language=""):
            return [f"{indent}{part.label}:", *_verbatim(part.text, f"{indent}  | ")]
        case pt.Verbatim():
            lines = _verbatim(part.text, f"{indent}  ")
            return lines if indent else ["", *lines, ""]
        case pt.Table():
            return _table(part, width, indent)
        case pt.Picture():
            return []


def _verbatim(text: str, lead: str) -> list[str]:
    return [f"{lead}{line}".rstrip() for line in plain(text).strip("\n").split("\n")]


def _items(part: pt.Items, width: int, indent: str) -> Iterator[str]:
    for number, item in enumerate(part.items, part.start):
        lead = f"{indent}{number}. " if part.is_ordered else f"{indent}- "
        yield from wrapped(item, width, lead, " " * len(lead))


def _table(table: pt.Table, width: int, indent: str) -> list[str]:
    lines = wrapped(table.caption, width, indent, indent) if table.is_captioned else []
    lead = f"{indent}  " if table.is_captioned else indent
    room = max(1, width - len(lead))
    header, *rows = (
        [shortened(inline(cell), room) for cell in row] for row in (table.columns, *table.rows)
    )
    widths = [max(map(wcswidth, column)) for column in zip(header, *rows, strict=True)]

    def padded(cell: str, at: int) -> str:
        gap = " " * (widths[at] - wcswidth(cell))
        return gap + cell if table.numeric[at] else cell + gap

    for band in _bands(widths, room):
        if band.start:
            lines.append(f"{lead}(the same rows, further columns)")
        for row in (header, ["-" * each for each in widths], *rows):
            lines.append((lead + "  ".join(padded(row[at], at) for at in band)).rstrip())
    return lines + (wrapped((table.note,), width, lead, lead) if table.note else [])


def _bands(widths: Sequence[int], room: int) -> Iterator[range]:
    """Yield runs of columns that fit into ``room``."""
    start, taken = 0, 0
    for at, each in enumerate(widths):
        if at > start and taken + each > room:
            yield range(start, at)
            start, taken = at, 0
        taken += each + 2
    yield range(start, len(widths))


# -- Markdown: the same lines, escaped, with verbatim text in fences

_ENDLESS = 1 << 20


def markdown_of(sections: Iterable[pt.Section], summary: pt.Sentence = ()) -> str:
    """Render ``sections`` as Markdown, under a ``summary`` if there is one."""
    pieces = [_markdown(pt.Paragraph(summary))]
    pieces += ["\n\n".join(filter(None, map(_markdown, each.parts))) for each in sections]
    return "\n\n".join(fit([piece for piece in pieces if piece], lambda note: f"*{note}*"))


def _markdown(part: pt.Part) -> str:
    match part:
        case pt.Verbatim():
            label = "" if part.language else f"{part.label}:\n\n"
            return label + fenced(part.text, part.language)
        case pt.Table():
            return fenced("\n".join(_part(part, _ENDLESS, "", after=())))
    lines = map(as_markdown, _part(part, _ENDLESS, "", after=()))
    return "  \n".join(lines).strip()
