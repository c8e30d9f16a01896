"""States of a namespace that one can go back to.

A checkpoint holds the bindings; what code may change in place is copied just before that code
runs, where a copy is affordable. Its cost follows the number of names and what the code touches,
not the size of what exists.
"""

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.lineage.copies import MOST_EFFORT, ROOM_BYTES, Copies, Copy, Room
from parsimony_kernel.lineage.dependents import Dependent
from parsimony_kernel.lineage.kinds import (
    bytes_of,
    is_atomic,
    is_bound,
    is_free,
    kind_of,
    unshared_bytes,
)
from parsimony_kernel.lineage.ledger import InputRef, OriginLedger
from parsimony_kernel.lineage.plausible import Plausible, plausible
from parsimony_kernel.lineage.reach import used_by, used_through
from parsimony_kernel.lineage.snapshot import visible

# What earlier checkpoints may keep alive that is bound no more: one frame of a gigabyte.
MOST_REPLACED_BYTES = 1_200 * 2**20
# What a name is bound to that is not bound.
ABSENT = object()
# What a name was bound to that nobody holds any more.
GONE = object()

Bindings = Mapping[str, Any]


@dataclass(frozen=True)
class PutBack:
    """What going back did, each sorted; a name stands in one of them at most.

    ``restored`` are names that have their earlier value again, ``removed`` those that were new.
    ``kept`` were left: new names, or such as were changed since. ``lost`` may have been changed
    in place, and there was no copy of all that they hold, or their earlier value was too big to
    be kept. ``dependents`` are cells that ran since and used what is now taken back.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    dependents: tuple[Dependent, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.restored or self.removed or self.lost)


@dataclass
class _Checkpoint:
    bindings: dict[str, Any]
    versions: dict[str, int]
    copies: Copies = field(default_factory=Copies)
    # Names that code since then may have changed in place without a copy, and such as were bound
    # to what was too big to be kept.
    uncopied: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Change:
    """What became of a namespace between its first checkpoint and the end.

    Enough to take it back later, when other cells may have run; it holds only what differs.
    ``after`` is what the names were bound to then, ``images`` what the changed objects held,
    ``runs`` how many runs of cells were on record, and ``size`` the memory in bytes that it keeps,
    as far as that is known.
    """

    before: _Checkpoint
    after: Mapping[str, Callable[[], Any]]
    images: Mapping[int, Copy]
    versions: Mapping[str, int]
    runs: int
    size: int

    def given(self, names: Iterable[str]) -> tuple[InputRef, ...]:
        """The versions that it gave to ``names``; for one that takes another back, what stood."""
        found = []
        for name in names:
            newest, oldest = self.versions.get(name, 0), self.before.versions.get(name, 0)
            numbers = range(oldest + 1, newest + 1) if newest > oldest else (newest,)
            found += [InputRef(name=name, version=number) for number in numbers if number]
        return tuple(found)


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
        self._given = given
        self._namespace = namespace
        self._bindings = bindings
        self._ledger = ledger
        self._taken: dict[int, _Checkpoint] = {}
        self._next = 0
        self._room = Room()
        self._replaced = 0

    def __contains__(self, number: int) -> bool:
        return number in self._taken

    def take(self) -> int:
        """Remember the state as it is now; gives the number to go back to it by."""
        now = dict(self._bindings())
        if self._taken:
            newest = self._taken[max(self._taken)]
            self._replaced += sum(
                bytes_of(value)
                for name, value in newest.bindings.items()
                if now.get(name, ABSENT) is not value
            )
            if self._replaced > MOST_REPLACED_BYTES:
                self._forget(now)
        number, self._next = self._next, self._next + 1
        self._taken[number] = _Checkpoint(now, self._ledger.versions())
        return number

    def protect(self, code: str) -> None:
        """Copy what ``code``, which is about to run, may change in place."""
        if self._taken:
            self._protect(plausible(code))

    def protect_call(self, function: Any) -> None:
        """Copy what calling ``function`` may change in place, where the notebook defines it."""
        if not self._taken:
            return
        names = used_by(function, self._bindings())
        self._protect(Plausible(names=frozenset(names)))
        self._keep(self._taken[max(self._taken)], function)

    def _protect(self, what: Plausible) -> None:
        bound = self._bindings()
        self._room.effort = MOST_EFFORT
        used, theirs = used_through(what.reads | what.names, bound)
        if what.anything:
            used = set(bound)
        everything = what.anything or what.everything or theirs
        likely = (
            used
            if everything
            else {name for name in used if name in what.names or is_bound(bound[name])}
        )
        newest = self._taken[max(self._taken)]
        for name in sorted(likely):
            if not self._keep(newest, bound[name]):
                newest.uncopied.add(name)
        for name in used - likely:
            value = bound[name]
            if is_free(value):
                newest.copies.keep([value], self._room)
            opaque = name in what.receivers and not is_atomic(value) and kind_of(value) is None
            if opaque or hasattr(type(value), "__next__"):
                newest.uncopied.add(name)

    def _keep(self, newest: _Checkpoint, value: Any) -> bool:
        if newest.copies.keep([value], self._room):
            return True
        if len(self._taken) > 2 and self._room.effort >= 0:
            self._thin()
            return newest.copies.keep([value], self._room)
        return False

    def _thin(self) -> None:
        """Keep only the first checkpoint and the newest, and the room of what is doubled."""
        first, *between, _ = sorted(self._taken)
        self._taken[first] = self._merged(first)
        for number in between:
            del self._taken[number]
        self._count()

    def _count(self) -> None:
        """Work out anew what room is left."""
        copies = (copy for each in self._taken.values() for copy in each.copies.by_id.values())
        self._room.bytes = ROOM_BYTES - sum(copy.size for copy in copies)

    def _forget(self, now: Bindings) -> None:
        """Keep the first checkpoint alone, without what is too big to be kept for it."""
        first = min(self._taken)
        only = self._merged(first)
        self._taken = {first: only}
        sizes = {
            name: bytes_of(value)
            for name, value in only.bindings.items()
            if now.get(name, ABSENT) is not value
        }
        self._replaced = sum(sizes.values())
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            if self._replaced <= MOST_REPLACED_BYTES:
                break
            self._replaced -= sizes[name]
            only.copies.by_id.pop(id(only.bindings.pop(name)), None)
            only.forgotten.add(name)
        self._count()

    def put_back(self, number: int, *, keep_new: bool = False) -> PutBack:
        """Go back to a checkpoint; later ones are forgotten. ``KeyError`` without it.

        With ``keep_new`` the names that did not exist then are left as they are.
        """
        target = self._merged(number)
        self._taken = {n: each for n, each in self._taken.items() if n < number}
        self._taken[number] = target
        changed = target.copies.changed()
        names = {*target.bindings, *self._bindings()}
        return self._set_back(target, names, changed, keep_new=keep_new)

    def close(self) -> Change | None:
        """Forget all checkpoints; what differs since the first is the value, if anything does."""
        if not self._taken:
            return None
        first, now = self._merged(min(self._taken)), dict(self._bindings())
        self._taken.clear()
        self._room, self._replaced = Room(), 0
        changed = first.copies.changed()
        names = {
            name
            for name in {*first.bindings, *now}
            if not _is_new_import(name, first, now)
            and (
                now.get(name, ABSENT) is not first.bindings.get(name, ABSENT)
                or name in first.uncopied
                or (changed and not changed.keys().isdisjoint(_held(first, name)))
            )
        } | first.forgotten
        if not names:
            return None
        held = {name: first.bindings[name] for name in names if name in first.bindings}
        kept = first.copies.reachable(held.values())
        copies = {key: copy for key, copy in first.copies.by_id.items() if key in kept}
        images = {}
        for key in changed.keys() & kept:
            try:
                images[key] = copies[key].again()
            except Exception:  # what an object of a person's holds may be anything
                continue
        versions = self._ledger.versions()
        replaced = [value for name, value in held.items() if now.get(name, ABSENT) is not value]
        return Change(
            _Checkpoint(
                held,
                {name: first.versions.get(name, 0) for name in names},
                Copies(copies),
                first.uncopied & names,
                first.forgotten,
            ),
            {name: _reference(now[name]) for name in names if name in now},
            images,
            {name: versions.get(name, 0) for name in names},
            self._ledger.next_cell_run() - 1,
            _size(replaced, copies.values()),
        )

    def undo(self, change: Change) -> tuple[PutBack, Change | None]:
        """Take ``change`` back, and give what takes that back again, if anything was done.

        A name that was bound or changed again since is left, with all that it holds, and is
        ``kept``.
        """
        before, now = change.before, dict(self._bindings())
        later, touched = self._since(change, now)
        names = change.versions.keys() - later
        changed = {
            key: copy
            for key, copy in before.copies.by_id.items()
            if key in change.images and key not in touched
        }
        versions = {name: self._ledger.version(name) for name in names}
        done = self._set_back(before, names, changed)
        back = PutBack(done.restored, done.removed, _shown(later), done.lost)
        return back, self._inverse(change, names, changed, now, versions) if done else None

    def _inverse(
        self,
        change: Change,
        names: Collection[str],
        changed: Mapping[int, Copy],
        earlier: Bindings,
        versions: Mapping[str, int],
    ) -> Change:
        """What takes an undo of ``change`` back, after it was done."""
        now = self._bindings()
        held = {name: earlier[name] for name in names if name in earlier}
        copies = Copies(
            {**change.before.copies.by_id, **{key: change.images[key] for key in changed}}
        )
        copies = Copies({key: copies.by_id[key] for key in copies.reachable(held.values())})
        # What could be mended holds what it did before the change; another has a stand-in.
        images = {
            key: each
            for key, copy in changed.items()
            for each in (copy, change.images[key])
            if not each.is_changed
        }
        replaced = [value for name, value in held.items() if now.get(name, ABSENT) is not value]
        return Change(
            _Checkpoint(
                held,
                dict(versions),
                copies,
                {
                    name
                    for name, value in held.items()
                    if not changed.keys() & copies.reachable([value]) <= images.keys()
                },
            ),
            {name: _reference(now[name]) for name in names if name in now},
            images,
            {name: self._ledger.version(name) for name in names},
            self._ledger.next_cell_run() - 1,
            _size(replaced, copies.by_id.values()),
        )

    def _since(self, change: Change, now: Bindings) -> tuple[set[str], set[int]]:
        """The names, and the objects by id, that were bound or changed since ``change``."""
        before = change.before
        later = {
            name
            for name, version in change.versions.items()
            if now.get(name, ABSENT) is not change.after.get(name, _absent)()
            or (name in now and self._ledger.version(name) != version)
        }
        touched = {key for key, image in change.images.items() if image.is_changed}
        ended = Copies(dict(change.images))
        while True:
            values = [
                each
                for name in later
                for each in (now.get(name), before.bindings.get(name))
                if each is not None
            ]
            touched |= before.copies.reachable(values) | ended.reachable(values)
            more = {
                name
                for name in change.versions.keys() - later
                if not touched.isdisjoint(_held(before, name))
            }
            if not more:
                break
            later |= more
        return later, touched

    def _merged(self, number: int) -> _Checkpoint:
        """The checkpoint with the copies that were taken after it: an object that was first
        copied later had not been touched before."""
        target = self._taken[number]
        copies = dict(target.copies.by_id)
        uncopied = set(target.uncopied)
        for later in (self._taken[n] for n in sorted(self._taken) if n > number):
            copies = {**later.copies.by_id, **copies}
            uncopied |= {
                name
                for name in later.uncopied
                if later.bindings.get(name, ABSENT) is target.bindings.get(name, later)
            }
        return _Checkpoint(
            target.bindings, target.versions, Copies(copies), uncopied, target.forgotten
        )

    def _set_back(
        self,
        target: _Checkpoint,
        names: Iterable[str],
        changed: Mapping[int, Copy],
        *,
        keep_new: bool = False,
    ) -> PutBack:
        namespace, given = self._namespace(), self._given()
        stand_ins: dict[int, Any] = {}
        broken = set[int]()
        for key, copy in changed.items():
            again = copy.set_back()
            if again is None:
                broken.add(key)
            elif again is not copy.value:
                stand_ins[key] = again
        restored, removed, kept, lost = set[str](), set[str](), set[str](), set[str]()
        for name in names:
            value = target.bindings.get(name, ABSENT)
            if name in target.forgotten:
                lost.add(name)
                continue
            if _is_new_import(name, target, namespace):
                continue
            if value is ABSENT and name in given:
                namespace[name] = given[name]
                restored.add(name)
            elif value is ABSENT:
                if keep_new:
                    kept.add(name)
                    continue
                if namespace.pop(name, ABSENT) is not ABSENT:
                    removed.add(name)
            else:
                held = _held(target, name) if changed else set()
                again = stand_ins.get(id(value), value)
                is_other = namespace.get(name, ABSENT) is not again
                namespace[name] = again
                # What takes the place of an object takes it in the namespace only.
                if name in target.uncopied or not held.isdisjoint(
                    broken | (stand_ins.keys() - {id(value)})
                ):
                    lost.add(name)
                elif is_other or not held.isdisjoint(changed):
                    restored.add(name)
            self._ledger.go_back(name, target.versions.get(name, 0))
        return PutBack(_shown(restored), _shown(removed), _shown(kept), _shown(lost))


def _held(checkpoint: _Checkpoint, name: str) -> set[int]:
    """The ids of what was copied of ``name`` and of all that it held."""
    return checkpoint.copies.reachable([checkpoint.bindings.get(name, ABSENT)])


def _is_new_import(name: str, before: _Checkpoint, now: Bindings) -> bool:
    """Whether ``name`` is an import that was not there before: no work, and in nobody's way."""
    is_new = name in now and name not in before.bindings and name not in before.forgotten
    return is_new and not visible({"value": now[name]}, {})


def _size(replaced: Iterable[Any], copies: Iterable[Copy]) -> int:
    return sum(map(bytes_of, replaced)) + sum(
        copy.size or unshared_bytes(copy.held, copy.value) for copy in copies
    )


def _shown(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if not name.startswith("_")))


def _absent() -> Any:
    return ABSENT


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
