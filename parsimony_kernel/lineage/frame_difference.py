"""What differs between two frames, in lines for people: shape, columns, types and cells.

Columns that still share their memory are not looked at; of the others evenly spread rows are
compared where there are too many. Rows are matched by their labels where these say which is which,
otherwise by place.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.lineage.classes import is_frame, loaded, module_of, package_of
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_missing, is_scalar_of_pandas
from parsimony_kernel.lineage.kinds.plain import same_memory
from parsimony_kernel.lineage.short import short

# Objects that are looked at in one diff; of one variable always one in so many of that.
MOST = 200_000
_LEAST = 100
# Numbers and times in columns and arrays that are compared for the price of one object.
PLAIN = 100
MOST_SHOWN = 5
# Row labels that are matched one by one.
_MOST_LABELS = 500_000
_NUMBERS = frozenset({int, float})

Differ = Callable[[Any, Any], bool]
Pairs = list[tuple[int, int]]


class Room:
    """How many objects may still be looked at in one diff."""

    def __init__(self) -> None:
        self.left = MOST

    def begin(self) -> None:
        """Another variable is looked at."""
        self.left = max(self.left, MOST // _LEAST)

    def step(self, objects: int) -> int:
        """Take for ``objects``: every how manieth of them may be looked at."""
        step = max(1, -(-objects // max(self.left, MOST // _LEAST, 1)))
        self.left -= objects // step
        return step


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


def is_table(value: Any) -> bool:
    """Whether ``value`` is a frame that can be compared, or a series of pandas."""
    return is_frame(type(value)) or type(value) in (*_polars(), *_arrow())


def frame_lines(before: Any, after: Any, differ: Differ, room: Room) -> list[str] | None:
    """What differs between two frames of pandas, of its own classes, or of polars or pyarrow.

    Args:
        differ: whether two objects in cells hold something else.

    Returns:
        Lines, none where nothing differs; ``None`` where either is no frame.
    """
    one, other = _table(before), _table(after)
    if one is None or other is None:
        return None
    has_labels = is_frame(type(before)) and is_frame(type(after))
    rows = _rows(one.index, other.index, has_labels=has_labels)
    pairs, added, removed = _columns(one.columns, other.columns)
    renamed = _renamed(one, other, removed, added)
    lines = [
        f"{plural('column', len(places))} {what}: {_listed(frame.columns[places], 2 * MOST_SHOWN)}"
        for frame, places, what in (
            (other, [m for m in added if m not in dict(renamed).values()], "added"),
            (one, [n for n in removed if n not in dict(renamed)], "removed"),
        )
        if places
    ]
    old, new = ([short(each) for each in frame.columns] for frame in (one, other))
    lines += [f"column {old[n]} is {new[m]} now" for n, m in renamed[:MOST_SHOWN]]
    pairs += renamed
    types = [(n, m) for n, m in pairs if str(one.dtypes.iloc[n]) != str(other.dtypes.iloc[m])]
    for n, m in types[:MOST_SHOWN]:
        lines.append(f"column {new[m]}: {one.dtypes.iloc[n]} → {other.dtypes.iloc[m]}")
    if rows.added or rows.removed:
        lines.append(f"rows: {rows.added:,} added, {rows.removed:,} removed")
    elif len(one) != len(other):
        lines.append("The rows cannot be matched, so their cells are not compared.")
    if rows.is_reordered:
        lines.append("rows in another order")
    if has_labels:
        lines += list(_besides((before, one), (after, other), pairs, rows, differ))
    return lines + _cell_lines(one, other, pairs, rows, differ, room)


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


# Which rows and columns are the same ones.


@dataclass(frozen=True)
class _Rows:
    """How many rows both frames have: at places in each, or, without any, all in order."""

    count: int
    there: Any = None
    here: Any = None
    added: int = 0
    removed: int = 0
    is_reordered: bool = False

    @property
    def by_place(self) -> bool:
        return bool(self.count) and self.there is None


def _rows(before: Any, after: Any, *, has_labels: bool) -> _Rows:
    by_place = _Rows(len(before) if len(before) == len(after) else 0)
    is_many = max(len(before), len(after)) > _MOST_LABELS
    if not has_labels or is_many or (by_place.count and _same_labels(before, after)):
        return by_place
    places = _places(before, after)
    # Other labels for as many rows: they are taken for the same ones.
    if places is None or (by_place.count and not (places >= 0).any()):
        return by_place
    there = places[places >= 0]
    added, removed = len(after) - len(there), len(before) - len(there)
    is_reordered = bool((there[1:] < there[:-1]).any())
    return _Rows(len(there), there, (places >= 0).nonzero()[0], added, removed, is_reordered)


def _columns(before: Any, after: Any) -> tuple[Pairs, list[int], list[int]]:
    """The columns that both have, by place in each, those that are new, and those that are gone."""
    places = _places(before, after)
    if places is None:
        places = [m if m < len(before) else -1 for m in range(len(after))]
    pairs = [(int(n), m) for m, n in enumerate(places) if n >= 0]
    gone = set(range(len(before))) - {n for n, _ in pairs}
    return pairs, [m for m, n in enumerate(places) if n < 0], sorted(gone)


def _renamed(one: Any, other: Any, removed: Sequence[int], added: Sequence[int]) -> Pairs:
    """The columns that have another label and the same memory."""
    left, found = list(added), []
    for n in removed:
        for m in left:
            if same_memory(_inside(one.iloc[:, n]), _inside(other.iloc[:, m])):
                found.append((n, m))
                left.remove(m)
                break
    return found


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


# The cells


def _cell_lines(
    one: Any, other: Any, pairs: Pairs, rows: _Rows, differ: Differ, room: Room
) -> list[str]:
    found = compared = 0
    first: list[str] = []
    todo: list[tuple[bool, int, Any, Any]] = []
    for n, m in pairs if rows.count else ():
        was, now = one.iloc[:, n], other.iloc[:, m]
        in_place = rows.by_place and same_memory(_inside(was), _inside(now))
        if in_place and not (_is_of_numpy(was) and was.dtype.kind == "O"):
            compared += rows.count
        else:
            todo.append((not (_is_plain(was) and _is_plain(now)), m, was, now))
    for costly in (False, True):
        chosen = [columns for is_costly, *columns in todo if is_costly is costly]
        step = room.step(len(chosen) * rows.count // (1 if costly else PLAIN))
        every: Any = slice(None, None, step)
        both: tuple[Any, Any] = rows.there, rows.here
        there, here = (every if each is None else each[every] for each in both)
        for m, was, now in chosen:
            try:
                old, new = _values(was.iloc[there]), _values(now.iloc[here])
            except Exception:  # boundary: user object - a column unknown to pandas
                continue
            compared += len(old)
            places = differing(old, new, differ)
            found += len(places)
            for each in places[: MOST_SHOWN - len(first)]:
                row = other.index[each * step if rows.by_place else here[each]]
                words = tuple(map(short, (row, other.columns[m], old[each], new[each])))
                first.append("  row {}, column {}: {} → {}".format(*words))
    lines = [f"{found:,} {plural('cell', found)} changed", *first] if found else []
    if found > len(first):
        lines[-1] += " …"
    common = min(len(one) - rows.removed, len(other) - rows.added) * len(pairs)
    is_told = not rows.count and len(one) != len(other)  # that the rows cannot be matched
    if compared < common and not is_told:
        lines.append(f"Not compared in full: {compared:,} of {common:,} cells, evenly spread.")
    return lines


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


# What pandas keeps of a frame besides: labels, names of axes, categories, attrs, flags.


def _besides(
    before: tuple[Any, Any], after: tuple[Any, Any], pairs: Pairs, rows: _Rows, differ: Differ
) -> Iterator[str]:
    (_, one), (_, other) = before, after
    if rows.by_place and not _same_labels(one.index, other.index):
        yield f"row labels: {_listed(one.index)} → {_listed(other.index)}"
    if (places := [m for _, m in sorted(pairs)]) != sorted(places):
        yield "columns: in another order"
    for n, m in pairs:
        a, b = one.dtypes.iloc[n], other.dtypes.iloc[m]
        if not (hasattr(a, "categories") and hasattr(b, "categories")):
            continue
        if a.ordered != b.ordered or not _same_labels(a.categories, b.categories):
            label = other.columns[m]
            of = "" if label is None else f" of {short(label)}"
            was, now = (_listed(each.categories, by=each.ordered) for each in (a, b))
            yield f"categories{of}: {was} → {now}"
    kept = [_kept(frame) for frame, _ in (before, after)]
    for key in dict.fromkeys((*kept[0], *kept[1])):
        absent = [key not in each for each in kept]
        if any(absent) or differ(kept[0][key], kept[1][key]):
            was, now = (short(each[key]) if key in each else "none" for each in kept)
            yield f"{key}: {was} → {now}"


def _kept(frame: Any) -> dict[str, Any]:
    kept = {
        f"name of the {which}": axis.names[0] if len(axis.names) == 1 else tuple(axis.names)
        for which, axis in zip(("index", "columns"), frame.axes, strict=False)
    }
    are_known = all(map(is_known, frame.attrs))
    attrs = {f"attrs[{short(key)}]": each for key, each in frame.attrs.items()}
    kept |= attrs if are_known else {"attrs": frame.attrs}
    return kept | {"flags.allows_duplicate_labels": frame.flags.allows_duplicate_labels}


def _listed(labels: Any, most: int = MOST_SHOWN, *, by: bool = False) -> str:
    told = [short(each) for each in labels[:most]]
    return (" < " if by else ", ").join(told) + (" …" if len(labels) > most else "")


def plural(noun: str, count: int) -> str:
    """The word for so many."""
    return noun if count == 1 else f"{noun}s"
