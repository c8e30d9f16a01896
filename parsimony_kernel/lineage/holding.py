"""Which names hold which objects, a bounded number of objects deep. No code of a person's runs."""

import gc
import itertools
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any

from parsimony_kernel.lineage.classes import package_of
from parsimony_kernel.lineage.copies import Copies
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_atomic
from parsimony_kernel.lineage.kinds.instances import OUTSIDE, InstanceKind
from parsimony_kernel.lineage.kinds.lookup import COMMON, kind_of
from parsimony_kernel.lineage.kinds.plain import Kind, is_array
from parsimony_kernel.lineage.memory import owner

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
        self._parts: dict[int, list[int]] = {}
        self._copies = copies or Copies()
        self._apart_from = apart_from
        # How far an object is from the nearest one of a known kind that led to it.
        self._depth: dict[int, int] = {}
        self._left, self._left_opaque = MOST_LOOKED_AT, _MOST_OPAQUE
        self._look(self._new(values, 0))

    def holders(self, names: Mapping[str, Any], targets: Mapping[int, Any]) -> dict[str, set[int]]:
        """The ids of ``targets`` that each of ``names`` holds, for those that hold any."""
        if not targets:
            return {}
        parts = dict(self._parts)
        for key, more in self._views_of(targets).items():
            parts[key] = [*parts.get(key, ()), *more]
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

    def _look(self, level: list[Any]) -> None:
        many: list[Any] = []
        while level or many:
            found: list[Any] = []
            plain = []
            for value in level or [many.pop(0)]:
                if not level or type(value) not in COMMON or id(value) in self._copies.by_id:
                    found += self._inside(value)
                elif len(value) > _MANY:
                    many.append(value)
                else:
                    plain.append(value)
            for start in range(0, len(plain), _MANY):
                chunk = plain[start : start + _MANY]
                if not ATOMS.issuperset(map(type, gc.get_referents(*chunk))):
                    for value in chunk:
                        found += self._inside(value)
            level = found

    def _inside(self, value: Any) -> list[Any]:
        """Those of what ``value`` holds that are to be looked into and were not yet."""
        parts = self._parts_of(value)
        if len(parts) > self._left:
            return []
        self._left -= len(parts)
        self._parts[id(value)] = list(map(id, parts))
        return self._new(parts, self._depth.get(id(value), 0))

    def _new(self, parts: Iterable[Any], depth: int) -> list[Any]:
        found = []
        for part in parts:
            key = id(part)
            if (
                key not in self.objects
                and key not in self._apart_from
                and self._is_followed(part, depth)
            ):
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

    def _parts_of(self, value: Any) -> list[Any]:
        copy = self._copies.by_id.get(id(value))
        if copy is not None:
            parts: Iterable[Any] = _parts_held(copy.kind, copy.held)
        else:
            try:
                parts = _live_parts(value)
            except Exception:  # boundary: user object - what it holds may be anything
                parts = gc.get_referents(value)
        found = [part for part in parts if type(part) not in ATOMS]
        base = value.base if is_array(value) else None
        return found if base is None else [*found, base]

    def _views_of(self, targets: Mapping[int, Any]) -> dict[int, list[int]]:
        """The ids of targets by that of arrays that lie in their memory, or have it in theirs."""
        views = defaultdict[int, list[int]](list)
        if not (changed := [value for value in targets.values() if is_array(value)]):
            return views
        owners = defaultdict[int, list[Any]](list)
        for value in filter(is_array, self.objects.values()):
            owners[id(owner(value, type(value)))].append(value)
        for value in changed:
            for other in owners[id(owner(value, type(value)))]:
                if other is not value and sys.modules["numpy"].may_share_memory(value, other):
                    views[id(other)].append(id(value))
        return views


def _leading_to(targets: Mapping[int, Any], parts: dict[int, list[int]]) -> set[int]:
    """The ids of ``targets`` and of all that leads to them."""
    found, known = set(targets), 0
    while known < len(found):
        known = len(found)
        # What holds something was mostly seen before that, so one round finds nearly all.
        for key in reversed(parts):
            if not found.isdisjoint(parts[key]):
                found.add(key)
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
    if is_array(value) and value.dtype.kind != "O":
        return ()
    return _parts_held(known, known.copy(value))


def _parts_held(kind: Kind, held: Any) -> Iterable[Any]:
    """What lies in what a copy holds, the keys of a mapping included."""
    return (*kind.parts(held), *held) if isinstance(held, dict) else kind.parts(held)
