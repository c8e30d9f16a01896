"""What a change did to the variables, in lines for people: names, and what differs inside them.

Bounded in time and size, and no code of a person's is run: what cannot be compared that way counts
as different from all but itself.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.buffers import is_array, same_memory
from parsimony_kernel.lineage.checkpoint import ABSENT, GONE, Change
from parsimony_kernel.lineage.classes import (
    ATOMS,
    attributes_of,
    is_atomic,
    is_frame,
    is_missing,
    is_scalar_of_pandas,
    loaded,
    module_of,
    package_of,
)
from parsimony_kernel.lineage.copiers import fields, kind_of
from parsimony_kernel.lineage.copies import Copy
from parsimony_kernel.lineage.files import FileState

# Labels that are matched one by one.
_MOST_LABELS = 500_000
# Objects that are looked at in one diff; of one variable always one in so many of that.
MOST = 200_000
_LEAST = 100
# Numbers and times in columns and arrays that are compared for the price of one object.
_PLAIN = 100
_MOST_DEPTH = 50
_MOST_NAMES = 40
_MOST_CHARS = 60
_MOST_SHOWN = 5
# Longer numbers are not written out.
_MOST_BITS = 512
# What numpy compares by value: numbers, times and texts.
_COMPARED = frozenset("biufcmMSU")
_SIZED = frozenset({list, tuple, dict, set, frozenset, bytearray})
_name_of = type.__dict__["__name__"].__get__


@dataclass(frozen=True)
class BindingDifference:
    """What became of one name. The first of ``lines`` tells of the name, the others of what is
    inside; ``+`` is new, ``-`` gone, ``~`` changed, ``?`` perhaps changed."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Diff:
    """What became of the variables and files, by name."""

    bindings: tuple[BindingDifference, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bindings)

    def lines(self) -> list[str]:
        """All of it; of very many names the first."""
        if not self:
            return ["Nothing that it did to the variables is left to tell."]
        lines = [line for each in self.bindings[:_MOST_NAMES] for line in each.lines]
        more = len(self.bindings) - _MOST_NAMES
        return [*lines, f"And {more} more."] if more > 0 else lines


@dataclass(frozen=True)
class State:
    """What names were bound to at one time, and what objects held that hold something else now."""

    bindings: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[int, Copy] = field(default_factory=dict)
    uncertain: frozenset[str] = frozenset()


def of_changes(changes: Sequence[Change], files: Sequence[FileState] = ()) -> Diff:
    """What ``changes``, oldest first, did together, and what became of ``files``."""
    before, after, uncertain = dict[str, Any](), dict[str, Any](), set[str]()
    held, images = dict[int, Copy](), dict[int, Copy]()
    for change in changes:
        for name in change.versions:
            before.setdefault(name, change.before.bindings.get(name, ABSENT))
            after[name] = change.after[name]() if name in change.after else ABSENT
        held = {**change.before.copies.by_id, **held}
        images.update(change.images)
        uncertain |= change.before.uncertain()
    found = difference(
        State({name: value for name, value in before.items() if value is not ABSENT}, held),
        State(
            {name: value for name, value in after.items() if value is not ABSENT},
            {**held, **images},
            frozenset(uncertain),
        ),
    )
    return Diff((*found.bindings, *map(_of_file, sorted(files, key=lambda each: each.path))))


def _of_file(state: FileState) -> BindingDifference:
    name, was = state.path.name, f"file, {state.size:,} bytes"
    if not state.then:
        return BindingDifference(name, (f"- {name}: {was}",))
    size = state.path.stat().st_size if state.path.is_file() else 0
    return BindingDifference(name, (f"~ {name}: {was} → file, {size:,} bytes",))


def difference(before: State, after: State) -> Diff:
    """What differs between two states, by name; private names are left out."""
    compare = _Comparison(before, after)
    names = sorted({*before.bindings, *after.bindings})
    found = (_binding(name, compare) for name in names if not name.startswith("_"))
    return Diff(tuple(each for each in found if each is not None))


