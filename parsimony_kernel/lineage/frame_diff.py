"""What differs between two frames or arrays, in lines for people: columns, types, rows and cells.

Columns that still share their memory are not compared. Rows are matched by their labels where
these are unique, otherwise by place. No code of a person's is run.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.classes import (
    ATOMS,
    is_frame,
    is_missing,
    is_scalar_of_pandas,
    loaded,
    module_of,
    package_of,
)
from parsimony_kernel.lineage.copiers import same_memory
from parsimony_kernel.lineage.frame_copiers import frame_shape

MOST_CHARS = 60
MOST_SHOWN = 5
# Labels that are matched one by one.
_MOST_LABELS = 500_000
# Longer numbers are not written out.
_MOST_BITS = 512
_SIZED = frozenset({list, tuple, dict, set, frozenset, bytearray})
_TOO_MANY = "The other cells are too many to compare."
_UNMATCHED = "The rows cannot be matched, so their cells are not compared."
_name_of = type.__dict__["__name__"].__get__

Places = tuple[Any, Any]


class TooMany(Exception):
    """There is more to compare than the limit allows."""


@dataclass(frozen=True)
class Compare:
    """How values are compared, within a limit.

    Args:
        differ: whether two single values differ.
        take: asks to compare so many values, and whether they are plain numbers or times; raises
            ``TooMany``.
    """

    differ: Callable[[Any, Any], bool]
    take: Callable[[int, bool], None]


def frame_lines(before: Any, after: Any, compare: Compare) -> list[str]:
    """What differs between two frames or series; none where nothing does."""
    one, other = _table(before), _table(after)
    columns = _matched(one.columns, other.columns)
    there, here = _first(one.columns, other.columns) if columns is None else columns
    lines = [
        f"{plural('column', len(labels))} {what}: {listed(labels, 2 * MOST_SHOWN)}"
        for what, labels in (
            ("added", other.columns.delete(here)),
            ("removed", one.columns.delete(there)),
        )
        if len(labels)
    ]
    pairs = list(zip(there, here, strict=True))
    lines += list(_types(one, other, pairs))[:MOST_SHOWN]
    rows = _matched(one.index, other.index)
    if rows is None:
        return [*lines, _UNMATCHED]
    added, removed = (len(each.index) - len(rows[0]) for each in (other, one))
    if added or removed:
        lines.append(f"rows: {added:,} added, {removed:,} removed")
    if is_frame(type(before)) and is_frame(type(after)):
        if rows[0] is rows[1] and not _same_labels(one.index, other.index):
            lines.append(f"row labels: {listed(one.index)} → {listed(other.index)}")
        for what, places in (("rows", rows[0]), ("columns", there)):
            if (places[1:] < places[:-1]).any():
                lines.append(f"{what} in another order")
        kept = zip(_kept_beside(before, one), _kept_beside(after, other), strict=True)
        lines += [f"{what} changed" for (what, was), (_, now) in kept if compare.differ(was, now)]
    return [*lines, *_cell_lines(one, other, pairs, rows, compare)]


def is_table(value: Any) -> bool:
    """Whether ``value`` is a frame that can be compared, or a series of pandas."""
    polars, arrow = loaded("polars", "DataFrame"), loaded("pyarrow", "Table", "RecordBatch")
    return is_frame(type(value)) or type(value) in (*polars, *arrow)


def _table(value: Any) -> Any:
    """``value`` as a frame of pandas, sharing its memory where that is possible."""
    if type(value) in loaded("pandas", "Series"):
        return value.to_frame(value.name)
    if type(value) in loaded("pandas", "DataFrame"):
        return value
    if type(value) in loaded("polars", "DataFrame"):
        return value.to_pandas(use_pyarrow_extension_array=True)
    import pandas

    return value.to_pandas(types_mapper=pandas.ArrowDtype)


def _types(one: Any, other: Any, pairs: list[tuple[int, int]]) -> Iterator[str]:
    for n, m in pairs:
        was, now = one.dtypes.iloc[n], other.dtypes.iloc[m]
        if str(was) != str(now):
            yield f"column {short(other.columns[m])}: {was} → {now}"
        elif hasattr(was, "categories") and was != now:
            yield f"categories: {listed(was.categories)} → {listed(now.categories)}"


def _kept_beside(frame: Any, table: Any) -> tuple[tuple[str, Any], ...]:
    """What pandas keeps of a frame beside its cells and labels."""
    return (
        ("name of the index", tuple(frame.index.names)),
        ("name of the columns", tuple(table.columns.names)),
        ("attrs", frame.attrs),
        ("duplicate labels allowed", frame.flags.allows_duplicate_labels),
    )


# Which rows and columns are the same ones.


def _matched(before: Any, after: Any) -> Places | None:
    """The places in each of the labels that both have; the same array for both where labels are
    matched by place. ``None`` where they cannot be matched."""
    is_as_many = len(before) == len(after)
    if is_as_many and _same_labels(before, after):
        return _first(before, after)
    places = None
    if max(len(before), len(after)) <= _MOST_LABELS and _is_safe(before) and _is_safe(after):
        try:
            if before.is_unique and after.is_unique:
                places = before.get_indexer(after)
        except Exception:  # boundary: user object - labels of kinds that cannot be compared
            places = None
    # Other labels for as many rows: they are taken for the same ones.
    if places is None or (is_as_many and not (places >= 0).any()):
        return _first(before, after) if is_as_many else None
    found = places >= 0
    return places[found], found.nonzero()[0]


def _first(before: Any, after: Any) -> Places:
    places = sys.modules["numpy"].arange(min(len(before), len(after)))
    return places, places


def _is_safe(index: Any) -> bool:
    """Whether comparing the labels of ``index`` runs no code of a person's, nor too long."""
    if hasattr(index, "levels"):
        return len(index) <= _MOST_LABELS and all(map(_is_safe, index.levels))
    if hasattr(index, "categories") and hasattr(index, "codes"):
        return _is_safe(index.categories)
    if index.dtype.kind in "biufcmM":
        return True
    if len(index) > _MOST_LABELS or package_of(type(index.array)) != "pandas":
        return False
    return index.dtype.kind != "O" or all(map(is_known, index))


