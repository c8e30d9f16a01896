"""Which names hold which objects, a bounded number of objects deep. No code of a person's runs."""

import gc
import itertools
import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any

from parsimony_kernel.lineage.copies import Copies
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_atomic
from parsimony_kernel.lineage.kinds.frames import is_frame
from parsimony_kernel.lineage.kinds.instances import OUTSIDE, InstanceKind
from parsimony_kernel.lineage.kinds.lookup import kind_of

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
_PLAIN = frozenset({list, tuple, set, deque})
_COMMON = _PLAIN | {dict}
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
        self._parts: dict[int, tuple[int, ...]] = {}
        self._copies = copies or Copies()
        self._apart_from = apart_from
        self._look(values)

    def holders(self, names: Mapping[str, Any], targets: Mapping[int, Any]) -> dict[str, set[int]]:
        """The ids of ``targets`` that each of ``names`` holds, for those that hold any."""
        if not targets:
            return {}
        self._join_memory(targets)
        leads = self._leading_to(targets)
        found = {}
        for name, value in names.items():
            if id(value) not in leads:
                continue
            seen, pending = {id(value)}, [id(value)]
            while pending:
                more = [
                    each
                    for each in self._parts.get(pending.pop(), ())
                    if each in leads and each not in seen
                ]
                seen.update(more)
                pending += more
            found[name] = seen & targets.keys()
        return found

    def _look(self, values: Iterable[Any]) -> None:
        known = deque(value for value in values if type(value) not in ATOMS)
        opaque, many = deque[tuple[Any, int]](), deque[tuple[Any, list[Any], int]]()
        left, left_opaque = MOST_LOOKED_AT, _MOST_OPAQUE
        while known or opaque or many:
            if known or opaque:
                value, depth = (known.popleft(), 0) if known else opaque.popleft()
                key, is_known = id(value), type(value) in _COMMON
                if key in self._parts or key in self._apart_from:
                    continue
                if not is_known:
                    if is_atomic(value) or type(value) in _RUNNING:
                        continue
                    is_known = key in self._copies.by_id or kind_of(value) is not None
                if not is_known:
                    if depth >= _DEEPEST_OPAQUE or left_opaque <= 0 or _is_outside(value):
                        continue
                    left_opaque -= 1
                    depth += 1
                parts = self._parts_of(value)
                self.objects[key], self._parts[key] = value, ()
                if not parts:
                    continue
                if len(parts) > _MANY:
                    many.append((value, parts, depth))
                    continue
            else:
                value, parts, depth = many.popleft()
            if len(parts) > left:
                continue
            left -= len(parts)
            self._parts[id(value)] = tuple(map(id, parts))
            if depth:
                opaque.extend((part, depth) for part in parts)
            else:
                known.extend(parts)

    def _parts_of(self, value: Any) -> list[Any]:
        copy = self._copies.by_id.get(id(value))
        if copy is not None:
            parts: Iterable[Any] = copy.kind.parts(copy.held)
            parts = [*parts, *copy.held] if isinstance(copy.held, dict) else parts
        else:
            try:
                parts = _live_parts(value)
            except Exception:  # what an object of a person's holds may be anything
                parts = gc.get_referents(value)
        found = [part for part in parts if type(part) not in ATOMS]
        base = value.base if _is_array(value) else None
        return found if base is None else [*found, base]

    def _leading_to(self, targets: Mapping[int, Any]) -> set[int]:
        parents = defaultdict[int, list[int]](list)
        for key, parts in self._parts.items():
            for each in parts:
                parents[each].append(key)
        found, pending = set(targets), list(targets)
        while pending:
            more = [each for each in parents.get(pending.pop(), ()) if each not in found]
            found.update(more)
            pending += more
        return found

    def _join_memory(self, targets: Mapping[int, Any]) -> None:
        """An array holds another that lies in its memory, or its memory in that one's."""
        changed = [value for value in targets.values() if _is_array(value)]
        if not changed:
            return
        numpy = sys.modules["numpy"]
        roots = defaultdict[int, list[Any]](list)
        for value in self.objects.values():
            if _is_array(value):
                roots[id(_root(value))].append(value)
        for value in changed:
            for other in roots[id(_root(value))]:
                if other is not value and numpy.may_share_memory(value, other):
                    self._parts[id(other)] += (id(value),)


def _live_parts(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind in _PLAIN:
        # A copy: what is looked at may be a list that grows with the looking.
        return list(itertools.islice(value, _MOST_ITEMS))
    if kind is dict:
        return (*value.values(), *value)
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


def _root(value: Any) -> Any:
    while _is_array(value) and value.base is not None:
        value = value.base
    return value


def _is_outside(value: Any) -> bool:
    module = type(value).__module__
    return type(module) is str and module.partition(".")[0] in OUTSIDE
