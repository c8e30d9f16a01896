"""What differs between two frames or arrays, in lines for people: columns, types, rows and cells.

Columns that still share their memory are not looked at. Rows are matched by their labels where
these say which is which, otherwise by place. No code of a person's is run.
"""

import datetime
import decimal
import fractions
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

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
_WRITTEN = frozenset(
    {
        bool, int, float, complex, str, bytes, type(None), range, datetime.date, datetime.datetime,
        datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID,
    }
)  # fmt: skip
_SIZED = frozenset({list, tuple, dict, set, frozenset, bytearray})
_name_of = type.__dict__["__name__"].__get__


class Compare(Protocol):
    """Compares single values, and says how many may be compared."""

    def differ(self, one: Any, other: Any) -> bool: ...

    def afford(self, count: int, *, is_plain: bool) -> int: ...


def frame_lines(before: Any, after: Any, compare: Compare) -> list[str]:
    """What differs between two frames or series; none where nothing does."""
    one, other = _table(before), _table(after)
    columns = _match(one.columns, other.columns) or _by_place(one.columns, other.columns)
    lines = [
        f"{plural('column', len(places))} {what}: {listed(labels[places], 2 * MOST_SHOWN)}"
        for what, labels, places in (
            ("added", other.columns, columns.added),
            ("removed", one.columns, columns.removed),
        )
        if len(places)
    ]
    pairs = list(zip(columns.there, columns.here, strict=True))
    types = [(str(one.dtypes.iloc[n]), str(other.dtypes.iloc[m]), m) for n, m in pairs]
    changed = [each for each in types if each[0] != each[1]]
    lines += [
        f"column {short(other.columns[m])}: {was} → {now}" for was, now, m in changed[:MOST_SHOWN]
    ]
    rows = _match(one.index, other.index)
    if rows is None:
        return [*lines, "The rows cannot be matched, so their cells are not compared."]
    if len(rows.added) or len(rows.removed):
        lines.append(f"rows: {len(rows.added):,} added, {len(rows.removed):,} removed")
    if is_frame(type(before)) and is_frame(type(after)):
        lines += _besides((before, one), (after, other), pairs, rows, compare)
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


# Which rows and columns are the same ones.


@dataclass(frozen=True)
class _Matched:
    """The places in each of the labels that both have, and of those that are new and gone."""

    there: Any
    here: Any
    added: Any
    removed: Any

    @property
    def by_place(self) -> bool:
        return self.there is self.here


def _match(before: Any, after: Any) -> _Matched | None:
    """``None`` where the labels cannot be told apart, and there are not as many as before."""
    numpy = sys.modules["numpy"]
    is_as_many = len(before) == len(after)
    by_place = _by_place(before, after) if is_as_many else None
    if by_place is not None and _same_labels(before, after):
        return by_place
    places = _places(before, after)
    # Other labels for as many rows: they are taken for the same ones.
    if places is None or (is_as_many and not (places >= 0).any()):
        return by_place
    found = places >= 0
    gone = numpy.setdiff1d(numpy.arange(len(before)), places)
    return _Matched(places[found], found.nonzero()[0], (~found).nonzero()[0], gone)


def _by_place(before: Any, after: Any) -> _Matched:
    arange, both = sys.modules["numpy"].arange, min(len(before), len(after))
    places = arange(both)
    return _Matched(places, places, arange(both, len(after)), arange(both, len(before)))


def _places(before: Any, after: Any) -> Any:
    """Where each label of ``after`` stands in ``before``, -1 for none; ``None`` where they cannot
    be told apart."""
    if max(len(before), len(after)) > _MOST_LABELS:
        return None
    try:
        if _is_safe(before) and _is_safe(after) and before.is_unique and after.is_unique:
            return before.get_indexer(after)
    except Exception:  # boundary: user object - labels of kinds that cannot be compared
        pass
    return None


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