def _same_labels(one: Any, other: Any) -> bool:
    """Whether two indexes hold the same; ``True`` where only code of a person's could tell."""
    if one is other or one.is_(other) or not (_is_safe(one) and _is_safe(other)):
        return True
    return len(one) == len(other) and bool(one.equals(other))


# The cells


def _cell_lines(
    one: Any, other: Any, pairs: list[tuple[int, int]], rows: Places, compare: Compare
) -> list[str]:
    found, first, rest = 0, list[str](), list[str]()
    for n, m in pairs:
        was, now = one.iloc[:, n], other.iloc[:, m]
        is_plain = _is_plain(was) and _is_plain(now)
        may_hold = was.dtype == object  # what may have changed where it lies
        if rows[0] is rows[1] and not may_hold and same_memory(_inside(was), _inside(now)):
            continue
        try:
            compare.take(len(rows[0]), is_plain)
            old, new = _values(was.iloc[rows[0]]), _values(now.iloc[rows[1]])
        except Exception:  # boundary: user object - or too many, or a column unknown to pandas
            rest = [_TOO_MANY]
            continue
        places = differing(old, new, compare)
        found += len(places)
        for each in places[: MOST_SHOWN - len(first)]:
            label, column = short(other.index[rows[1][each]]), short(other.columns[m])
            first.append(f"  row {label}, column {column}: {_arrow(old[each], new[each])}")
    lines = [f"{found:,} {plural('cell', found)} changed", *first] if found else []
    if found > len(first):
        lines[-1] += " …"
    return [*lines, *rest]


def array_lines(one: Any, other: Any, compare: Compare) -> list[str] | None:
    """What differs between two arrays; ``None`` where they cannot be compared by place."""
    if one.shape != other.shape or one.dtype != other.dtype or one.dtype.kind not in "biufcmMSU":
        return None
    compare.take(one.size, True)
    a, b = one.reshape(-1), other.reshape(-1)
    places = differing(a, b, compare)
    lines = [f"{len(places):,} {plural('item', len(places))} changed"] if len(places) else []
    for each in places[:MOST_SHOWN]:
        place = tuple(map(int, sys.modules["numpy"].unravel_index(each, one.shape)))
        lines.append(f"  {place[0] if len(place) == 1 else place}: {_arrow(a[each], b[each])}")
    return lines


