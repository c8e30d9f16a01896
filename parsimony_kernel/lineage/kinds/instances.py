"""How objects of any class written in Python are copied and set back, and a notebook's classes.

An object is its attributes, its slots and, under these, a container, an array or the state that
its C code pickles. All are copied one level deep and given back to the same object, so that
whoever holds it, or a part of it, sees it as it was.
"""

import functools
import hashlib
import sys
from collections.abc import Collection
from dataclasses import dataclass
from types import FunctionType, MemberDescriptorType
from typing import Any, NamedTuple

from parsimony_kernel.lineage.classes import is_theirs, package_of
from parsimony_kernel.lineage.kinds.plain import BARE, MAPPING, Kind, MappingKind, State, base_of

# What these make stands for something outside of the namespace: a front end, a kernel, a thread
# that waits and would never be woken.
OUTSIDE = frozenset(
    {"parsimony_kernel", "parsimony_agent", "IPython", "ipykernel", "ipywidgets", "anywidget",
     "asyncio", "concurrent", "multiprocessing", "threading", "zmq", "tornado"}
)  # fmt: skip
# The attribute in which instances of these keep what their properties gave.
_FILLED, _FILLING = frozenset({"_cache"}), frozenset({"pandas", "statsmodels"})
# Flags of types: made by a class statement or the like; attributes and weak references are kept
# before the object, where they do not count.
_HEAP, _MANAGED_DICT, _MANAGED_WEAKREF = 1 << 9, 1 << 4, 1 << 3
_WORD = 8
_ABSENT = object()


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance, past what its class makes of them."""
    attributes: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return attributes


class Held(NamedTuple):
    """What an instance held: its items, its slots by descriptor, and its attributes."""

    items: Any
    slots: dict[Any, Any]
    attributes: dict[str, Any]

    @property
    def pickled_bytes(self) -> int:
        return len(self.items.content) if isinstance(self.items, State) else 0


@dataclass(frozen=True)
class InstanceKind(Kind):
    """Instances of one class.

    Args:
        base: what the class derives from beside ``object``.
        members: the descriptors of its slots.
        own: the class itself where it is of the notebook: code may change that through any
            instance.
        caches: the attributes in which it keeps what it can work out again.
    """

    base: Kind
    members: tuple[Any, ...]
    has_attributes: bool
    own: type | None
    caches: frozenset[str]

    def size(self, value: Any) -> int:
        size = sys.getsizeof(attributes_of(value)) if self.has_attributes else 0
        return size + self.base.size(value)

    def copy(self, value: Any) -> Held:
        return Held(
            self.base.copy(value),
            _slots(value, self.members) if self.members else {},
            attributes_of(value).copy() if self.has_attributes else {},
        )

    def same(self, value: Any, held: Held) -> bool:
        now = attributes_of(value) if self.has_attributes else {}
        return (
            MAPPING.same(self._uncached(now), self._uncached(held.attributes))
            and (not self.members or MAPPING.same(_slots(value, self.members), held.slots))
            and self.base.same(value, held.items)
        )

    def set_back(self, value: Any, held: Held) -> Any:
        has_items = self.base.same(value, held.items)
        if not has_items and self.base.set_back(value, held.items) is not value:
            raise TypeError("what it is made of cannot be given back")
        now = _slots(value, self.members)
        for member, each in held.slots.items():
            member.__set__(value, each)
        for member in now.keys() - held.slots.keys():
            member.__delete__(value)
        if self.has_attributes:
            emptied: dict[str, Any] = {
                name: {} for name in self.caches & _FILLED & held.attributes.keys()
            }
            MAPPING.set_back(attributes_of(value), held.attributes | emptied)
        return value

    def parts(self, held: Held) -> Collection[Any]:
        own = () if self.own is None else (self.own,)
        attributes = self._uncached(held.attributes)
        return [*self.base.parts(held.items), *held.slots.values(), *attributes.values(), *own]

    def leaves_out(self, value: Any, part: Any) -> bool:
        """Whether an instance does not pickle ``part``: a cache, a counter, a renderer."""
        if self.own is not None or not self.has_attributes:
            return False
        if all(each is not part for each in attributes_of(value).values()):
            return False
        state = value.__getstate__()
        return isinstance(state, dict) and all(each is not part for each in state.values())

    def _uncached(self, attributes: dict[str, Any]) -> dict[str, Any]:
        if not self.caches:
            return attributes
        return {name: each for name, each in attributes.items() if name not in self.caches}


def fields(kind: Kind, held: Any) -> dict[str, Any] | None:
    """What an instance held, by name, its items together; ``None`` for what is no instance."""
    if not isinstance(kind, InstanceKind):
        return None
    items: dict[str, Any] = {}
    if isinstance(held.items, State):
        digest = hashlib.sha256(held.items.content).hexdigest()
        items["its state"] = f"{len(held.items.content):,} bytes, {digest[:8]}"
    elif kind.base is not BARE:
        items["its items"] = held.items
    slots = {member.__name__: each for member, each in held.slots.items()}
    return {**items, **slots, **held.attributes}


@functools.lru_cache(maxsize=1_024)
def instance_kind(kind: type) -> InstanceKind | None:
    """How instances of ``kind`` are copied; ``None`` where C code keeps what nobody can ask for."""
    if any(package_of(each) in OUTSIDE for each in kind.__mro__):
        return None
    last = kind
    while (base := base_of(last)) is not BARE and _is_of_python(last) and last.__base__ is not None:
        last = last.__base__
    if base is None:
        return None
    members = tuple(member for each in kind.__mro__ for member in _members(each))
    own = kind if is_theirs(kind) else None
    caches = frozenset[str]() if own else _caches(kind)
    return InstanceKind(base, members, kind.__dictoffset__ != 0, own, caches)


def _is_of_python(kind: type) -> bool:
    """Whether an instance of ``kind`` takes no more memory than one of its base and its slots."""
    flags, base = type.__dict__["__flags__"].__get__(kind), kind.__base__
    if base is None or not flags & _HEAP:
        return False
    words = len(_members(kind))
    if kind.__dictoffset__ and not base.__dictoffset__:
        words += not flags & _MANAGED_DICT
    if kind.__weakrefoffset__ and not base.__weakrefoffset__:
        words += not flags & _MANAGED_WEAKREF
    return kind.__basicsize__ == base.__basicsize__ + _WORD * words


def _members(kind: type) -> list[Any]:
    own = vars(kind)
    if "__slots__" not in own:
        return []
    return [each for each in own.values() if type(each) is MemberDescriptorType]


def _caches(kind: type) -> frozenset[str]:
    names = {
        name
        for each in kind.__mro__
        for name, made in vars(each).items()
        if type(made) is functools.cached_property
    }
    return frozenset(names | _FILLED if package_of(kind) in _FILLING else names)


def _slots(value: Any, members: Collection[Any]) -> dict[Any, Any]:
    """What those of the slots that are set hold."""
    found = {}
    for member in members:
        try:
            found[member] = member.__get__(value)
        except AttributeError:  # not set
            continue
    return found


def _class(value: type) -> dict[str, Any]:
    own = type.__dict__["__dict__"].__get__(value).items()
    return {name: each for name, each in own if name not in ("__dict__", "__weakref__")}


def _write_class(value: type, held: dict[str, Any]) -> None:
    now = _class(value)
    for name in now.keys() - held.keys():
        type.__delattr__(value, name)
    for name, each in held.items():
        if now.get(name, _ABSENT) is not each:
            type.__setattr__(value, name, each)


class _ClassKind(MappingKind):
    """The attributes of a class of the notebook."""

    def size(self, value: Any) -> int:
        return 64 * len(vars(value))

    def parts(self, held: Any) -> Collection[Any]:
        """What it holds but its functions, and what its metaclass keeps."""
        return [
            each
            for name, each in held.items()
            if type(each) is not FunctionType and name[:2] != "__" and name[:5] != "_abc_"
        ]


CLASS = _ClassKind(_class, _write_class)
