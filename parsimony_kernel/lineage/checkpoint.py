"""States of a namespace that one can go back to.

A checkpoint holds the bindings; what code may change in place is copied just before that code
runs, where a copy is affordable. Its cost follows the number of names and what the code touches,
not the size of what exists.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from parsimony_kernel.analysis.cell import Cell
from parsimony_kernel.analysis.parse import is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.classes import is_atomic
from parsimony_kernel.lineage.copies import (
    ROOM_BYTES,
    Copy,
    Kept,
    Room,
    bytes_of,
    kind_of,
)
from parsimony_kernel.lineage.frame_copiers import is_free
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.lineage.may_mutate import suspects, used_by
from parsimony_kernel.lineage.object_graph import holds_objects
from parsimony_kernel.lineage.undo import (
    ABSENT,
    GONE,
    Bindings,
    Change,
    Place,
    PutBack,
    State,
    TakenBack,
    change_since,
    set_back,
    shown,
    take_back,
)

__all__ = ["ABSENT", "GONE", "Change", "Checkpoints", "PutBack", "TakenBack"]

# What checkpoints beside the first may keep alive that is bound no more: one frame of a gigabyte.
MOST_REPLACED_BYTES = 1_200 * 2**20


class Checkpoints:
    """The checkpoints of one namespace, by number, oldest first.

    Args:
        namespace: gives the live namespace.
        bindings: gives the names in it that code may bind, with their objects.
        ledger: knows the versions of names, and is taken back with them.
        given: gives what the namespace has of itself; such a name has that again, not nothing.
    """

    def __init__(
        self,
        namespace: Callable[[], MutableMapping[str, Any]],
        bindings: Callable[[], Bindings],
        ledger: OriginLedger,
        given: Callable[[], Bindings] = dict,
    ) -> None:
        self._place = Place(namespace, bindings, ledger, given)
        self._bindings = bindings
        self._taken: dict[int, State] = {}
        self._next = 0
        self._room = Room()
        self._replaced = 0
        # The names that were said not to come back.
        self._named = set[str]()

    def __contains__(self, number: int) -> bool:
        return number in self._taken

    def take(self) -> int:
        """Remember the state as it is now; gives the number to go back to it by."""
        now, ledger = dict(self._bindings()), self._place.ledger
        if self._taken:
            newest = self._taken[max(self._taken)]
            self._replaced += _bytes_of_replaced(newest.bindings, now)
            if self._replaced > MOST_REPLACED_BYTES:
                self._replaced = _bytes_of_replaced(self._thin(keeps_newest=False).bindings, now)
        number, self._next = self._next, self._next + 1
        self._taken[number] = State(now, ledger.versions(), ledger.now())
        return number

    def protect(self, code: str) -> str:
        """Copy what ``code``, which is about to run, may change in place.

        Returns:
            What of that undo cannot bring back, in words, once for each name; empty when all can.
        """
        return self._protect(read(code)) if self._taken else ""

    def protect_call(self, function: Any) -> None:
        """Copy what calling ``function`` may change in place, where the notebook defines it."""
        if not self._taken:
            return
        names = used_by(function, self._bindings())
        self._protect(Cell(may_mutate=frozenset(names)))
        self._keep(self._taken[max(self._taken)], function)

    def _protect(self, what: Cell) -> str:
        bound = self._bindings()
        self._room.begin_cell()
        names = suspects(what, bound)
        newest = self._taken[max(self._taken)]
        doubted = dict[str, Kept]()
        for name in (*sorted(names.likely), *sorted(names.others)):
            value, is_likely = bound[name], name in names.likely
            if is_likely or is_free(value) or holds_objects(value):
                kept = self._keep(newest, value)
            else:
                has_way = is_atomic(value) or kind_of(value) is not None
                kept = Kept.YES if has_way else Kept.NO_WAY
            is_used = is_likely or name in what.receivers
            is_used = is_used or callable(value) or hasattr(type(value), "__next__")
            if kept is Kept.NO_ROOM or (kept is Kept.NO_WAY and is_used):
                doubted[name] = kept
        if doubted:
            self._doubt(newest, [bound[name] for name in doubted], bound)
        doubted |= dict.fromkeys(filter(is_table, what.writes | what.mutated), Kept.ELSEWHERE)
        new = shown(doubted.keys() - self._named)
        self._named.update(new)
        return "".join(f"Undo can't restore {name}: it is {doubted[name].value}.\n" for name in new)

    def _doubt(self, newest: State, values: list[Any], bound: Bindings) -> None:
        """``values``, which cannot be copied, may change with all that they hold; what of that
        has a name is copied where that is possible."""
        held = self._place.holding(values, newest.copies).objects
        for value in bound.values():
            if id(value) in held and kind_of(value) is not None:
                self._keep(newest, value)
        newest.copies.lost |= {
            key: each for key, each in held.items() if key not in newest.copies.by_id
        }

    def _keep(self, newest: State, value: Any) -> Kept:
        kept = newest.copies.keep(value, self._room)
        if kept is Kept.NO_ROOM and len(self._taken) > 2 and self._room.effort >= 0:
            self._thin(keeps_newest=True)
            return newest.copies.keep(value, self._room)
        return kept

    def _thin(self, *, keeps_newest: bool) -> State:
        """Keep the first checkpoint, and perhaps the newest, and the room of what is doubled."""
        first, newest = min(self._taken), max(self._taken)
        kept = {first: self._merged(first)}
        if keeps_newest:
            kept[newest] = self._taken[newest]
        self._taken = kept
        copies = (copy for each in kept.values() for copy in each.copies.by_id.values())
        self._room.bytes = ROOM_BYTES - sum(copy.size for copy in copies)
        return kept[first]

    def put_back(self, number: int, *, keep_new: bool = False) -> PutBack:
        """Go back to a checkpoint; later ones are forgotten. ``KeyError`` without it.

        With ``keep_new`` the names that did not exist then are left as they are.
        """
        target = self._merged(number)
        self._taken = {n: each for n, each in self._taken.items() if n < number}
        self._taken[number] = target
        changed = target.copies.changed()
        names = {*target.bindings, *self._bindings()}
        state = self._state(target, changed)
        return set_back(self._place, state, names, changed, keep_new=keep_new)

    def close(self) -> Change | None:
        """Forget all checkpoints; what differs since the first is the value, if anything does."""
        if not self._taken:
            return None
        change = self.change_since(min(self._taken))
        self._taken.clear()
        self._named.clear()
        self._room, self._replaced = Room(), 0
        return change

    def change_since(self, number: int) -> Change | None:
        """What differs by now from a checkpoint, if anything does. ``KeyError`` without it."""
        then = self._merged(number)
        changed = then.copies.changed()
        return change_since(self._place, self._state(then, changed), changed)

    def undo(self, change: Change) -> TakenBack:
        """Take ``change`` back.

        A name that was bound or changed again since is left, with all that it holds, and is
        ``kept``; so is whatever holds a part of that.
        """
        return take_back(self._place, change)

    def _state(self, target: State, changed: Mapping[int, Copy]) -> State:
        """``target`` with what its names held of ``changed``, and of what has no copy."""
        objects = {key: copy.value for key, copy in changed.items()} | target.copies.lost
        if not objects:
            return target
        holding = self._place.holding(target.bindings.values(), target.copies)
        return replace(target, holds=holding.holders(target.bindings, objects))

    def _merged(self, number: int) -> State:
        """The checkpoint with the copies that were taken after it."""
        copies = self._taken[number].copies
        for later in sorted(n for n in self._taken if n > number):
            copies = copies.with_later(self._taken[later].copies)
        return replace(self._taken[number], copies=copies)


def _bytes_of_replaced(bindings: Bindings, now: Bindings) -> int:
    replaced = (value for name, value in bindings.items() if now.get(name, ABSENT) is not value)
    return sum(map(bytes_of, replaced))
