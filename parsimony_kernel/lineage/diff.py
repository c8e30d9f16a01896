"""What a change did to the variables: bindings, and what differs inside them.

Bounded in time and size, and no code of a person's is run: what cannot be compared that way counts
as different from all but itself.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from parsimony_kernel.lineage.checkpoint import ABSENT, GONE, Change
from parsimony_kernel.lineage.classes import is_frame
from parsimony_kernel.lineage.copies import Copy
from parsimony_kernel.lineage.frame_difference import (
    MOST_CELLS,
    Allowance,
    FrameDifference,
    differs_from,
    frame_difference,
)
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_atomic
from parsimony_kernel.lineage.kinds.frames import is_polars, plain_frame, same_frames
from parsimony_kernel.lineage.kinds.instances import fields
from parsimony_kernel.lineage.kinds.lookup import kind_of
from parsimony_kernel.lineage.short import short

MOST_SHOWN = 5
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
    if is_frame(type(value)):
        copy = state.contents.get(id(value))
        return plain_frame(value, None if copy is None else copy.held)
    if type(value) in _PLAIN_KINDS or _is_array(value) or is_polars(type(value)):
        copy = state.contents.get(id(value))
        return value if copy is None else copy.held
    return value


_PLAIN_KINDS = frozenset({list, dict, set, bytearray})


class _Spent(Exception):
    """There is too much to look at."""


@dataclass
class _Limits:
    """What may still be looked at in one diff."""

    effort: int
    cells: Allowance = field(default_factory=Allowance.of_a_diff)


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
        if is_frame(type(one)) or is_frame(type(other)) or _is_other_frame(one):
            return self._frames(one, other)
        if _is_array(one) and _is_array(other):
            return self._arrays(one, other)
        if type(one) is not type(other) or is_atomic(one):
            return None
        a, b = self._held(one, self._before), self._held(other, self._after)
        match a, b:
            case dict(), dict():
                return self._counted(self._mappings, a, b)
            case set(), set():
                return self._counted(self._sets, a, b)
            case (list(), list()) | (tuple(), tuple()):
                return self._counted(self._sequences, a, b)
        return None

    def differ(self, one: Any, other: Any, depth: int = 0) -> bool:
        """Whether two values differ in what they held; ``True`` where that cannot be told."""
        try:
            return self._differ(one, other, depth)
        except _Spent:
            self.is_spent = True
            return True

    def _frames(self, one: Any, other: Any) -> FrameDifference | None:
        a, b = _content(one, self._before), _content(other, self._after)
        return frame_difference(a, b, lambda value: self.differ(value, value), self._cells)

    def _arrays(self, one: Any, other: Any) -> ItemsDifference | None:
        numpy = sys.modules["numpy"]
        a, b = _content(one, self._before), _content(other, self._after)
        if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "biufcmMSU":
            return None
        a, b = a.reshape(-1), b.reshape(-1)
        step = self._cells.plain_step(a.size)
        with numpy.errstate(all="ignore"):
            differs = a[::step] != b[::step]
            if a.dtype.kind in "fcmM" and differs.any():
                differs &= ~((a[::step] != a[::step]) & (b[::step] != b[::step]))
        (places,) = differs.nonzero()
        first = tuple(
            Item(
                str(tuple(int(n) for n in numpy.unravel_index(place * step, one.shape))),
                short(a[place * step]),
                short(b[place * step]),
            )
            for place in places[:MOST_SHOWN]
        )
        return ItemsDifference(changed=len(places), first=first, is_complete=step == 1)

    def _counted(
        self, count: Callable[[Any, Any, "_Tally"], None], one: Any, other: Any
    ) -> ItemsDifference:
        tally = _Tally()
        is_complete = True
        try:
            count(one, other, tally)
        except _Spent:
            is_complete = False
        return ItemsDifference(
            tally.added,
            tally.removed,
            tally.changed,
            tuple(tally.first),
            is_complete,
            tally.is_reordered,
        )

    def _mappings(self, one: dict[Any, Any], other: dict[Any, Any], tally: "_Tally") -> None:
        if not (self._are_known(one) and self._are_known(other)):
            # Keys that only their own code could compare: the same objects are the same keys.
            one = {_ByIdentity(key): value for key, value in one.items()}
            other = {_ByIdentity(key): value for key, value in other.items()}
        for key, value in one.items():
            if key not in other:
                tally.remove(key, value)
            elif self._differ(value, other[key], 1):
                tally.change(key, value, other[key])
        for key, value in other.items():
            if key not in one:
                tally.add(key, value)
        tally.is_reordered = [key for key in one if key in other] != [
            key for key in other if key in one
        ]

    def _sets(self, one: set[Any], other: set[Any], tally: "_Tally") -> None:
        if not (self._are_known(one) and self._are_known(other)):
            one, other = {_ByIdentity(each) for each in one}, {_ByIdentity(each) for each in other}
        for each in one - other:
            tally.remove("", each)
        for each in other - one:
            tally.add("", each)

    def _sequences(self, one: Sequence[Any], other: Sequence[Any], tally: "_Tally") -> None:
        shorter = min(len(one), len(other))
        start = 0
        while start < shorter and not self._differ(one[start], other[start], 1):
            start += 1
        end = 0
        while end < shorter - start and not self._differ(one[-1 - end], other[-1 - end], 1):
            end += 1
        left, right = one[start : len(one) - end], other[start : len(other) - end]
        for place, (a, b) in enumerate(zip(left, right, strict=False), start):
            if self._differ(a, b, 1):
                tally.change(place, a, b)
        both = min(len(left), len(right))
        for place in range(both, len(left)):
            tally.remove(start + place, left[place])
        for place in range(both, len(right)):
            tally.add(start + place, right[place])

    def _differ(self, one: Any, other: Any, depth: int) -> bool:
        self.effort -= 1
        if self.effort < 0:
            raise _Spent
        if is_frame(type(one)) and is_frame(type(other)):
            a, b = _content(one, self._before), _content(other, self._after)
            if same_frames(a, b):
                return False
            if depth > _MOST_DEPTH:
                raise _Spent
            self.effort -= min(MOST_CELLS, a.size) // 100
            return bool(
                frame_difference(
                    a, b, lambda value: self.differ(value, value, depth + 1), self._cells
                )
            )
        if _is_array(one) and _is_array(other):
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
        if a is None or b is None:
            return one is not other
        # What has the id of an object here must not be given to another.
        self._alive += [a, b]
        found = self._pairs[pair] = self._held_differ(a, b, depth + 1)
        return found

    def _held_differ(self, one: Any, other: Any, depth: int) -> bool:
        if type(one) is not type(other):
            return True
        match one:
            case dict():
                if len(one) != len(other) or not (self._are_known(one) and self._are_known(other)):
                    return list(map(id, one)) != list(map(id, other)) or any(
                        self._differ(a, b, depth)
                        for a, b in zip(one.values(), other.values(), strict=True)
                    )
                return list(one) != list(other) or any(
                    self._differ(value, other[key], depth) for key, value in one.items()
                )
            case set():
                if self._are_known(one) and self._are_known(other):
                    return bool(one != other)
                return set(map(id, one)) != set(map(id, other))
            case list() | tuple():
                return len(one) != len(other) or any(
                    self._differ(a, b, depth) for a, b in zip(one, other, strict=True)
                )
            case bytes():
                return bool(one != other)
        return one is not other

    def _held(self, value: Any, state: State) -> Any:
        """What a container or an instance held, as a dict, a list, a tuple, a set or bytes."""
        kind = kind_of(value)
        if kind is None:
            return None
        copy = state.contents.get(id(value))
        held = kind.copy(value) if copy is None else copy.held
        if (named := fields(kind, held)) is not None:
            return named
        if isinstance(held, dict):
            return dict(held)
        if type(held).__name__ == "deque":
            return list(held)
        return bytes(held) if isinstance(held, bytearray) else held

    def _are_known(self, keys: Iterable[Any]) -> bool:
        """Whether comparing ``keys`` runs no code of a person's."""
        for key in keys:
            self.effort -= 1
            if self.effort < 0:
                raise _Spent
            parts = key if type(key) is tuple else (key,)
            if any(type(part) not in ATOMS or type(part) is frozenset for part in parts):
                return False
        return True


class _Tally:
    """Differences as they are found, the first of them in words."""

    def __init__(self) -> None:
        self.added = self.removed = self.changed = 0
        self.is_reordered = False
        self.first: list[Item] = []

    def add(self, place: Any, value: Any) -> None:
        self.added += 1
        self._show(place, "", _unwrapped(value))

    def remove(self, place: Any, value: Any) -> None:
        self.removed += 1
        self._show(place, _unwrapped(value), "")

    def change(self, place: Any, before: Any, after: Any) -> None:
        self.changed += 1
        self._show(place, short(before), short(after))

    def _show(self, place: Any, before: str, after: str) -> None:
        if len(self.first) < MOST_SHOWN:
            where = "" if place == "" and type(place) is str else _unwrapped(place)
            self.first.append(Item(where, before, after))


@dataclass(frozen=True, eq=False)
class _ByIdentity:
    """A key or an element that is known by its identity alone."""

    value: Any

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.value is other.value


def _unwrapped(value: Any) -> str:
    return short(value.value if type(value) is _ByIdentity else value)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _is_other_frame(value: Any) -> bool:
    module = type(value).__module__
    return type(module) is str and module.partition(".")[0] in ("polars", "pyarrow")
