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
from parsimony_kernel.lineage import copies as copying
from parsimony_kernel.lineage.classes import is_atomic, module_of, unshared_bytes
from parsimony_kernel.lineage.copies import Copies, Copy, Kept, Room, kind_of
from parsimony_kernel.lineage.ledger import Moment, OriginLedger
from parsimony_kernel.lineage.object_graph import Holding, holds_objects, part_at
from parsimony_kernel.lineage.observe import Reach, suspects
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
        # Names already reported as not restorable.
        self._named = set[str]()

    def __contains__(self, number: int) -> bool:
        return number in self._taken

    def take(self) -> int:
        """Take a checkpoint of the current state and return its number."""
        now = dict(self.bindings())
        number, self._next = self._next, self._next + 1
        if len(self._taken) > 1:  # the newest keeps the values alive that were replaced since
            newest = self._taken[max(self._taken)].bindings.items()
            replaced = (value for name, value in newest if now.get(name, ABSENT) is not value)
            self._room.bytes -= sum(map(copying.bytes_of, replaced))
        self._taken[number] = State(now, self.ledger.versions(), self.ledger.now())
        if self._room.bytes < 0:
            self._thin()
        return number

    def protect(self, code: str) -> str:
        """Copy the objects that ``code``, which is about to run, may mutate.

        Returns:
            A warning for each name that undo can't restore, given once per name; empty if none.
        """
        return self._protect(read(code)) if self._taken else ""

    def protect_call(self, function: Any) -> None:
        """Copy the objects that calling ``function`` may mutate, if the notebook defines it."""
        if self._taken:
            reach = Reach(self.bindings())
            reach.run([function])
            self._protect(Cell(may_mutate=reach.used))
            self._keep(self._taken[max(self._taken)], function)

    def _protect(self, what: Cell) -> str:
        bound = self.bindings()
        self._room = Room(self._room.bytes)  # another cell, of what is left
        likely, others = suspects(what, bound)
        newest = self._taken[max(self._taken)]
        doubted = dict[str, Kept]()
        for name in (*sorted(likely), *sorted(others)):
            value, is_likely = bound[name], name in likely
            value = ref.__call__(value) if issubclass(type(value), ref) else value
            is_copied = is_likely or copying.is_free(value)
            is_copied = is_copied or kind_of(value) is None or holds_objects(value)
            kept = self._keep(newest, value) if is_copied else Kept.YES
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
        held = self._holding(values, newest.copies).objects
        for value in bound.values():
            if id(value) in held and kind_of(value) is not None:
                self._keep(newest, value)
        by_id = newest.copies.by_id
        newest.copies.lost |= {key: each for key, each in held.items() if key not in by_id}

    def _keep(self, newest: State, value: Any) -> Kept:
        kept = newest.copies.keep(value, self._room)
        if kept is Kept.NO_ROOM and len(self._taken) > 2 and self._room.effort >= 0:
            self._thin()
            return newest.copies.keep(value, self._room)
        return kept

    def _thin(self) -> None:
        """Drop all checkpoints but the first and the newest, to free memory."""
        first, newest = min(self._taken), max(self._taken)
        self._taken = {first: self._merged(first), newest: self._taken[newest]}
        copies = (copy for each in self._taken.values() for copy in each.copies.by_id.values())
        self._room.bytes = copying.ROOM_BYTES - sum(copy.size for copy in copies)

    def put_back(self, number: int, *, keep_new: bool = False) -> PutBack:
        """Go back to a checkpoint, and drop the later ones.

        Args:
            number: the checkpoint, as returned by ``take``.
            keep_new: whether to leave alone names that didn't exist then.

        Raises:
            KeyError: there is no such checkpoint.
        """
        target, changed, holds = self._compared(number)
        self._taken = {n: each for n, each in self._taken.items() if n < number}
        self._taken[number] = target
        names = target.bindings.keys() | _differing(target.bindings, self.bindings())
        kept = names - target.bindings.keys() - self.given().keys() if keep_new else set[str]()
        before = {name: _was(target, name, holds) for name in names - kept}
        back = self._set_back(before, changed, target.copies.lost.keys(), target.when)
        # Any other copy that still differs is of a later moment, of memory that an earlier one
        # shares.
        broken = set[int]().union(*(holds.get(name, ()) for name in back.lost))
        for key in target.copies.changed().keys() - broken:
            del target.copies.by_id[key]
        return replace(back, kept=shown(kept))

    def close(self) -> Change | None:
        """Drop all checkpoints, and return the change since the first one, if any."""
        if not self._taken:
            return None
        change = self.change_since(min(self._taken))
        self._taken.clear()
        self._named.clear()
        self._room = Room()
        return change

    def change_since(self, number: int) -> Change | None:
        """Return the change since a checkpoint, or ``None`` if there is none.

        Raises:
            KeyError: there is no such checkpoint.
        """
        return self._change(*self._compared(number))

    def undo(self, change: Change) -> tuple[PutBack, Change | None]:
        """Undo ``change``, except where that would destroy later work.

        A name that was rebound or changed again since is left alone, with all objects it holds,
        and is reported as ``kept``; so is every name that shares a part with it. A person's new
        name for an object that hasn't changed since doesn't block the undo: it then shows the
        restored object, with unknown origin.

        Returns:
            Which names were restored, removed, kept or lost; and the change that redoes it,
            ``None`` if nothing was undone, so that the undo can be tried again later.
        """
        now = dict(self.bindings())
        images = {**change.images, **self._drifted(change, now)}
        later, touched, holds = self._later(change, images, now)
        changed = change.copies.only(images.keys() - touched).by_id
        held = {name: each for name, found in holds.items() if (each := found & changed.keys())}
        names = {name: was for name, was in change.before.items() if name not in later}
        for name in held.keys() - change.before.keys() - later:
            names[name] = Was(now[name], 0, held[name])
        copies = Copies({**change.copies.by_id, **{key: images[key] for key in changed}})
        stood = State(now, self.ledger.versions(), self.ledger.now(), copies)
        done = self._set_back(names, changed, change.copies.lost.keys(), change.when)
        back = replace(done, kept=shown(later))
        if not done:
            return back, None
        # An object that failed to restore has neither its earlier nor its later content.
        copies.lost = {
            key: copy.value
            for key, copy in changed.items()
            if copy.is_changed and images[key].is_changed
        }
        return back, self._change(stood, changed, held)

    def _later(
        self, change: Change, images: Mapping[int, Copy], now: Bindings
    ) -> tuple[set[str], set[int], dict[str, set[int]]]:
        """Find what an undo of ``change`` must leave alone: bound or changed since, sharing parts.

        Args:
            change: the change.
            images: the content of the mutated objects after it, by id.
            now: the current bindings.

        Returns:
            The names to leave alone; the ids of the objects to leave alone; and for each name, the
            ids of the mutated objects that it holds now.
        """
        touched = {key for key, image in images.items() if image.is_changed}
        holding = self._holding(now.values())
        holds = holding.holders(now, {key: image.value for key, image in images.items()})
        before, after = change.before, change.after.look()
        bound = {name for name in before if now.get(name, ABSENT) is not after.get(name, ABSENT)}
        later = bound | {
            name
            for name, was in before.items()
            if (name in now and self.ledger.version(name) != change.versions[name])
            or not touched.isdisjoint(was.held)
        }
        made = {
            name: now[name]
            for name, was in before.items()
            if was.value is ABSENT and name in now and not is_atomic(now[name])
        }
        used = {
            ref.name
            for run in self.ledger.cell_runs()[change.runs :]
            for ref in run.reads
            if run.actor == "user" and ref.version == change.versions.get(ref.name)
        }
        later.update(name for name in used & made.keys() if copying.is_opaque(made[name]))
        held = holds | {name: was.held | holds.get(name, set()) for name, was in before.items()}
        more = later
        while more:
            touched.update(*(held.get(name, ()) for name in later))
            new = {id(made[name]): made[name] for name in (later & made.keys()) - bound}
            more = {name for name, each in held.items() if not touched.isdisjoint(each)}
            more = (more | holding.holders(made, new).keys()) - later
            later |= more
        return later, touched, holds

    def _drifted(self, change: Change, now: Bindings) -> dict[int, Copy]:
        """Copy the library objects that drifted by themselves, without a change by a cell, by id.

        A figure notes that it was drawn, a graph that it was asked for its edges. Such drift
        doesn't block an undo.
        """
        ended = Copies({**change.copies.by_id, **change.images})
        held = set[int]()
        for name in change.before.keys() & now.keys():
            copy, version = ended.by_id.get(id(now[name])), self.ledger.version(name)
            if copy is None or not copy.kind.is_of_library or version != change.versions[name]:
                continue
            if copy.kind.native is not copying.STATE:  # a generator's state is real work, no drift
                held |= ended.reachable([now[name]])
        drifted = [copy for key, copy in ended.changed().items() if key in held] if held else []
        return {id(each.value): Copy.of(each.value, each.kind) for each in drifted}

    def _set_back(
        self, names: Mapping[str, Was], changed: Mapping[int, Copy], lost: Set[int], when: Moment
    ) -> PutBack:
        """Restore the bindings ``names`` and the content of the objects ``changed``.

        Args:
            names: the earlier state of each name.
            changed: copies of the mutated objects, by id.
            lost: the ids of objects that may have been mutated without a copy.
            when: the moment to which this goes back.
        """
        namespace, given = self.namespace(), self.given()
        broken = {key for key, copy in changed.items() if not copy.set_back()}
        restored, removed, gone = set[str](), set[str](), set[str]()
        for name, was in names.items():
            value = given.get(name, ABSENT) if was.value is ABSENT else was.value
            version = was.version
            if value is ABSENT:
                if namespace.pop(name, ABSENT) is not ABSENT:
                    removed.add(name)
            else:
                is_other = namespace.get(name, ABSENT) is not value
                is_other = is_other or bool(was.held & changed.keys())
                namespace[name] = value
                if was.held & (lost | broken):
                    gone.add(name)
                    if not is_other:
                        continue
                    version = 0  # its content has no known origin
                elif is_other:
                    restored.add(name)
            self.ledger.go_back(name, version)
        if restored or removed:
            self.ledger.put_back(restored | removed, when)
        return PutBack(shown(restored), shown(removed), lost=shown(gone))

    def _change(
        self, before: State, changed: Mapping[int, Copy], holds: Mapping[str, Set[int]]
    ) -> Change | None:
        """Return the difference from ``before`` to now, or ``None`` if there is none.

        Args:
            before: the earlier state.
            changed: copies of the objects whose content has changed, by id.
            holds: for each name, the ids of the objects it held that changed, or may have.
        """
        now, versions = dict(self.bindings()), self.ledger.versions()
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
        held = before.copies.reachable(was.value for was in names.values())
        copies = before.copies.only(held.union(*(was.held for was in names.values())))
        images = dict[int, Copy]()
        for key in changed.keys() & copies.by_id.keys():
            try:
                images[key] = Copy.of(changed[key].value, changed[key].kind)
            except Exception:  # boundary: user object - what it holds may be anything
                copies.lost[key] = changed[key].value
        size = sum(copying.bytes_of(before.bindings.get(name)) for name in other)
        for copy in copies.by_id.values():
            is_free = copying.is_free(copy.value)
            size += unshared_bytes(copy.items, copy.value) if is_free else copy.size
        return Change(
            before.when,
            names,
            copies,
            Snapshot({name: now[name] for name in names if name in now}, names.keys() & now.keys()),
            {name: versions.get(name, 0) for name in names},
            images,
            self.ledger.now().runs,
            size,
        )

    def _holding(self, values: Iterable[Any], copies: Copies | None = None) -> Holding:
        """Return the graph of the objects that ``values`` hold, which stops at the namespace."""
        return Holding(values, copies, {id(self.namespace())})

    def _compared(self, number: int) -> tuple[State, dict[int, Copy], dict[str, set[int]]]:
        """Compare a checkpoint with now.

        Returns:
            The checkpoint, merged with the copies made for later ones; the copies of the objects
            that have changed since, by id; and for each name the changed or uncopied objects it
            held, by id.
        """
        target = self._merged(number)
        changed = target.copies.changed()
        objects = {key: copy.value for key, copy in changed.items()} | target.copies.lost
        if not objects:
            return target, changed, {}
        holding = self._holding(target.bindings.values(), target.copies)
        return target, changed, holding.holders(target.bindings, objects)

    def _merged(self, number: int) -> State:
        """Return a checkpoint merged with the copies made for later ones."""
        copies = self._taken[number].copies
        for later in sorted(n for n in self._taken if n > number):
            copies = copies.with_later(self._taken[later].copies)
        return replace(self._taken[number], copies=copies)


def _was(state: State, name: str, holds: Mapping[str, Set[int]]) -> Was:
    value, version = state.bindings.get(name, ABSENT), state.versions.get(name, 0)
    return Was(value, version, holds.get(name, frozenset()))


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
