"""Markdown that every renderer reads alike: words, code and links, and nothing that acts.

The rule of the place: what CommonMark, Pandoc and Quarto read differently is written so that they
agree, and what only some of them act on (HTML, TeX, attributes, metadata, images, math) is written
as the characters that it is. Code is what stands between backticks on one line, or in a fence at
the left margin; all else is words. Every function takes time in proportion to its text.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from string import punctuation

LINKS = ("http://", "https://", "mailto:", "#")

# Every repetition that can fail late is bounded, so that no text takes longer than its length.
LABEL = r"(?:[^\[\]\\\n]|\\.){0,1000}"
_FENCE = re.compile(r"(?P<indent> {0,3})(?P<run>`{3,}|~{3,})(?P<info>.*)")
_HIDDEN_FENCE = re.compile(r"(?:[\s>]|[-*+:~][ \t]|\(?[\w@]{1,9}[.)][ \t])*(?:```|~~~)")
_INFO = re.compile(r"[ \t]*([A-Za-z0-9_+#.-]*)")
_RULE = re.compile(r"(?P<lead>[ \t>]*)(?P<rule>-[- \t]*)")
_DASHES_AT_END = re.compile(r"(?:(?<=\s)|(?<=>))---[ \t]*$")
_BEGINS_BLOCK = re.compile(r"[-+:=#>|]")
_DIV = re.compile(r"[ \t>]*:{3,}")
_PARAGRAPH = re.compile(r" {0,3}(?!\d{1,9}[.)]|\*[ \t])[\w*\"'(][^|]*")
_TABLE_RULE = re.compile(r"[\s>|:+*.)\d-]*")
_COLUMN = re.compile(r"(?<!\\)\|")
_MARK = re.compile(r"\\|`+|~{3,}|[<${@:+\]]|!?\[")
_TICKS = re.compile(r"`+")
_ADDRESS = r"(?:[^\s<>`()\[\]\\{}$]|\([^\s<>`()\[\]\\{}$]{0,500}\)){0,2000}"
_TITLE = r'(?:[ \t]{1,9}"[^"`<>\[\]\\{}$@\n]{0,500}")?'
_TARGET = re.compile(
    rf"\]\([ \t]{{0,9}}(?:<(?P<angled>{_ADDRESS})>|(?P<address>{_ADDRESS})){_TITLE}[ \t]{{0,9}}\)"
)
_IMAGE = re.compile(rf"!\[(?P<label>{LABEL})(?=\]\()")
_AUTOLINK = re.compile(
    r"<(?:(?:https?://|mailto:)[^\s<>`\[\]\\{}$]{1,2000}|[\w.+-]{1,200}@[\w.-]{1,200})>"
)
# C0 and C1 without tab and newline, and what ends a line for some and not for others.
_CONTROLS = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), 0x2028, 0x2029, 0xFEFF], " "
)


class MarkupError(ValueError):
    """A text holds what cannot be written plainly. ``str()`` says what, and the remedy."""


@dataclass(frozen=True)
class Fence:
    """Fenced code. ``source`` is how it was written."""

    info: str
    lines: tuple[str, ...]
    source: str

    @property
    def plain(self) -> str:
        """The fence as every renderer reads it: at the margin, longer than any run within."""
        longest = max((len(run) for line in self.lines for run in _TICKS.findall(line)), default=0)
        run = "`" * max(3, longest + 1)
        found = _INFO.match(self.info)
        # Quarto may look for metadata within code, and only at the margin.
        lead = " " if any(line.startswith("---") for line in self.lines) else ""
        lines = [f"{run}{found[1] if found else ''}", *self.lines, run]
        return "\n".join(f"{lead}{line}" if line else line for line in lines)


def cleaned(text: str) -> str:
    """``text`` in UTF-8, with ends of lines as ``\\n`` and blanks for control characters."""
    whole = text.encode("utf-8", "replace").decode()
    return whole.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def parts(body: str) -> Iterator[Fence | str]:
    """The fences of ``body`` and the lines between them."""
    held: list[str] = []
    opened: re.Match[str] | None = None
    for line in body.split("\n"):
        found = _FENCE.fullmatch(line)
        if opened is not None:
            held.append(line)
            if found and not found["info"].strip() and found["run"].startswith(opened["run"]):
                yield _fence(opened, held, closed=True)
                held, opened = [], None
        elif found is not None and not (found["run"][0] == "`" and "`" in found["info"]):
            held, opened = [line], found
        else:
            yield line
    if opened is not None:
        yield _fence(opened, held, closed=False)


def _fence(opened: re.Match[str], held: Sequence[str], *, closed: bool) -> Fence:
    indent = len(opened["indent"])
    inner = held[1:-1] if closed else held[1:]
    lines = tuple(line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in inner)
    return Fence(opened["info"], lines, "\n".join(held))


def in_tables(lines: Sequence[Fence | str]) -> list[bool]:
    """For each line whether it can belong to a table, whose columns would divide code."""
    told: list[bool] = []
    start = 0
    for end in range(len(lines) + 1):
        line = lines[end] if end < len(lines) else ""
        if isinstance(line, str) and line.strip():
            continue
        told += [any(map(_divides, lines[start:end]))] * (end - start) + [False]
        start = end + 1
    return told[: len(lines)]


def _divides(line: Fence | str) -> bool:
    is_rule = isinstance(line, str) and "|" in line and "-" in line
    return is_rule and _TABLE_RULE.fullmatch(str(line)) is not None


def append_line(written: list[str], line: str, words: Callable[[str], str]) -> None:
    """Append ``line`` to the lines ``written``, so that no renderer takes it for more than words.

    Args:
        words: ``line`` itself with its words made plain.

    Raises:
        MarkupError: it begins a fence that stands within a list, a quotation or further right.
    """
    if _HIDDEN_FENCE.match(line) and not _closes_itself(line):
        raise MarkupError(
            "it holds fenced code in a list, in a quotation or indented: begin and end the fence "
            "at the left margin"
        )
    rule = _RULE.fullmatch(line)
    if rule is not None and line.count("-") > 1:
        last = written[-1] if written else ""
        dashes = rule["rule"].strip()
        starts = len(written) < 2 or not written[-2].strip()
        if set(dashes) == {"-"} and starts and _PARAGRAPH.fullmatch(last):
            written[-1] = f"## {last.strip()}"
        elif len(dashes) < 3:
            written.append(f"{rule['lead']}\\{dashes}")
        else:
            written += ([""] if last.strip() and ">" not in line else []) + [f"{rule['lead']}***"]
    elif _DIV.match(line):
        written.append("")
    else:
        written.append(_DASHES_AT_END.sub("----", words(line)))


def alone(label: str) -> str:
    """``label`` as a line that begins no block."""
    words = _DASHES_AT_END.sub("----", plain(label.strip()))
    return f"\\{words}" if _BEGINS_BLOCK.match(words) else words


def _closes_itself(line: str) -> bool:
    run = _TICKS.search(line)
    return run is not None and code_end(line, run.start(), tick_runs(line)) > 0


TickRuns = dict[int, list[int]]


def tick_runs(line: str) -> TickRuns:
    """Where the runs of backticks in ``line`` begin, by their lengths."""
    runs: TickRuns = {}
    for run in _TICKS.finditer(line):
        runs.setdefault(len(run[0]), []).append(run.start())
    return runs


def code_end(line: str, start: int, runs: TickRuns) -> int:
    """Where the code ends whose opening backticks begin at ``start``; 0 when nothing closes it."""
    found = _TICKS.match(line, start)
    length = len(found[0]) if found else 0
    closers = runs.get(length, [])
    index = bisect_left(closers, start + length)
    return closers[index] + length if index < len(closers) else 0


Special = Callable[[str, int], tuple[str, int] | None]


def plain(line: str, *, in_table: bool = False, special: Special = lambda _line, _at: None) -> str:
    """``line`` with code and links as they are and all else as words.

    Args:
        in_table: whether a ``|`` ends a cell, within code too.
        special: asked at each bracket and brace; what to write, and where to go on, or ``None``.
            It must not write anything that is not plain.

    Raises:
        MarkupError: it shows an image of a file.
    """
    runs = tick_runs(line)
    out: list[str] = []
    at = 0
    while found := _MARK.search(line, at):
        out.append(line[at : found.start()])
        at = found.start()
        piece = special(line, at) if found[0] in "![]{" else None
        written, at = piece or _mark(line, at, found[0], runs, in_table)
        out.append(written)
    out.append(line[at:])
    return "".join(out)


def _mark(line: str, at: int, mark: str, runs: TickRuns, in_table: bool) -> tuple[str, int]:
    before, after = line[at - 1 : at], line[at + 1 : at + 2]
    starts = not before or before.isspace() or before in ">|"
    match mark[0]:
        case "\\" if after.isalpha():
            return "\\\\", at + 1
        case "\\" if after in punctuation:
            return line[at : at + 2], at + 2
        case "~":
            return "\\~" * len(mark), at + len(mark)
        case "`":
            end = code_end(line, at, runs)
            code = _code(line[at:end], len(mark), in_table) if end else ""
            return (code, end) if code else ("\\`" * len(mark), at + len(mark))
        case "<":
            return _angle(line, at, after)
        case "!":
            return _image(line, at)
        case "]":
            return _bracket(line, at, after)
        case "@" if before.isalnum():
            return "@", at + 1
        case "+" if not (starts and after and after in "-=:"):
            return "+", at + 1
        case ":" if not (starts and line.startswith(":::", at)):
            return ":", at + 1
        case "[":
            return "[", at + 1
    return mark if mark == "\\" else f"\\{mark}", at + 1


def _code(code: str, run: int, in_table: bool) -> str:
    """A span of code, or nothing when it is not code for every renderer."""
    inner = code[run:-run]
    if in_table and _COLUMN.search(inner):
        return ""
    # knitr would run code that begins so.
    if run <= 2 and not inner.startswith(("r ", "r#")):
        return code
    if inner.strip() and inner[0] == inner[-1] == " ":
        inner = inner[1:-1]
    within = {len(each) for each in _TICKS.findall(inner)}
    ticks = next((ticks for ticks in ("`", "``") if len(ticks) not in within), "")
    return f"{ticks} {inner} {ticks}" if ticks and inner.strip() else ""


def _angle(line: str, at: int, after: str) -> tuple[str, int]:
    link = _AUTOLINK.match(line, at)
    if link is not None:
        return link[0], link.end()
    return ("\\<" if after.isalpha() or (after and after in "/!?") else "<"), at + 1


def _image(line: str, at: int) -> tuple[str, int]:
    image = _IMAGE.match(line, at)
    if image is None:
        return "\\![", at + 2
    target = _TARGET.match(line, image.end())
    address = _address(target)
    if target is None or not address.startswith(("http://", "https://")):
        raise MarkupError(
            f"it shows the image {line[at : at + 60]!r}, and a report shows only what is "
            "published: publish the chart and write ![Caption](artifact:name)"
        )
    return f"[{plain(image['label'].strip() or address)}{target[0]}", target.end()


def _bracket(line: str, at: int, after: str) -> tuple[str, int]:
    if after == ":":
        return "]\\:", at + 2
    if after != "(":
        return "]", at + 1
    target = _TARGET.match(line, at)
    if target is None or not _address(target).startswith(LINKS):
        return "]\\(", at + 2
    return target[0], target.end()


def _address(target: re.Match[str] | None) -> str:
    return "" if target is None else (target["angled"] or target["address"] or "")
