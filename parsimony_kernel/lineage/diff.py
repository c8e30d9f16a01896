"""What a change did to the variables, in lines for people: names, and for tables, arrays and
containers what differs inside them, by counting.

Bounded in time and size, and no code of a person's is run: what cannot be compared that way counts
as different from all but itself.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.buffers import is_array, same_memory
from parsimony_kernel.lineage.checkpoint import ABSENT, Change
from parsimony_kernel.lineage.copies import Copy, kind_of, table_of
from parsimony_kernel.lineage.files import FileState
from parsimony_kernel.lineage.snapshot import GONE

# Labels that are matched one by one.
_MOST_LABELS = 500_000
# Objects that are looked at in one diff; of one variable always one in so many of that.
MOST = 200_000
_LEAST = 100
# Numbers and times in columns and arrays that are compared for the price of one object.
_PLAIN = 100
_MOST_NAMES = 40
_MOST_CHARS = 60
_MOST_SHOWN = 5
# Items of a container inside another that are compared.
_MOST_INSIDE = 100
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


def of_changes(changes: Sequence[Change], files: Sequence[FileState] = ()) -> Diff:
    """What ``changes``, oldest first, did together, and what became of ``files``; private names
    are left out."""
    before, after = dict[str, Any](), dict[str, Any]()
    held, images = dict[int, Copy](), dict[int, Copy]()
    touched, uncertain = set[str](), set[str]()
    for change in changes:
        then = change.after.look()
        for name, was in change.before.items():
            before.setdefault(name, was.value)
            after[name] = then.get(name, ABSENT)
            if was.held:
                touched.add(name)
            if was.held & change.copies.lost.keys():
                uncertain.add(name)
        held = {**change.copies.by_id, **held}
        images.update(change.images)
    compare, found = Comparison(held, images), list[BindingDifference]()
    for name in sorted(each for each in before if not each.startswith("_")):
        one, other = before[name], after[name]
        if name in uncertain and (one is ABSENT or one is other):
            line = f"? {name}: perhaps changed, for there was no copy"
            found.append(BindingDifference(name, (line,)))
        elif one is not other or name in touched:
            found.append(BindingDifference(name, compare.binding(name, one, other)))
    return Diff((*found, *map(_of_file, sorted(files, key=lambda each: each.path))))


def _of_file(state: FileState) -> BindingDifference:
    name, was = state.path.name, f"file, {state.size:,} bytes"
    if not state.then:
        return BindingDifference(name, (f"- {name}: {was}",))
    size = state.path.stat().st_size if state.path.is_file() else 0
    return BindingDifference(name, (f"~ {name}: {was} → file, {size:,} bytes",))


class _TooMany(Exception):
    """There is more to compare than the limit allows."""


class Comparison:
    """Values before and after, within what may be looked at.

    Args:
        before: what objects held before, by id.
        after: what those held after that hold something else by then.
    """

    def __init__(self, before: Mapping[int, Copy], after: Mapping[int, Copy]) -> None:
        self._before, self._after = before, after
        self._left = MOST

    def binding(self, name: str, one: Any, other: Any) -> tuple[str, ...]:
        """The lines of a name that was bound to ``one`` and is to ``other``, which was changed if
        it is the same; either may be ``ABSENT`` or ``GONE``."""
        held, then = self._held(one, {}), self._held(other, self._after)
        was, now = _words(one, held), _words(other, then)
        if one is ABSENT:
            return (f"+ {name}: {now}",)
        if other is ABSENT:
            return (f"- {name}: {was}",)
        lines = self._lines(held, then)
        how = ", changed in place" if one is other else ""
        if one is not other and was == now and not lines:
            how = ", bound anew"
        line = f"~ {name}: {now if was == now else f'{was} → {now}'}{how}"
        return (line, *(f"    {each}" for each in lines))

    def _held(self, value: Any, later: Mapping[int, Copy]) -> Any:
        """What ``value`` held, then or ``later``; ``None`` where nobody can say."""
        kind, copy = kind_of(value), later.get(id(value), self._before.get(id(value)))
        if kind is None or classes.is_atomic(value):
            return None
        try:
            held = kind.look(value) if copy is None else copy.held
            return table_of(kind, held) if classes.is_frame(type(value)) else held.items
        except Exception:  # boundary: user object - what it holds may be anything
            return None

    def _lines(self, one: Any, other: Any) -> list[str]:
        """What differs inside, as far as that can be told."""
        self._left = max(self._left, MOST // _LEAST)
        try:
            a, b = _table(one), _table(other)
            if classes.is_frame(type(a)) and classes.is_frame(type(b)):
                return list(self._frame_lines(a, b))
            if is_array(a) and is_array(b):
                can_be_compared = {a.dtype.kind, b.dtype.kind} <= _COMPARED and a.shape == b.shape
                return self._array_lines(a, b) if can_be_compared else []
            is_plain = type(a) is type(b) and type(a) in (dict, set, list, tuple)
            return self._item_lines(a, b) if is_plain else []
        except _TooMany:
            return ["Not compared: it is too big."]
        except Exception:  # boundary: user object - what it holds may be anything
            return []

    def _take(self, count: int = 1) -> None:
        """Ask to compare ``count`` values."""
        self._left -= count
        if self._left < 0:
            raise _TooMany

    # Containers, arrays and frames

    def _item_lines(self, one: Any, other: Any) -> list[str]:
        """How many items were added, changed and removed, by their places or keys."""
        self._take(len(one) + len(other))
        a, b = _by_place(one), _by_place(other)
        counts = {
            "added": len(b.keys() - a.keys()),
            "changed": sum(differs_from(a[place], b[place]) for place in a.keys() & b.keys()),
            "removed": len(a.keys() - b.keys()),
        }
        told = [f"{many:,} {plural('item', many)} {how}" for how, many in counts.items() if many]
        return [", ".join(told)] if told else []

    def _array_lines(self, one: Any, other: Any) -> list[str]:
        self._take(one.size // _PLAIN)
        many = len(_differing(one.reshape(-1), other.reshape(-1)))
        return [f"{many:,} {plural('item', many)} changed"] if many else []

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
        added, removed = (len(each) - len(rows[0]) for each in (other, one))
        if added or removed:
            yield f"rows: {added:,} added, {removed:,} removed"
        if (rows[0][1:] < rows[0][:-1]).any():
            yield "rows in another order"
        yield from self._cell_lines(one, other, pairs, rows)

    def _cell_lines(self, one: Any, other: Any, pairs: Any, rows: Any) -> Iterator[str]:
        found, first, rest = 0, list[str](), list[str]()
        is_aligned = len(one) == len(other) and bool((rows[0] == rows[1]).all())
        for n, m in pairs:
            was, now = one.iloc[:, n], other.iloc[:, m]
            # What lies in a column of objects may have changed where it is.
            if is_aligned and was.dtype != object and same_memory(*map(_inside, (was, now))):
                continue
            try:
                old, new = self._values(was.iloc[rows[0]]), self._values(now.iloc[rows[1]])
                places = _differing(old, new)
            except Exception:  # boundary: user object - or too many, or a column unknown to pandas
                rest = ["The other cells are too many to compare."]
                continue
            found += len(places)
            for each in places[: _MOST_SHOWN - len(first)]:
                label, column = short(other.index[rows[1][each]]), short(other.columns[m])
                how = f"{short(old[each])} → {short(new[each])}"
                first.append(f"  row {label}, column {column}: {how}")
        if found:
            yield f"{found:,} {plural('cell', found)} changed"
        yield from (*first, *rest)

    def _values(self, column: Any) -> Any:
        """What a column holds: numbers and times as numpy compares them, the rest one by one."""
        if is_array(held := _inside(column)):
            self._take(len(held) // (2 * _PLAIN))
            return held
        if classes.package_of(type(column.array)) != "pandas":
            raise TypeError("only its own class could say what is in it")
        self._take(len(column) // 2)
        return column.tolist()


def _differing(one: Any, other: Any) -> Any:
    """The places at which two columns of one length differ; both missing is no difference."""
    arrays = classes.loaded("numpy", "ndarray")
    if isinstance(one, arrays) and isinstance(other, arrays):
        try:
            with sys.modules["numpy"].errstate(all="ignore"):
                differs = (one != other) & ~((one != one) & (other != other))
            return differs.nonzero()[0]
        except Exception:  # boundary: user object - times beside numbers
            pass
    return [place for place, pair in enumerate(zip(one, other, strict=True)) if differs_from(*pair)]


def _inside(column: Any) -> Any:
    """A column of numbers or times as an array of numpy, another as pandas keeps it."""
    is_plain = isinstance(column.dtype, classes.loaded("numpy", "dtype"))
    return column.to_numpy() if is_plain and column.dtype.kind in _COMPARED else column.array


def _by_place(held: Any) -> dict[Any, Any]:
    """The items of a container by their place or key, those of a set by themselves; what only its
    own code could compare is told by its identity."""
    if isinstance(held, set):
        held = dict.fromkeys(held)
    pairs = held.items() if isinstance(held, dict) else enumerate(held)
    return {place if is_known(place) else id(place): each for place, each in pairs}


def _table(held: Any) -> Any:
    """A table or a column as a frame of pandas."""
    if type(held) in classes.loaded("polars", "DataFrame"):
        return held.to_pandas(use_pyarrow_extension_array=True)
    return held.to_frame(held.name) if type(held) in classes.loaded("pandas", "Series") else held


def _matched(before: Any, after: Any) -> tuple[Any, Any] | None:
    """The places in each of the labels that both have; by place where labels do not tell, ``None``
    where neither does, or too many labels would have to be compared."""
    is_as_many = len(before) == len(after)
    is_other = not before.is_(after)
    if is_other and max(len(before), len(after)) > _MOST_LABELS:
        # Many labels are the same or not; by place they would be taken for each other.
        is_plain = {before.dtype.kind, after.dtype.kind} <= _COMPARED
        return _in_order(len(before)) if is_plain and before.equals(after) else None
    if is_other and _is_safe(before) and _is_safe(after):
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


def _in_order(count: int) -> tuple[Any, Any]:
    places = sys.modules["numpy"].arange(count)
    return places, places


def _is_safe(index: Any) -> bool:
    """Whether comparing the labels of ``index`` runs no code of a person's."""
    if hasattr(index, "levels"):
        return all(map(_is_safe, index.levels))
    is_of_pandas = classes.package_of(type(index.array)) == "pandas"
    return index.dtype.kind in "biufcmM" or (is_of_pandas and all(map(is_known, index)))


