"""What a change did to the variables: bindings, and what differs inside them.

Bounded in time and size, and no code of a person's is run: what cannot be compared that way counts
as different from all but itself.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from parsimony_kernel.lineage.checkpoint import ABSENT, GONE, Change
from parsimony_kernel.lineage.classes import is_frame
from parsimony_kernel.lineage.copies import Copy
from parsimony_kernel.lineage.frame_difference import (
    MOST_CELLS,
    MOST_SHOWN,
    Allowance,
    FrameDifference,
    differing,
    differs_from,
    frame_difference,
    is_known,
    is_table,
)
from parsimony_kernel.lineage.kinds.atoms import is_atomic
from parsimony_kernel.lineage.kinds.frames import is_polars, plain_frame, same_frames
from parsimony_kernel.lineage.kinds.instances import fields
from parsimony_kernel.lineage.kinds.lookup import kind_of
from parsimony_kernel.lineage.kinds.plain import is_array
from parsimony_kernel.lineage.short import short

# Objects that are looked at inside of all variables; of one always one in so many of that.
MOST_EFFORT = 100_000
_LEAST = 100
_MOST_DEPTH = 50

Summarise = Callable[[Any], str]


@dataclass(frozen=True)
class Item:
    """One place in a container, in words; empty where there was, or is, nothing."""

    place: str
    before: str
    after: str


@dataclass(frozen=True)
class ItemsDifference:
    """What differs between two containers, or two arrays of one shape.

    Of a list what stands between the first and the last difference counts, item by item. A
    mapping ``is_reordered`` where the keys that both have stand in another order. It is not
    ``is_complete`` where there was too much to look at.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0
    first: tuple[Item, ...] = ()
    is_complete: bool = True
    is_reordered: bool = False

    def __bool__(self) -> bool:
        counted = self.added or self.removed or self.changed
        return bool(counted or self.is_reordered or not self.is_complete)


@dataclass(frozen=True)
class BindingDifference:
    """What became of one name.

    ``before`` and ``after`` are its values in words, empty where it was not bound. With
    ``in_place`` it is the same object still. ``is_certain`` is false where nobody knows what the
    object held before, and ``is_equal`` says that what it is bound to now holds the same.
    """

    name: str
    how: Literal["added", "changed", "deleted"]
    before: str = ""
    after: str = ""
    in_place: bool = False
    inside: FrameDifference | ItemsDifference | None = None
    is_certain: bool = True
    is_equal: bool = False


@dataclass(frozen=True)
class Diff:
    """What became of the variables, by name."""

    bindings: tuple[BindingDifference, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bindings)

    def names(self, how: Literal["added", "changed", "deleted"]) -> tuple[str, ...]:
        """The names that were added, changed or deleted, sorted."""
        return tuple(each.name for each in self.bindings if each.how == how)


@dataclass(frozen=True)
class State:
    """What names were bound to at one time, and what objects held that hold something else now."""

    bindings: Mapping[str, Any] = field(default_factory=dict)
    contents: Mapping[int, Copy] = field(default_factory=dict)
    uncertain: frozenset[str] = frozenset()


def of_changes(changes: Sequence[Change], summarise: Summarise = short) -> Diff:
    """What ``changes``, oldest first, did together."""
    before, after, uncertain = dict[str, Any](), dict[str, Any](), set[str]()
    held, images = dict[int, Copy](), dict[int, Copy]()
    for change in changes:
        for name in change.versions:
            before.setdefault(name, change.before.bindings.get(name, ABSENT))
            after[name] = change.after[name]() if name in change.after else ABSENT
        held = {**change.before.copies.by_id, **held}
        images.update(change.images)
        uncertain |= change.before.uncopied | change.before.forgotten
    return difference(
        State({name: value for name, value in before.items() if value is not ABSENT}, held),
        State(
            {name: value for name, value in after.items() if value is not ABSENT},
            {**held, **images},
            frozenset(uncertain),
        ),
        summarise,
    )


def difference(before: State, after: State, summarise: Summarise = short) -> Diff:
    """What differs between two states, by name; private names are left out."""
    names = {*before.bindings, *after.bindings}
    limits = _Limits(MOST_EFFORT)
    found = (
        _binding(name, before, after, summarise, limits)
        for name in sorted(names)
        if not name.startswith("_")
    )
    return Diff(tuple(each for each in found if each is not None))


