"""The effects of well-known calls, from one table, ``calls.toml``.

The table goes by name alone, whatever the object; definitions in the cell take precedence.
"""

import builtins
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    files(__package__).joinpath("calls.toml").read_text(encoding="utf-8")
)


@cache
def names(table: str, row: str) -> frozenset[str]:
    """Return the names in one row of the table: ``names("methods", "mutate")``."""
    words = set(_TABLE.get(table, {}).get(row, "").split())
    rows = {each for each in words if each.startswith("@")}
    others = (names(*each[1:].split(".")) for each in rows)
    return frozenset(words - rows).union(*others)


def _pairs(table: str, row: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in _TABLE[table][row].split())
    return {name: value for name, _, value in pairs}


def _columns(row: str) -> dict[str, Sequence[str]]:
    pairs = _pairs("columns", row)
    return {name: value.split(",") if value else () for name, value in pairs.items()}


def _rows(table: str, rows: str) -> list[frozenset[str]]:
    return [names(table, row) for row in rows.split()]


MUTATES_RECEIVER, PURE_METHODS, STREAM_METHODS = _rows("methods", "mutate pure stream")
MUTATES_ARGUMENT, GIVES_PARTS, RUNS_TEXT, NAMESPACES = _rows(
    "functions", "mutate parts run_text namespace"
)
SQL_CALLS, READS_TABLE, CHANGES_TABLE, READS_FILES = _rows(
    "functions", "sql reads_table changes_table reads_files"
)
ATOMIC_FUNCTIONS, COPYING_FUNCTIONS, STREAM_FUNCTIONS, SEEDING_FUNCTIONS = _rows(
    "functions", "atomic copy stream seed"
)
MUTATES = MUTATES_RECEIVER | MUTATES_ARGUMENT
VALUE_MODULES = names("modules", "value")
COLUMNS_BY_PLACE, COLUMNS_BY_KEYWORD = _columns("arguments"), _columns("keywords")
KEEPS_COLUMNS, GROUPS, AGGREGATES = _rows("columns", "keep group aggregate")
READS_COLUMNS = names("columns", "read") | KEEPS_COLUMNS | GROUPS | AGGREGATES | {*COLUMNS_BY_PLACE}
COLUMNS_OR_LEVELS, LIBRARIES = _rows("columns", "levels libraries")
CONVENTION = {name: name for name in names("convention", "itself")} | _pairs("convention", "as")
PATTERNS = {row: re.compile(text, re.VERBOSE) for row, text in _TABLE["patterns"].items()}
WRITES_BY_MODE: Mapping[str, str] = _pairs("outside_write", "modes")
# The last names of calls that write to their first argument, whatever the mode.
WRITES_FILES = frozenset(
    each.rpartition(".")[2] for each in names("outside_write", "first") - WRITES_BY_MODE.keys()
)
# Builtins that leave their arguments unchanged.
HARMLESS = frozenset({*dir(builtins), "display"} - {"delattr", "getattr", "setattr"})
HARMLESS -= names("functions", "dynamic")
