"""States of a namespace that one can go back to, and what became of it since.

A checkpoint holds the bindings; what code may change in place is copied just before that code
runs, where a copy is affordable. Its cost follows the number of names and what the code touches,
not the size of what exists. A change is kept so that it can be taken back later, and done again: a
redo is the undo of an undo.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from parsimony_kernel.analysis.cell import Cell
from parsimony_kernel.analysis.parse import is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.buffers import unshared_bytes
from parsimony_kernel.lineage.classes import is_atomic
from parsimony_kernel.lineage.copies import (
    ROOM_BYTES,
    STATE,
    Copies,
    Copy,
    Kept,
    Room,
    bytes_of,
    is_free,
    is_opaque,
    kind_of,
)
from parsimony_kernel.lineage.ledger import Moment, OriginLedger
from parsimony_kernel.lineage.may_mutate import Reach, suspects
from parsimony_kernel.lineage.object_graph import Holding, holds_objects
from parsimony_kernel.lineage.snapshot import Snapshot, visible

# What a name is bound to that is not bound.
ABSENT = object()

Bindings = Mapping[str, Any]


@dataclass(frozen=True)
class PutBack:
    """What going back did, each sorted; a name stands in one of the first four at most.

    ``restored`` are names that have their earlier value again, ``removed`` those that were new.
    ``kept`` were left: new names, or such as were changed since, with whatever holds a part of
    what they hold. ``lost`` may have been changed in place, and there was no copy of all that
    they hold. ``reasons`` say of names in ``kept`` why, where it is not that they themselves were
    changed or bound anew.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return bool(self.restored or self.removed or self.lost)


@dataclass
class State:
    """What names were bound to, at which versions; what of that was copied since; and when."""

    bindings: dict[str, Any]
    versions: dict[str, int]
    when: Moment
    copies: Copies = field(default_factory=Copies)


class Was(NamedTuple):
    """What a name was bound to, ``ABSENT`` for nothing; its version; and, by id, what it held of
    the objects that changed since, or may have."""

    value: Any
    version: int
    held: Set[int]


def set_back(
    place: "Checkpoints",
    names: Mapping[str, Was],
    changed: Mapping[int, Copy],
    lost: Set[int],
    when: Moment,
    *,
    keep_new: bool = False,
) -> PutBack:
    """Give ``names`` and the objects ``changed`` what they had.

    Args:
        lost: the ids of objects that may have changed without a copy.
        when: when all was so.
        keep_new: whether names that did not exist then are left as they are.
    """
    namespace, given = place.namespace(), place.given()
    broken = {key for key, copy in changed.items() if not copy.set_back()}
    restored, removed, kept, gone = set[str](), set[str](), set[str](), set[str]()
    for name, was in names.items():
        value = given.get(name, ABSENT) if was.value is ABSENT else was.value
        if value is ABSENT:
            if keep_new:
                kept.add(name)
                continue
            if namespace.pop(name, ABSENT) is not ABSENT:
                removed.add(name)
        else:
            is_other = namespace.get(name, ABSENT) is not value or bool(was.held & changed.keys())
            namespace[name] = value
            if was.held & (lost | broken):
                gone.add(name)
                if is_other:
                    place.ledger.go_back(name, 0)  # what it holds is of nobody's making
                continue
            if is_other:
                restored.add(name)
        place.ledger.go_back(name, was.version)
    if restored or removed:
        place.ledger.put_back(restored | removed, when)
    return PutBack(shown(restored), shown(removed), shown(kept), shown(gone))


def _differing(before: Bindings, now: Bindings) -> set[str]:
    """The names that are bound to something else, without imports that were not there before:
    these are no work, and in nobody's way."""
    names = {*before, *now}
    other = {n for n in names if now.get(n, ABSENT) is not before.get(n, ABSENT)}
    imports = {n for n in other if n not in before and not visible({"value": now[n]}, {})}
    return other - imports


def shown(names: Collection[str]) -> tuple[str, ...]:
    """The names that a person sees, sorted."""
    return tuple(sorted(name for name in names if not name.startswith("_")))


# Why a name is left that was neither changed nor bound anew itself.
_SHARES = "holds a part of what is left, so left too"
_UNSEEN = "used since, and whether that changed it cannot be seen, so left"


@dataclass(frozen=True)
class Change:
    """What became of a namespace between two states.

    Enough to take it back later, when other cells may have run; it holds only what differs.

    Args:
        before: what the names were, and ``copies`` what they held.
        after: what each that there was then was bound to, ``versions`` at which version.
        images: what the changed objects held after.
        runs: how many runs of cells were on record.
        size: the memory in bytes that it keeps, as far as that is known.
    """

    when: Moment
    before: Mapping[str, Was]
    copies: Copies
    after: Snapshot
    versions: Mapping[str, int]
    images: Mapping[int, Copy]
    runs: int
    size: int


