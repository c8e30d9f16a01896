"""Checkpoints of a namespace, and undo and redo of the changes since.

A checkpoint holds the bindings. Objects that code may mutate are copied just before that code
runs, if a copy is affordable. The cost depends on the number of names and on what the code
touches, not on the size of the data. A change is kept so that it can be undone later, and redone:
a redo is the undo of an undo.
"""

from abc import ABCMeta
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Set
from dataclasses import dataclass, field, replace
from logging import Logger
from types import ModuleType
from typing import Any, NamedTuple
from weakref import ref

from parsimony_kernel.analysis.calls import MUTATES_RECEIVER
from parsimony_kernel.analysis.cell_names import Cell
from parsimony_kernel.analysis.parse import is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.buffers import unshared_bytes
from parsimony_kernel.lineage.classes import is_atomic, module_of
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
from parsimony_kernel.lineage.object_graph import Holding, holds_objects, part_at
from parsimony_kernel.lineage.snapshot import Snapshot, visible

# Stands for the value of an unbound name.
ABSENT = object()

Bindings = Mapping[str, Any]


@dataclass(frozen=True)
class PutBack:
    """The result of an undo, as sorted names; a name is in at most one of the first four groups.

    Args:
        restored: names that have their earlier value again.
        removed: names that were new, and are gone.
        kept: names left alone: new ones, or ones that were changed since or perhaps by a use, and
            all names that share a part with those.
        lost: names whose objects may have been mutated without a complete copy, so that they
            couldn't be restored.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.restored or self.removed or self.lost)


@dataclass
class State:
    """The bindings and versions of a namespace at a moment, and the copies made since then."""

    bindings: dict[str, Any]
    versions: dict[str, int]
    when: Moment
    copies: Copies = field(default_factory=Copies)


class Was(NamedTuple):
    """The earlier state of a name.

    Args:
        value: the object it was bound to, ``ABSENT`` if none.
        version: its version.
        held: the ids of the objects it held that have changed since, or may have.
    """

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
    """Restore the bindings ``names`` and the content of the objects ``changed``.

    Args:
        place: the checkpoints of the namespace.
        names: the earlier state of each name.
        changed: copies of the mutated objects, by id.
        lost: the ids of objects that may have been mutated without a copy.
        when: the moment to which this goes back.
        keep_new: whether to leave alone names that didn't exist then.
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
                    place.ledger.go_back(name, 0)  # its content has no known origin
                continue
            if is_other:
                restored.add(name)
        place.ledger.go_back(name, was.version)
    if restored or removed:
        place.ledger.put_back(restored | removed, when)
    return PutBack(shown(restored), shown(removed), shown(kept), shown(gone))


def _differing(before: Bindings, now: Bindings) -> set[str]:
    """Return the names whose bindings differ, without new imports: keeping these does no harm."""
    names = {*before, *now}
    other = {n for n in names if now.get(n, ABSENT) is not before.get(n, ABSENT)}
    imports = {n for n in other if n not in before and not visible({"value": now[n]}, {})}
    return other - imports


def shown(names: Collection[str]) -> tuple[str, ...]:
    """Return the names that a person sees, sorted: all but private ones."""
    return tuple(sorted(name for name in names if not name.startswith("_")))


@dataclass(frozen=True)
class Change:
    """The difference between two states of a namespace.

    It is enough to undo the change later, when other cells may have run.

    Args:
        when: the moment of the earlier state.
        before: the earlier state of each name that differs.
        copies: the content that the objects of these names had before.
        after: the later bindings of the names that existed then.
        versions: the later versions of the names.
        images: the later content of the mutated objects, by id.
        runs: how many cell runs the ledger had at the later state.
        size: the memory in bytes that it keeps, estimated.
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
    """Return the difference from ``before`` to now, or ``None`` if there is none.

    Args:
        place: the checkpoints of the namespace.
        before: the earlier state.
        changed: copies of the objects whose content has changed, by id.
        holds: for each name, the ids of the objects it held that changed, or may have.
    """
    now, versions = dict(place.bindings()), place.ledger.versions()
    other = _differing(before.bindings, now)
    if not (other or holds):
        return None
    # Names that merely got a new version get their old one back with the rest.
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
        place.ledger.now().runs,
        _size([before.bindings.get(name) for name in other], copies),
    )


def _was(state: State, name: str, holds: Mapping[str, Set[int]]) -> Was:
    value, version = state.bindings.get(name, ABSENT), state.versions.get(name, 0)
    return Was(value, version, holds.get(name, frozenset()))


def _held_by(copies: Copies, names: Mapping[str, Was]) -> Copies:
    """Return the copies of the objects that ``names`` held."""
    held = copies.reachable(was.value for was in names.values())
    return copies.only(held.union(*(was.held for was in names.values())))


def _size(values: Iterable[Any], copies: Copies) -> int:
    return sum(map(bytes_of, values)) + sum(
        unshared_bytes(copy.held.items, copy.value) if is_free(copy.value) else copy.size
        for copy in copies.by_id.values()
    )


def take_back(place: "Checkpoints", change: Change) -> tuple[PutBack, Change | None]:
    """Undo ``change``, except where that would destroy later work.

    A name that was rebound or changed again since is left alone, with all objects it holds, and is
    reported as ``kept``; so is every name that shares a part with it. A person's new name for an
    object that hasn't changed since doesn't block the undo: it then shows the restored object,
    with unknown origin.

    Returns:
        Which names were restored, removed, kept or lost; and the change that redoes it, ``None`` if
        nothing was undone, so that the undo can be tried again later.
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
    back = replace(done, kept=shown(since.later))
    if not done:
        return back, None
    # An object that failed to restore has neither its earlier nor its later content.
    copies.lost = {
        key: copy.value
        for key, copy in changed.items()
        if copy.is_changed and images[key].is_changed
    }
    return back, change_since(place, stood, changed, holds)