def _besides(
    before: tuple[Any, Any],
    after: tuple[Any, Any],
    pairs: list[tuple[int, int]],
    rows: _Matched,
    compare: Compare,
) -> Iterator[str]:
    """What pandas keeps of a frame beside its cells: labels, order, categories, names, attrs."""
    (_, one), (_, other) = before, after
    if rows.by_place and not _same_labels(one.index, other.index):
        yield f"row labels: {listed(one.index)} → {listed(other.index)}"
    if (rows.there[1:] < rows.there[:-1]).any():
        yield "rows in another order"
    if (places := [n for n, _ in pairs]) != sorted(places):
        yield "columns: in another order"
    for n, m in pairs:
        was, now = one.dtypes.iloc[n], other.dtypes.iloc[m]
        if hasattr(was, "categories") and hasattr(now, "categories") and was != now:
            yield f"categories: {listed(was.categories)} → {listed(now.categories)}"
    kept = [
        {
            "name of the index": tuple(frame.index.names),
            "name of the columns": tuple(table.columns.names),
            "attrs": frame.attrs,
            "duplicate labels allowed": frame.flags.allows_duplicate_labels,
        }
        for frame, table in (before, after)
    ]
    for what, was in kept[0].items():
        if compare.differ(was, now := kept[1][what]):
            is_told = not isinstance(was, dict | tuple)
            yield f"{what}: {short(was)} → {short(now)}" if is_told else f"{what} changed"


# The cells


def _cell_lines(
    one: Any, other: Any, pairs: list[tuple[int, int]], rows: _Matched, compare: Compare
) -> list[str]:
    found, first, least = 0, list[str](), len(rows.there)
    for n, m in pairs:
        was, now = one.iloc[:, n], other.iloc[:, m]
        is_plain = _is_plain(was) and _is_plain(now)
        may_hold = was.dtype == object  # what may have changed where it lies
        if rows.by_place and not may_hold and same_memory(_inside(was), _inside(now)):
            continue
        count = compare.afford(len(rows.there), is_plain=is_plain)
        try:
            old, new = _values(was.iloc[rows.there[:count]]), _values(now.iloc[rows.here[:count]])
        except Exception:  # boundary: user object - a column unknown to pandas
            count = 0
            old = new = []
        least = min(least, count)
        places = differing(old, new, compare)
        found += len(places)
        for each in places[: MOST_SHOWN - len(first)]:
            words = map(
                short, (other.index[rows.here[each]], other.columns[m], old[each], new[each])
            )
            first.append("  row {}, column {}: {} → {}".format(*words))
    lines = [f"{found:,} {plural('cell', found)} changed", *first] if found else []
    if found > len(first):
        lines[-1] += " …"
    if least < len(rows.there):
        lines.append(f"Not compared in full: of {len(rows.there):,} rows the first {least:,}.")
    return lines


def array_lines(one: Any, other: Any, compare: Compare) -> list[str] | None:
    """What differs between two arrays; ``None`` where they cannot be compared by place."""
    if one.shape != other.shape or one.dtype != other.dtype or one.dtype.kind not in "biufcmMSU":
        return None
    count = compare.afford(one.size, is_plain=True)
    a, b = one.reshape(-1)[:count], other.reshape(-1)[:count]
    places = differing(a, b, compare)
    lines = [f"{len(places):,} {plural('item', len(places))} changed"] if len(places) else []
    for each in places[:MOST_SHOWN]:
        place = tuple(map(int, sys.modules["numpy"].unravel_index(each, one.shape)))
        where = place[0] if len(place) == 1 else place
        lines.append(f"  {where}: {short(a[each])} → {short(b[each])}")
    if count < one.size:
        lines.append(f"Not compared in full: of {one.size:,} items the first {count:,}.")
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
    if kind in _WRITTEN:
        return repr(value)
    if kind in _SIZED:
        return f"{_name_of(kind)} of {len(value):,}"
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
