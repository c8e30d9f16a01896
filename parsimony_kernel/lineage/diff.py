"""What a change did to the variables, in lines for people: names, and what differs inside them.

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
from parsimony_kernel.lineage.files import FileState
from parsimony_kernel.lineage.frame_difference import (
    MOST_SHOWN,
    PLAIN,
    Room,
    differing,
    differs_from,
    frame_lines,
    is_known,
    is_table,
    plural,
)
from parsimony_kernel.lineage.kinds.atoms import is_atomic
from parsimony_kernel.lineage.kinds.frames import is_polars, plain_frame, same_frames
from parsimony_kernel.lineage.kinds.instances import fields
from parsimony_kernel.lineage.kinds.lookup import kind_of
from parsimony_kernel.lineage.kinds.plain import is_array
from parsimony_kernel.lineage.short import short

_MOST_DEPTH = 50
_MOST_NAMES = 40
_PLAIN_KINDS = frozenset({list, dict, set, bytearray})

Summarise = Callable[[Any], str]
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


def of_changes(
    changes: Sequence[Change], files: Sequence[FileState] = (), summarise: Summarise = short
) -> Diff:
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
        summarise,
    )
    return Diff((*found.bindings, *map(_of_file, sorted(files, key=lambda each: each.path))))


def _of_file(state: FileState) -> BindingDifference:
    name, was = state.path.name, f"file, {state.size:,} bytes"
    if not state.then:
        return BindingDifference(name, "deleted", (f"- {name}: {was}",))
    size = state.path.stat().st_size if state.path.is_file() else 0
    return BindingDifference(name, "changed", (f"~ {name}: {was} → file, {size:,} bytes",))


def difference(before: State, after: State, summarise: Summarise = short) -> Diff:
    """What differs between two states, by name; private names are left out."""
    names = {*before.bindings, *after.bindings}
    room = Room()
    found = (
        _binding(name, before, after, summarise, room)
        for name in sorted(names)
        if not name.startswith("_")
    )
    return Diff(tuple(each for each in found if each is not None))


def _binding(
    name: str, before: State, after: State, summarise: Summarise, room: Room
) -> BindingDifference | None:
    one = before.bindings.get(name, ABSENT)
    other = after.bindings.get(name, ABSENT)
    was = "" if one is ABSENT else _words(one, before, summarise)
    now = "" if other is ABSENT else _words(other, after, summarise)
    is_certain = name not in after.uncertain
    if not is_certain and (one is ABSENT or one is other):
        unknown = f"? {name}: perhaps changed, for there was no copy"
        return BindingDifference(name, "changed", (unknown,))
    if one is ABSENT:
        return BindingDifference(name, "added", (f"+ {name}: {now}",))
    if other is ABSENT:
        return BindingDifference(name, "deleted", (f"- {name}: {was}",))
    inside = _Comparison(before, after, room).inside(one, other)
    if inside is None and other is not GONE:
        if one is other:
            return None
        line = f"~ {name}: bound anew, with the same content: {now}"
        return BindingDifference(name, "changed", (line,))
    how = ", changed in place" if one is other else ""
    line = f"~ {name}: {now if was == now else f'{was} → {now}'}{how}"
    return BindingDifference(
        name, "changed", (line, *(f"    {each}" for each in inside or () if each))
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


class _Spent(Exception):
    """There is too much to look at."""


class _Comparison:
    """Two states of one variable, within what may be looked at."""

    def __init__(self, before: State, after: State, room: Room) -> None:
        self._before, self._after, self._room = before, after, room
        room.begin()
        # What came of each pair of objects; of one that is being looked at nothing yet.
        self._pairs = dict[tuple[int, int], bool]()
        self._alive: list[Any] = []

    def inside(self, one: Any, other: Any) -> list[str] | None:
        """What differs inside, in lines; none where that cannot be told, ``None`` where nothing
        does."""
        try:
            if is_table(one) or is_table(other):
                lines = self._frames(one, other, 0)
            elif is_array(one) and is_array(other):
                lines = self._arrays(one, other)
            else:
                lines = self._item_lines(one, other)
            if lines is None and self._differ(one, other, 0):
                return []
            return lines or None
        except Exception:  # boundary: user object - what it holds may be anything; or it is spent
            return []

    def _frames(self, one: Any, other: Any, depth: int) -> list[str] | None:
        def differ(mine: Any, its: Any) -> bool:
            if is_atomic(mine) or is_atomic(its):
                return differs_from(mine, its)
            return self._differ(mine, its, depth + 1)

        a, b = _content(one, self._before), _content(other, self._after)
        return frame_lines(a, b, differ, self._room)

    def _arrays(self, one: Any, other: Any) -> list[str] | None:
        numpy = sys.modules["numpy"]
        a, b = _content(one, self._before), _content(other, self._after)
        if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind not in "biufcmMSU":
            return None
        step = self._room.step(a.size // PLAIN)
        a, b = a.reshape(-1)[::step], b.reshape(-1)[::step]
        places = differing(a, b, differs_from)
        first = [
            (tuple(int(n) for n in numpy.unravel_index(each * step, one.shape)), a[each], b[each])
            for each in places[:MOST_SHOWN]
        ]
        return _told(Counter(changed=len(places)), first, is_whole=step == 1)

    def _item_lines(self, one: Any, other: Any) -> list[str] | None:
        if type(one) is not type(other) or is_atomic(one):
            return None
        held = self._held(one, self._before), self._held(other, self._after)
        if not isinstance(held[0], dict | set | list | tuple):
            return None
        counts, first, is_whole = Counter[str](), list[tuple[Any, ...]](), True
        try:
            for how, *found in self._items(*held, 1):
                counts[how] += 1
                if len(first) < MOST_SHOWN and how != "reordered":
                    first.append(tuple(found))
        except _Spent:
            is_whole = False
        return _told(counts, first, is_whole=is_whole)

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
        self._take()
        if is_table(one) and is_table(other):
            return self._frames_differ(one, other, depth)
        if is_array(one) and is_array(other):
            if one is other and id(one) not in self._before.contents:
                return False
            return self._arrays(one, other) != []
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
        if (one is other and a is b) or (is_frame(type(one)) and same_frames(a, b)):
            return False
        if depth > _MOST_DEPTH:
            raise _Spent
        self._take(math.prod(a.shape) // PLAIN)
        return self._frames(one, other, depth) != []

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
            self._take()
            if not is_known(key):
                return False
        return True

    def _take(self, objects: int = 1) -> None:
        self._room.left -= objects
        if self._room.left < 0:
            raise _Spent


def _told(counts: Counter[str], first: Sequence[tuple[Any, ...]], *, is_whole: bool) -> list[str]:
    """Items that differ, in lines."""
    heads = ("added", "removed", "changed")
    told = [f"{counts[how]:,} {plural('item', counts[how])} {how}" for how in heads if counts[how]]
    lines = [", ".join(told)] if told else []
    for place, was, now in first:
        sign = "+ " if was is ABSENT else "- " if now is ABSENT else ""
        where = "" if place is ABSENT else f"{short(place)}: "
        values = " → ".join(short(each) for each in (was, now) if each is not ABSENT)
        lines.append(f"  {sign}{where}{values}")
    if counts["reordered"]:
        lines.append("items in another order")
    if not is_whole:
        lines.append("Not compared in full: it is too big.")
    return lines