# Single values, in words and compared


def _words(value: Any, held: Any) -> str:
    """``value`` in words, as it was when it held ``held``."""
    if value is ABSENT or value is GONE:
        return "no longer there"
    is_alike = type(held) is type(value) or classes.is_frame(type(held))
    return short(held if is_alike else value)


def short(value: Any) -> str:
    """``value`` in at most sixty characters."""
    try:
        told = _told(value, type(value))
    except Exception:  # boundary: user object - what it answers may be anything
        told = str(_name_of(type(value)))
    return told if len(told) <= _MOST_CHARS else told[: _MOST_CHARS - 1] + "…"


def _told(value: Any, kind: type) -> str:
    name = str(_name_of(kind))
    if classes.is_missing(value) and value is not None:
        return "missing"
    if kind in (str, bytes):
        return repr(value[: _MOST_CHARS + 1])
    if kind in _SIZED:
        return f"{name} of {len(value):,}"
    if kind in classes.ATOMS and kind is not slice:
        return repr(value)
    if classes.is_frame(kind):
        axes = classes.attributes_of(value)["_mgr"].axes
        return f"{name}, {_by(len(axis) for axis in reversed(axes))}"
    if kind in classes.loaded("numpy", "ndarray"):
        return f"array of {value.dtype.name}, {_by(value.shape) or 'one value'}"
    if issubclass(kind, classes.loaded("numpy", "generic")) and classes.module_of(kind) == "numpy":
        return short(value.item()) if kind is not type(value.item()) else name
    if classes.is_scalar_of_pandas(kind):
        return str(value)
    if classes.package_of(kind) in ("polars", "pyarrow") and hasattr(kind, "shape"):
        return f"{name}, {_by(value.shape)}"
    return f"class {_name_of(value)}" if issubclass(kind, type) else name


