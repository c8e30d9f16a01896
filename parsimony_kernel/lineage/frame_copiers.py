"""How frames and series of pandas are copied, compared and set back.

pandas copies lazily, so that a copy costs nothing until something is written. It has no public
way to give a frame another content where it lies, nor to ask whether two still share their
memory: here its managers are asked, as its own methods with inplace=True do.
"""

import sys
from itertools import starmap
from typing import Any

from parsimony_kernel.lineage.classes import copies_lazily, is_atomic, is_frame, loaded
from parsimony_kernel.lineage.copiers import (
    Kind,
    arrays_inside,
    attributes_of,
    same_mapping,
    same_memory,
    same_objects,
)

_ABSENT = object()
_SAMPLED = 1_000
# What pandas itself keeps of a frame.
_OF_PANDAS = frozenset({"_mgr", "_flags", "_item_cache", "_is_copy"})


def is_free(value: Any) -> bool:
    """Whether a copy of ``value`` takes neither time nor room."""
    return is_frame(type(value)) and copies_lazily()


def _copy(value: Any) -> Any:
    """A frame or a series of pandas' own class, with what the class of ``value`` says belongs to
    one."""
    pandas, own = sys.modules["pandas"], attributes_of(value)
    manager = own["_mgr"].copy(deep=not copies_lazily())
    base = pandas.DataFrame if issubclass(type(value), pandas.DataFrame) else pandas.Series
    held = base._from_mgr(manager, axes=manager.axes)
    _give(attributes_of(held), own, type(value))
    return held


def _give(to: dict[str, Any], own: dict[str, Any], kind: type) -> None:
    """Give the attributes of a frame of ``kind`` to those of another."""
    for name in ("_attrs", "_name", *type.__getattribute__(kind, "_metadata")):
        if name in own:
            to[name] = own[name].copy() if type(own[name]) is dict else own[name]
    to["_flags"]._allows_duplicate_labels = own["_flags"]._allows_duplicate_labels


def _same(value: Any, held: Any) -> bool:
    now, then = attributes_of(value), attributes_of(held)
    return (
        now["_flags"]._allows_duplicate_labels == then["_flags"]._allows_duplicate_labels
        and _same_managers(now["_mgr"], then["_mgr"])
        and all(
            _same_attribute(now.get(name, _ABSENT), each)
            for name, each in then.items()
            if name not in _OF_PANDAS
        )
    )


def _write(value: Any, held: Any) -> None:
    own, then = attributes_of(value), attributes_of(held)
    own["_mgr"] = then["_mgr"].copy(deep=not copies_lazily())
    _give(own, then, type(value))
    own.pop("_item_cache", None)


def _inside(held: Any) -> list[Any]:
    """What lies in its columns of objects, where the first of them can change."""
    found: list[Any] = []
    for name, each in attributes_of(held).items():
        if name not in _OF_PANDAS:
            found.extend(each.values() if type(each) is dict else [each])
    numpy = sys.modules["numpy"]
    for block in held._mgr.blocks:
        # Columns of strings call themselves objects too; they are no plain arrays.
        if type(block.values) is numpy.ndarray and block.values.dtype.kind == "O":
            cells = block.values.reshape(-1)
            if not all(is_atomic(each) for each in cells[:_SAMPLED]):
                found.extend(cells)
    return found


FRAME = Kind(
    _copy,
    _same,
    _write,
    _inside,
    lambda value: 0 if copies_lazily() else frame_bytes(value),
)


def frame_bytes(value: Any) -> int:
    """The memory of a frame's columns, strings without their text."""
    blocks = attributes_of(value)["_mgr"].blocks
    return sum(int(getattr(block.values, "nbytes", 0)) for block in blocks)


def unshared_bytes(held: Any, value: Any) -> int:
    """The memory in bytes that a lazy copy of ``value`` keeps for itself alone."""
    if not is_frame(type(held)):
        return 0
    live = set[int]().union(*map(_owners, attributes_of(value)["_mgr"].blocks))
    blocks = (block for block in held._mgr.blocks if live.isdisjoint(_owners(block)))
    return sum(int(getattr(block.values, "nbytes", 0)) for block in blocks)


def _owners(block: Any) -> set[int]:
    """The ids of the arrays that own the memory of a block."""
    found = set[int]()
    for each in (block.values, *arrays_inside(block.values)):
        while (base := getattr(each, "base", None)) is not None:
            each = base
        found.add(id(each))
    return found


def _same_attribute(now: Any, held: Any) -> bool:
    if type(now) is dict and type(held) is dict:
        return same_mapping(now.copy(), held)
    return now is held


def _same_managers(one: Any, other: Any) -> bool:
    if len(one.blocks) != len(other.blocks):
        return False
    axes = zip(one.axes, other.axes, strict=True)
    if not all((a is b or a.is_(b)) and same_objects(a.names, b.names) for a, b in axes):
        return False
    return all(
        list(a.mgr_locs) == list(b.mgr_locs) and same_memory(a.values, b.values)
        for a, b in zip(one.blocks, other.blocks, strict=True)
    )


def is_polars(kind: type) -> bool:
    """Whether values of ``kind`` are frames or series of polars."""
    return kind in loaded("polars", "DataFrame", "Series")


# Frames and series of polars. Columns are shared until one is written to, so that a copy takes no
# room, and one whose memory begins where it did has not changed.


def _same_polars(value: Any, held: Any) -> bool:
    pairs = zip(_columns(value), _columns(held), strict=False)
    return value.shape == held.shape and all(starmap(_same_series, pairs))


def _write_polars(value: Any, held: Any) -> None:
    inner = "_s" if type(value) in loaded("polars", "Series") else "_df"
    setattr(value, inner, getattr(held.clone(), inner))


POLARS = Kind(
    lambda value: value.clone(),
    _same_polars,
    _write_polars,
    lambda held: (),
    lambda value: 0,
)


def _columns(value: Any) -> list[Any]:
    return [value] if type(value) in loaded("polars", "Series") else value.get_columns()


def _same_series(one: Any, other: Any) -> bool:
    if one.name != other.name or one.dtype != other.dtype:
        return False
    place = _place(one)
    return bool(place == _place(other) if place else one.equals(other))


def _place(series: Any) -> Any:
    """Where its values begin and end in memory, where they are plain and lie in one piece."""
    try:
        return series._get_buffer_info()
    except Exception:  # boundary: user object - polars tells of plain values in one piece only
        return None
