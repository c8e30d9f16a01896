"""The names that lead to objects that changed: their own, those of their memory and of holders."""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import compress
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage.classes import SIMPLE, copies_lazily, is_frame, loaded
from parsimony_kernel.lineage.object_graph import (
    MOST_BLOCKS,
    MOST_LOOKED_INTO,
    can_hold,
    levels_of,
    owner,
    parts_in,
    parts_of_kind,
)


def owners(value: Any) -> Sequence[int]:
    """The ids of what owns the memory of an array or a frame."""
    look = owners_of_kind(type(value))
    return look(value) if look is not None else ()


def owners_of_kind(kind: type) -> Callable[[Any], Sequence[int]] | None:
    """How the memory of a value of ``kind`` is told, ``None`` where it has none of its own."""
    for array in loaded("numpy", "ndarray"):
        if is_frame(kind):
            return lambda value: [
                id(owner(held, array))
                for block in value._mgr.blocks[:MOST_BLOCKS]
                if type(held := block.values) is array
            ]
        if issubclass(kind, (array, memoryview)):
            return lambda value: (id(owner(value, array)),)
    return None


def _blocks_of(frame: Any) -> Iterator[tuple[int, int]]:
    """The ids of what owns the memory of each block of a frame, and of pandas' own record of who
    shares it."""
    for array in loaded("numpy", "ndarray"):
        for block in frame._mgr.blocks[:MOST_BLOCKS]:
            if type(block.values) is array:
                yield id(owner(block.values, array)), id(block.refs)


def shares_memory(value: Any, touched: Mapping[int, Any]) -> bool:
    """Whether two arrays of one owner overlap; what is no array does, as far as can be told."""
    arrays = loaded("numpy", "ndarray")
    if not issubclass(type(value), arrays):
        return True
    return any(
        not issubclass(type(each), arrays) or sys.modules["numpy"].may_share_memory(each, value)
        for each in touched.values()
        if not set(owners(each)).isdisjoint(owners(value))
    )


_LAST_OUTPUTS = ("_", "__", "___")


def names_of(
    touched: Mapping[int, Any],
    after: Mapping[str, Any],
    earlier: tuple[Mapping[str, Any], ...],
    namespace: Mapping[str, Any],
    shown: tuple[Any, ...],
    columns_only: Set[str],
) -> set[str]:
    """The names of these objects, of their memory, and of what holds them.

    Args:
        touched: the objects, by id.
        after: what names are bound to now.
        earlier: other mappings that hold what they were bound to.
        namespace: the live namespace, with IPython's outputs.
        shown: what the caller holds besides: the value that the cell shows.
        columns_only: frames of which the cell did nothing but set columns, by name.
    """
    if not touched:
        return set()
    found = set(compress(after, map(touched.__contains__, map(id, after.values()))))
    if not any(owners_of_kind(type(each)) for each in touched.values()) and _are_only_bound(
        touched, found, (after, *earlier), namespace, shown
    ):
        return found
    kinds = list(map(id, map(type, after.values())))
    distinct = dict(zip(kinds, map(type, after.values()), strict=True))
    columns = {id(after[name]) for name in columns_only & found}
    columns -= {id(after[name]) for name in found - columns_only}
    memory = {
        root
        for key, value in touched.items()
        if not (key in columns and _writes_nothing(value))
        for root in owners(value)
    }
    if memory:
        owning = {key: look for key, kind in distinct.items() if (look := owners_of_kind(kind))}
        # A changed frame has copied first what pandas knows that another frame shares.
        lazy = {key for key, kind in distinct.items() if is_frame(kind) and copies_lazily()}
        frames = [each for each in touched.values() if id(type(each)) in lazy]
        known = {pair for frame in frames for pair in _blocks_of(frame)}
        found |= {
            name
            for (name, value), kind in zip(after.items(), kinds, strict=True)
            if kind in owning
            and not memory.isdisjoint(owning[kind](value))
            and not (
                kind in lazy
                and len(frames) == len(touched)
                and known.issuperset(pair for pair in _blocks_of(value) if pair[0] in memory)
            )
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
    """Whether nothing holds these objects but their names and IPython's outputs.

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
        if getrefcount(touched[key]) - 2 > known:
            return False
    return True


def _leading_to(changed: Set[int], groups: Sequence[Sequence[Any]]) -> set[int]:
    """``changed`` and the ids of what holds one of them, a few levels down in ``groups``.

    Of each group as many are looked into as of the others.
    """
    leading = set(changed)
    share = slice(None, max(MOST_LOOKED_INTO // max(len(groups), 1), 1))
    inside = {
        id(part): part for parts in groups for part in parts[share] if id(type(part)) not in SIMPLE
    }
    for held in reversed(list(levels_of(inside.values(), parts_in))):
        leading |= {key for key, parts in held if not leading.isdisjoint(map(id, parts))}
    return leading


def _writes_nothing(value: Any) -> bool:
    """Whether a column that is set is no write into memory: of a frame of pandas 3 or later."""
    if all(type(value) is not each for each in loaded("pandas", "DataFrame")):
        return False
    return int(sys.modules["pandas"].__version__.partition(".")[0]) >= 3
