"""What code that ran may have written outside, from its syntax alone.

A call whose doing cannot be seen may have written: when in doubt, it did.
"""

import ast
import re
import sys
import warnings
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import lru_cache

from parsimony_kernel.gate.known_calls import HARMLESS, LIBRARIES, READING

MAX_PARSED = 50_000

_COMMENT = re.compile(
    r"(\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|#[^\n]*", re.DOTALL
)
_WRITES = re.compile(
    r"to_(?:csv|parquet|excel|json|html|pickle|feather|sql|markdown|latex|stata|hdf|orc|file|xml)"
    r"|write\w*|sink_\w+|save\w*|dump"
)
_PURE = frozenset(
    {
        "altair", "calendar", "collections", "dataclasses", "datetime", "decimal", "fractions",
        "functools", "itertools", "json", "math", "matplotlib", "numpy", "operator", "pandas",
        "plotly", "polars", "random", "re", "scipy", "seaborn", "sklearn", "statistics",
        "statsmodels", "string", "textwrap", "time", "typing", "warnings",
    }
)  # fmt: skip
_KINDS = ("DataFrame", "Series", "Index", "Timestamp", "LazyFrame", "Expr", "ndarray", "Chart")
# A frame of polars has these, and so has a connection, where they may write anything.
_STATEMENTS = frozenset({"execute", "sql"})
_BUILT_IN = frozenset(
    name for each in (str, bytes, int, float, list, dict, set, tuple) for name in dir(each)
)


class Writing(IntEnum):
    """How much was written. ``unseen``: by a call that does not say what, or where."""

    nothing = 0
    plain = 1
    unseen = 2


def without_comments(code: str) -> str:
    """``code`` as it runs; its texts stay."""
    return _COMMENT.sub(lambda found: found[1] or "", code) if "#" in code else code


def written(codes: Sequence[str]) -> Writing:
    """The most that any of ``codes`` may have written."""
    if sum(map(len, codes)) > MAX_PARSED:
        return Writing.unseen
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the code has run: its warnings were told
            trees = [ast.parse(code) for code in codes]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Writing.unseen  # a command of the shell, or a magic
    nodes = [node for tree in trees for node in ast.walk(tree)]
    harmless = _harmless_names(nodes)
    calls = (node for node in nodes if isinstance(node, ast.Call))
    return max((_of(call, harmless) for call in calls), default=Writing.nothing)


def _harmless_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """What may be called by these names writes nothing that its own lines do not show."""
    names = set(HARMLESS | LIBRARIES) - {"open", "input"}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            names.update(each.id for each in node.targets if isinstance(each, ast.Name))
        elif isinstance(node, ast.Import):
            pure = [each for each in node.names if each.name.partition(".")[0] in _PURE]
            names.update(each.asname or each.name.partition(".")[0] for each in pure)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in _PURE:
            names.update(each.asname or each.name for each in node.names)
    return frozenset(names)


def _of(call: ast.Call, harmless: frozenset[str]) -> Writing:
    function = call.func
    if isinstance(function, ast.Name):
        if _WRITES.fullmatch(function.id):
            return Writing.plain
        if function.id == "open":
            return _of_open(call)
        return Writing.nothing if function.id in harmless else Writing.unseen
    if not isinstance(function, ast.Attribute):
        return Writing.unseen
    if _WRITES.fullmatch(function.attr):
        return Writing.plain
    root = _root_of(function)
    if isinstance(root, ast.Name) and root.id in harmless:
        return Writing.nothing
    return Writing.nothing if function.attr in _methods(_loaded()) else Writing.unseen


def _of_open(call: ast.Call) -> Writing:
    modes = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "mode")]
    if not modes:
        return Writing.nothing
    mode = modes[0].value if isinstance(modes[0], ast.Constant) else "w"
    return Writing.plain if set(str(mode)) & set("wax+") else Writing.nothing


def _root_of(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def _loaded() -> tuple[str, ...]:
    return tuple(name for name in ("altair", "numpy", "pandas", "polars") if name in sys.modules)


@lru_cache(maxsize=8)
def _methods(loaded: tuple[str, ...]) -> frozenset[str]:
    """The methods of the values that these libraries and the language work with."""
    found = set(_BUILT_IN | READING)
    for name in loaded:
        module = sys.modules[name]
        kinds = [getattr(module, each, None) for each in _KINDS]
        groups = getattr(getattr(module, "api", None), "typing", None)
        kinds += [getattr(groups, each) for each in dir(groups) if each[0].isupper()]
        series = getattr(module, "Series", None)
        kinds += [getattr(series, each, None) for each in ("str", "dt", "cat")]
        found.update(each for kind in kinds if kind is not None for each in dir(kind))
    return frozenset(found) - _STATEMENTS
