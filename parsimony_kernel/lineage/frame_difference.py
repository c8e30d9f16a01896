"""What differs between two frames: shape, columns, types and cells.

Columns that still share their memory are not looked at; of the others so many cells are compared
that it takes a second or two at most, and evenly spread rows where there are more. Rows are
matched by their labels where these say which is which, otherwise by place.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
# What is looked at of a value in the attrs of a frame.
_DEEPEST = 5
_MOST_ATTRIBUTES = 100
_NUMBERS = frozenset({int, float})


@dataclass
class Allowance:
    """The cells that may still be compared in one diff: plain ones, and all others."""

    plain: int
    costly: int

    @classmethod
    def of_a_diff(cls) -> "Allowance":
        """What there is for all of a diff."""
        return cls(MOST_PLAIN_CELLS, MOST_CELLS)

    def plain_step(self, cells: int) -> int:
        """Take for ``cells`` plain ones: every how manieth of them may be compared."""
        step = _step(cells, self.plain, MOST_PLAIN_CELLS)
        self.plain -= cells // step
        return step

    def costly_step(self, cells: int) -> int:
        """The same for others."""
        step = _step(cells, self.costly, MOST_CELLS)
        self.costly -= cells // step
        return step


def _step(cells: int, left: int, most: int) -> int:
    return max(1, -(-cells // max(left, most // _LEAST, 1)))


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
    others: tuple[tuple[str, str, str], ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every cell that both have was compared."""
        return self.compared >= self.common

    def __bool__(self) -> bool:
        return bool(
            not self.is_complete
            or self.rows[0] != self.rows[1]
            or self.columns_added
            or self.columns_removed
            or self.columns_renamed
            or self.dtypes
            or self.rows_added
            or self.rows_removed
            or self.is_reordered
            or self.cells
            or self.others
        )


@dataclass(frozen=True)
class _Table:
    """A frame as columns that can be taken by place; ``index`` only where rows have labels."""

    labels: list[Any]
    dtypes: list[str]
    rows: int
    column: Callable[[int], Any]
    part: Callable[[Any, Any], Any]
    index: Any = None


@dataclass(frozen=True)
class _Rows:
    """Which rows of two frames are the same ones: places in each, or ``None`` for all in order."""

    count: int
    before: Any = None
    after: Any = None
    added: int = 0
    removed: int = 0
    is_reordered: bool = False

    @property
    def by_place(self) -> bool:
        """Whether the first row of one is the first of the other, and so on."""
        return bool(self.count) and self.before is None


def frame_difference(
    before: Any,
    after: Any,
    is_changed: Callable[[Any], bool] = lambda value: False,
    allowance: Allowance | None = None,
) -> FrameDifference | None:
    """What differs between two frames of pandas, or of what narwhals reads.

    ``None`` where either is no frame. ``is_changed`` tells of an object in a cell whether it holds
    something else by now. Frames of pandas must be of its own classes. ``allowance`` is what may be
    compared, by default what a whole diff may.
    """
    one, other = _table(before), _table(after)
    if one is None or other is None:
        return None
    pairs, added, removed = _matched(one.labels, other.labels)
    rows = _matched_rows(one, other)
    comparison = _Comparison(one, other, rows, is_changed, allowance or Allowance.of_a_diff())
    renamed = comparison.renamed(removed, added)
    pairs += renamed
    comparison.run(pairs)
    others: list[tuple[str, str, str]] = []
    if one.index is not None and other.index is not None:
        others = [
            *_columns_apart(one, other, pairs),
            *_apart(before, after, is_changed, by_place=rows.by_place),
        ]
    told_removed = [n for n in removed if n not in {pair[0] for pair in renamed}]
    told_added = [n for n in added if n not in {pair[1] for pair in renamed}]
    return FrameDifference(
        (one.rows, other.rows),
        (len(one.labels), len(other.labels)),
        tuple(short(other.labels[n]) for n in told_added),
        tuple(short(one.labels[n]) for n in told_removed),
        tuple((short(one.labels[n]), short(other.labels[m])) for n, m in renamed),
        tuple(
            (short(other.labels[m]), one.dtypes[n], other.dtypes[m])
            for n, m in pairs
            if one.dtypes[n] != other.dtypes[m]
        ),
        rows.added,
        rows.removed,
        rows.is_reordered,
        comparison.found,
        comparison.compared,
        min(one.rows - rows.removed, other.rows - rows.added) * len(pairs),
        tuple(comparison.first),
        tuple(others),
    )