def change_since(
    place: "Checkpoints",
    before: State,
    changed: Mapping[int, Copy],
    holds: Mapping[str, Set[int]],
) -> Change | None:
    """What differs from ``before`` by now, if anything does.

    Args:
        changed: the objects that hold something else by now.
        holds: the ids of objects that changed, or may have, that each name held.
    """
    now, versions = dict(place.bindings()), place.ledger.versions()
    other = _differing(before.bindings, now)
    if not (other or holds):
        return None
    # What only counts as changed goes back to its version with the rest.
    counted = {
        name
        for name in now.keys() & before.bindings.keys()
        if versions.get(name, 0) != before.versions.get(name, 0)
    }
    names = {name: _was(before, name, holds) for name in {*other, *holds, *counted}}
    copies, images = _held_by(before.copies, names), dict[int, Copy]()
    for key in changed.keys() & copies.by_id.keys():
        try:
            images[key] = Copy.of(changed[key].value, changed[key].kind)
        except Exception:  # boundary: user object - what it holds may be anything
            copies.lost[key] = changed[key].value
    return Change(
        before.when,
        names,
        copies,
        Snapshot({name: now[name] for name in names if name in now}, names.keys() & now.keys()),
        {name: versions.get(name, 0) for name in names},
        images,
        place.ledger.next_cell_run() - 1,
        _size([before.bindings.get(name) for name in other], copies),
    )


def _was(state: State, name: str, holds: Mapping[str, Set[int]]) -> Was:
    value, version = state.bindings.get(name, ABSENT), state.versions.get(name, 0)
    return Was(value, version, holds.get(name, frozenset()))


def _held_by(copies: Copies, names: Mapping[str, Was]) -> Copies:
    """Those of what ``names`` held."""
    held = copies.reachable(was.value for was in names.values())
    return copies.only(held.union(*(was.held for was in names.values())))


def _size(values: Iterable[Any], copies: Copies) -> int:
    return sum(map(bytes_of, values)) + sum(
        unshared_bytes(copy.held.items, copy.value) if is_free(copy.value) else copy.size
        for copy in copies.by_id.values()
    )


class TakenBack(NamedTuple):
    """What came of taking a change back, and what takes that back again: ``None`` where nothing
    was, and it can be tried later."""

    back: PutBack
    inverse: Change | None


def take_back(place: "Checkpoints", change: Change) -> TakenBack:
    """Take ``change`` back, as far as nothing was done since that this would undo with it.

    A name that was bound or changed again since is left, with all that it holds, and is ``kept``;
    so is whatever holds a part of that. A person's new name for an object that has not changed
    since is in nobody's way: it sees the object as it was, and nobody made it that.
    """
    now = dict(place.bindings())
    change = replace(change, images={**change.images, **_drifted(place, change, now)})
    since = _since(place, change, now)
    changed = {
        key: copy
        for key, copy in change.copies.by_id.items()
        if key in change.images and key not in since.touched
    }
    images = {key: change.images[key] for key in changed}
    holds = {name: held for name, found in since.holds.items() if (held := found & changed.keys())}
    names = {name: was for name, was in change.before.items() if name not in since.later}
    for name in holds.keys() - change.before.keys() - since.later:
        names[name] = Was(now[name], 0, holds[name])
    copies = Copies({**change.copies.by_id, **images})
    stood = State(now, place.ledger.versions(), place.ledger.now(), copies)
    done = set_back(place, names, changed, change.copies.lost.keys(), change.when)
    kept = shown(since.later)
    reasons = {name: why for name in kept if (why := since.reasons.get(name))}
    back = replace(done, kept=kept, reasons=reasons)
    if not done:
        return TakenBack(back, None)
    # What could not be mended holds neither what it did before nor what it did after.
    copies.lost = {
        key: copy.value
        for key, copy in changed.items()
        if copy.is_changed and images[key].is_changed
    }
    return TakenBack(back, change_since(place, stood, changed, holds))


@dataclass
class _Since:
    """What is left of a change: names, why, and the objects by id that are not to be changed.

    Args:
        holds: the changed objects that each name holds now, by id.
    """

    holds: dict[str, set[int]]
    later: set[str]
    touched: set[int]
    reasons: dict[str, str] = field(default_factory=dict)

    def leave(self, names: Set[str], why: str) -> None:
        """Leave ``names`` as well."""
        self.reasons.update(dict.fromkeys(names - self.later, why))
        self.later.update(names)