def _by(shape: Iterable[int]) -> str:
    return " × ".join(f"{each:,}" for each in shape)


def differs_from(one: Any, other: Any) -> bool:
    """Whether two single values differ. What is no plain value differs from all but itself."""
    if one is other or (classes.is_missing(one) and classes.is_missing(other)):
        return False
    scalars = classes.loaded("numpy", "generic")
    one, other = (each.item() if isinstance(each, scalars) else each for each in (one, other))
    kinds = {type(one), type(other)}
    if (not kinds <= {int, float} and len(kinds) != 1) or not (is_known(one) and is_known(other)):
        return True
    try:
        return not bool(one == other)
    except Exception:  # boundary: user object - kinds of pandas that cannot be compared
        return True


def is_known(label: Any, deep: int = 5) -> bool:
    """Whether comparing ``label`` runs no code of a person's, nor too long."""
    kind = type(label)
    if kind in (tuple, list, dict):
        parts = [*label, *label.values()] if kind is dict else label
        is_small = deep > 0 and len(parts) <= _MOST_INSIDE
        return is_small and all(is_known(each, deep - 1) for each in parts)
    is_atom = kind in classes.ATOMS and kind is not frozenset
    return is_atom or classes.module_of(kind) == "numpy" or classes.is_scalar_of_pandas(kind)
