"""States of a namespace that one can go back to, and what became of it since.

A checkpoint holds the bindings; what code may change in place is copied just before that code
runs, where a copy is affordable. Its cost follows the number of names and what the code touches,
not the size of what exists. A change is kept so that it can be taken back later, and done again: a
redo is the undo of an undo.
"""

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Set
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, NamedTuple

from parsimony_kernel.analysis.cell import Cell
from parsimony_kernel.analysis.parse import is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.buffers import unshared_bytes
from parsimony_kernel.lineage.classes import is_atomic
from parsimony_kernel.lineage.copiers import is_free, is_of_library, is_opaque, kind_of
from parsimony_kernel.lineage.copies import ROOM_BYTES, Copies, Copy, Kept, Room, bytes_of
from parsimony_kernel.lineage.ledger import Moment, OriginLedger
from parsimony_kernel.lineage.may_mutate import Reach, suspects
from parsimony_kernel.lineage.object_graph import Holding, holds_objects
from parsimony_kernel.lineage.snapshot import visible

# What a name is bound to that is not bound.
ABSENT = object()

Bindings = Mapping[str, Any]


@dataclass(frozen=True)
class PutBack:
    """What going back did, each sorted; a name stands in one of the first four at most.

    ``restored`` are names that have their earlier value again, ``removed`` those that were new.
    ``kept`` were left: new names, or such as were changed since, with whatever holds a part of
    what they hold. ``lost`` may have been changed in place, and there was no copy of all that
    they hold. ``stale`` are names that were made since from what is now taken back. ``reasons``
    say of names in ``kept`` why, where it is not that they themselves were changed or bound anew.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return bool(self.restored or self.removed or self.lost)


@dataclass
class State:
    """What names were bound to, at which versions, and what the objects held that changed since.

    Args:
        when: when that was.
        holds: the ids of objects that changed, or may have, that each name held, itself or in what
            it held.
    """

    bindings: dict[str, Any]
    versions: dict[str, int]
    when: Moment
    copies: Copies = field(default_factory=Copies)
    holds: dict[str, set[int]] = field(default_factory=dict)

    def uncertain(self) -> set[str]:
        """The names of which something may have changed without a copy."""
        lost = self.copies.lost.keys()
        return {name for name, held in self.holds.items() if held & lost}

    def narrowed(self, names: Collection[str]) -> "State":
        """What is known of ``names``."""
        bindings = {name: value for name, value in self.bindings.items() if name in names}
        holds = {name: found for name, found in self.holds.items() if name in names}
        return replace(
            self,
            bindings=bindings,
            versions={name: self.versions.get(name, 0) for name in names},
            copies=self.copies.only(
                self.copies.reachable(bindings.values()).union(*holds.values())
            ),
            holds=holds,
        )


def set_back(
    place: "Checkpoints",
    target: State,
    names: Iterable[str],
    changed: Mapping[int, Copy],
    *,
    keep_new: bool = False,
) -> PutBack:
    """Give ``names`` and the objects ``changed`` what they had in ``target``.

    With ``keep_new`` the names that did not exist then are left as they are.
    """
    namespace, given, uncertain = place.namespace(), place.given(), target.uncertain()
    stand_ins, broken = _set_back_objects(changed)
    restored, removed, kept, lost = set[str](), set[str](), set[str](), set[str]()
    for name in names:
        value = target.bindings.get(name, given.get(name, ABSENT))
        if is_new_import(name, target, namespace):
            continue
        if value is ABSENT:
            if keep_new:
                kept.add(name)
                continue
            if namespace.pop(name, ABSENT) is not ABSENT:
                removed.add(name)
        else:
            held = target.holds.get(name, set()) & changed.keys()
            again = stand_ins.get(id(value), value)
            is_other = namespace.get(name, ABSENT) is not again or bool(held)
            namespace[name] = again
            # What takes the place of an object takes it in the namespace only.
            if name in uncertain or held & (broken | (stand_ins.keys() - {id(value)})):
                lost.add(name)
                if is_other:
                    place.ledger.go_back(name, 0)  # what it holds is of nobody's making
                continue
            if is_other:
                restored.add(name)
        place.ledger.go_back(name, target.versions.get(name, 0))
    if restored or removed:
        place.ledger.put_back(restored | removed, target.when)
    return PutBack(shown(restored), shown(removed), shown(kept), shown(lost))


def _set_back_objects(changed: Mapping[int, Copy]) -> tuple[dict[int, Any], set[int]]:
    """What takes the place of objects that cannot be mended, and those that stay broken."""
    stand_ins: dict[int, Any] = {}
    broken = set[int]()
    for key, copy in changed.items():
        again = copy.set_back()
        if again is None:
            broken.add(key)
        elif again is not copy.value:
            stand_ins[key] = again
    return stand_ins, broken


def is_new_import(name: str, before: State, now: Bindings) -> bool:
    """Whether ``name`` is an import that was not there before: no work, and in nobody's way."""
    is_new = name in now and name not in before.bindings
    return is_new and not visible({"value": now[name]}, {})


