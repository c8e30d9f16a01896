"""Which names hold which objects, a bounded number of objects deep. No code of a person's runs."""

import gc
import itertools
import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from types import FrameType, ModuleType, TracebackType
from typing import Any

from parsimony_kernel.lineage.copies import Copies
from parsimony_kernel.lineage.kinds import ATOMS, is_atomic, is_frame, kind_of

# Objects that are looked at in all, and within those whose kind is not known.
MOST_LOOKED_AT = 30_000
_MOST_OPAQUE = 300
_DEEPEST_OPAQUE = 4
_PLAIN = frozenset({list, tuple, set, deque})
# What runs leads to all that runs, the looking itself included, and a module to the others.
_EVERYWHERE = frozenset({FrameType, TracebackType, ModuleType})
# What these packages make leads to everything that a notebook has.
_OUTSIDE = ("parsimony_kernel", "parsimony_agent", "IPython", "ipykernel", "asyncio")


class Holding:
    """What ``values`` hold, and what that holds in turn.

    Args:
        copies: objects that hold what they held when they were copied; the others are looked at
            as they are.
        apart_from: ids of objects that are not looked into.
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
        known = [(value, 0) for value in values if type(value) not in ATOMS]
        opaque = deque[tuple[Any, int]]()
        left, left_opaque = MOST_LOOKED_AT, _MOST_OPAQUE
        while (known or opaque) and left > 0:
            value, depth = known.pop() if known else opaque.popleft()
            if id(value) in self._parts or id(value) in self._apart_from or is_atomic(value):
                continue
            if _leads_everywhere(value):
                continue
            is_known = id(value) in self._copies.by_id or kind_of(value) is not None
            if not is_known:
                if depth >= _DEEPEST_OPAQUE or left_opaque <= 0 or _is_outside(value):
                    continue
                left_opaque -= 1
            parts = self._parts_of(value)
            left -= 1 + len(parts)
            self.objects[id(value)] = value
            self._parts[id(value)] = list(map(id, parts))
            for each in parts:
                if id(each) not in self._parts:
                    deeper = depth if is_known else depth + 1
                    (known if is_known and not deeper else opaque).append((each, deeper))

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
                    self._parts[id(other)].append(id(value))


def _live_parts(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind in _PLAIN:
        # A copy: what is looked at may be a list that grows with the looking.
        return list(itertools.islice(value, MOST_LOOKED_AT))
    if kind is dict:
        return (*value.values(), *value)
    known = kind_of(value)
    if known is None:
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


def _leads_everywhere(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return "__spec__" in value or "__builtins__" in value
    return kind in _EVERYWHERE or (
        kind is type and vars(type)["__module__"].__get__(value) != "__main__"
    )


def _is_outside(value: Any) -> bool:
    module = type(value).__module__
    return type(module) is str and module.partition(".")[0] in _OUTSIDE