@dataclass
class _Since:
    """The parts of a change that an undo must leave alone.

    Args:
        holds: for each name, the ids of the mutated objects that it holds now.
        later: the names to leave alone.
        touched: the ids of the objects to leave alone.
    """

    holds: dict[str, set[int]]
    later: set[str]
    touched: set[int]


def _since(place: "Checkpoints", change: Change, now: Bindings) -> _Since:
    """Find the names and objects that were bound or changed since ``change``."""
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
    since.later.update(name for name in used & made.keys() if is_opaque(made[name]))
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
        since.later.update(more)
    return since


def _drifted(place: "Checkpoints", change: Change, now: Bindings) -> dict[int, Copy]:
    """Copy the library objects that drifted by themselves, without a change by a cell, by id.

    A figure notes that it was drawn, a graph that it was asked for its edges. Such drift doesn't
    block an undo.
    """
    ended = Copies({**change.copies.by_id, **change.images})
    held = set[int]()
    for name in change.before.keys() & now.keys():
        copy, version = ended.by_id.get(id(now[name])), place.ledger.version(name)
        if copy is None or not copy.kind.is_of_library or version != change.versions[name]:
            continue
        if copy.kind.native is not STATE:  # a random generator's state is real work, no drift
            held |= ended.reachable([now[name]])
    drifted = [copy for key, copy in ended.changed().items() if key in held] if held else []
    return {id(each.value): Copy.of(each.value, each.kind) for each in drifted}


# Bytes of rebound values that checkpoints after the first may keep alive: one frame of a gigabyte.
MOST_REPLACED_BYTES = 1_200 * 2**20