def shown(names: Collection[str]) -> tuple[str, ...]:
    """The names that a person sees, sorted."""
    return tuple(sorted(name for name in names if not name.startswith("_")))


# What a name was bound to that nobody holds any more.
GONE = object()

# Why a name is left that was neither changed nor bound anew itself.
_SHARES = "holds a part of what is left, so left too"
_OF_A_TURN = "a later turn bound it to the same object, so left"
_UNSEEN = "used since, and whether that changed it cannot be seen, so left"


@dataclass(frozen=True)
class Change:
    """What became of a namespace between two states.

    Enough to take it back later, when other cells may have run; it holds only what differs.
    ``after`` is what the names were bound to then, ``images`` what the changed objects held,
    ``runs`` how many runs of cells were on record, and ``size`` the memory in bytes that it keeps,
    as far as that is known.
    """

    before: State
    after: Mapping[str, Callable[[], Any]]
    images: Mapping[int, Copy]
    versions: Mapping[str, int]
    runs: int
    size: int

    def narrowed(self, names: Collection[str], objects: Collection[int]) -> "Change":
        """What of it became of ``names`` and, by id, ``objects``."""
        before = self.before.narrowed(names)
        kept = before.copies.by_id.keys() & set(objects)
        return replace(
            self,
            before=before,
            after={name: each for name, each in self.after.items() if name in names},
            images={key: each for key, each in self.images.items() if key in kept},
            versions={name: self.versions[name] for name in names},
            size=_size(before.bindings.values(), before.copies.by_id.values()),
        )


def change_since(place: "Checkpoints", before: State, changed: Mapping[int, Copy]) -> Change | None:
    """What differs from ``before`` by now, if anything does.

    Args:
        changed: the objects that hold something else by now.
    """
    now = dict(place.bindings())
    names = {
        name
        for name in {*before.bindings, *now}
        if not is_new_import(name, before, now)
        and (now.get(name, ABSENT) is not before.bindings.get(name, ABSENT) or name in before.holds)
    }
    if not names:
        return None
    # What only counts as changed goes back to its version with the rest.
    versions = place.ledger.versions()
    names |= {
        name
        for name in now
        if name in before.bindings and versions.get(name, 0) != before.versions.get(name, 0)
    }
    state = before.narrowed(names)
    images = {}
    for key in changed.keys() & state.copies.by_id.keys():
        try:
            images[key] = changed[key].again()
        except Exception:  # boundary: user object - what it holds may be anything
            continue
    return _change(place, state, images, now)


class TakenBack(NamedTuple):
    """What came of taking a change back, what takes that back again, and what of the change was
    left and can be taken back later. ``None`` where there is none of it."""

    back: PutBack
    inverse: Change | None
    rest: Change | None


