"""Cached parsing of Python, of cells in IPython's syntax, and of table names in SQL."""

import ast
import functools
import re
import tokenize
import warnings
from typing import NamedTuple

from parsimony_kernel.analysis.calls import PATTERNS, names

Module = ast.Module
_NONSENSE = (SyntaxError, ValueError, RecursionError, MemoryError)
# Words that IPython runs as a magic without ``%`` if they are the whole cell.
_AUTOMATIC = names("magics", "automatic")
_CONTINUED = re.compile(r"^[^\S\n]*(?:[^\W\d][\w., ]*=[^\S\n]*)?[!%](?:.*\\\n)+.*", re.M)
# Long blanks before an exclamation mark take the tokenizer a minute.
_BLANKS = re.compile(r"(?<=\S)[ \t\f]{100,}")
# The prefix of database tables among variable names. The blank in it rules out a clash.
TABLE = "table "
# SQL queries. DuckDB resolves their table names to variables too.
_TABLE = r'"?([^\W\d]\w*)"?(?![\w.(])(?:\s+(?:as\s+)?(?!on\b|join\b|where\b)[^\W\d]\w*)?'
_FROM = re.compile(rf"\b(?:from|join|describe|summarize)\s+{_TABLE}((?:\s*,\s*{_TABLE})*)", re.I)
_FURTHER = re.compile(rf",\s*{_TABLE}", re.I)
# Magics that are valid Python too: ``reset -f`` is also a subtraction.
_AMBIGUOUS = re.compile(r"\s*(reset)(?:\s+(-.*))?\s*")


@functools.lru_cache(maxsize=4_096)
def parse(code: str) -> tuple[ast.Module, Exception | None]:
    """Return the syntax tree of ``code``, shared and read-only, and the error if there is one.

    Code that doesn't parse gives an empty module.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # running the cell reports them
            return ast.parse(code), None
    except _NONSENSE as error:
        return ast.Module(body=[], type_ignores=[]), error.with_traceback(None)


@functools.lru_cache(maxsize=1_024)
def parse_cell(code: str) -> tuple[str, ast.Module, Exception | None]:
    """Translate a cell in IPython's syntax to Python; return the text, its tree and any error.

    Lines keep their numbers; the body of a cell magic is an argument of a call on its first line.
    If part of the cell doesn't parse, the tree has only its magics and commands.
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
    """Return ``text`` after IPython's transforms; empty if they fail."""
    from IPython.core.inputtransformer2 import TransformerManager

    head = len(text) - len(text.lstrip("\n"))  # IPython strips these
    plain = _CONTINUED.sub(_joined, _BLANKS.sub(" ", text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd line ends
            return "\n" * head + str(TransformerManager().transform_cell(plain))
    except (*_NONSENSE, tokenize.TokenError, IndexError):
        return ""


def _joined(continued: re.Match[str]) -> str:
    """Join a continued magic into one line, with empty lines below that keep line numbers."""
    lines = continued[0].split("\\\n")
    return "".join(lines) + "\n" * (len(lines) - 1)


def is_table(name: str) -> bool:
    """Return whether ``name`` is a database table, not a variable."""
    return name.startswith(TABLE)


class Query(NamedTuple):
    """The use of tables by an SQL query, by name without schema.

    Args:
        reads: tables that it reads and doesn't define itself.
        makes: tables that it creates.
        changes: tables that it modifies.
        texts: its quoted strings, except those after ``TO``: files that it may read.
    """

    reads: list[str]
    makes: list[str]
    changes: list[str]
    texts: list[str]


def read_query(query: str) -> Query:
    """Parse the tables and files of an SQL query."""
    plain = PATTERNS["sql_comment"].sub(" ", query)
    own = {name.casefold() for name in PATTERNS["sql_own"].findall(plain)}
    found = [
        name for match in _FROM.finditer(plain) for name in (match[1], *_FURTHER.findall(match[2]))
    ]
    reads = [name for name in dict.fromkeys(found) if name.casefold() not in own]
    made, changed = PATTERNS["sql_made"].findall(plain), PATTERNS["sql_changed"].findall(plain)
    return Query(reads, made, changed, PATTERNS["sql_text"].findall(query))
