"""A state of a namespace, and how a namespace is given it again."""

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.lineage.copies import Copies, Copy
from parsimony_kernel.lineage.dependents import Dependent
from parsimony_kernel.lineage.holding import Holding
from parsimony_kernel.lineage.ledger import Moment, OriginLedger
from parsimony_kernel.lineage.snapshot import visible

# What a name is bound to that is not bound.
ABSENT = object()

Bindings = Mapping[str, Any]


@dataclass(frozen=True)
class PutBack:
    """What going back did, each sorted; a name stands in one of them at most.

    ``restored`` are names that have their earlier value again, ``removed`` those that were new.
    ``kept`` were left: new names, or such as were changed since, with whatever holds a part of
    what they hold. ``lost`` may have been changed in place, and there was no copy of all that
    they hold, or their earlier value was too big to be kept. ``dependents`` are cells that ran
    since and used what is now taken back. ``reasons`` say of names in ``kept`` why, where it is
    not that they themselves were changed or bound anew.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    dependents: tuple[Dependent, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __bool__(self) -> bool:
        return bool(self.restored or self.removed or self.lost)


@dataclass
class State:
    """What names were bound to, at which versions, and what the objects held that changed since.

    Args:
        holds: the ids of changed objects that each name held, itself or in what it held.
        uncopied: names of which something may have changed without a copy.
        forgotten: names that were bound to what was too big to be kept.
        when: when that was.
    """

    bindings: dict[str, Any]
    versions: dict[str, int]
    copies: Copies = field(default_factory=Copies)
    holds: dict[str, set[int]] = field(default_factory=dict)
    uncopied: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    when: Moment = field(default_factory=Moment)


@dataclass(frozen=True)
class Place:
    """A live namespace.

    Args:
        namespace: gives all of it.
        bindings: gives the names in it that code may bind, with their objects.
        ledger: knows the versions of names, and is taken back with them.
        given: gives what the namespace has of itself; such a name has that again, not nothing.
    """

    namespace: Callable[[], MutableMapping[str, Any]]
    bindings: Callable[[], Bindings]
    ledger: OriginLedger
    given: Callable[[], Bindings]

    def holding(self, values: Iterable[Any], copies: Copies | None = None) -> Holding:
        """What ``values`` hold; what holds the namespace itself is not followed further."""
        return Holding(values, copies, {id(self.namespace())})


def set_back(
    place: Place,
    target: State,
    names: Iterable[str],
    changed: Mapping[int, Copy],
    *,
    keep_new: bool = False,
) -> PutBack:
    """Give ``names`` and the objects ``changed`` what they had in ``target``.

    With ``keep_new`` the names that did not exist then are left as they are.
    """
    namespace, given = place.namespace(), place.given()
    stand_ins, broken = _set_back_objects(changed)
    restored, removed, kept, lost = set[str](), set[str](), set[str](), set[str]()
    for name in names:
        value = target.bindings.get(name, ABSENT)
        if name in target.forgotten:
            lost.add(name)
            continue
        if is_new_import(name, target, namespace):
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
            held = target.holds.get(name, set()) & changed.keys()
            again = stand_ins.get(id(value), value)
            is_other = namespace.get(name, ABSENT) is not again
            namespace[name] = again
            # What takes the place of an object takes it in the namespace only.
            if name in target.uncopied or held & (broken | (stand_ins.keys() - {id(value)})):
                lost.add(name)
                if is_other or held:
                    place.ledger.go_back(name, 0)  # what it holds is of nobody's making
                continue
            if is_other or held:
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
    is_new = name in now and name not in before.bindings and name not in before.forgotten
    return is_new and not visible({"value": now[name]}, {})


def shown(names: Collection[str]) -> tuple[str, ...]:
    """The names that a person sees, sorted."""
    return tuple(sorted(name for name in names if not name.startswith("_")))