def take_back(place: "Checkpoints", change: Change) -> TakenBack:
    """Take ``change`` back, as far as nothing was done since that this would undo with it.

    A name that was bound or changed again since is left, with all that it holds, and is ``kept``;
    so is whatever holds a part of that. A person's new name for an object that has not changed
    since is in nobody's way: it sees the object as it was, and nobody made it that.
    """
    before, now = change.before, dict(place.bindings())
    drift = _drift(place, change, now)
    change = replace(change, images={**change.images, **drift.images})
    since = _since(place, change, now, drift)
    changed = {
        key: copy
        for key, copy in before.copies.by_id.items()
        if key in change.images and key not in since.touched
    }
    others = {
        name
        for name, found in since.holds.items()
        if name not in change.versions and name not in since.later and found & changed.keys()
    }
    names = (change.versions.keys() - since.later) | others
    versions = {name: place.ledger.version(name) for name in names}
    stood = State(now, versions, place.ledger.now(), holds=since.holds)
    target = replace(
        before,
        bindings={**before.bindings, **{name: now[name] for name in others}},
        holds={**before.holds, **{name: since.holds[name] for name in others}},
    )
    done = set_back(place, target, names, changed)
    kept = shown(since.later)
    reasons = {name: why for name in kept if (why := since.reasons.get(name))}
    stands_on = place.ledger.stale_since(change.runs, {*done.restored, *done.removed, *done.lost})
    stale = tuple(name for name in stands_on if not isinstance(now.get(name), ModuleType))
    back = replace(done, kept=kept, reasons=reasons, stale=stale)
    if not done:
        return TakenBack(back, None, change if kept else None)
    left = change.narrowed(change.versions.keys() & since.later, since.touched)
    return TakenBack(back, _inverse(place, change, changed, stood), left if left.versions else None)


def _inverse(
    place: "Checkpoints", change: Change, changed: Mapping[int, Copy], stood: State
) -> Change:
    """What takes an undo of ``change`` back, after it was done; ``stood`` is what was before."""
    # What could be mended holds what it did before the change; another has a stand-in.
    images = {
        key: each
        for key, copy in changed.items()
        for each in (copy, change.images[key])
        if not each.is_changed
    }
    holds = {name: found & changed.keys() for name, found in stood.holds.items()}
    copies = Copies(
        {**change.before.copies.by_id, **{key: change.images[key] for key in changed}},
        {key: copy.value for key, copy in changed.items() if key not in images},
    )
    state = replace(stood, copies=copies, holds=holds).narrowed(stood.versions)
    return _change(place, state, images, dict(place.bindings()))


def _change(
    place: "Checkpoints", before: State, images: Mapping[int, Copy], now: Bindings
) -> Change:
    replaced = [
        value for name, value in before.bindings.items() if now.get(name, ABSENT) is not value
    ]
    return Change(
        before,
        {name: _reference(now[name]) for name in before.versions if name in now},
        images,
        {name: place.ledger.version(name) for name in before.versions},
        place.ledger.next_cell_run() - 1,
        _size(replaced, before.copies.by_id.values()),
    )


def _size(values: Iterable[Any], copies: Iterable[Copy]) -> int:
    return sum(map(bytes_of, values)) + sum(
        copy.size or unshared_bytes(copy.held, copy.value) for copy in copies
    )


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


def _since(place: "Checkpoints", change: Change, now: Bindings, drift: "_Drift") -> _Since:
    """The names, and the objects by id, that were bound or changed since ``change``."""
    before, names = change.before, change.versions.keys()
    ended = _ended(change)
    holding = place.holding(now.values())
    holds = holding.holders(now, {key: image.value for key, image in change.images.items()})
    bound = {
        name
        for name in names
        if now.get(name, ABSENT) is not change.after.get(name, lambda: ABSENT)()
    }
    changed = {
        name for name in names & now.keys() if place.ledger.version(name) != change.versions[name]
    }
    touched = {key for key, image in change.images.items() if image.is_changed}
    held = {name for name in names if not touched.isdisjoint(before.holds.get(name, ()))}
    since = _Since(
        holds, bound | changed.difference(drift.same).union(drift.changed, held), touched
    )
    since.leave(_used_unseen(place, change, now), _UNSEEN)
    of_turns = {name for name in holds.keys() - names if _is_of_a_turn(place, name)}
    since.leave(of_turns, _OF_A_TURN)
    made = {name: now[name] for name in names & now.keys() if name not in before.bindings}
    more: set[str] = since.later
    while more:
        left = [
            stage[name] for name in since.later for stage in (now, before.bindings) if name in stage
        ]
        since.touched |= before.copies.reachable(left) | ended.reachable(left)
        for name in since.later:
            since.touched.update(holds.get(name, ()), before.holds.get(name, ()))
        new = {
            id(now[name]): now[name]
            for name in (since.later & made.keys()) - bound
            if not is_atomic(now[name])
        }
        more = holding.holders(made, new).keys() | {
            name
            for name in names | holds.keys()
            if not since.touched.isdisjoint({*before.holds.get(name, ()), *holds.get(name, ())})
        }
        more -= since.later
        since.leave(more, _SHARES)
    return since


