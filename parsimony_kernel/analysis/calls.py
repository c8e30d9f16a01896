"""What well-known calls do, from ``calls.toml``: the one table of it.

Names alone, whoever has them: what a cell defines itself goes before what stands there.
"""

import builtins
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    files(__package__).joinpath("calls.toml").read_text(encoding="utf-8")
)


def names(table: str, row: str) -> frozenset[str]:
    """The names in one row of the table: ``names("methods", "mutate")``."""
    return frozenset(_TABLE.get(table, {}).get(row, ()))


MUTATES_RECEIVER = names("methods", "mutate")
MUTATES_ARGUMENT = names("functions", "mutate")
MUTATES = MUTATES_RECEIVER | MUTATES_ARGUMENT
GIVES_PARTS = names("functions", "parts")
RUNS_TEXT = names("functions", "run_text")
NAMESPACES = names("functions", "namespace")

PURE_METHODS = names("methods", "pure")
STREAM_METHODS = names("methods", "stream")
VIEW_METHODS = names("methods", "view")
DRAWING_METHODS = names("methods", "draw")
ATOMIC_FUNCTIONS = names("functions", "atomic")
COPYING_FUNCTIONS = names("functions", "copy")
STREAM_FUNCTIONS = names("functions", "stream")
SQL_CALLS = names("functions", "sql")
SEEDING_FUNCTIONS = names("functions", "seed")
STREAM_MODULES = names("modules", "stream")
VALUE_MODULES = names("modules", "value")
VIEW_ATTRIBUTES = frozenset({"loc", "iloc", "at", "iat", "str", "dt", "flat"})

COLUMNS_BY_PLACE: Mapping[str, Sequence[str]] = _TABLE["columns"]["arguments"]
COLUMNS_BY_KEYWORD: Mapping[str, Sequence[str]] = _TABLE["columns"]["keywords"]
KEEPS_COLUMNS = names("columns", "keep")
GROUPS = names("columns", "group")
AGGREGATES = names("columns", "aggregate")
READS_COLUMNS = names("columns", "read") | KEEPS_COLUMNS | GROUPS | AGGREGATES | {*COLUMNS_BY_PLACE}
COLUMNS_OR_LEVELS = names("columns", "levels")
LIBRARIES = names("columns", "libraries")
CONVENTION: Mapping[str, str] = {
    **{name: name for name in _TABLE["convention"]["itself"]},
    **_TABLE["convention"]["as"],
}
PATTERNS = {row: re.compile(text, re.VERBOSE) for row, text in _TABLE["patterns"].items()}
WRITES_BY_MODE: Mapping[str, str] = _TABLE["outside_write"]["modes"]
# Builtins that leave what they are handed as it is.
HARMLESS = (frozenset(dir(builtins)) | {"display"}) - {
    "__import__", "compile", "delattr", "eval", "exec", "getattr", "globals", "locals",
    "setattr", "vars",
}  # fmt: skip
