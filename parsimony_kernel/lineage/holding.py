"""Which names hold which objects, a bounded number of objects deep. No code of a person's runs.

What there is is followed many objects at a time, only to see which names share any; what holds what
is asked of those alone that have something to do with the objects in question.
"""

import gc
import itertools
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import FrameType, TracebackType
from typing import Any

from parsimony_kernel.lineage.classes import is_frame, package_of
from parsimony_kernel.lineage.copies import Copies
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_atomic
from parsimony_kernel.lineage.kinds.instances import OUTSIDE, InstanceKind
from parsimony_kernel.lineage.kinds.lookup import COMMON, kind_of

# Places in objects that are looked at in all: about half a second. What holds many comes last, so
# that it takes nothing from the others. Beyond that a name is not told as one that holds an object;
# the object itself is put back all the same.
MOST_LOOKED_AT = 300_000
_MANY = 1_000
# A list whose first items, as many as are ever copied, are plain values has no others.
_MOST_ITEMS = 2 * 2**20
# Objects whose kind is not known: about 50 ms. What one of them was given lies near its surface,
# within this many of them; deeper are the library's own things.
_MOST_OPAQUE = 3_000
_DEEPEST_OPAQUE = 4
# What runs leads to all that runs, the looking itself included.
_RUNNING = frozenset({FrameType, TracebackType})


