"""Copies of what code may change in place, within a room for all of a run.

Nothing is copied by half: where some of an object cannot be copied, or does not fit, none of it
is, and the caller is told.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_atomic
from parsimony_kernel.lineage.kinds.kind import Kind
from parsimony_kernel.lineage.kinds.lookup import kind_of, most_bytes

# What copies may take up in memory for all of a run, and what looking for them may take at once.
ROOM_BYTES = 128 * 2**20
MOST_EFFORT = 1_200_000
# A copy costs about as much as looking at so many numbers.
_COPY_EFFORT = 130


class NoRoom(Exception):
    """The copy would take up more than is left."""


@dataclass
class Room:
    """What is left for copies: bytes for all of them, effort for those of one cell."""

    bytes: int = ROOM_BYTES
    effort: int = MOST_EFFORT


@dataclass(frozen=True)
class Copy:
    """An object, and what it held. ``held`` is shallow: what lies in it has copies of its own."""

    kind: Kind
    value: Any
    held: Any
    size: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether the object holds something else by now; so does one that cannot be asked."""
        try:
            return not self.kind.same(self.value, self.held)
        except Exception:  # boundary: user object - its comparison may do anything
            return True

    def set_back(self) -> Any:
        """The object as it was, or what takes its place. ``None`` when neither can be had."""
        try:
            return self.kind.set_back(self.value, self.held)
        except Exception:  # boundary: user object - its methods may do anything
            return None

    def again(self) -> "Copy":
        """The object with what it holds now."""
        return Copy(self.kind, self.value, self.kind.copy(self.value))


@dataclass
class Copies:
    """Copies of objects by identity, each of the first content that was seen."""

    by_id: dict[int, Copy] = field(default_factory=dict)

    def keep(self, values: Iterable[Any], room: Room) -> bool:
        """Copy ``values`` and all that they hold, or nothing.

        ``False`` when some of it cannot be copied, or does not fit. What has been copied before
        stays as it is.
        """
        made: dict[int, Copy] = {}
        taken = 0
        try:
            for copy in self._copied(values, room):
                taken += copy.size
                made[id(copy.value)] = copy
                if taken > room.bytes:
                    return False
        except NoRoom:
            return False
        except Exception:  # boundary: user object - what it holds may be anything
            return False
        room.bytes -= taken
        self.by_id.update(made)
        return True

    def _copied(self, values: Iterable[Any], room: Room) -> Iterable[Copy]:
        pending, seen = list(values), set[int]()
        while pending:
            each = pending.pop()
            if id(each) in seen or is_atomic(each):
                continue
            seen.add(id(each))
            copy = self.by_id.get(id(each))
            if copy is None:
                kind = kind_of(each)
                size = 0 if kind is None else kind.size(each)
                if kind is None or size > min(most_bytes(kind), room.bytes):
                    raise NoRoom
                room.effort -= _COPY_EFFORT
                copy = Copy(kind, each, kind.copy(each), size)
                yield copy
            parts = copy.kind.parts(copy.held)
            room.effort -= len(parts)
            if room.effort < 0:
                raise NoRoom
            pending.extend(part for part in parts if type(part) not in ATOMS)

    def reachable(self, values: Iterable[Any]) -> set[int]:
        """The ids of what was copied of ``values`` and of all that they held."""
        pending, found = list(values), set[int]()
        while pending:
            each = pending.pop()
            copy = self.by_id.get(id(each))
            if copy is None or id(each) in found:
                continue
            found.add(id(each))
            pending.extend(part for part in copy.kind.parts(copy.held) if type(part) not in ATOMS)
        return found

    def changed(self) -> dict[int, Copy]:
        """Those whose objects hold something else by now."""
        return {key: copy for key, copy in self.by_id.items() if copy.is_changed}