def _ended(change: Change) -> Copies:
    """What objects held when ``change`` was done."""
    return Copies({**change.before.copies.by_id, **change.images})


def _used_unseen(place: "Checkpoints", change: Change, now: Bindings) -> set[str]:
    """The new names that a person's cell has read since, whose objects may be changed in ways
    that nobody sees."""
    before = change.before
    used = {
        ref.name
        for run in place.ledger.cell_runs()[change.runs :]
        if run.actor == "user"
        for ref in run.reads
        if ref.version == change.versions.get(ref.name)
    }
    is_new = used & now.keys() - before.bindings.keys()
    return {name for name in is_new if is_opaque(now[name])}


def _is_of_a_turn(place: "Checkpoints", name: str) -> bool:
    origin = place.ledger.get(name)
    return origin is not None and origin.actor == "agent"


class _Drift(NamedTuple):
    """What became of the objects of libraries that a change changed: the names of those that nobody
    has changed since, and that a person has; and what of the former is another all the same, as it
    is now. A figure notes that it was drawn, a graph that it was asked for its edges."""

    same: Collection[str] = frozenset()
    changed: Collection[str] = frozenset()
    images: Mapping[int, Copy] = {}


def _drift(place: "Checkpoints", change: Change, now: Bindings) -> _Drift:
    """A cell of a person's has changed what its text tells."""
    ended = _ended(change)
    held = {
        name: ended.reachable([now[name]])
        for name in change.versions.keys() & now.keys()
        if (copy := ended.by_id.get(id(now[name]))) is not None and is_of_library(copy.kind)
    }
    if not held:
        return _Drift()
    runs = place.ledger.cell_runs()[change.runs :]
    texts = [read(run.code) for run in runs if run.actor == "user"]
    used = {
        name
        for what in texts
        for name in suspects(what, now).likely | (what.receivers & now.keys())
    }
    reached = ended.reachable(now[name] for name in used)
    other = ended.changed().keys() & set[int]().union(*held.values())
    same = {name for name, each in held.items() if not each & reached or not each & other}
    theirs = set[int]().union(*(held[name] for name in same))
    if not used:
        # Nobody had a hand in it: so it is for what only unchanged parts lead to.
        theirs |= {key for key, image in change.images.items() if is_of_library(image.kind)}
    images = {key: ended.by_id[key].again() for key in theirs & other - reached}
    return _Drift(same, held.keys() - same, images)


def _reference(value: Any) -> Callable[[], Any]:
    """``value``, without keeping it alive where that is possible."""
    try:
        reference = weakref.ref(value)
    except TypeError:
        return lambda: value

    def still() -> Any:
        found = reference()
        return GONE if found is None else found

    return still


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
        names = {*target.bindings, *self.bindings()}
        state = self._state(target, changed)
        return set_back(self, state, names, changed, keep_new=keep_new)

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
        return change_since(self, self._state(then, changed), changed)

    def undo(self, change: Change) -> TakenBack:
        """Take ``change`` back.

        A name that was bound or changed again since is left, with all that it holds, and is
        ``kept``; so is whatever holds a part of that.
        """
        return take_back(self, change)

    def holding(self, values: Iterable[Any], copies: Copies | None = None) -> Holding:
        """What ``values`` hold; what holds the namespace itself is not followed further."""
        return Holding(values, copies, {id(self.namespace())})

    def _state(self, target: State, changed: Mapping[int, Copy]) -> State:
        """``target`` with what its names held of ``changed``, and of what has no copy."""
        objects = {key: copy.value for key, copy in changed.items()} | target.copies.lost
        if not objects:
            return target
        holding = self.holding(target.bindings.values(), target.copies)
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