class Holding:
    """What ``values`` hold, and what that holds in turn.

    Args:
        copies: objects that hold what they held when they were copied; the others are looked at
            as they are.
        apart_from: ids of objects that are not looked into.

    ``objects`` are those that were looked into, by id.
    """

    def __init__(
        self,
        values: Iterable[Any],
        copies: Copies | None = None,
        apart_from: Collection[int] = (),
    ) -> None:
        self.objects: dict[int, Any] = {}
        self._copies = copies or Copies()
        self._apart_from = apart_from
        # The group of each object: what one value leads to, joined with what shares a part of it.
        self._group: dict[int, int] = {}
        self._joined: list[int] = []
        # How far an object is from the nearest one of a known kind that led to it.
        self._depth: dict[int, int] = {}
        self._left, self._left_opaque = MOST_LOOKED_AT, _MOST_OPAQUE
        self._look(values)

    def holders(self, names: Mapping[str, Any], targets: Mapping[int, Any]) -> dict[str, set[int]]:
        """The ids of ``targets`` that each of ``names`` holds, for those that hold any."""
        if not targets:
            return {}
        views = self._views_of(targets)
        groups = {self._root(self._group[key]) for key in targets if key in self._group}
        parts = {
            key: [*map(id, self._parts_of(value)), *views.get(key, ())]
            for key, value in self.objects.items()
            if self._root(self._group[key]) in groups
        }
        leads = _leading_to(targets, parts)
        found = {}
        for name, value in names.items():
            if id(value) not in leads:
                continue
            seen, pending = {id(value)}, [id(value)]
            while pending:
                more = [
                    each
                    for each in parts.get(pending.pop(), ())
                    if each in leads and each not in seen
                ]
                seen.update(more)
                pending += more
            found[name] = seen & targets.keys()
        return found

    def _look(self, values: Iterable[Any]) -> None:
        level = [(group, self._new([value], group)) for group, value in enumerate(values)]
        many: list[tuple[int, Any]] = []
        while level:
            level = [
                (group, found)
                for group, objects in level
                for parts, depth in self._inside(objects, group, many)
                if (found := self._new(parts, group, depth))
            ]
            if not level and many:
                group, value = many.pop(0)
                level = [(group, self._new(_live_parts(value), group))]

    def _inside(
        self, objects: list[Any], group: int, many: list[tuple[int, Any]]
    ) -> Iterator[tuple[list[Any], int]]:
        """What ``objects`` hold, and how far that is from an object of a known kind; those that
        hold many are put off."""
        plain = []
        for value in objects:
            if type(value) not in COMMON or id(value) in self._copies.by_id:
                yield self._parts_of(value), self._depth.get(id(value), 0)
            elif len(value) > _MANY:
                many.append((group, value))
            else:
                plain.append(value)
        if plain:
            yield gc.get_referents(*plain), 0

    def _new(self, parts: Iterable[Any], group: int, depth: int = 0) -> list[Any]:
        """Those of ``parts`` that are to be looked into and were not yet, now in ``group``."""
        taken: list[Any] = []
        for part in parts:
            if type(part) not in ATOMS:
                taken.append(part)
                if len(taken) > self._left:
                    return []
        if not taken:
            return taken
        self._left -= len(taken)
        found = []
        for part in taken:
            key = id(part)
            known = self._group.get(key)
            if known is not None:
                self._join(known, group)
            elif key not in self._apart_from and self._is_followed(part, depth):
                self._group[key] = group
                self.objects[key] = part
                found.append(part)
        return found

    def _is_followed(self, value: Any, depth: int) -> bool:
        if type(value) in COMMON:
            return True
        if is_atomic(value) or type(value) in _RUNNING:
            return False
        if id(value) in self._copies.by_id or kind_of(value) is not None:
            return True
        if depth >= _DEEPEST_OPAQUE or self._left_opaque <= 0 or package_of(type(value)) in OUTSIDE:
            return False
        self._left_opaque -= 1
        self._depth[id(value)] = depth + 1
        return True

    def _root(self, group: int) -> int:
        while group < len(self._joined) and self._joined[group] != group:
            group = self._joined[group]
        return group

    def _join(self, one: int, other: int) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self._joined += range(len(self._joined), max(one, other) + 1)
            self._joined[max(one, other)] = min(one, other)

    def _parts_of(self, value: Any) -> list[Any]:
        copy = self._copies.by_id.get(id(value))
        if copy is not None:
            parts: Iterable[Any] = copy.kind.parts(copy.held)
            parts = [*parts, *copy.held] if isinstance(copy.held, dict) else parts
        else:
            try:
                parts = _live_parts(value)
            except Exception:  # boundary: user object - what it holds may be anything
                parts = gc.get_referents(value)
        found = [part for part in parts if type(part) not in ATOMS]
        base = value.base if _is_array(value) else None
        return found if base is None else [*found, base]

    def _views_of(self, targets: Mapping[int, Any]) -> dict[int, list[int]]:
        """The ids of targets by that of arrays that lie in their memory, or have it in theirs."""
        changed = [value for value in targets.values() if _is_array(value)]
        views = defaultdict[int, list[int]](list)
        if not changed:
            return views
        numpy = sys.modules["numpy"]
        owners = defaultdict[int, list[Any]](list)
        for value in self.objects.values():
            if _is_array(value):
                owners[id(_owner(value))].append(value)
        for value in changed:
            for other in owners[id(_owner(value))]:
                if other is not value and numpy.may_share_memory(value, other):
                    views[id(other)].append(id(value))
                    self._join(self._group[id(other)], self._group.setdefault(id(value), 0))
        return views


def _leading_to(targets: Mapping[int, Any], parts: Mapping[int, list[int]]) -> set[int]:
    """The ids of ``targets`` and of all that leads to them."""
    parents = defaultdict[int, list[int]](list)
    for key, each in parts.items():
        for part in each:
            parents[part].append(key)
    found, pending = set(targets), list(targets)
    while pending:
        more = [each for each in parents.get(pending.pop(), ()) if each not in found]
        found.update(more)
        pending += more
    return found


def _live_parts(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is dict:
        return (*value.values(), *value)
    if kind in COMMON:
        # A copy: what is looked at may be a list that grows with the looking.
        return list(itertools.islice(value, _MOST_ITEMS))
    known = kind_of(value)
    if known is None or isinstance(known, InstanceKind):
        return list[Any](gc.get_referents(value))
    if _is_array(value) and value.dtype.kind != "O":
        return ()
    if is_frame(kind) or _is_array(value):
        return known.parts(known.copy(value))
    held = known.copy(value)
    return (*known.parts(held), *held) if isinstance(held, dict) else known.parts(held)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _owner(value: Any) -> Any:
    while _is_array(value) and value.base is not None:
        value = value.base
    return value
