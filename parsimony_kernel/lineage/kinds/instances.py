"""How instances of a notebook's classes are copied and set back, and those classes themselves."""

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType
from typing import Any

from parsimony_kernel.lineage.kinds.containers import MAPPING, SEQUENCE, SET, MappingKind
from parsimony_kernel.lineage.kinds.kind import Kind, same_objects

_ABSENT = object()


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance, past what its class makes of them."""
    attributes: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return attributes


@dataclass(frozen=True)
class InstanceKind(MappingKind):
    def size(self, value: Any) -> int:
        return sys.getsizeof(attributes_of(value))

    def copy(self, value: Any) -> Any:
        return attributes_of(value).copy()

    def same(self, value: Any, held: Any) -> bool:
        return super().same(attributes_of(value), held)

    def set_back(self, value: Any, held: Any) -> Any:
        super().set_back(attributes_of(value), held)
        return value


@dataclass(frozen=True)
class ExtendedKind:
    """An instance of a class of the notebook, with slots or derived from a container."""

    inner: Kind | None
    own: type

    def size(self, value: Any) -> int:
        return sys.getsizeof(value, 64)

    def copy(self, value: Any) -> Any:
        inside = None if self.inner is None else _PLAIN[self.own](value)
        return inside, _slots(value), _kept_attributes(value)

    def same(self, value: Any, held: Any) -> bool:
        inside, slots, attributes = self.copy(value)
        return (
            (self.inner is None or self.inner.same(inside, held[0]))
            and MAPPING.same(slots, held[1])
            and MAPPING.same(attributes, held[2])
        )

    def set_back(self, value: Any, held: Any) -> Any:
        inside, slots, attributes = held
        if self.inner is not None:
            _REFILL[self.own](value, inside)
        now = _slots(value)
        for member, each in slots.items():
            member.__set__(value, each)
        for member in now.keys() - slots.keys():
            member.__delete__(value)
        if type(value).__dictoffset__:
            MAPPING.set_back(attributes_of(value), attributes)
        return value

    def parts(self, held: Any) -> Collection[Any]:
        inside, slots, attributes = held
        found = [] if self.inner is None else list(self.inner.parts(inside))
        return [*found, *slots.values(), *attributes.values()]


def fields(kind: Kind, held: Any) -> dict[str, Any] | None:
    """What an instance of a class with slots, or derived from a container, held, by name: its
    items together. ``None`` for what is of another kind."""
    if not isinstance(kind, ExtendedKind):
        return None
    inside, slots, attributes = held
    items = {} if kind.inner is None else {"its items": inside}
    return {**items, **{member.__name__: each for member, each in slots.items()}, **attributes}


def _slots(value: Any) -> dict[MemberDescriptorType, Any]:
    """What the slots of an instance hold."""
    found: dict[MemberDescriptorType, Any] = {}
    for owner in type(value).__mro__:
        if owner.__module__ != "__main__":
            continue
        for member in vars(owner).values():
            if type(member) is MemberDescriptorType:
                try:
                    found[member] = member.__get__(value)
                except AttributeError:  # not set
                    continue
    return found


def _kept_attributes(value: Any) -> dict[str, Any]:
    return attributes_of(value).copy() if type(value).__dictoffset__ else {}


def _refill_list(value: Any, held: Any) -> None:
    list.__setitem__(value, slice(None), held)


def _refill_dict(value: Any, held: Any) -> None:
    dict.clear(value)
    dict.update(value, held)


def _refill_set(value: Any, held: Any) -> None:
    set.clear(value)
    set.update(value, held)


@dataclass(frozen=True)
class ClassKind:
    """The attributes of a class of the notebook."""

    def size(self, value: Any) -> int:
        return 64 * len(vars(value))

    def copy(self, value: Any) -> Any:
        return {
            name: each
            for name, each in vars(value).items()
            if name not in ("__dict__", "__weakref__")
        }

    def same(self, value: Any, held: Any) -> bool:
        now = self.copy(value)
        sizes = (len(now), len(held))
        return same_objects(now, held, sizes) and same_objects(now.values(), held.values(), sizes)

    def set_back(self, value: Any, held: Any) -> Any:
        now = self.copy(value)
        for name in now.keys() - held.keys():
            type.__delattr__(value, name)
        for name, each in held.items():
            if now.get(name, _ABSENT) is not each:
                type.__setattr__(value, name, each)
        return value

    def parts(self, held: Any) -> Collection[Any]:
        return [each for each in held.values() if type(each) is not FunctionType]


INSTANCE = InstanceKind()
CLASS = ClassKind()
# What a class of the notebook may derive from: how that is copied, past the class's own methods.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    list: lambda value: list.__getitem__(value, slice(None)),
    dict: dict.copy,
    set: set.copy,
}
_REFILL: dict[type, Callable[[Any, Any], None]] = {
    list: _refill_list,
    dict: _refill_dict,
    set: _refill_set,
}
EXTENDED: dict[type, Kind] = {
    object: ExtendedKind(None, object),
    list: ExtendedKind(SEQUENCE, list),
    dict: ExtendedKind(MAPPING, dict),
    set: ExtendedKind(SET, set),
}
