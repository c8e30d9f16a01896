"""Copies of what code may change in place, within a room for a cell and one for all of a run.

An object is copied one level deep, and so is all that it holds: what shares a part shares it again
when it is put back. Nothing is copied by half: where some of an object cannot be copied, or does
not fit, none of it is, and the caller is told.
"""

import sys
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from parsimony_kernel.lineage.buffers import frame_bytes
from parsimony_kernel.lineage.classes import ATOMS, is_atomic, is_frame
from parsimony_kernel.lineage.copiers import Content, Kind, State, kind_of, leaves_out

# What copies may take up in memory for all of a run and for one cell, and what looking for them
# may take for one: about 50 ms.
ROOM_BYTES = 128 * 2**20
CELL_BYTES = 64 * 2**20
CELL_EFFORT = 1_200_000
# A copy costs about as much as looking at so many numbers.
_COPY_EFFORT = 130


class Kept(Enum):
    """What came of an attempt to copy."""

    YES = "copied"
    NO_ROOM = "too big to copy"
    NO_WAY = "not something that can be copied"
    ELSEWHERE = "in a database"


@dataclass
class Room:
    """What is left for copies: bytes for all of them, bytes and effort for those of one cell."""

    bytes: int = ROOM_BYTES
    effort: int = CELL_EFFORT
    cell_bytes: int = CELL_BYTES

    def begin_cell(self) -> None:
        """Another cell is about to run."""
        self.effort, self.cell_bytes = CELL_EFFORT, CELL_BYTES


@dataclass(slots=True, eq=False)
class Copy:
    """An object, and what it held. ``held`` is shallow: what lies in it has copies of its own."""

    kind: Kind
    value: Any
    held: Content
    size: int

    @classmethod
    def of(cls, value: Any, kind: Kind) -> "Copy":
        """A copy of what ``value`` holds now."""
        held = kind.copy(value)
        state = len(held.items.content) if isinstance(held.items, State) else 0
        return cls(kind, value, held, kind.size(value) + state)

    @property
    def parts(self) -> Collection[Any]:
        """What lies in what it held, without the keys of mappings."""
        return self.kind.parts(self.held)

    @property
    def is_changed(self) -> bool:
        """Whether the object holds something else by now; so does one that cannot be asked."""
        try:
            return not self.kind.is_same(self.value, self.held)
        except Exception:  # boundary: user object - its comparison may do anything
            return True

    def set_back(self) -> Any:
        """The object as it was, or what takes its place. ``None`` when neither can be had."""
        try:
            return self.kind.set_back(self.value, self.held)
        except Exception:  # boundary: user object - its methods may do anything
            return None


@dataclass
class Copies:
    """Copies of objects by identity, each of the first content that was seen; ``lost`` are objects
    that may have changed without a copy, by id."""

    by_id: dict[int, Copy] = field(default_factory=dict)
    lost: dict[int, Any] = field(default_factory=dict)

    def with_later(self, later: "Copies") -> "Copies":
        """These and those taken later: what was first copied then had not been touched before.
        They come first: of arrays that share memory the earlier copy has the last word."""
        lost = {key: each for key, each in later.lost.items() if key not in self.by_id}
        new = {key: each for key, each in later.by_id.items() if key not in self.by_id}
        return Copies({**new, **self.by_id}, {**lost, **self.lost})

    def only(self, keys: Collection[int]) -> "Copies":
        """Those of some objects."""
        made = {key: each for key, each in self.by_id.items() if key in keys}
        return Copies(made, {key: each for key, each in self.lost.items() if key in keys})

    def keep(self, value: Any, room: Room) -> Kept:
        """Copy ``value`` and all that it holds, or nothing.

        What has been copied before stays as it is.
        """
        made: dict[int, Copy] = {}
        try:
            kept = self._copy_into(made, value, room)
        except Exception:  # boundary: user object - what it holds may be anything
            return Kept.NO_WAY
        if kept is Kept.YES:
            taken = sum(copy.size for copy in made.values())
            room.bytes -= taken
            room.cell_bytes -= taken
            self.by_id.update(made)
        return kept

    def _copy_into(self, made: dict[int, Copy], value: Any, room: Room) -> Kept:
        left = min(room.bytes, room.cell_bytes)
        pending: list[tuple[Any, Copy | None]] = [(value, None)]
        holders: dict[int, Copy | None] = {}
        while pending:
            each, holder = pending.pop()
            if id(each) in holders or (type(each) not in COMMON and is_atomic(each)):
                continue
            holders[id(each)] = holder
            copy = self.by_id.get(id(each))
            if copy is None:
                kind = kind_of(each)
                if kind is None and _is_left_out(each, holders):
                    continue
                if kind is None:
                    return Kept.NO_WAY
                if kind.size(each) > left:
                    return Kept.NO_ROOM
                copy = made[id(each)] = Copy.of(each, kind)
                left -= copy.size
                room.effort -= _COPY_EFFORT
            parts = copy.parts
            room.effort -= len(parts)
            if left < 0 or room.effort < 0:
                return Kept.NO_ROOM
            pending.extend((part, copy) for part in parts if type(part) not in ATOMS)
        return Kept.YES

    def reachable(self, values: Iterable[Any]) -> set[int]:
        """The ids of what was copied of ``values`` and of all that they held."""
        pending, found = list(values), set[int]()
        while pending:
            each = pending.pop()
            copy = self.by_id.get(id(each))
            if copy is None or id(each) in found:
                continue
            found.add(id(each))
            pending.extend(part for part in copy.parts if type(part) not in ATOMS)
        return found

    def changed(self) -> dict[int, Copy]:
        """Those whose objects hold something else by now."""
        return {key: copy for key, copy in self.by_id.items() if copy.is_changed}


def _is_left_out(part: Any, holders: Mapping[int, Copy | None]) -> bool:
    """Whether the class of one of those that hold ``part`` does not pickle what leads to it."""
    while (holder := holders[id(part)]) is not None:
        if leaves_out(holder.kind, holder.value, part):
            return True
        part = holder.value
    return False


COMMON = frozenset({list, dict, tuple, set, deque})


def bytes_of(value: Any) -> int:
    """About how much memory ``value`` itself takes; no code of its own is asked."""
    if is_frame(type(value)):
        return frame_bytes(value)
    if type(value) in ATOMS:
        return sys.getsizeof(value)
    kind = kind_of(value)
    return 64 + (kind.size(value) if kind is not None else 0)
