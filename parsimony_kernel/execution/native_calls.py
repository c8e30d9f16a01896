"""What libraries do with their own code when a statement calls them, where Python sees nothing.

They are known by the names of their functions, and what they are handed is looked up: texts in the
statement, and what the names in it hold when it is about to run.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any

from parsimony_kernel.analysis.calls import PATTERNS, names
from parsimony_kernel.analysis.cell import Call, Names
from parsimony_kernel.execution.figures import addresses, is_altair
from parsimony_kernel.execution.inspection import attempt
from parsimony_kernel.execution.side_effects import LISTS, host_of, texts_of

WRITERS, QUERIES = LISTS["writers"], LISTS["queries"]
WRITING_QUERY = re.compile(
    r"(?is)(?:^|;)\s*(?:COPY\b.+\bTO\b|EXPORT\s+DATABASE\b|ATTACH\b|CHECKPOINT\b|VACUUM\b.+\bINTO\b)"
)
_READING = names("network", "gets")
_SENDING = names("network", "sends")
_CHANGING = re.compile(r"(?is)^\s*(?:INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER)\b")
_READ_ONLY = re.compile(r"(?i)\bREAD_ONLY\b|mode=ro")
_ADDRESS = re.compile(r"\b(?:https?|s3a?|gs|gcs|az|abfss?|ftp|hf|r2)://[^\s'\"),]+")


def writes(call: Call, namespace: Mapping[str, Any]) -> Iterator[str]:
    """The paths to which a call writes past Python."""
    texts = (*call.texts, *texts_of(call.names, namespace))
    if call.last in QUERIES:
        for text in texts:
            if WRITING_QUERY.search(text) and not _READ_ONLY.search(text):
                for found in PATTERNS["sql_file"].findall(text):
                    yield from filter(None, found)
    elif call.last in WRITERS or _is_duckdb(call, namespace) or _leads_on(call, namespace):
        is_read = call.last in LISTS["openers"] and call.mode in (None, "r")
        yield from (each for each in texts if not is_read and not each.startswith(":"))
    if call.last == "to_sql" or any(map(_CHANGING.search, texts)):
        for name in call.handed:
            yield from _databases(namespace.get(name))


def _is_duckdb(call: Call, namespace: Mapping[str, Any]) -> bool:
    writes = call.last == "connect" and "read_only" not in call.keywords
    writes = writes or call.last.startswith(("to_", "write_"))
    return writes and _library(call, namespace) in ("duckdb", "_duckdb")


def _leads_on(call: Call, namespace: Mapping[str, Any]) -> bool:
    """Whether it is a function of the notebook that calls such a writer."""
    function = namespace.get(call.name)
    return type(function) is FunctionType and not WRITERS.isdisjoint(function.__code__.co_names)


def _databases(value: Any) -> Iterator[str]:
    """The files that a connection of SQLite, or a cursor of it, is open to."""
    if type(value) is sqlite3.Cursor:
        value = value.connection
    if type(value) is sqlite3.Connection:
        with suppress(sqlite3.Error):  # it is closed
            yield from (path for _, _, path in value.execute("PRAGMA database_list") if path)


def fetches(call: Call, namespace: Mapping[str, Any]) -> Iterator[str]:
    """The hosts from which a call fetches past Python."""
    if call.last in LISTS["clouds"]:
        yield call.last
    root: Any = namespace.get(call.root)
    if call.last == "save" and is_altair(root):
        for address in addresses(attempt(lambda: root.to_dict(validate=False), lambda _: {})):
            yield host_of(address) or address
    if call.last in QUERIES or _library(call, namespace) in LISTS["fetchers"]:
        for text in (*call.texts, *texts_of(call.handed, namespace)):
            for address in _ADDRESS.findall(text):
                yield host_of(address) or address


def _library(call: Call, namespace: Mapping[str, Any]) -> str:
    """The library that the call belongs to, by what its name stands for now."""
    root = namespace.get(call.root)
    name = root.__name__ if type(root) is ModuleType else type(root).__module__
    return name.partition(".")[0]


def only_reads(statement: Names, namespace: Mapping[str, Any]) -> bool:
    """Whether what a statement sends, if anything, only asks for what it reads.

    A function of the notebook is known by what it calls; what is not known may be an effect.
    """
    called = {call.last for call in statement.calls}
    for call in statement.calls:
        function = namespace.get(call.name)
        if type(function) is FunctionType:
            called.update(function.__code__.co_names)
    carries = any({"data", "json"} & call.keywords.keys() for call in statement.calls)
    return not (called.isdisjoint(_READING) or carries) and called.isdisjoint(_SENDING)
