"""Copies of what code may change in place, and how an object is set back to its copy.

An object is set back where it lies, so that whoever else holds it sees it too; where that cannot
be done, the copy takes its place. No code of a person's is run, and what does not fit into the
room that is given is not copied.
"""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import CellType, FunctionType
from typing import Any

# What copies may take up in memory, and how many objects are looked at, for all of one run.
ROOM_BYTES = 128 * 2**20
MOST_OBJECTS = 1_000_000
# Frames up to this size are compared with their copy, to tell whether they were changed.
_COMPARED_BYTES = 64 * 2**20

_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
# These cannot be changed, but what they hold can.
_TRANSPARENT = (tuple, FunctionType, CellType)
_IMMUTABLE = (bool, int, float, complex, str, bytes, frozenset, type(None), type, range, slice)


class NoRoom(Exception):
    """The copy would take up more than is left."""


@dataclass
class Room:
    """What is left for copies."""

    bytes: int = ROOM_BYTES
    objects: int = MOST_OBJECTS

    def take(self, size: int) -> None:
        """Use ``size`` bytes. ``NoRoom`` when they are not left."""
        if size > self.bytes:
            raise NoRoom
        self.bytes -= size

    def look_at(self, objects: int) -> None:
        """Look at so many objects. ``NoRoom`` when that are too many."""
        if objects > self.objects:
            raise NoRoom
        self.objects -= objects


@dataclass(frozen=True)
class Copy:
    """An object, and what it held. ``held`` is shallow: what lies in it has copies of its own."""

    value: Any
    held: Any

    @property
    def is_changed(self) -> bool:
        """Whether the object holds something else than its copy, as far as that is cheap."""
        value, held = self.value, self.held
        if _is_frame(value):
            return _frames_differ(value, held)
        if _is_array(value):
            return bool(value.shape != held.shape or value.tobytes() != held.tobytes())
        if type(value) in _MAPPINGS:
            return not _same(value, held) or not _same(value.values(), held.values())
        if type(value) in (list, deque):
            return not _same(value, held)
        if type(value) is set:
            return {id(each) for each in value} != {id(each) for each in held}
        if type(value) is bytearray:
            return value != bytes(held)
        now = _attributes(value)
        return not _same(now, held) or not _same(now.values(), held.values())

    def set_back(self) -> Any:
        """The object as it was: itself where possible, else what takes its place."""
        value, held = self.value, self.held
        if _is_frame(value):
            return _frame_set_back(value, held)
        if _is_array(value):
            return _array_set_back(value, held)
        match value:
            case list() | bytearray():
                value[:] = held
            case deque():
                value.clear()
                value.extend(held)
            case dict() | set():
                value.clear()
                value.update(held)
            case _:
                now = _attributes(value)
                now.clear()
                now.update(held)
        return value


@dataclass
class Copies:
    """Copies of objects by identity, each of the first content that was seen."""

    by_id: dict[int, Copy] = field(default_factory=dict)

    def keep(self, value: Any, room: Room) -> bool:
        """Copy ``value`` and all that it holds. ``False`` when some of it cannot be copied.

        What has been copied before stays as it is.
        """
        whole, pending, seen = True, [value], set[int]()
        try:
            while pending:
                each = pending.pop()
                if id(each) in seen or issubclass(type(each), _IMMUTABLE):
                    continue
                seen.add(id(each))
                if type(each) in _TRANSPARENT:
                    parts = _parts(each)
                    room.look_at(len(parts))
                    pending.extend(parts)
                    continue
                if id(each) not in self.by_id:
                    try:
                        held = _copied(each, room)
                    except NoRoom:
                        raise
                    except Exception:  # a class of a person's, below pandas' say
                        held = None
                    if held is None:
                        whole = whole and each is not value
                        continue
                    self.by_id[id(each)] = Copy(each, held)
                parts = _parts(self.by_id[id(each)].held)
                room.look_at(len(parts))
                pending.extend(parts)
        except NoRoom:
            return False
        return whole

    def changed(self) -> set[int]:
        """The ids of those objects that hold something else than their copies."""
        return {key for key, copy in self.by_id.items() if copy.is_changed}

    def reaches(self, value: Any, ids: Collection[int]) -> bool:
        """Whether ``value`` is, or held when it was copied, one of the objects of ``ids``."""
        if not ids:
            return False
        pending, seen = [value], set[int]()
        while pending:
            each = pending.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if id(each) in ids:
                return True
            copy = self.by_id.get(id(each))
            # What was not copied has not been looked through either.
            if copy is not None:
                pending.extend(_parts(copy.held))
            elif type(each) in _TRANSPARENT and len(seen) < MOST_OBJECTS:
                pending.extend(_parts(each))
        return False


def _parts(held: Any) -> Sequence[Any]:
    """What lies directly in a container, or in a function."""
    if type(held) in _MAPPINGS:
        return list(held.values())
    if type(held) in (list, tuple, set, deque):
        return list(held)
    if type(held) is FunctionType:
        return [*(held.__closure__ or ()), *(held.__defaults__ or ())]
    if type(held) is CellType:
        try:
            return [held.cell_contents]
        except ValueError:  # not bound yet
            return []
    return ()


def _copied(value: Any, room: Room) -> Any:
    """What ``value`` holds; ``None`` for an object of a kind that is not copied."""
    if _is_frame(value):
        return _frame_copied(value, room)
    if _is_array(value):
        room.take(value.nbytes)
        return value.copy()
    kind = type(value)
    if kind in (list, set, bytearray, deque, *_MAPPINGS):
        room.take(sys.getsizeof(value))
        return value.copy()
    if kind.__module__ == "__main__" and kind.__dictoffset__:
        attributes = _attributes(value)
        room.take(sys.getsizeof(attributes))
        return attributes.copy()
    return None


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an instance, past what its class makes of them."""
    attributes: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return attributes


def _same(one: Iterable[Any], other: Iterable[Any]) -> bool:
    """Whether two hold the very same objects in the same order."""
    left, right = list(one), list(other)
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


# Frames: pandas copies lazily, so that a copy costs nothing until something is written.


def _is_frame(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and issubclass(type(value), pandas.DataFrame | pandas.Series)


def _copies_lazily() -> bool:
    pandas = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


def _frame_copied(value: Any, room: Room) -> Any:
    if _copies_lazily():
        return value.copy(deep=False)
    room.take(_size(value))
    return value.copy()


def _size(frame: Any) -> int:
    used = frame.memory_usage(index=False, deep=False)
    return int(used if isinstance(used, int) else used.sum())


def _frames_differ(value: Any, held: Any) -> bool:
    if value.shape != held.shape:
        return True
    return _size(held) <= _COMPARED_BYTES and not (
        value.equals(held) and all(a.equals(b) for a, b in zip(value.axes, held.axes, strict=True))
    )


def _frame_set_back(value: Any, held: Any) -> Any:
    again = held.copy(deep=not _copies_lazily())
    if not hasattr(value, "_mgr") or not hasattr(again, "_mgr"):
        return again
    # pandas has no public way to give a frame another content where it lies; its own methods
    # with inplace=True do this.
    object.__setattr__(value, "_mgr", again._mgr)
    return value


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject


def _array_set_back(value: Any, held: Any) -> Any:
    if value.shape == held.shape and value.dtype == held.dtype and value.flags.writeable:
        value[...] = held
        return value
    return held.copy()
