"""States of a namespace that one can go back to.

A checkpoint holds the bindings, never the data; what a cell may change in place is copied just
before that cell runs, where a copy is affordable. Its cost follows the number of names and what
the code touches, not the size of what exists.
"""

import weakref
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from parsimony_kernel.lineage.analysis import analyse
from parsimony_kernel.lineage.copies import Copies, Room
from parsimony_kernel.lineage.ledger import OriginLedger

_ABSENT = object()
# How many functions are followed to the names that they use.
_MOST_FUNCTIONS = 200
# What is only read is copied all the same, up to this size.
_ONLY_READ_BYTES = 2**18
_ONLY_READ_OBJECTS = 10_000

Bindings = Mapping[str, Any]


@dataclass(frozen=True)
class PutBack:
    """What going back did, each sorted.

    ``restored`` are names that have their earlier value again, ``removed`` those that were new.
    ``kept`` are new names that were left. ``lost`` may have been changed in place, and there was
    no copy of them.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.restored or self.removed or self.lost)


@dataclass
class _Checkpoint:
    bindings: dict[str, Any]
    visible: frozenset[str]
    versions: dict[str, int]
    copies: Copies = field(default_factory=Copies)
    # Names that code since then may have changed in place without a copy.
    uncopied: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Change:
    """What became of a namespace between its first checkpoint and the end.

    Enough to take it back later, when other cells may have run; it holds only what differs.
    """

    before: _Checkpoint
    after: Mapping[str, Callable[[], Any]]
    versions: Mapping[str, int]


class Checkpoints:
    """The checkpoints of one namespace, oldest first.

    Args:
        namespace: gives the live namespace.
        visible: gives the bindings in it that are a person's.
        ledger: knows the versions of names, and is taken back with them.
    """

    def __init__(
        self,
        namespace: Callable[[], MutableMapping[str, Any]],
        visible: Callable[[], Bindings],
        ledger: OriginLedger,
    ) -> None:
        self._namespace = namespace
        self._visible = visible
        self._ledger = ledger
        self._taken: list[_Checkpoint] = []
        self._room = Room()

    def take(self) -> int:
        """Remember the state as it is now; gives the number to go back to it by."""
        self._taken.append(
            _Checkpoint(
                dict(self._namespace()), frozenset(self._visible()), self._ledger.versions()
            )
        )
        return len(self._taken) - 1

    def protect(self, code: str) -> None:
        """Copy what ``code``, which is about to run, may change in place."""
        if not self._taken:
            return
        newest, bound = self._taken[-1], self._visible()
        names = analyse(code)
        used = _used(names.reads | names.mutated, bound)
        # What libraries are handed they leave as it is; a person's function may do anything.
        is_theirs = any(_is_a_persons(bound[name]) for name in used)
        for name in sorted(used):
            likely = is_theirs or name in names.mutated
            room = self._room if likely else Room(_ONLY_READ_BYTES, _ONLY_READ_OBJECTS)
            whole = newest.copies.keep(bound[name], room)
            if not whole and likely:
                newest.uncopied.add(name)

    def put_back(self, number: int, *, keep_new: bool = False) -> PutBack:
        """Go back to a checkpoint; later ones are forgotten.

        With ``keep_new`` the names that did not exist then are left as they are.
        """
        target = self._merged(number)
        self._taken[number:] = [target]
        return self._set_back(target, {*target.visible, *self._visible()}, keep_new=keep_new)

    def close(self) -> Change | None:
        """Forget all checkpoints; what differs since the first is the value, if anything does."""
        if not self._taken:
            return None
        first, now, versions = self._merged(0), self._visible(), self._ledger.versions()
        self._taken.clear()
        self._room = Room()
        touched = self._touched(first)
        names = {
            name
            for name in {*first.visible, *now}
            if now.get(name, _ABSENT) is not first.bindings.get(name, _ABSENT)
            or first.copies.reaches(now.get(name), touched)
        }
        if not names:
            return None
        return Change(
            _Checkpoint(
                {name: first.bindings[name] for name in names if name in first.bindings},
                first.visible & names,
                {name: first.versions.get(name, 0) for name in names},
                Copies({key: copy for key, copy in first.copies.by_id.items() if key in touched}),
                first.uncopied & names,
            ),
            {name: _reference(now[name]) for name in names if name in now},
            {name: versions.get(name, 0) for name in names},
        )

    def undo(self, change: Change) -> PutBack:
        """Take ``change`` back. A name that was bound or changed again since is left, and is
        ``kept``."""
        before, now = change.before, self._visible()
        later = {
            name
            for name, version in change.versions.items()
            if now.get(name, _ABSENT) is not change.after.get(name, _absent)()
            or (name in now and self._ledger.version(name) != version)
        }
        theirs = {id(now[name]) for name in later & now.keys()}
        copies = {key: copy for key, copy in before.copies.by_id.items() if key not in theirs}
        target = _Checkpoint(
            before.bindings, before.visible, before.versions, Copies(copies), before.uncopied
        )
        done = self._set_back(target, change.versions.keys() - later)
        return PutBack(done.restored, done.removed, tuple(sorted(later)), done.lost)

    def _merged(self, number: int) -> _Checkpoint:
        """The checkpoint with the copies that were taken after it: an object that was first
        copied later had not been touched before."""
        target = self._taken[number]
        copies = dict(target.copies.by_id)
        uncopied = set(target.uncopied)
        for later in self._taken[number + 1 :]:
            copies = {**later.copies.by_id, **copies}
            uncopied |= {
                name
                for name in later.uncopied
                if later.bindings.get(name) is target.bindings.get(name, _ABSENT)
            }
        return _Checkpoint(
            target.bindings, target.visible, target.versions, Copies(copies), uncopied
        )

    def _touched(self, target: _Checkpoint) -> set[int]:
        """The ids of the copied objects that were changed, by their content or by what the code
        plainly did to them."""
        renewed = {
            id(value)
            for name, value in target.bindings.items()
            if self._ledger.version(name) != target.versions.get(name, 0)
        }
        return target.copies.changed() | (renewed & target.copies.by_id.keys())

    def _set_back(
        self, target: _Checkpoint, names: Iterable[str], *, keep_new: bool = False
    ) -> PutBack:
        namespace, touched = self._namespace(), self._touched(target)
        replaced = {key: copy.set_back() for key, copy in target.copies.by_id.items()}
        restored, removed, kept = set[str](), set[str](), set[str]()
        for name in names:
            value = target.bindings.get(name, _ABSENT)
            if value is _ABSENT and keep_new:
                kept.add(name)
                continue
            if value is _ABSENT:
                if namespace.pop(name, _ABSENT) is not _ABSENT:
                    removed.add(name)
            else:
                again = replaced.get(id(value), value)
                if namespace.get(name, _ABSENT) is not again or target.copies.reaches(
                    value, touched
                ):
                    restored.add(name)
                namespace[name] = again
            self._ledger.go_back(name, target.versions.get(name, 0))
        lost = target.uncopied & target.visible & frozenset(names)
        return PutBack(*(tuple(sorted(each)) for each in (restored, removed, kept, lost)))


def _absent() -> Any:
    return _ABSENT


def _reference(value: Any) -> Callable[[], Any]:
    """``value``, without keeping it alive where that is possible."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _used(names: Iterable[str], bound: Bindings) -> set[str]:
    """``names`` that are bound, and those that the functions among them use in turn."""
    used, pending = set[str](), [name for name in names if name in bound]
    followed = 0
    while pending:
        name = pending.pop()
        if name in used:
            continue
        used.add(name)
        value = bound[name]
        if type(value) is FunctionType and followed < _MOST_FUNCTIONS:
            followed += 1
            pending.extend(each for each in _names_in(value.__code__) if each in bound)
    return used


def _is_a_persons(value: Any) -> bool:
    return type(value) is FunctionType or type(value).__module__ == "__main__"


def _names_in(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names_in(constant)