class Checkpoints:
    """The checkpoints of one namespace, by number, oldest first.

    Args:
        namespace: returns the live namespace.
        bindings: returns the names in it that code may bind, with their objects.
        ledger: the versions of the names; an undo sets them back too.
        given: returns the namespace's own initial bindings; an undo restores such a name to this
            value instead of removing it.
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
        # Names already reported as not restorable.
        self._named = set[str]()

    def __contains__(self, number: int) -> bool:
        return number in self._taken

    def take(self) -> int:
        """Take a checkpoint of the current state and return its number."""
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
        """Copy the objects that ``code``, which is about to run, may mutate.

        Returns:
            A warning for each name that undo can't restore, given once per name; empty if none.
        """
        return self._protect(read(code)) if self._taken else ""

    def protect_call(self, function: Any) -> None:
        """Copy the objects that calling ``function`` may mutate, if the notebook defines it."""
        if not self._taken:
            return
        reach = Reach(self.bindings())
        reach.run([function])
        self._protect(Cell(may_mutate=reach.used))
        self._keep(self._taken[max(self._taken)], function)

    def _protect(self, what: Cell) -> str:
        bound = self.bindings()
        self._room.begin_cell()
        likely, others = suspects(what, bound)
        newest = self._taken[max(self._taken)]
        doubted = dict[str, Kept]()
        for name in (*sorted(likely), *sorted(others)):
            value, is_likely = bound[name], name in likely
            value = ref.__call__(value) if issubclass(type(value), ref) else value
            if is_likely or is_free(value) or holds_objects(value):
                kept = self._keep(newest, value)
            else:
                has_way = is_atomic(value) or kind_of(value) is not None
                kept = Kept.YES if has_way else Kept.NO_WAY
            is_used = is_likely or name in what.receivers
            is_used = is_used or callable(value) or hasattr(type(value), "__next__")
            is_used = is_used or _is_handed_home(name, what, bound)
            if kept is Kept.NO_ROOM or (kept is Kept.NO_WAY and is_used):
                doubted[name] = kept
            elif _changes_shared(name, value, what):
                doubted[name] = Kept.SHARED
        if doubted:
            self._doubt(newest, [bound[name] for name in doubted], bound)
        doubted |= dict.fromkeys(filter(is_table, what.writes | what.mutated), Kept.ELSEWHERE)
        new = shown(doubted.keys() - self._named)
        self._named.update(new)
        return "".join(f"Undo can't restore {name}: it is {doubted[name].value}.\n" for name in new)

    def _doubt(self, newest: State, values: list[Any], bound: Bindings) -> None:
        """Mark all objects that the uncopyable ``values`` hold as lost, unless a copy exists.

        Objects among them that have a name are copied first, if possible.
        """
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
        """Drop all checkpoints but the first, and optionally the newest, to free memory."""
        first, newest = min(self._taken), max(self._taken)
        kept = {first: self._merged(first)}
        if keeps_newest:
            kept[newest] = self._taken[newest]
        self._taken = kept
        copies = (copy for each in kept.values() for copy in each.copies.by_id.values())
        self._room.bytes = ROOM_BYTES - sum(copy.size for copy in copies)
        return kept[first]

    def put_back(self, number: int, *, keep_new: bool = False) -> PutBack:
        """Go back to a checkpoint, and drop the later ones.

        Args:
            number: the checkpoint, as returned by ``take``.
            keep_new: whether to leave alone names that didn't exist then.

        Raises:
            KeyError: there is no such checkpoint.
        """
        target = self._merged(number)
        self._taken = {n: each for n, each in self._taken.items() if n < number}
        self._taken[number] = target
        changed = target.copies.changed()
        holds = self._holds(target, changed)
        names = target.bindings.keys() | _differing(target.bindings, self.bindings())
        before = {name: _was(target, name, holds) for name in names}
        lost = target.copies.lost.keys()
        back = set_back(self, before, changed, lost, target.when, keep_new=keep_new)
        # Any other copy that still differs is of a later moment, of memory that an earlier one
        # shares.
        broken = set[int]().union(*(holds.get(name, ()) for name in back.lost))
        for key in target.copies.changed().keys() - broken:
            del target.copies.by_id[key]
        return back

    def close(self) -> Change | None:
        """Drop all checkpoints, and return the change since the first one, if any."""
        if not self._taken:
            return None
        change = self.change_since(min(self._taken))
        self._taken.clear()
        self._named.clear()
        self._room, self._replaced = Room(), 0
        return change

    def change_since(self, number: int) -> Change | None:
        """Return the change since a checkpoint, or ``None`` if there is none.

        Raises:
            KeyError: there is no such checkpoint.
        """
        then = self._merged(number)
        changed = then.copies.changed()
        return change_since(self, then, changed, self._holds(then, changed))

    undo = take_back

    def holding(self, values: Iterable[Any], copies: Copies | None = None) -> Holding:
        """Return the graph of the objects that ``values`` hold, which stops at the namespace."""
        return Holding(values, copies, {id(self.namespace())})

    def _holds(self, target: State, changed: Mapping[int, Copy]) -> dict[str, set[int]]:
        """Return, for each name of ``target``, the changed or uncopied objects it held, by id."""
        objects = {key: copy.value for key, copy in changed.items()} | target.copies.lost
        if not objects:
            return {}
        holding = self.holding(target.bindings.values(), target.copies)
        return holding.holders(target.bindings, objects)

    def _merged(self, number: int) -> State:
        """Return a checkpoint merged with the copies made for later ones."""
        copies = self._taken[number].copies
        for later in sorted(n for n in self._taken if n > number):
            copies = copies.with_later(self._taken[later].copies)
        return replace(self._taken[number], copies=copies)


def _is_handed_home(name: str, what: Cell, bound: Bindings) -> bool:
    """Whether the code hands an object to a function of a module of the object's own package."""
    package = module_of(type(bound[name])).partition(".")[0]
    roots = (bound.get(call.root) for call in what.calls if name in call.handed)
    return any(type(r) is ModuleType and r.__name__.partition(".")[0] == package for r in roots)


def _changes_shared(name: str, value: Any, what: Cell) -> bool:
    """Whether code changes what is kept elsewhere: in a module, a logger, an abstract class."""
    if issubclass(type(value), ABCMeta):
        registers = name in what.may_mutate - what.mutated  # as a decorator
        return registers or any(c.root == name and c.last == "register" for c in what.calls)
    if not issubclass(type(value), ModuleType | Logger) or name not in what.mutated:
        return False
    # ``np.append`` is a function of the module, not a method that changes it.
    calls = any(call.root == name and call.last in MUTATES_RECEIVER for call in what.calls)
    parts = (part_at(value, path) for its, path in what.paths if its == name)
    return any(not calls or type(part) is not ModuleType for part in parts)


def _bytes_of_replaced(bindings: Bindings, now: Bindings) -> int:
    replaced = (value for name, value in bindings.items() if now.get(name, ABSENT) is not value)
    return sum(map(bytes_of, replaced))