class _Comparison:
    """The cells of two frames, within what may be compared."""

    def __init__(
        self,
        one: _Table,
        other: _Table,
        rows: _Rows,
        is_changed: Callable[[Any], bool],
        allowance: Allowance,
    ) -> None:
        self._one, self._other, self._rows = one, other, rows
        self._is_changed, self._allowance = is_changed, allowance
        self.found = self.compared = 0
        self.first: list[Cell] = []

    def renamed(self, removed: Sequence[int], added: Sequence[int]) -> list[tuple[int, int]]:
        """The columns that have another label and the same memory."""
        left, found = list(added), []
        for n in removed:
            for m in left:
                if same_memory(_inside(self._one.column(n)), _inside(self._other.column(m))):
                    found.append((n, m))
                    left.remove(m)
                    break
        return found

    def run(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Compare the columns of ``pairs``."""
        rows, one, other = self._rows, self._one, self._other
        if not rows.count:
            return
        todo = []
        for n, m in pairs:
            columns = one.column(n), other.column(m)
            in_place = rows.before is None and same_memory(*map(_inside, columns))
            if in_place and not _holds_objects(columns[0]):
                self.compared += rows.count
            else:
                todo.append((m, *columns))
        plain = [each for each in todo if all(map(_is_plain, each[1:]))]
        costly = [each for each in todo if not all(map(_is_plain, each[1:]))]
        steps = (
            (plain, self._allowance.plain_step(len(plain) * rows.count)),
            (costly, self._allowance.costly_step(len(costly) * rows.count)),
        )
        for chosen, step in steps:
            for place, before, after in chosen:
                self._column(place, before, after, step)

    def _column(self, place: int, before: Any, after: Any, step: int) -> None:
        rows = self._rows
        for begin in range(0, rows.count, _CHUNK * step):
            where = slice(begin, min(begin + _CHUNK * step, rows.count), step)
            there = where if rows.before is None else rows.before[where]
            here = where if rows.after is None else rows.after[where]
            try:
                one, other = self._one.part(before, there), self._other.part(after, here)
            except Exception:  # boundary: user object - a column unknown to pandas
                return
            self.compared += len(one)
            places = _differing(one, other, self._is_changed)
            self.found += len(places)
            for each in places[: MOST_SHOWN - len(self.first)]:
                row = int(begin + each * step if rows.after is None else rows.after[where][each])
                label = row if self._other.index is None else self._other.index[row]
                self.first.append(
                    Cell(
                        short(label),
                        short(self._other.labels[place]),
                        short(one[each]),
                        short(other[each]),
                    )
                )


def _table(frame: Any) -> _Table | None:
    pandas = sys.modules.get("pandas")
    if pandas is not None and type(frame) is pandas.Series:
        return _Table(
            [frame.name], [str(frame.dtype)], len(frame), lambda _: frame, _pandas_part, frame.index
        )
    if pandas is not None and type(frame) is pandas.DataFrame:
        return _Table(
            list(frame.columns),
            [str(each) for each in frame.dtypes],
            len(frame),
            lambda n: frame.iloc[:, n],
            _pandas_part,
            frame.index,
        )
    if type(frame).__module__.partition(".")[0] not in ("polars", "pyarrow"):
        return None
    import narwhals as nw

    read = nw.from_native(frame, eager_only=True, pass_through=True)
    if not isinstance(read, nw.DataFrame):
        return None
    return _Table(
        list(read.columns),
        [str(each) for each in read.schema.values()],
        len(read),
        lambda n: read.get_column(read.columns[n]),
        lambda column, where: column[where].to_list(),
    )


def _columns_apart(
    one: _Table, other: _Table, pairs: Sequence[tuple[int, int]]
) -> Iterator[tuple[str, str, str]]:
    """The order of the columns of ``pairs``, by place in each, and their categories."""
    places = [m for _, m in sorted(pairs)]
    if places != sorted(places):
        yield "columns", "", "in another order"
    for n, m in pairs:
        a, b = one.column(n).dtype, other.column(m).dtype
        if not (hasattr(a, "categories") and hasattr(b, "categories")) or a is b:
            continue
        label = other.labels[m]
        what = "categories" if label is None else f"categories of {short(label)}"
        if not _same_labels(a.categories, b.categories):
            yield what, _some_labels(a.categories), _some_labels(b.categories)
        if a.ordered != b.ordered:
            yield what, _ordered(a.ordered), _ordered(b.ordered)


def _apart(
    before: Any, after: Any, is_changed: Callable[[Any], bool], *, by_place: bool
) -> Iterator[tuple[str, str, str]]:
    """What two frames of pandas have besides columns and cells, where it differs: of the labels
    of rows only where these were matched by place."""
    labels = before.index, after.index
    if by_place and not _same_labels(*labels):
        yield "row labels", _some_labels(labels[0]), _some_labels(labels[1])
    axes = zip(("index", "columns"), before.axes, after.axes, strict=False)
    for which, one, other in axes:
        was, now = list(one.names), list(other.names)
        if len(was) != len(now) or any(map(differs_from, was, now)):
            yield f"name of the {which}", _some_words(was), _some_words(now)
    yield from _attrs_apart(before.attrs, after.attrs, is_changed)
    allowed = [str(each.flags.allows_duplicate_labels) for each in (before, after)]
    if allowed[0] != allowed[1]:
        yield "flags.allows_duplicate_labels", allowed[0], allowed[1]


def _attrs_apart(
    before: dict[Any, Any], after: dict[Any, Any], is_changed: Callable[[Any], bool]
) -> Iterator[tuple[str, str, str]]:
    if not all(map(_is_known, (*before, *after))):
        if list(map(id, before)) != list(map(id, after)):
            yield "attrs", short(before), short(after)
        return
    for key in {**before, **after}:
        was, now = (short(each[key]) if key in each else "none" for each in (before, after))
        if (
            key not in before
            or key not in after
            or _attributes_differ(before[key], after[key], is_changed)
        ):
            yield f"attrs[{short(key)}]", was, now


def _attributes_differ(
    one: Any, other: Any, is_changed: Callable[[Any], bool], depth: int = 0
) -> bool:
    """Whether two values differ; pandas copies what lies in them from frame to frame."""
    if one is other:
        return is_changed(one)
    kind = type(one)
    if kind is not type(other) or kind not in (list, tuple, dict) or depth >= _DEEPEST:
        return differs_from(one, other)
    if len(one) != len(other) or len(one) > _MOST_ATTRIBUTES:
        return True
    keys = zip(one, other, strict=True) if kind is dict else ()
    values = (one.values(), other.values()) if kind is dict else (one, other)
    return any(differs_from(a, b) for a, b in keys) or any(
        _attributes_differ(a, b, is_changed, depth + 1) for a, b in zip(*values, strict=True)
    )


def _same_labels(one: Any, other: Any) -> bool:
    """Whether two indexes hold the same; ``True`` where only code of a person's could tell."""
    if one.is_(other) or one is other:
        return True
    if not (_is_safe(one) and _is_safe(other)):
        return True
    return len(one) == len(other) and bool(one.equals(other))


def _some_labels(labels: Any) -> str:
    return _some_words(list(labels[: MOST_SHOWN + 1]))


def _some_words(values: list[Any]) -> str:
    told = [short(each) for each in values[:MOST_SHOWN]]
    return ", ".join(told) + (" …" if len(values) > MOST_SHOWN else "")


def _ordered(is_ordered: bool | None) -> str:
    return "ordered" if is_ordered else "not ordered"


def _pandas_part(column: Any, where: Any) -> Any:
    part = column.iloc[where]
    if _is_plain(column):
        return part.to_numpy()
    if not _is_of_pandas(column.array):
        raise TypeError("only its own class could say what is in it")
    return part.tolist()


def _is_plain(column: Any) -> bool:
    """Whether a column holds numbers or times that numpy compares."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    numpy = sys.modules.get("numpy")
    return kind in "biufcmM" and numpy is not None and isinstance(column.dtype, numpy.dtype)


def _is_of_pandas(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "pandas"


def _holds_objects(column: Any) -> bool:
    numpy, dtype = sys.modules.get("numpy"), getattr(column, "dtype", None)
    return numpy is not None and isinstance(dtype, numpy.dtype) and dtype.kind == "O"


def _inside(column: Any) -> Any:
    """What same memory is told by: the array of a column of pandas."""
    if _is_plain(column) or not hasattr(column, "array"):
        return column.to_numpy() if _is_plain(column) else column
    return column.array


def _matched(
    one: list[Any], other: list[Any]
) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """The columns that both have, by place in each, those that are new, and those that are gone."""
    if not (_can_match(one) and _can_match(other)):
        both = min(len(one), len(other))
        pairs = [(n, n) for n in range(both)]
        return pairs, list(range(both, len(other))), list(range(both, len(one)))
    places = {label: n for n, label in enumerate(one)}
    pairs = [(places[label], m) for m, label in enumerate(other) if label in places]
    known = {n for n, _ in pairs}
    added = [m for m, label in enumerate(other) if label not in places]
    return pairs, added, [n for n in range(len(one)) if n not in known]


def _can_match(labels: list[Any]) -> bool:
    return all(map(_is_known, labels)) and len(set(labels)) == len(labels)


def _is_known(label: Any) -> bool:
    """Whether comparing ``label`` runs no code of a person's."""
    if type(label) is tuple:
        return all(map(_is_known, label))
    kind = type(label)
    known = kind in ATOMS and kind is not frozenset
    return known or kind.__module__ == "numpy" or is_scalar_of_pandas(kind)


def _matched_rows(one: _Table, other: _Table) -> _Rows:
    by_place = _Rows(one.rows if one.rows == other.rows else 0)
    if one.index is None or other.index is None:
        return by_place
    before, after = one.index, other.index
    try:
        if before.is_(after) or before is after:
            return by_place
        if not (_is_safe(before) and _is_safe(after)):
            return by_place
        if len(before) == len(after) and before.equals(after):
            return by_place
        if max(len(before), len(after)) > _MOST_LABELS:
            return by_place
        if not (before.is_unique and after.is_unique):
            return by_place
        places = before.get_indexer(after)
    except Exception:  # boundary: user object - labels of kinds that cannot be compared
        return by_place
    is_known = places >= 0
    known = places[is_known]
    count = len(known)
    if not count and len(before) == len(after):
        # Other labels for as many rows: they are taken for the same ones.
        return by_place
    return _Rows(
        count,
        known,
        is_known.nonzero()[0],
        len(after) - count,
        len(before) - count,
        bool((known[1:] < known[:-1]).any()),
    )


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
    return _is_of_pandas(index.array) and (index.dtype.kind != "O" or all(map(_is_known, index)))


def _differing(one: Any, other: Any, is_changed: Callable[[Any], bool]) -> Any:
    """The places at which two columns of one length differ; both missing is no difference."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(one, numpy.ndarray) and isinstance(other, numpy.ndarray):
        try:
            with numpy.errstate(all="ignore"):
                differs = one != other
                if differs.any():
                    differs &= ~((one != one) & (other != other))
            return differs.nonzero()[0]
        except Exception:  # boundary: user object - times beside numbers
            pass
    return [
        place
        for place, (a, b) in enumerate(zip(one, other, strict=True))
        if (is_changed(a) if a is b else differs_from(a, b))
    ]


def differs_from(one: Any, other: Any) -> bool:
    """Whether two single values differ. What is no plain value differs from all but itself."""
    if one is other or (is_missing(one) and is_missing(other)):
        return False
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        one = one.item() if type(one).__module__ == "numpy" and numpy.isscalar(one) else one
        other = (
            other.item() if type(other).__module__ == "numpy" and numpy.isscalar(other) else other
        )
    kinds = {type(one), type(other)}
    if not kinds <= _NUMBERS and len(kinds) != 1:
        return True
    if not (_is_known(one) and _is_known(other)):
        return True
    try:
        return not bool(one == other)
    except Exception:  # boundary: user object - kinds of pandas that cannot be compared
        return True
