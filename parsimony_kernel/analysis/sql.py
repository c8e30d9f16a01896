"""Queries in SQL: the tables that they name, which DuckDB takes for variables."""

import re

_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_TABLE = r'"?([^\W\d]\w*)"?(?![\w.(])(?:\s+(?:as\s+)?(?!on\b|join\b|where\b)[^\W\d]\w*)?'
_TABLES = re.compile(rf"\b(?:from|join|describe|summarize)\s+{_TABLE}((?:\s*,\s*{_TABLE})*)", re.I)
_FURTHER = re.compile(rf",\s*{_TABLE}", re.I)
_OWN = re.compile(r"(?:\bwith\s+(?:recursive\s+)?|,\s*)([^\W\d]\w*)\s+as\s*\(", re.I)


def names_in_query(query: str) -> list[str]:
    """The names of tables that ``query`` reads and does not define itself; no files, no schemas."""
    plain = _COMMENTS.sub(" ", query)
    own = {name.casefold() for name in _OWN.findall(plain)}
    found = [
        name
        for match in _TABLES.finditer(plain)
        for name in (match[1], *_FURTHER.findall(match[2]))
    ]
    return [name for name in dict.fromkeys(found) if name.casefold() not in own]
