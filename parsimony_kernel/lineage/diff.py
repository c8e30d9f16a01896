"""What a change did to the variables, in lines for people: names, and what differs inside them.

Bounded in time and size, and no code of a person's is run: what cannot be compared that way counts
as different from all but itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.checkpoint import ABSENT, GONE, Change
from parsimony_kernel.lineage.classes import is_atomic, is_frame
from parsimony_kernel.lineage.copiers import fields, is_array
from parsimony_kernel.lineage.copies import Copy, kind_of
from parsimony_kernel.lineage.files import FileState
from parsimony_kernel.lineage.frame_copiers import plain_frame
from parsimony_kernel.lineage.frame_diff import (
    MOST_SHOWN,
    Compare,
    TooMany,
    array_lines,
    differs_from,
    frame_lines,
    is_known,
    is_table,
    short,
)

# Objects that are looked at in one diff; of one variable always one in so many of that.
MOST = 200_000
_LEAST = 100
# Numbers and times in columns and arrays that are compared for the price of one object.
PLAIN = 100
_MOST_DEPTH = 50
_MOST_NAMES = 40
How = Literal["added", "changed", "deleted"]


@dataclass(frozen=True)
class BindingDifference:
    """What became of one name. The first of ``lines`` tells of the name, the others of what is
    inside; ``+`` is new, ``-`` gone, ``~`` changed, ``?`` perhaps changed."""

    name: str
    how: How
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Diff:
    """What became of the variables and files, by name."""

    bindings: tuple[BindingDifference, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bindings)

    def names(self, how: How) -> tuple[str, ...]:
        """The names that were added, changed or deleted, sorted."""
        return tuple(each.name for each in self.bindings if each.how == how)

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
        uncertain |= change.before.uncopied | change.before.forgotten
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
        return BindingDifference(name, "deleted", (f"- {name}: {was}",))
    size = state.path.stat().st_size if state.path.is_file() else 0
    return BindingDifference(name, "changed", (f"~ {name}: {was} → file, {size:,} bytes",))


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
        unknown = f"? {name}: perhaps changed, for there was no copy"
        return BindingDifference(name, "changed", (unknown,))
    was, now = (_words(each, state) for each, state in ((one, before), (other, after)))
    if one is ABSENT:
        return BindingDifference(name, "added", (f"+ {name}: {now}",))
    if other is ABSENT:
        return BindingDifference(name, "deleted", (f"- {name}: {was}",))
    inside = compare.inside(one, other)
    if inside is None and one is other and not compare.is_written(one):
        return None
    if inside is None and one is not other and other is not GONE:
        line = f"~ {name}: bound anew, with the same content: {now}"
        return BindingDifference(name, "changed", (line,))
    how = ", changed in place" if one is other else ""
    line = f"~ {name}: {now if was == now else f'{was} → {now}'}{how}"
    return BindingDifference(name, "changed", (line, *(f"    {each}" for each in inside or ())))


def _words(value: Any, state: State) -> str:
    if value is ABSENT or value is GONE:
        return "no longer there"
    held = _held(value, state)
    return short(held if type(held) is type(value) or is_table(value) else value)


def _held(value: Any, state: State) -> Any:
    """What ``value`` held in ``state``: a frame, an array, or a container; of an instance its
    attributes. ``None`` for what holds nothing that is known."""
    kind, copy = kind_of(value), state.contents.get(id(value))
    if kind is None or is_atomic(value):
        return value if is_table(value) else None
    if is_frame(type(value)):
        return plain_frame(value, None if copy is None else copy.held)
    try:
        held: Any = kind.copy(value) if copy is None else copy.held
    except Exception:  # boundary: user object - such as an open file
        return None
    if (named := fields(kind, held)) is not None:
        return named
    if is_array(held) and held.dtype.kind == "O":
        return held.ravel().tolist()
    return bytes(held) if isinstance(held, bytearray) else held


class _Comparison:
    """Two states of variables, within what may be looked at."""

    def __init__(self, before: State, after: State) -> None:
        self.before, self.after = before, after
        self._compare = Compare(self.differ, self._take)
        self._left = MOST
        # What came of each pair of objects; of one that is being looked at nothing yet.
        self._pairs = dict[tuple[int, int], bool]()
        self._depth = 0
        # What has the id of an object here must not be given to another.
        self._alive: list[Any] = []

    def is_written(self, value: Any) -> bool:
        """Whether an object itself holds something else, though nothing that is told."""
        key = id(value)
        return self.before.contents.get(key) is not self.after.contents.get(key)

    def inside(self, one: Any, other: Any) -> list[str] | None:
        """What differs inside, in lines; none where that cannot be told, ``None`` where nothing
        does."""
        self._left = max(self._left, MOST // _LEAST)
        self._depth = 0
        try:
            lines = self._lines(one, other)
            if lines is None:
                return [] if self.differ(one, other) else None
            return lines or None
        except TooMany:
            return ["Not compared: it is too big."]
        except Exception:  # boundary: user object - what it holds may be anything
            return []

    def _lines(self, one: Any, other: Any) -> list[str] | None:
        if is_atomic(one) or is_atomic(other):
            return None
        a, b = _held(one, self.before), _held(other, self.after)
        if is_table(a) and is_table(b):
            return frame_lines(a, b, self._compare)
        if is_array(a) and is_array(b):
            return array_lines(a, b, self._compare)
        if type(one) is not type(other) or not isinstance(a, dict | set | list | tuple):
            return None
        counts, first = Counter[str](), list[str]()
        for how, place, was, now in self._items(a, b):
            counts[how] += 1
            if len(first) < MOST_SHOWN and how != "reordered":
                first.append(_item(place, was, now))
        heads = [how for how in ("added", "removed", "changed") if counts[how]]
        told = [f"{counts[how]:,} {plural('item', counts[how])} {how}" for how in heads]
        order = ["items in another order"] if counts["reordered"] else []
        return [*([", ".join(told)] if told else []), *first, *order]

    def differ(self, one: Any, other: Any) -> bool:
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
            raise TooMany
        self._pairs[pair] = False
        self._alive += [one, other]
        self._depth += 1
        found = self._pairs[pair] = self._hold_other(one, other)
        self._depth -= 1
        return found

    def _hold_other(self, one: Any, other: Any) -> bool:
        a, b = _held(one, self.before), _held(other, self.after)
        if is_table(a) and is_table(b):
            return frame_lines(a, b, self._compare) != []
        if is_array(a) and is_array(b):
            return not (one is other and a is b) and array_lines(a, b, self._compare) != []
        if isinstance(a, bytes):
            return bool(a != b)
        if type(a) is not type(b) or not isinstance(a, dict | set | list | tuple):
            return one is not other or a is not b
        self._alive += [a, b]
        return any(self._items(a, b))

    def _items(self, one: Any, other: Any) -> Iterator[tuple[Any, ...]]:
        """How each item that differs does, its place and its values, as they are found."""
        if isinstance(one, dict | set):
            yield from self._keyed(one, other)
            return
        shorter, start, end = min(len(one), len(other)), 0, 0
        while start < shorter and not self.differ(one[start], other[start]):
            start += 1
        while end < shorter - start and not self.differ(one[-1 - end], other[-1 - end]):
            end += 1
        for place in range(start, max(len(one), len(other)) - end):
            if place >= len(one) - end:
                yield "added", place, ABSENT, other[place]
            elif place >= len(other) - end:
                yield "removed", place, one[place], ABSENT
            elif self.differ(one[place], other[place]):
                yield "changed", place, one[place], other[place]

    def _keyed(self, one: Any, other: Any) -> Iterator[tuple[Any, ...]]:
        # Keys that only their own code could compare: the same objects are the same keys.
        by_value = self._are_known(one) and self._are_known(other)
        a, b = ({key if by_value else id(key): key for key in each} for each in (one, other))
        if isinstance(one, set):
            yield from (("removed", ABSENT, a[mark], ABSENT) for mark in a if mark not in b)
            yield from (("added", ABSENT, ABSENT, b[mark]) for mark in b if mark not in a)
            return
        for mark, key in a.items():
            if mark not in b:
                yield "removed", key, one[key], ABSENT
            elif self.differ(one[key], other[b[mark]]):
                yield "changed", key, one[key], other[b[mark]]
        yield from (("added", b[mark], ABSENT, other[b[mark]]) for mark in b if mark not in a)
        if [mark for mark in a if mark in b] != [mark for mark in b if mark in a]:
            yield "reordered", None, None, None

    def _are_known(self, keys: Iterable[Any]) -> bool:
        """Whether comparing ``keys`` runs no code of a person's."""
        for key in keys:
            self._take()
            if not is_known(key):
                return False
        return True

    def _take(self, count: int = 1, is_plain: bool = False) -> None:
        """Ask to compare ``count`` values; numbers and times cost next to nothing."""
        self._left -= count // PLAIN if is_plain else count
        if self._left < 0:
            raise TooMany


def _item(place: Any, was: Any, now: Any) -> str:
    sign = "+ " if was is ABSENT else "- " if now is ABSENT else ""
    where = "" if place is ABSENT else f"{short(place)}: "
    return f"  {sign}{where}" + " → ".join(short(each) for each in (was, now) if each is not ABSENT)
