"""The names that lead to objects that changed: their own, those of their memory and of holders."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import islice
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage.classes import loaded
from parsimony_kernel.lineage.kinds.atoms import SIMPLE, are_simple
from parsimony_kernel.lineage.look import Looked
from parsimony_kernel.lineage.memory import (
    is_still,
    may_share,
    owners,
    owners_of_kind,
    shares_memory,
)
from parsimony_kernel.lineage.parts import (
    DEEPEST,
    MOST_LOOKED_INTO,
    can_hold,
    parts_in,
    parts_of_kind,
)

_LAST_OUTPUTS = ("_", "__", "___")


def names_of(
    touched: Mapping[int, Any],
    after: Mapping[str, Any],
    earlier: tuple[Mapping[str, Any], ...],
    looked: Looked,
    shown: tuple[Any, ...],
) -> set[str]:
    """The names of these objects, of their memory, and of what holds them."""
    if not touched:
        return set()
    found = {name for name, value in after.items() if id(value) in touched}
    if _are_only_bound(touched, found, (after, *earlier), looked.namespace, shown):
        return found
    kinds = list(map(id, map(type, after.values())))
    distinct = dict(zip(kinds, map(type, after.values()), strict=True))
    columns = {id(after[name]) for name in looked.columns_only & found}
    columns -= {id(after[name]) for name in found - looked.columns_only}
    memory = {
        root
        for key, value in touched.items()
        if not (key in columns and _writes_nothing(value))
        for root in owners(value)
    }
    memory -= {id(array) for get, content in looked.contents if is_still(array := get(), content)}
    if memory:
        owning = {key: look for key, kind in distinct.items() if (look := owners_of_kind(kind))}
        found |= {
            name
            for (name, value), kind in zip(after.items(), kinds, strict=True)
            if kind in owning
            and not memory.isdisjoint(owning[kind](value))
            and shares_memory(value, touched)
        }
    holding = {key: parts_of_kind(kind) for key, kind in distinct.items() if can_hold(kind)}
    holders = [
        (name, parts)
        for (name, value), kind in zip(after.items(), kinds, strict=True)
        if kind in holding
        and (parts := holding[kind](value))
        and not SIMPLE.issuperset(map(id, map(type, parts)))
        and name not in found
    ]
    changed = touched.keys() | memory | {id(after[name]) for name in found}
    leading = _leading_to(changed, [parts for _, parts in holders])
    return found | {name for name, parts in holders if not leading.isdisjoint(map(id, parts))}


def _are_only_bound(
    touched: Mapping[int, Any],
    names: Collection[str],
    snapshots: Iterable[Mapping[str, Any]],
    namespace: Mapping[str, Any],
    held: tuple[Any, ...],
) -> bool:
    """Whether nothing holds these objects, or their memory, but their names and IPython's outputs.

    Told by the number of references, without a look at what else there is.
    """
    bindings = {id(each): each for each in (namespace, *snapshots) if type(each) is dict}
    outputs = namespace.get("_oh")
    if type(outputs) is not dict:
        outputs = {}
    for key in touched:
        shown = [f"_{number}" for number, each in outputs.items() if id(each) == key]
        known = len(shown) + sum(
            id(each.get(name)) == key
            for each in bindings.values()
            for name in (*names, *shown, *_LAST_OUTPUTS)
        )
        known += 2 * sum(id(each) == key for each in held)
        # One reference is that of ``touched``, one that of the call.
        if getrefcount(touched[key]) - 2 > known or may_share(touched[key]):
            return False
    return True


def _leading_to(changed: Set[int], groups: Sequence[Sequence[Any]]) -> set[int]:
    """``changed`` and the ids of what holds one of them, a few levels down in ``groups``.

    Of each group as many are looked into as of the others.
    """
    leading = set(changed)
    if not groups:
        return leading
    share = slice(None, max(MOST_LOOKED_INTO // len(groups), 1))
    level = [part for parts in groups for part in parts[share]]
    looked_into: list[list[tuple[int, Sequence[Any]]]] = []
    room = MOST_LOOKED_INTO
    for _ in range(DEEPEST):
        inside = {id(part): part for part in level if id(type(part)) not in SIMPLE}
        held = [
            (key, parts)
            for key, part in islice(inside.items(), room)
            if not are_simple(parts := parts_in(part))
        ]
        room -= len(inside)
        looked_into.append(held)
        if not held or room <= 0:
            break
        level = [part for _, parts in held for part in parts]
    for held in reversed(looked_into):
        leading |= {key for key, parts in held if not leading.isdisjoint(map(id, parts))}
    return leading


def _writes_nothing(value: Any) -> bool:
    """Whether a column that is set is no write into memory: of a frame of pandas 3 or later."""
    if all(type(value) is not each for each in loaded("pandas", "DataFrame")):
        return False
    return int(sys.modules["pandas"].__version__.partition(".")[0]) >= 3
