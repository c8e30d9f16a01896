"""Code as syntax, parsed once, and as IPython turns it into Python."""

import ast
import functools
import re
import tokenize
import warnings

from parsimony_kernel.analysis.calls import names

Module = ast.Module
_NONSENSE = (SyntaxError, ValueError, RecursionError, MemoryError)
# What IPython takes for a magic or a command when it is all there is in the cell.
_AUTOMATIC = names("magics", "automatic")
_CONTINUED = re.compile(r"(\s*(?:[^\W\d][\w., ]*=\s*)?[!%].*)\\")
# Which takes the tokenizer a minute where an exclamation mark follows.
_BLANKS = re.compile(r"(?<=\S)[ \t\f]{100,}")
# That is Python as well, a subtraction.
_AMBIGUOUS = re.compile(r"\s*(reset)(?:\s+(-.*))?\s*")


@functools.lru_cache(maxsize=4_096)
def parse(code: str) -> tuple[ast.Module, Exception | None]:
    """The syntax of ``code``, which callers leave unchanged, and the reason why there is none.

    Nonsense is an empty module.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # running the cell reports them
            return ast.parse(code), None
    except _NONSENSE as error:
        return ast.Module(body=[], type_ignores=[]), error.with_traceback(None)


def tree(code: str) -> ast.Module:
    """The syntax of ``code``, which callers leave unchanged. Nonsense is an empty module."""
    return parse(code)[0]


@functools.lru_cache(maxsize=1_024)
def parse_cell(code: str) -> tuple[str, ast.Module, Exception | None]:
    """The same of a cell, which may hold IPython's syntax, with the Python that it stands for.

    Lines keep their numbers; the text of a cell magic is an argument of a call in its first line.
    Where a part of it is nonsense, the lines for IPython are what there is.
    """
    module, error = parse(code)
    if error is None:
        alone = _AMBIGUOUS.fullmatch(code)
        return (code, module, None) if alone is None else _automatic(alone[1], alone[2] or "")
    text = transformed(code)
    module, failed = parse(text)
    if failed is None and text:
        return text, module, None
    words = code.split(maxsplit=1)
    if len(code.strip().splitlines()) == 1 and words[0] in _AUTOMATIC:
        return _automatic(words[0], "".join(words[1:]).strip())
    lines = [line if _is_for_ipython(line) else "" for line in text.splitlines()]
    return text, parse("\n".join(lines))[0], failed if text else error


def _automatic(name: str, line: str) -> tuple[str, ast.Module, Exception | None]:
    text = f"get_ipython().run_line_magic({name!r}, {line!r})"
    return text, *parse(text)


def _is_for_ipython(line: str) -> bool:
    return "get_ipython()." in line and parse(line)[1] is None


def transformed(text: str) -> str:
    """``text`` after IPython's transforms, empty where that is not possible."""
    from IPython.core.inputtransformer2 import TransformerManager

    head = len(text) - len(text.lstrip("\n"))  # which IPython takes away
    plain = _joined(_BLANKS.sub(" ", text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd ends of lines
            return "\n" * head + str(TransformerManager().transform_cell(plain))
    except (*_NONSENSE, tokenize.TokenError, IndexError):
        return ""


def _joined(text: str) -> str:
    """``text`` with each line for IPython in one, and empty lines for what it went over."""
    found: list[str] = []
    empty = 0
    for line in text.split("\n"):
        if found and (begun := _CONTINUED.fullmatch(found[-1])):
            found[-1], empty = begun[1] + line, empty + 1
        else:
            found += [*[""] * empty, line]
            empty = 0
    return "\n".join([*found, *[""] * empty])
