"""What became of a namespace, kept so that it can be taken back later, and done again."""

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.lineage.copies import Copies, Copy
from parsimony_kernel.lineage.kinds import bytes_of, unshared_bytes
from parsimony_kernel.lineage.ledger import InputRef
from parsimony_kernel.lineage.put_back import (
    ABSENT,
    Bindings,
    Place,
    PutBack,
    State,
    is_new_import,
    set_back,
    shown,
)

# What a name was bound to that nobody holds any more.
GONE = object()


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

    def given(self, names: Iterable[str]) -> tuple[InputRef, ...]:
        """The versions that it gave to ``names``; for one that takes another back, what stood."""
        found = []
        for name in names:
            newest, oldest = self.versions.get(name, 0), self.before.versions.get(name, 0)
            numbers = range(oldest + 1, newest + 1) if newest > oldest else (newest,)
            found += [InputRef(name=name, version=number) for number in numbers if number]
        return tuple(found)


def change_since(place: Place, before: State, changed: Mapping[int, Copy]) -> Change | None:
    """What differs from ``before`` by now, if anything does.

    Args:
        changed: the objects that hold something else by now.
    """
    now = dict(place.bindings())
    names = {
        name
        for name in {*before.bindings, *now}
        if not is_new_import(name, before, now)
        and (
            now.get(name, ABSENT) is not before.bindings.get(name, ABSENT)
            or name in before.uncopied
            or name in before.holds
        )
    } | before.forgotten
    if not names:
        return None
    # What only counts as changed goes back to its version with the rest.
    versions = place.ledger.versions()
    names |= {
        name
        for name in now
        if name in before.bindings and versions.get(name, 0) != before.versions.get(name, 0)
    }
    held = {name: before.bindings[name] for name in names if name in before.bindings}
    kept = before.copies.reachable(held.values()).union(*before.holds.values())
    copies = {key: copy for key, copy in before.copies.by_id.items() if key in kept}
    images = {}
    for key in changed.keys() & kept:
        try:
            images[key] = copies[key].again()
        except Exception:  # what an object of a person's holds may be anything
            continue
    state = State(
        held,
        {name: before.versions.get(name, 0) for name in names},
        Copies(copies),
        before.holds,
        before.uncopied & names,
        before.forgotten,
    )
    return _change(place, state, images, now)


def undo(place: Place, change: Change) -> tuple[PutBack, Change | None]:
    """Take ``change`` back, and give what takes that back again, if anything was done.

    A name that was bound or changed again since is left, with all that it holds, and is ``kept``;
    so is whatever holds a part of that.
    """
    before, now = change.before, dict(place.bindings())
    objects = {key: image.value for key, image in change.images.items()}
    holds = place.holding(now.values()).holders(now, objects)
    later, touched = _since(place, change, now, holds)
    names = change.versions.keys() - later
    changed = {
        key: copy
        for key, copy in before.copies.by_id.items()
        if key in change.images and key not in touched
    }
    versions = {name: place.ledger.version(name) for name in names}
    done = set_back(place, before, names, changed)
    back = PutBack(done.restored, done.removed, shown(later), done.lost)
    if not done:
        return back, None
    return back, _inverse(place, change, changed, State(now, versions, holds=holds))


def _inverse(place: Place, change: Change, changed: Mapping[int, Copy], stood: State) -> Change:
    """What takes an undo of ``change`` back, after it was done; ``stood`` is what was before."""
    held = {name: stood.bindings[name] for name in stood.versions if name in stood.bindings}
    holds = {
        name: found for name in held if (found := stood.holds.get(name, set()) & changed.keys())
    }
    every = Copies({**change.before.copies.by_id, **{key: change.images[key] for key in changed}})
    kept = every.reachable(held.values()).union(*holds.values())
    copies = Copies({key: every.by_id[key] for key in kept})
    # What could be mended holds what it did before the change; another has a stand-in.
    images = {
        key: each
        for key, copy in changed.items()
        for each in (copy, change.images[key])
        if not each.is_changed
    }
    uncopied = {name for name, found in holds.items() if not found <= images.keys()}
    state = State(held, dict(stood.versions), copies, holds, uncopied)
    return _change(place, state, images, dict(place.bindings()))


def _change(place: Place, before: State, images: Mapping[int, Copy], now: Bindings) -> Change:
    replaced = [
        value for name, value in before.bindings.items() if now.get(name, ABSENT) is not value
    ]
    copies = before.copies.by_id.values()
    return Change(
        before,
        {name: _reference(now[name]) for name in before.versions if name in now},
        images,
        {name: place.ledger.version(name) for name in before.versions},
        place.ledger.next_cell_run() - 1,
        sum(map(bytes_of, replaced))
        + sum(copy.size or unshared_bytes(copy.held, copy.value) for copy in copies),
    )


def _since(
    place: Place, change: Change, now: Bindings, holds: Mapping[str, Collection[int]]
) -> tuple[set[str], set[int]]:
    """The names, and the objects by id, that were bound or changed since ``change``.

    Args:
        holds: the changed objects that each name holds now, by id.
    """
    before = change.before
    later = {
        name
        for name, version in change.versions.items()
        if now.get(name, ABSENT) is not change.after.get(name, _absent)()
        or (name in now and place.ledger.version(name) != version)
    }
    later |= holds.keys() - change.versions.keys()
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
        for name in later:
            touched.update(holds.get(name, ()), before.holds.get(name, ()))
        more = {
            name
            for name in change.versions.keys() - later
            if not touched.isdisjoint(before.holds.get(name, ()))
            or not touched.isdisjoint(holds.get(name, ()))
        }
        if not more:
            return later, touched
        later |= more


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