def _binding(name: str, compare: "_Comparison") -> BindingDifference | None:
    before, after = compare.before, compare.after
    one, other = before.bindings.get(name, ABSENT), after.bindings.get(name, ABSENT)
    if name in after.uncertain and (one is ABSENT or one is other):
        return BindingDifference(name, (f"? {name}: perhaps changed, for there was no copy",))
    was, now = (_words(each, state) for each, state in ((one, before), (other, after)))
    if one is ABSENT:
        return BindingDifference(name, (f"+ {name}: {now}",))
    if other is ABSENT:
        return BindingDifference(name, (f"- {name}: {was}",))
    lines = compare.lines(one, other)
    if one is other and not lines and not compare.is_changed(one):
        return None
    how = ", changed in place" if one is other else ""
    if one is not other and was == now and not lines:
        how = ", bound anew"
    line = f"~ {name}: {now if was == now else f'{was} → {now}'}{how}"
    return BindingDifference(name, (line, *(f"    {each}" for each in lines)))


def _words(value: Any, state: State) -> str:
    if value is ABSENT or value is GONE:
        return "no longer there"
    held = _held(value, state)
    return short(held if type(held) is type(value) or is_frame(type(held)) else value)


def _held(value: Any, state: State) -> Any:
    """What ``value`` held in ``state``: a frame, an array, or a container; of an instance its
    attributes. ``None`` for what holds nothing that is known."""
    kind, copy = kind_of(value), state.contents.get(id(value))
    if kind is None or is_atomic(value):
        return None
    try:
        held: Any = kind.get(value) if copy is None else copy.held
    except Exception:  # boundary: user object - such as an open file
        return None
    if (named := fields(held)) is not None:
        return named
    if is_array(held) and held.dtype.kind == "O":
        return held.ravel().tolist()
    return [bytes(held)] if isinstance(held, bytearray) else held


class _TooMany(Exception):
    """There is more to compare than the limit allows."""


