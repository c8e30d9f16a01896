"""What code that ran may have written outside, from its syntax alone.

A call whose doing cannot be seen may have written: when in doubt, it did.
"""

import re
import sys
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache

from parsimony_kernel.analysis.calls import HARMLESS, LIBRARIES, READS_COLUMNS, names
from parsimony_kernel.analysis.cell import Call
from parsimony_kernel.analysis.read import read

MAX_PARSED = 50_000

_COMMENT = re.compile(
    r"(\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|#[^\n]*", re.DOTALL
)
_WRITES = re.compile(
    r"to_(?:csv|parquet|excel|json|html|pickle|feather|sql|markdown|latex|stata|hdf|orc|file|xml)"
    r"|write\w*|sink_\w+|save\w*|dump"
)
_PURE = names("modules", "pure")
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
    cells = [read(code) for code in codes]
    if any(cell.error or cell.magics for cell in cells):
        return Writing.unseen
    # What may be called by these names writes nothing that its own lines do not show.
    harmless = (HARMLESS | LIBRARIES) - {"open", "input"}
    for cell in cells:
        harmless |= cell.defined
        harmless |= {name for name, home in cell.modules if re.split("[.:]", home)[0] in _PURE}
    calls = (call for cell in cells for call in cell.calls)
    return max((_of(call, harmless) for call in calls), default=Writing.nothing)


def _of(call: Call, harmless: frozenset[str]) -> Writing:
    if _WRITES.fullmatch(call.last):
        return Writing.plain
    if call.name == "open":
        return Writing.plain if set(call.mode or "") & set("wax+?") else Writing.nothing
    if call.name and call.root in harmless:
        return Writing.nothing
    is_method = call.name != call.root and call.last in _methods(_loaded())
    return Writing.nothing if is_method else Writing.unseen


def _loaded() -> tuple[str, ...]:
    return tuple(name for name in ("altair", "numpy", "pandas", "polars") if name in sys.modules)


@lru_cache(maxsize=8)
def _methods(loaded: tuple[str, ...]) -> frozenset[str]:
    """The methods of the values that these libraries and the language work with."""
    found = set(_BUILT_IN | READS_COLUMNS)
    for name in loaded:
        module = sys.modules[name]
        kinds = [getattr(module, each, None) for each in _KINDS]
        groups = getattr(getattr(module, "api", None), "typing", None)
        kinds += [getattr(groups, each) for each in dir(groups) if each[0].isupper()]
        series = getattr(module, "Series", None)
        kinds += [getattr(series, each, None) for each in ("str", "dt", "cat")]
        found.update(each for kind in kinds if kind is not None for each in dir(kind))
    return frozenset(found) - _STATEMENTS