def _binding(
    name: str, before: State, after: State, summarise: Summarise, limits: "_Limits"
) -> BindingDifference | None:
    one = before.bindings.get(name, ABSENT)
    other = after.bindings.get(name, ABSENT)
    was = "" if one is ABSENT else _words(one, before, summarise)
    now = "" if other is ABSENT else _words(other, after, summarise)
    is_certain = name not in after.uncertain
    if one is ABSENT:
        if not is_certain:
            return BindingDifference(name, "changed", "", now, is_certain=False)
        return BindingDifference(name, "added", "", now)
    if other is ABSENT:
        return BindingDifference(name, "deleted", was, "")
    comparison = _Comparison(before, after, limits)
    try:
        inside = comparison.inside(one, other)
        is_equal = other is not GONE and not comparison.differ(one, other)
    except Exception:  # boundary: user object - what it holds may be anything
        inside, is_equal = None, False
    limits.effort = comparison.effort
    if comparison.is_spent:
        is_equal = False
    in_place = one is other
    if in_place and is_equal and is_certain:
        return None
    return BindingDifference(
        name, "changed", was, now, in_place, inside or None, is_certain, is_equal
    )


def _words(value: Any, state: State, summarise: Summarise) -> str:
    if value is GONE:
        return "no longer there"
    try:
        return summarise(_content(value, state))
    except Exception:  # boundary: user object - what it holds may be anything
        return short(value)


def _content(value: Any, state: State) -> Any:
    """What ``value`` held in ``state``: a frame, an array or a container of no one's class."""
    copy = state.contents.get(id(value))
    if is_frame(type(value)):
        return plain_frame(value, None if copy is None else copy.held)
    if copy is None or not (
        type(value) in _PLAIN_KINDS or is_array(value) or is_polars(type(value))
    ):
        return value
    return copy.held


_PLAIN_KINDS = frozenset({list, dict, set, bytearray})


class _Spent(Exception):
    """There is too much to look at."""


@dataclass
class _Limits:
    """What may still be looked at in one diff."""

    effort: int
    cells: Allowance = field(default_factory=Allowance)