def differing(one: Any, other: Any, compare: Compare) -> Any:
    """The places at which two columns of one length differ; both missing is no difference."""
    arrays = loaded("numpy", "ndarray")
    if isinstance(one, arrays) and isinstance(other, arrays):
        try:
            with sys.modules["numpy"].errstate(all="ignore"):
                differs = one != other
                if differs.any():
                    differs &= ~((one != one) & (other != other))
            return differs.nonzero()[0]
        except Exception:  # boundary: user object - times beside numbers
            pass
    pairs = enumerate(zip(one, other, strict=True))
    return [place for place, pair in pairs if compare.differ(*pair)]


def _values(column: Any) -> Any:
    if _is_plain(column):
        return column.to_numpy()
    if package_of(type(column.array)) != "pandas":
        raise TypeError("only its own class could say what is in it")
    return column.tolist()


def _is_plain(column: Any) -> bool:
    """Whether a column holds numbers or times that numpy compares."""
    return isinstance(column.dtype, loaded("numpy", "dtype")) and column.dtype.kind in "biufcmM"


def _inside(column: Any) -> Any:
    """What same memory is told by."""
    return column.to_numpy() if _is_plain(column) else column.array


# Single values, in words and compared


def short(value: Any) -> str:
    """``value`` in at most sixty characters."""
    kind = type(value)
    try:
        told = _told(value, kind)
    except Exception:  # boundary: user object - what it answers may be anything
        told = str(_name_of(kind))
    return told if len(told) <= MOST_CHARS else told[: MOST_CHARS - 1] + "…"


def _told(value: Any, kind: type) -> str:
    if is_missing(value) and value is not None:
        return "missing"
    if kind is int and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length():,} bits"
    if kind in (str, bytes):
        return repr(value[: MOST_CHARS + 1])
    if kind in _SIZED:
        return f"{_name_of(kind)} of {len(value):,}"
    if kind in ATOMS and kind is not slice:
        return repr(value)
    if is_frame(kind):
        return f"{_name_of(kind)}, {_by(frame_shape(value))}"
    if kind in loaded("numpy", "ndarray"):
        return f"array of {value.dtype.name}, {_by(value.shape) or 'one value'}"
    if issubclass(kind, loaded("numpy", "generic")) and module_of(kind) == "numpy":
        return short(value.item()) if kind is not type(value.item()) else str(_name_of(kind))
    if is_scalar_of_pandas(kind):
        return str(value)
    if package_of(kind) in ("polars", "pyarrow") and hasattr(kind, "shape"):
        return f"{_name_of(kind)}, {_by(value.shape)}"
    return f"class {_name_of(value)}" if issubclass(kind, type) else str(_name_of(kind))


def _by(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{each:,}" for each in shape)


def _arrow(was: Any, now: Any) -> str:
    return f"{short(was)} → {short(now)}"


def listed(labels: Any, most: int = MOST_SHOWN) -> str:
    """The first of ``labels``, in words."""
    return ", ".join(map(short, labels[:most])) + (" …" if len(labels) > most else "")


def differs_from(one: Any, other: Any) -> bool:
    """Whether two single values differ. What is no plain value differs from all but itself."""
    if one is other or (is_missing(one) and is_missing(other)):
        return False
    scalars = loaded("numpy", "generic")
    one, other = (each.item() if isinstance(each, scalars) else each for each in (one, other))
    kinds = {type(one), type(other)}
    if (not kinds <= {int, float} and len(kinds) != 1) or not (is_known(one) and is_known(other)):
        return True
    try:
        return not bool(one == other)
    except Exception:  # boundary: user object - kinds of pandas that cannot be compared
        return True


def is_known(label: Any) -> bool:
    """Whether comparing ``label`` runs no code of a person's."""
    kind = type(label)
    if kind is tuple:
        return all(map(is_known, label))
    is_atom = kind in ATOMS and kind is not frozenset
    return is_atom or module_of(kind) == "numpy" or is_scalar_of_pandas(kind)
