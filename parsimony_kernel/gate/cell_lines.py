"""The lines of a cell that are IPython's and not Python's.

The rest is given as Python in which every line keeps its number.
"""

import ast
import re
import textwrap
import warnings
from dataclasses import dataclass

# Magics that run the code that follows them.
_RUNNING = frozenset({"time", "timeit", "prun", "memit", "mprun", "lprun", "capture", "debug"})
_OPTIONS = re.compile(r"(?:-[nrpsTDlo](?:\s+|(?=\d))\S+\s+|-{1,2}[\w-]+\s+)*")

_LINE = re.compile(
    r"^(?P<indent>\s*)(?:(?P<target>[^\W\d][\w.,\[\]'\"\t ]*)=\s*)?"
    r"(?P<mark>!!|!|%%(?=[A-Za-z_!])|%(?=[A-Za-z_]))(?P<text>.*)$",
    re.DOTALL,
)
_HELP = re.compile(r"^\s*(?:\?{1,2}\s*[%\w.*]+|%{0,2}[\w.*]+\s*\?{1,2})\s*$")
_PROMPT = re.compile(r"^(?:>>> ?|\.\.\. ?|In \[\d+\]: ?| *\.\.\.: ?)")
# What IPython takes for a magic or a command when it is all there is in the cell.
_AUTOMATIC = frozenset(
    {"pip", "conda", "mamba", "micromamba", "uv", "rm", "rmdir", "mv", "cp", "mkdir", "cat",
     "system", "sx", "env", "cd", "run", "reset", "reset_selective"}
)  # fmt: skip
# Those that are Python as well, a subtraction.
_AMBIGUOUS = re.compile(r"\s*(reset)(?:\s+(-.*))?\s*")
_TOKEN = re.compile(
    r"'''|\"\"\"|'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?|#.*|[(\[{]|[)\]}]|.", re.S
)


@dataclass(frozen=True)
class Magic:
    """A line or a cell for IPython. ``name`` is empty for ``!``; ``body`` is a cell's."""

    name: str
    text: str
    line: int
    body: str | None = None


@dataclass(frozen=True)
class CellLines:
    """A cell taken apart. ``tree`` is ``None`` when the rest of it is no Python."""

    tree: ast.Module | None
    magics: tuple[Magic, ...] = ()


def taken_apart(code: str) -> CellLines:
    """The Python of ``code`` and its magics. Any text will do; ``RecursionError`` may be raised."""
    tree = parsed(code)
    if tree is not None:
        alone = _AMBIGUOUS.fullmatch(code)
        return CellLines(tree, (Magic(alone[1], alone[2] or "", 1),) if alone else ())
    lines = split(code)
    if any(_PROMPT.match(line) for line in lines[:1]):
        lines = [_PROMPT.sub("", line) for line in lines]
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return CellLines(None)
    magics: list[Magic] = []
    if lines[first].lstrip().startswith("%%"):
        name, _, text = lines[first].strip()[2:].partition(" ")
        body = "\n".join(lines[first + 1 :])
        if name not in _RUNNING:
            return CellLines(
                parsed("\n" * (first + 1) + body), (Magic(name, text, first + 1, body),)
            )
        lines[first] = _code_of(text) if name in ("timeit", "time") else ""
    rest = _without_magics(lines, magics)
    tree = parsed(rest) or parsed(textwrap.dedent(rest))
    if tree is None and not magics and len([line for line in lines if line.strip()]) == 1:
        name, _, text = lines[first].strip().partition(" ")
        if name in _AUTOMATIC:
            magics.append(Magic(name, text, first + 1))
    return CellLines(tree, tuple(magics))


def split(code: str) -> list[str]:
    """The lines as Python counts them."""
    return re.split(r"\r\n|\r|\n", code)


def parsed(code: str) -> ast.Module | None:
    """The tree, or ``None`` when ``code`` is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a cell's escapes are worth is not asked here
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, MemoryError):
            return None


def _without_magics(lines: list[str], magics: list[Magic]) -> str:
    kept: list[str] = []
    quote, depth, continued = "", 0, False
    number = 0
    while number < len(lines):
        line = lines[number]
        found = None if quote or depth or continued else _LINE.match(line)
        if found is not None:
            text, used = _joined(lines, number, found["text"])
            kept.append(_replaced(found, text, number + 1, magics))
            kept += [""] * (used - 1)
            number += used
            continue
        if not (quote or depth or continued) and _HELP.match(line):
            line = ""
        kept.append(line)
        quote, depth = _after(line, quote, depth)
        continued = line.endswith("\\") and not quote
        number += 1
    return "\n".join(kept)


def _code_of(text: str) -> str:
    return _OPTIONS.sub("", f"{text.strip()} ", count=1).strip()


def _joined(lines: list[str], number: int, text: str) -> tuple[str, int]:
    used = 1
    while text.endswith("\\") and number + used < len(lines):
        text = text[:-1] + lines[number + used]
        used += 1
    return text, used


def _replaced(found: re.Match[str], text: str, line: int, magics: list[Magic]) -> str:
    start = found["indent"] + (f"{found['target'].rstrip()} = " if found["target"] else "")
    name, _, rest = ("", "", text) if "!" in found["mark"] else text.partition(" ")
    if name in _RUNNING:
        return start + (_code_of(rest) or "None")
    magics.append(Magic(name, rest.strip(), line))
    return start + "None"


def _after(line: str, quote: str, depth: int) -> tuple[str, int]:
    """The quote that is open, and how many brackets are, at the end of ``line``."""
    at = 0
    while at < len(line):
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return quote, depth
            at, quote = end + 3, ""
            continue
        token = _TOKEN.match(line, at)
        if token is None:
            break
        said = token[0]
        if said in ("'''", '"""'):
            quote = said
        elif said in ("(", "[", "{"):
            depth += 1
        elif said in (")", "]", "}"):
            depth = max(depth - 1, 0)
        at = token.end()
    return quote, depth
