"""What differs between two frames: shape, columns, types and cells.

Columns that still share their memory are not looked at; of the others so many cells are compared
that it takes a second or two at most, and evenly spread rows where there are more. Rows are
matched by their labels where these say which is which, otherwise by place.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.lineage.classes import is_frame, loaded, module_of, package_of
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_missing, is_scalar_of_pandas
from parsimony_kernel.lineage.kinds.plain import same_memory
from parsimony_kernel.lineage.short import short

# Cells that are compared in full: numbers and times, and everything else.
MOST_PLAIN_CELLS = 10_000_000
MOST_CELLS = 100_000
MOST_SHOWN = 5
# Of these a frame may always have one in so many, however many came before it.
_LEAST = 100
# Row labels that are matched one by one.
_MOST_LABELS = 500_000
_CHUNK = 1_000_000
_NUMBERS = frozenset({int, float})

Differ = Callable[[Any, Any], bool]
Other = tuple[str, str, str]


class Allowance:
    """The cells that may still be compared in one diff: plain ones, and all others."""

    def __init__(self) -> None:
        self._left = [MOST_PLAIN_CELLS, MOST_CELLS]

    def step(self, cells: int, *, costly: bool = False) -> int:
        """Take for ``cells``: every how manieth of them may be compared."""
        least = (MOST_PLAIN_CELLS, MOST_CELLS)[costly] // _LEAST
        step = max(1, -(-cells // max(self._left[costly], least, 1)))
        self._left[costly] -= cells // step
        return step


@dataclass(frozen=True)
class Cell:
    """One cell that differs, in words."""

    row: str
    column: str
    before: str
    after: str


@dataclass(frozen=True)
class FrameDifference:
    """What differs between two frames.

    ``cells`` counts those that differ among ``compared`` of ``common``: the cells in rows and
    columns that both have. Where rows cannot be told apart nothing is compared. Labels and values
    are in words; ``first`` are the first cells that differ. ``others`` are what else pandas keeps
    of a frame, before and after: names of its axes, categories, ``attrs``, flags.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    columns_renamed: tuple[tuple[str, str], ...] = ()
    dtypes: tuple[tuple[str, str, str], ...] = ()
    rows_added: int = 0
    rows_removed: int = 0
    is_reordered: bool = False
    cells: int = 0
    compared: int = 0
    common: int = 0
    first: tuple[Cell, ...] = ()
    others: tuple[Other, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every cell that both have was compared."""
        return self.compared >= self.common

    def __bool__(self) -> bool:
        same = FrameDifference(
            (self.rows[0],) * 2, self.columns, compared=self.compared, common=self.common
        )
        return not self.is_complete or self != same


def differs_from(one: Any, other: Any) -> bool:
    """Whether two single values differ. What is no plain value differs from all but itself."""
    if one is other or (is_missing(one) and is_missing(other)):
        return False
    scalars = loaded("numpy", "generic")
    one, other = (each.item() if isinstance(each, scalars) else each for each in (one, other))
    kinds = {type(one), type(other)}
    if not kinds <= _NUMBERS and len(kinds) != 1:
        return True
    if not (is_known(one) and is_known(other)):
        return True
    try:
        return not bool(one == other)
    except Exception:  # boundary: user object - kinds of pandas that cannot be compared
        return True


def is_known(label: Any) -> bool:
    """Whether comparing ``label`` runs no code of a person's."""
    if type(label) is tuple:
        return all(map(is_known, label))
    kind = type(label)
    known = kind in ATOMS and kind is not frozenset
    return known or module_of(kind) == "numpy" or is_scalar_of_pandas(kind)


def frame_difference(
    before: Any, after: Any, differ: Differ = differs_from, allowance: Allowance | None = None
) -> FrameDifference | None:
    """What differs between two frames of pandas, of its own classes, or of polars or pyarrow.

    Args:
        differ: whether two objects in cells hold something else.
        allowance: what may be compared, by default what a whole diff may.

    Returns:
        ``None`` where either is no frame.
    """
    one, other = _table(before), _table(after)
    if one is None or other is None:
        return None
    has_labels = is_frame(type(before)) and is_frame(type(after))
    rows = _matched_rows(one.index, other.index) if has_labels else _by_place(one, other)
    pairs, added, removed = _matched_columns(one.columns, other.columns)
    renamed = _renamed(one, other, removed, added)
    pairs += renamed
    comparison = _Comparison(one, other, rows, differ)
    comparison.run(pairs, allowance or Allowance())
    others: list[Other] = []
    if has_labels:
        others += _columns_apart(one, other, pairs)
        if rows.by_place and not _same_labels(one.index, other.index):
            others.append(("row labels", _some(one.index), _some(other.index)))
        others += _apart(before, after, differ)
    old, new = ([short(each) for each in frame.columns] for frame in (one, other))
    types = [[str(each) for each in frame.dtypes] for frame in (one, other)]
    return FrameDifference(
        (len(one), len(other)),
        (len(old), len(new)),
        tuple(new[m] for m in added if m not in {pair[1] for pair in renamed}),
        tuple(old[n] for n in removed if n not in {pair[0] for pair in renamed}),
        tuple((old[n], new[m]) for n, m in renamed),
        tuple((new[m], types[0][n], types[1][m]) for n, m in pairs if types[0][n] != types[1][m]),
        rows.added,
        rows.removed,
        rows.is_reordered,
        comparison.found,
        comparison.compared,
        min(len(one) - rows.removed, len(other) - rows.added) * len(pairs),
        tuple(comparison.first),
        tuple(others),
    )


def is_table(value: Any) -> bool:
    """Whether ``value`` is a frame that can be compared, or a series of pandas."""
    return is_frame(type(value)) or type(value) in (*_polars(), *_arrow())


def _polars() -> tuple[Any, ...]:
    return loaded("polars", "DataFrame")


def _arrow() -> tuple[Any, ...]:
    return loaded("pyarrow", "Table", "RecordBatch")


def _table(value: Any) -> Any:
    """``value`` as a frame of pandas, sharing its memory where that is possible."""
    if type(value) in loaded("pandas", "Series"):
        return value.to_frame(value.name)
    if type(value) in loaded("pandas", "DataFrame"):
        return value
    if type(value) in _polars():
        return value.to_pandas(use_pyarrow_extension_array=True)
    if type(value) in _arrow():
        import pandas

        return value.to_pandas(types_mapper=pandas.ArrowDtype)
    return None


@dataclass(frozen=True)
class _Rows:
    """Which rows of two frames are the same ones: places in each, or ``None`` for all in order."""

    count: int
    places: tuple[Any, Any] = (None, None)
    added: int = 0
    removed: int = 0
    is_reordered: bool = False

    @property
    def by_place(self) -> bool:
        """Whether the first row of one is the first of the other, and so on."""
        return bool(self.count) and self.places[0] is None


def _by_place(before: Any, after: Any) -> _Rows:
    return _Rows(len(before) if len(before) == len(after) else 0)


def _matched_rows(before: Any, after: Any) -> _Rows:
    by_place = _by_place(before, after)
    if max(len(before), len(after)) > _MOST_LABELS:
        return by_place
    if by_place.count and _same_labels(before, after):
        return by_place
    places = _places(before, after)
    if places is None:
        return by_place
    known = places[places >= 0]
    if not len(known) and by_place.count:
        # Other labels for as many rows: they are taken for the same ones.
        return by_place
    added, removed = len(after) - len(known), len(before) - len(known)
    here = (places >= 0).nonzero()[0]
    return _Rows(len(known), (known, here), added, removed, bool((known[1:] < known[:-1]).any()))


def _matched_columns(before: Any, after: Any) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """The columns that both have, by place in each, those that are new, and those that are gone."""
    places = _places(before, after)
    if places is None:
        both = min(len(before), len(after))
        pairs = [(n, n) for n in range(both)]
        return pairs, list(range(both, len(after))), list(range(both, len(before)))
    pairs = [(int(n), m) for m, n in enumerate(places) if n >= 0]
    added = [m for m, n in enumerate(places) if n < 0]
    return pairs, added, sorted(set(range(len(before))) - {n for n, _ in pairs})


def _places(before: Any, after: Any) -> Any:
    """Where each label of ``after`` stands in ``before``, -1 for none; ``None`` where they cannot
    be told apart."""
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
    if len(index) > _MOST_LABELS:
        return False
    return _is_of_pandas(index.array) and (index.dtype.kind != "O" or all(map(is_known, index)))


def _same_labels(one: Any, other: Any) -> bool:
    """Whether two indexes hold the same; ``True`` where only code of a person's could tell."""
    if one.is_(other) or one is other or not (_is_safe(one) and _is_safe(other)):
        return True
    return len(one) == len(other) and bool(one.equals(other))


def _renamed(
    one: Any, other: Any, removed: Sequence[int], added: Sequence[int]
) -> list[tuple[int, int]]:
    """The columns that have another label and the same memory."""
    left, found = list(added), []
    for n in removed:
        for m in left:
            if same_memory(_inside(one.iloc[:, n]), _inside(other.iloc[:, m])):
                found.append((n, m))
                left.remove(m)
                break
    return found


class _Comparison:
    """The cells of two frames, within what may be compared."""

    def __init__(self, one: Any, other: Any, rows: _Rows, differ: Differ) -> None:
        self._one, self._other, self._rows, self._differ = one, other, rows, differ
        self.found = self.compared = 0
        self.first: list[Cell] = []

    def run(self, pairs: Sequence[tuple[int, int]], allowance: Allowance) -> None:
        """Compare the columns of ``pairs``."""
        rows, todo = self._rows, list[tuple[bool, int, Any, Any]]()
        for n, m in pairs if rows.count else ():
            before, after = self._one.iloc[:, n], self._other.iloc[:, m]
            in_place = rows.by_place and same_memory(_inside(before), _inside(after))
            if in_place and not (_is_of_numpy(before) and before.dtype.kind == "O"):
                self.compared += rows.count
            else:
                todo.append((not (_is_plain(before) and _is_plain(after)), m, before, after))
        for costly in (False, True):
            chosen = [columns for is_costly, *columns in todo if is_costly is costly]
            step = allowance.step(len(chosen) * rows.count, costly=costly)
            for place, before, after in chosen:
                self._column(place, before, after, step)

    def _column(self, place: int, before: Any, after: Any, step: int) -> None:
        rows = self._rows
        for begin in range(0, rows.count, _CHUNK * step):
            where: Any = slice(begin, min(begin + _CHUNK * step, rows.count), step)
            there, here = (where if each is None else each[where] for each in rows.places)
            try:
                one, other = _values(before.iloc[there]), _values(after.iloc[here])
            except Exception:  # boundary: user object - a column unknown to pandas
                return
            self.compared += len(one)
            places = differing(one, other, self._differ)
            self.found += len(places)
            for each in places[: MOST_SHOWN - len(self.first)]:
                row = begin + each * step if rows.by_place else here[each]
                words = (self._other.index[row], self._other.columns[place], one[each], other[each])
                self.first.append(Cell(*map(short, words)))


def differing(one: Any, other: Any, differ: Differ) -> Any:
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
    return [place for place, pair in enumerate(zip(one, other, strict=True)) if differ(*pair)]


def _values(column: Any) -> Any:
    if _is_plain(column):
        return column.to_numpy()
    if not _is_of_pandas(column.array):
        raise TypeError("only its own class could say what is in it")
    return column.tolist()


def _is_plain(column: Any) -> bool:
    """Whether a column holds numbers or times that numpy compares."""
    return _is_of_numpy(column) and column.dtype.kind in "biufcmM"


def _is_of_numpy(column: Any) -> bool:
    return isinstance(column.dtype, loaded("numpy", "dtype"))


def _is_of_pandas(array: Any) -> bool:
    return package_of(type(array)) == "pandas"


def _inside(column: Any) -> Any:
    """What same memory is told by."""
    return column.to_numpy() if _is_plain(column) else column.array


def _columns_apart(one: Any, other: Any, pairs: Sequence[tuple[int, int]]) -> Iterator[Other]:
    """The order of the columns of ``pairs``, by place in each, and their categories."""
    places = [m for _, m in sorted(pairs)]
    if places != sorted(places):
        yield "columns", "", "in another order"
    for n, m in pairs:
        a, b = one.dtypes.iloc[n], other.dtypes.iloc[m]
        if not (hasattr(a, "categories") and hasattr(b, "categories")) or a is b:
            continue
        label = other.columns[m]
        what = "categories" if label is None else f"categories of {short(label)}"
        if not _same_labels(a.categories, b.categories):
            yield what, _some(a.categories), _some(b.categories)
        if a.ordered != b.ordered:
            was, now = ("ordered" if each.ordered else "not ordered" for each in (a, b))
            yield what, was, now


def _apart(before: Any, after: Any, differ: Differ) -> Iterator[Other]:
    """What two frames of pandas have besides columns and cells, where it differs."""
    axes = zip(("index", "columns"), before.axes, after.axes, strict=False)
    for which, one, other in axes:
        names = list(one.names), list(other.names)
        if len(names[0]) != len(names[1]) or any(map(differs_from, *names)):
            yield f"name of the {which}", _some(names[0]), _some(names[1])
    old, new = before.attrs, after.attrs
    if not all(map(is_known, (*old, *new))):
        if list(map(id, old)) != list(map(id, new)):
            yield "attrs", short(old), short(new)
    else:
        for key in {**old, **new}:
            if key not in old or key not in new or differ(old[key], new[key]):
                was, now = (short(each[key]) if key in each else "none" for each in (old, new))
                yield f"attrs[{short(key)}]", was, now
    allowed = [str(each.flags.allows_duplicate_labels) for each in (before, after)]
    if allowed[0] != allowed[1]:
        yield "flags.allows_duplicate_labels", allowed[0], allowed[1]


def _some(values: Any) -> str:
    told = [short(each) for each in values[:MOST_SHOWN]]
    return ", ".join(told) + (" …" if len(values) > MOST_SHOWN else "")