class _Comparison:
    """Two states of variables, within what may be looked at."""

    def __init__(self, before: State, after: State) -> None:
        self.before, self.after = before, after
        self._left = MOST
        # What came of each pair of objects; of one that is being looked at nothing yet.
        self._pairs = dict[tuple[int, int], bool]()
        self._depth = 0
        # What has the id of an object here must not be given to another.
        self._alive: list[Any] = []

    def is_changed(self, value: Any) -> bool:
        """Whether an object itself, or one that it holds, holds something else."""
        try:
            return self._holds_other(value) or self._differ(value, value)
        except Exception:  # boundary: user object - or too much to compare
            return True

    def _holds_other(self, value: Any) -> bool:
        key = id(value)
        return self.before.contents.get(key) is not self.after.contents.get(key)

    def lines(self, one: Any, other: Any) -> list[str]:
        """What differs inside, as far as that can be told."""
        self._left, self._depth = max(self._left, MOST // _LEAST), 0
        try:
            return list(self._inside(one, other) or ())
        except _TooMany:
            return ["Not compared: it is too big."]
        except Exception:  # boundary: user object - what it holds may be anything
            return []

    def _inside(self, one: Any, other: Any) -> Iterator[str] | None:
        """What differs inside, each as it was in its state; ``None`` where that cannot be told."""
        states = ((one, self.before), (other, self.after))
        a, b = (_table(each, _held(each, state)) for each, state in states)
        self._alive += [a, b]
        if is_frame(type(a)) and is_frame(type(b)):
            return self._frame_lines(a, b)
        if is_array(a) and is_array(b):
            can_be_compared = a.shape == b.shape and {a.dtype.kind, b.dtype.kind} <= _COMPARED
            return self._array_lines(a, b) if can_be_compared else None
        is_same_kind = type(one) is type(other) and type(a) is type(b)
        if is_same_kind and isinstance(a, dict | set | list | tuple):
            return self._item_lines(a, b)
        return None

    def _differ(self, one: Any, other: Any) -> bool:
        """Whether two objects hold something else; each as it was in its state."""
        self._take()
        if is_atomic(one) or is_atomic(other) or (one is other and kind_of(one) is None):
            return differs_from(one, other)
        if type(one) is not type(other):
            return True
        pair = (id(one), id(other))
        if pair in self._pairs:
            return self._pairs[pair]
        if self._depth > _MOST_DEPTH:
            raise _TooMany
        self._pairs[pair] = False
        self._alive += [one, other]
        self._depth += 1
        lines = self._inside(one, other)
        is_frame_changed = is_frame(type(one)) and one is other and self._holds_other(one)
        if lines is None or is_frame_changed:
            found = one is not other or self._holds_other(one)
        else:
            found = next(lines, None) is not None
        self._pairs[pair] = found
        self._depth -= 1
        return found

    # Containers, and the attributes of instances

    def _item_lines(self, one: Any, other: Any) -> Iterator[str]:
        counts, first = Counter[str](), list[str]()
        for how, place, was, now in self._items(one, other):
            counts[how] += 1
            if len(first) < _MOST_SHOWN:
                first.append(_item(place, was, now))
        if counts:
            yield ", ".join(
                f"{counts[how]:,} {plural('item', counts[how])} {how}"
                for how in ("added", "removed", "changed")
                if counts[how]
            )
        yield from first

    def _items(self, one: Any, other: Any) -> Iterator[tuple[str, Any, Any, Any]]:
        """How each item that differs does, its place and its values, as they are found."""
        if isinstance(one, dict | set):
            yield from self._keyed(one, other)
            return
        shorter, start, end = min(len(one), len(other)), 0, 0
        while start < shorter and not self._differ(one[start], other[start]):
            start += 1
        while end < shorter - start and not self._differ(one[-1 - end], other[-1 - end]):
            end += 1
        places = (range(start, len(each) - end) for each in (one, other))
        for was, now in zip_longest(*places):
            if was is None:
                yield "added", now, ABSENT, other[now]
            elif now is None:
                yield "removed", was, one[was], ABSENT
            elif self._differ(one[was], other[now]):
                yield "changed", now, one[was], other[now]

    def _keyed(self, one: Any, other: Any) -> Iterator[tuple[str, Any, Any, Any]]:
        # Keys that only their own code could compare: the same objects are the same keys.
        self._take(len(one) + len(other))
        by_value = all(map(is_known, (*one, *other)))
        a, b = ({key if by_value else id(key): key for key in each} for each in (one, other))
        is_set = isinstance(one, set)
        for mark, key in {**b, **a}.items():
            was = ABSENT if mark not in a else key if is_set else one[key]
            now = ABSENT if mark not in b else b[mark] if is_set else other[b[mark]]
            how = "added" if was is ABSENT else "removed" if now is ABSENT else "changed"
            if how != "changed" or (not is_set and self._differ(was, now)):
                yield how, ABSENT if is_set else key, was, now

    def _take(self, count: int = 1) -> None:
        """Ask to compare ``count`` values."""
        self._left -= count
        if self._left < 0:
            raise _TooMany

    # Arrays and frames

    def _array_lines(self, one: Any, other: Any) -> Iterator[str]:
        """What differs in two arrays of one shape."""
        self._take(one.size // _PLAIN)
        if one.dtype != other.dtype:
            yield f"{one.dtype} → {other.dtype}"
        a, b = one.reshape(-1), other.reshape(-1)
        places = self._differing(a, b)
        if len(places):
            yield f"{len(places):,} {plural('item', len(places))} changed"
        for each in places[:_MOST_SHOWN]:
            place = tuple(map(int, sys.modules["numpy"].unravel_index(each, one.shape)))
            yield f"  {place[0] if len(place) == 1 else place}: {_arrow(a[each], b[each])}"

    def _frame_lines(self, one: Any, other: Any) -> Iterator[str]:
        """What differs in the columns, types, rows and cells of two frames.

        Rows are matched by their labels where these are unique, otherwise by place.
        """
        columns = _matched(one.columns, other.columns)
        there, here = columns or _in_order(min(len(one.columns), len(other.columns)))
        for what, labels in (
            ("added", other.columns.delete(here)),
            ("removed", one.columns.delete(there)),
        ):
            if len(labels):
                told = ", ".join(map(short, labels[: 2 * _MOST_SHOWN]))
                more = " …" if len(labels) > 2 * _MOST_SHOWN else ""
                yield f"{plural('column', len(labels))} {what}: {told}{more}"
        pairs = list(zip(there, here, strict=True))
        for n, m in pairs:
            was, now = one.dtypes.iloc[n], other.dtypes.iloc[m]
            if str(was) != str(now):
                yield f"column {short(other.columns[m])}: {was} → {now}"
        rows = _matched(one.index, other.index)
        if rows is None:
            yield "The rows cannot be matched, so their cells are not compared."
            return
        added, removed = (len(each.index) - len(rows[0]) for each in (other, one))
        is_in_place = bool((rows[0] == rows[1]).all())
        if added or removed:
            yield f"rows: {added:,} added, {removed:,} removed"
        elif is_in_place and not _are_same(one.index, other.index):
            yield "row labels changed"
        if (rows[0][1:] < rows[0][:-1]).any():
            yield "rows in another order"
        yield from self._cell_lines(one, other, pairs, rows)

    def _cell_lines(self, one: Any, other: Any, pairs: Any, rows: Any) -> Iterator[str]:
        found, first, rest = 0, list[str](), list[str]()
        is_aligned = len(one) == len(other) and bool((rows[0] == rows[1]).all())
        for n, m in pairs:
            was, now = one.iloc[:, n], other.iloc[:, m]
            # What lies in a column of objects may have changed where it is.
            if is_aligned and was.dtype != object and same_memory(_inside(was), _inside(now)):
                continue
            try:
                self._take(len(rows[0]) // (_PLAIN if _is_plain(was) and _is_plain(now) else 1))
                old, new = _values(was.iloc[rows[0]]), _values(now.iloc[rows[1]])
            except Exception:  # boundary: user object - or too many, or a column unknown to pandas
                rest = ["The other cells are too many to compare."]
                continue
            places = self._differing(old, new)
            found += len(places)
            for each in places[: _MOST_SHOWN - len(first)]:
                label, column = short(other.index[rows[1][each]]), short(other.columns[m])
                first.append(f"  row {label}, column {column}: {_arrow(old[each], new[each])}")
        if found:
            yield f"{found:,} {plural('cell', found)} changed"
            yield from first[:-1]
            yield first[-1] + (" …" if found > len(first) else "")
        yield from rest

    def _differing(self, one: Any, other: Any) -> Any:
        """The places at which two columns of one length differ; both missing is no difference."""
        arrays = loaded("numpy", "ndarray")
        if isinstance(one, arrays) and isinstance(other, arrays):
            try:
                with sys.modules["numpy"].errstate(all="ignore"):
                    differs = (one != other) & ~((one != one) & (other != other))
                return differs.nonzero()[0]
            except Exception:  # boundary: user object - times beside numbers
                pass
        pairs = enumerate(zip(one, other, strict=True))
        return [place for place, pair in pairs if self._differ(*pair)]


def _item(place: Any, was: Any, now: Any) -> str:
    sign = "+ " if was is ABSENT else "- " if now is ABSENT else ""
    where = "" if place is ABSENT else f"{short(place)}: "
    return f"  {sign}{where}" + " → ".join(short(each) for each in (was, now) if each is not ABSENT)


def _table(value: Any, held: Any) -> Any:
    """What ``value`` held, as a frame where it is a table or a column of any library."""
    if type(value) in loaded("pyarrow", "Table", "RecordBatch"):
        import pandas

        return value.to_pandas(types_mapper=pandas.ArrowDtype)
    if type(held) in loaded("polars", "DataFrame"):
        return held.to_pandas(use_pyarrow_extension_array=True)
    return held.to_frame(held.name) if type(held) in loaded("pandas", "Series") else held


def _matched(before: Any, after: Any) -> tuple[Any, Any] | None:
    """The places in each of the labels that both have; by place where labels do not tell, ``None``
    where neither does, or too many labels would have to be compared."""
    is_as_many = len(before) == len(after)
    can_tell = _is_safe(before) and _is_safe(after)
    if before is after or before.is_(after) or (can_tell and before.equals(after)):
        return _in_order(len(before))
    if max(len(before), len(after)) > _MOST_LABELS:
        return None
    if can_tell:
        try:
            if before.is_unique and after.is_unique:
                places = before.get_indexer(after)
                found = places >= 0
                # Other labels for as many rows: they are taken for the same ones.
                if found.any() or not is_as_many:
                    return places[found], found.nonzero()[0]
        except Exception:  # boundary: user object - labels of kinds that cannot be compared
            pass
    return _in_order(len(before)) if is_as_many else None


def _are_same(one: Any, other: Any) -> bool:
    """Whether two indexes hold the same; ``True`` where only code of a person's could tell."""
    if one is other or one.is_(other) or not (_is_safe(one) and _is_safe(other)):
        return True
    return bool(one.equals(other))


def _in_order(count: int) -> tuple[Any, Any]:
    places = sys.modules["numpy"].arange(count)
    return places, places


def _is_safe(index: Any) -> bool:
    """Whether comparing the labels of ``index`` runs no code of a person's, nor too long."""
    if hasattr(index, "levels"):
        return all(map(_is_safe, index.levels))
    if index.dtype.kind in "biufcmM":
        return True
    is_of_pandas = package_of(type(index.array)) == "pandas"
    return is_of_pandas and len(index) <= _MOST_LABELS and all(map(is_known, index))


def _is_plain(column: Any) -> bool:
    """Whether a column holds numbers or times that numpy compares."""
    return isinstance(column.dtype, loaded("numpy", "dtype")) and column.dtype.kind in "biufcmM"


def _inside(column: Any) -> Any:
    """What same memory is told by."""
    return column.to_numpy() if _is_plain(column) else column.array


def _values(column: Any) -> Any:
    if _is_plain(column):
        return column.to_numpy()
    if package_of(type(column.array)) != "pandas":
        raise TypeError("only its own class could say what is in it")
    return column.tolist()


# Single values, in words and compared


def short(value: Any) -> str:
    """``value`` in at most sixty characters."""
    try:
        told = _told(value, type(value))
    except Exception:  # boundary: user object - what it answers may be anything
        told = str(_name_of(type(value)))
    return told if len(told) <= _MOST_CHARS else told[: _MOST_CHARS - 1] + "…"


def _told(value: Any, kind: type) -> str:
    name = str(_name_of(kind))
    if is_missing(value) and value is not None:
        return "missing"
    if kind is int and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length():,} bits"
    if kind in (str, bytes):
        return repr(value[: _MOST_CHARS + 1])
    if kind in _SIZED:
        return f"{name} of {len(value):,}"
    if kind in ATOMS and kind is not slice:
        return repr(value)
    if is_frame(kind):
        return f"{name}, {_by(len(axis) for axis in reversed(attributes_of(value)['_mgr'].axes))}"
    if kind in loaded("numpy", "ndarray"):
        return f"array of {value.dtype.name}, {_by(value.shape) or 'one value'}"
    if issubclass(kind, loaded("numpy", "generic")) and module_of(kind) == "numpy":
        return short(value.item()) if kind is not type(value.item()) else name
    if is_scalar_of_pandas(kind):
        return str(value)
    if package_of(kind) in ("polars", "pyarrow") and hasattr(kind, "shape"):
        return f"{name}, {_by(value.shape)}"
    return f"class {_name_of(value)}" if issubclass(kind, type) else name


def _by(shape: Iterable[int]) -> str:
    return " × ".join(f"{each:,}" for each in shape)


def _arrow(was: Any, now: Any) -> str:
    return f"{short(was)} → {short(now)}"


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