class _Comparison:
    """Two states of one variable, within what may be looked at."""

    def __init__(self, before: State, after: State, limits: _Limits) -> None:
        self._before, self._after = before, after
        self.effort = max(limits.effort, MOST_EFFORT // _LEAST)
        self._cells = limits.cells
        # What came of each pair of objects; of one that is being looked at nothing yet.
        self._pairs = dict[tuple[int, int], bool]()
        self._alive: list[Any] = []
        self.is_spent = False

    def inside(self, one: Any, other: Any) -> FrameDifference | ItemsDifference | None:
        """What differs inside, where both are of one kind that can be looked into."""
        if is_table(one) or is_table(other):
            return self._frames(one, other, 0)
        if is_array(one) and is_array(other):
            return self._arrays(one, other)
        if type(one) is not type(other) or is_atomic(one):
            return None
        held = self._held(one, self._before), self._held(other, self._after)
        if not isinstance(held[0], dict | set | list | tuple):
            return None
        counts, first, is_complete = Counter[str](), list[Item](), True
        try:
            for how, place, *values in self._items(*held, 1):
                counts[how] += 1
                if len(first) < MOST_SHOWN and how != "reordered":
                    place, was, now = (
                        "" if each is ABSENT else short(each) for each in (place, *values)
                    )
                    first.append(Item(place, was, now))
        except _Spent:
            is_complete = False
        return ItemsDifference(
            counts["added"],
            counts["removed"],
            counts["changed"],
            tuple(first),
            is_complete,
            bool(counts["reordered"]),
        )

    def differ(self, one: Any, other: Any, depth: int = 0) -> bool:
        """Whether two values differ in what they held; ``True`` where that cannot be told."""
        if is_atomic(one) or is_atomic(other):
            return differs_from(one, other)
        try:
            return self._differ(one, other, depth)
        except _Spent:
            self.is_spent = True
            return True

    def _frames(self, one: Any, other: Any, depth: int) -> FrameDifference | None:
        a, b = _content(one, self._before), _content(other, self._after)
        return frame_difference(a, b, lambda x, y: self.differ(x, y, depth + 1), self._cells)

    def _arrays(self, one: Any, other: Any) -> ItemsDifference | None:
        numpy = sys.modules["numpy"]
        a, b = _content(one, self._before), _content(other, self._after)
        if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "biufcmMSU":
            return None
        step = self._cells.step(a.size)
        a, b = a.reshape(-1)[::step], b.reshape(-1)[::step]
        places = differing(a, b, differs_from)
        first = tuple(
            Item(
                str(tuple(int(n) for n in numpy.unravel_index(place * step, one.shape))),
                short(a[place]),
                short(b[place]),
            )
            for place in places[:MOST_SHOWN]
        )
        return ItemsDifference(changed=len(places), first=first, is_complete=step == 1)

    def _items(self, one: Any, other: Any, depth: int) -> Iterator[tuple[Any, ...]]:
        """How each item that differs does, its place and its values, as they are found."""
        if isinstance(one, dict | set):
            # Keys that only their own code could compare: the same objects are the same keys.
            by_value = self._are_known(one) and self._are_known(other)
            a, b = (
                {
                    key if by_value else id(key): (
                        (key, each[key]) if isinstance(each, dict) else (ABSENT, key)
                    )
                    for key in each
                }
                for each in (one, other)
            )
            for mark, (place, was) in a.items():
                if mark not in b:
                    yield "removed", place, was, ABSENT
                elif place is not ABSENT and self._differ(was, b[mark][1], depth):
                    yield "changed", place, was, b[mark][1]
            for mark, (place, now) in b.items():
                if mark not in a:
                    yield "added", place, ABSENT, now
            both = [mark for mark in a if mark in b], [mark for mark in b if mark in a]
            if isinstance(one, dict) and both[0] != both[1]:
                yield "reordered", None, None, None
            return
        shorter, start, end = min(len(one), len(other)), 0, 0
        while start < shorter and not self._differ(one[start], other[start], depth):
            start += 1
        while end < shorter - start and not self._differ(one[-1 - end], other[-1 - end], depth):
            end += 1
        for place in range(start, max(len(one), len(other)) - end):
            if place >= len(one) - end:
                yield "added", place, ABSENT, other[place]
            elif place >= len(other) - end:
                yield "removed", place, one[place], ABSENT
            elif self._differ(one[place], other[place], depth):
                yield "changed", place, one[place], other[place]

    def _differ(self, one: Any, other: Any, depth: int) -> bool:
        self.effort -= 1
        if self.effort < 0:
            raise _Spent
        if is_table(one) and is_table(other):
            return self._frames_differ(one, other, depth)
        if is_array(one) and is_array(other):
            if one is other and id(one) not in self._before.contents:
                return False
            arrays = self._arrays(one, other)
            return arrays is None or bool(arrays)
        if one is other and (is_atomic(one) or kind_of(one) is None):
            return False
        if is_atomic(one) or is_atomic(other) or type(one) is not type(other):
            return differs_from(one, other)
        pair = (id(one), id(other))
        if pair in self._pairs:
            return self._pairs[pair]
        if depth > _MOST_DEPTH:
            raise _Spent
        self._pairs[pair] = False
        a, b = self._held(one, self._before), self._held(other, self._after)
        if type(a) is not type(b) or not isinstance(a, dict | set | list | tuple | bytes):
            return one is not other or a is not b
        # What has the id of an object here must not be given to another.
        self._alive += [a, b]
        found = a != b if isinstance(a, bytes) else any(self._items(a, b, depth + 1))
        self._pairs[pair] = found
        return found

    def _frames_differ(self, one: Any, other: Any, depth: int) -> bool:
        a, b = _content(one, self._before), _content(other, self._after)
        if one is other and a is b:
            return False
        if is_frame(type(one)) and same_frames(a, b):
            return False
        if depth > _MOST_DEPTH:
            raise _Spent
        self.effort -= min(MOST_CELLS, math.prod(a.shape)) // 100
        found = self._frames(one, other, depth)
        return found is None or bool(found)

    def _held(self, value: Any, state: State) -> Any:
        """What a container or an instance held, as a dict, a list, a tuple, a set or bytes."""
        kind = kind_of(value)
        if kind is None:
            return None
        copy = state.contents.get(id(value))
        held = kind.copy(value) if copy is None else copy.held
        if (named := fields(kind, held)) is not None:
            return named
        return bytes(held) if isinstance(held, bytearray) else held

    def _are_known(self, keys: Iterable[Any]) -> bool:
        """Whether comparing ``keys`` runs no code of a person's."""
        for key in keys:
            self.effort -= 1
            if self.effort < 0:
                raise _Spent
            if not is_known(key):
                return False
        return True