def _since(place: "Checkpoints", change: Change, now: Bindings) -> _Since:
    """The names, and the objects by id, that were bound or changed since ``change``."""
    names = change.before.keys()
    holding = place.holding(now.values())
    holds = holding.holders(now, {key: image.value for key, image in change.images.items()})
    after = change.after.look()
    bound = {name for name in names if now.get(name, ABSENT) is not after.get(name, ABSENT)}
    changed = {
        name for name in names & now.keys() if place.ledger.version(name) != change.versions[name]
    }
    touched = {key for key, image in change.images.items() if image.is_changed}
    held = {name for name, was in change.before.items() if not touched.isdisjoint(was.held)}
    since = _Since(holds, bound | changed | held, touched)
    made = {
        name: now[name]
        for name, was in change.before.items()
        if was.value is ABSENT and name in now and not is_atomic(now[name])
    }
    used = {
        ref.name
        for run in place.ledger.cell_runs()[change.runs :]
        for ref in run.reads
        if run.actor == "user" and ref.version == change.versions.get(ref.name)
    }
    since.leave({name for name in used & made.keys() if is_opaque(made[name])}, _UNSEEN)
    held_by = {name: was.held | holds.get(name, set()) for name, was in change.before.items()}
    held_by = holds | held_by
    more: set[str] = since.later
    while more:
        since.touched.update(*(held_by.get(name, ()) for name in since.later))
        new = {id(made[name]): made[name] for name in (since.later & made.keys()) - bound}
        more = holding.holders(made, new).keys() | {
            name for name, held in held_by.items() if not since.touched.isdisjoint(held)
        }
        more -= since.later
        since.leave(more, _SHARES)
    return since


def _drifted(place: "Checkpoints", change: Change, now: Bindings) -> dict[int, Copy]:
    """What objects of libraries hold by now that no cell has changed since, by id: a figure notes
    that it was drawn, a graph that it was asked for its edges."""
    ended = Copies({**change.copies.by_id, **change.images})
    held = set[int]()
    for name in change.before.keys() & now.keys():
        copy, version = ended.by_id.get(id(now[name])), place.ledger.version(name)
        if copy is None or not copy.kind.is_of_library or version != change.versions[name]:
            continue
        if copy.kind.native is not STATE:  # as of a random generator, which moves on when used
            held |= ended.reachable([now[name]])
    drifted = [copy for key, copy in ended.changed().items() if key in held] if held else []
    return {id(each.value): Copy.of(each.value, each.kind) for each in drifted}


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
        self.namespace, self.bindings = namespace, bindings
        self.ledger, self.given = ledger, given
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
        now = dict(self.bindings())
        if self._taken:
            newest = self._taken[max(self._taken)]
            self._replaced += _bytes_of_replaced(newest.bindings, now)
            if self._replaced > MOST_REPLACED_BYTES:
                self._replaced = _bytes_of_replaced(self._thin(keeps_newest=False).bindings, now)
        number, self._next = self._next, self._next + 1
        self._taken[number] = State(now, self.ledger.versions(), self.ledger.now())
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
        reach = Reach(self.bindings())
        reach.run([function])
        self._protect(Cell(may_mutate=reach.used))
        self._keep(self._taken[max(self._taken)], function)

    def _protect(self, what: Cell) -> str:
        bound = self.bindings()
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
        held = self.holding(values, newest.copies).objects
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
        holds = self._holds(target, changed)
        names = target.bindings.keys() | _differing(target.bindings, self.bindings())
        before = {name: _was(target, name, holds) for name in names}
        lost = target.copies.lost.keys()
        return set_back(self, before, changed, lost, target.when, keep_new=keep_new)

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
        return change_since(self, then, changed, self._holds(then, changed))

    def undo(self, change: Change) -> TakenBack:
        """Take ``change`` back.

        A name that was bound or changed again since is left, with all that it holds, and is
        ``kept``; so is whatever holds a part of that.
        """
        return take_back(self, change)

    def holding(self, values: Iterable[Any], copies: Copies | None = None) -> Holding:
        """What ``values`` hold; what holds the namespace itself is not followed further."""
        return Holding(values, copies, {id(self.namespace())})

    def _holds(self, target: State, changed: Mapping[int, Copy]) -> dict[str, set[int]]:
        """What the names of ``target`` held of ``changed``, and of what has no copy."""
        objects = {key: copy.value for key, copy in changed.items()} | target.copies.lost
        if not objects:
            return {}
        holding = self.holding(target.bindings.values(), target.copies)
        return holding.holders(target.bindings, objects)

    def _merged(self, number: int) -> State:
        """The checkpoint with the copies that were taken after it."""
        copies = self._taken[number].copies
        for later in sorted(n for n in self._taken if n > number):
            copies = copies.with_later(self._taken[later].copies)
        return replace(self._taken[number], copies=copies)


def _bytes_of_replaced(bindings: Bindings, now: Bindings) -> int:
    replaced = (value for name, value in bindings.items() if now.get(name, ABSENT) is not value)
    return sum(map(bytes_of, replaced))
