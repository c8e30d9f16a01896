"""The text of Python: literals, names, and lines that a person can read.

Every name and value of the data enters the code as a literal that is made here.
"""

import keyword
import re
import textwrap
from collections.abc import Iterable, Sequence

from parsimony_kernel.offline.words import slug, word_set

WIDTH = 96

_RESERVED = word_set(
    "pd np alt json list dict set str int float sum min max len map filter print open type "
    "id input all any range object table"
)


def literal(value: object) -> str:
    """``value`` as Python source, in double quotes where that is possible."""
    if isinstance(value, str) and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return repr(value)


def identifier(text: str, fallback: str = "table") -> str:
    """A valid name that reads like ``text``."""
    name = re.sub(r"\W+", "_", slug(text, 60)) or fallback
    if name[0].isdigit():
        name = f"{fallback}_{name}"
    if not name.isidentifier():
        name = fallback
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _RESERVED:
        name = f"{name}_{fallback if fallback not in name else 'data'}"
    return name


def unique(name: str, taken: Iterable[str]) -> str:
    """``name``, numbered if it is taken."""
    used = set(taken)
    if name not in used:
        return name
    return next(f"{name}_{n}" for n in range(2, len(used) + 3) if f"{name}_{n}" not in used)


def listed(values: Iterable[object], *, raw: bool = False) -> str:
    """A list as source; ``raw`` values are source already."""
    return f"[{', '.join(str(v) if raw else literal(v) for v in values)}]"


def capital(text: str) -> str:
    """``text`` with a capital letter."""
    return text[:1].upper() + text[1:]


def with_imports(code: str) -> str:
    """``code`` under the imports that it needs."""
    imports = []
    if "alt." in code:
        imports.append("import altair as alt")
    if re.search(r"\bpd\.", code):
        imports.append("import pandas as pd")
    return "\n".join(imports) + "\n\n" + code if imports else code


def headline(label: str, frame: str, *calls: str) -> str:
    """A line that prints the first row of what the ``calls`` give."""
    steps = [*calls, ".to_string(index=False, header=False)"]
    line = f"print({literal(label)}, {frame}{''.join(steps)})"
    if len(line) <= WIDTH:
        return f"\n{line}"
    inner = f"    {frame}{''.join(steps)},"
    if len(inner) > WIDTH:
        inner = "\n".join([f"    {frame}", *(f"    {step}" for step in steps)]) + ","
    return f"\nprint(\n    {literal(label)},\n{inner}\n)"


def chain(name: str, steps: Sequence[str]) -> str:
    """``name`` bound to a chain of calls, a line each where it is long."""
    whole = f"{name} = {''.join(steps)}"
    if len(whole) <= WIDTH and len(steps) <= 3 and "\n" not in whole:
        return whole
    lines: list[str] = []
    for step in steps:
        if step.startswith("[") and lines:
            lines[-1] += step
        else:
            lines += step.splitlines()
    wrapped = [w for line in lines for w in _wrapped(line)]
    body = "\n".join(f"    {line}" for line in wrapped)
    return f"{name} = (\n{body}\n)"


def _wrapped(line: str) -> list[str]:
    """``line``, its outermost call broken over several lines if it is long."""
    indent = " " * (len(line) - len(line.lstrip()))
    if len(line) + 4 <= WIDTH:
        return [line]
    opened = next((i for i in _code_positions(line) if line[i] in "(["), None)
    closed = _closing(line, opened) if opened is not None else None
    if opened is None or closed is None:
        return [line]
    parts = _parts(line[opened + 1 : closed])
    if line[opened] == "[":
        inner = textwrap.wrap(
            ", ".join(parts),
            WIDTH - len(indent) - 12,
            break_long_words=False,
            break_on_hyphens=False,
        )
        inner = [f"{indent}    {each}" for each in inner] if all(map(_solid, parts)) else []
    else:
        inner = [w for part in parts for w in _wrapped(f"{indent}    {part},")]
    return [line[: opened + 1], *inner, f"{indent}{line[closed:]}"] if inner else [line]


def _solid(part: str) -> bool:
    return " " not in part


def _closing(text: str, opened: int) -> int | None:
    """Where the bracket at ``opened`` closes; ``None`` unless its line ends soon after."""
    depth = 0
    for index in _code_positions(text):
        if index < opened:
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return None


def _parts(text: str) -> list[str]:
    """The arguments in ``text``, split at its outermost commas."""
    parts, depth, start = [], 0, 0
    for index in _code_positions(text):
        char = text[index]
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _code_positions(text: str) -> Iterable[int]:
    """The positions in ``text`` that are not inside a string literal."""
    quote = ""
    index = 0
    while index < len(text):
        char = text[index]
        if quote:
            if char == "\\":
                index += 1
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        else:
            yield index
        index += 1
