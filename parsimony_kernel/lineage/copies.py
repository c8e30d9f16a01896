"""Copies of objects of any class, within a memory budget, that can be restored in place.

An object consists of its class, its fields (attributes by name, slots by descriptor) and the items
that C code keeps: of a container, an array, a frame, or a state that it pickles. A copy is shallow,
with a copy of each object in it, so shared parts are shared again after a restore. A restore
bypasses the methods of the object's class and works in place, so every holder sees the old content.
Nothing is copied by half: if a part of an object can't be copied, or doesn't fit, nothing is, and
the caller gets the reason.
"""

import functools
import operator
import pickle
import sys
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, NamedTuple
from weakref import ref

from parsimony_kernel.analysis.calls import MUTATES_ARGUMENT
from parsimony_kernel.lineage import classes

_STATE_OF, OUTSIDE = (
    frozenset(classes.FACTS["packages"][each].split()) for each in ("state", "outside")
)
# Libraries whose objects keep in ``_cache`` what their properties gave.
_CACHING = frozenset({"pandas", "statsmodels"})
# Attributes of a frame that are not restored with the others.
_OF_FRAMES = frozenset({"_mgr", "_item_cache", "_is_copy"})
# Modules of weak references.
_WEAK = frozenset({"weakref", "_weakrefset"})
# Flags of types: made at run time (a class statement or the like); attributes, or weak references,
# are stored before the object and don't count in its size.
_HEAP, _MANAGED_DICT, _MANAGED_WEAKREF = 1 << 9, 1 << 4, 1 << 3
_WORD = 8
_ALL = slice(None)
_ABSENT = object()
_SAMPLED = 1_000


# Items: sequences and mappings


def same_objects(one: Collection[Any], other: Collection[Any]) -> bool:
    """Return whether two collections hold the identical objects in the same order."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _same_items(now: Any, held: Any) -> bool:
    is_same = same_objects(now, held)
    return is_same and (type(held) is not dict or same_objects(now.values(), held.values()))


def _parts_of(items: Any) -> Collection[Any]:
    return [*items.values(), *items] if type(items) is dict else items


class Native(NamedTuple):
    """Operations on the items that C code keeps for one of its types.

    Args:
        look: returns the current items in a container of their own; for an array or a frame, the
            live ones.
        put: gives a value these items; raises if that's impossible.
        copy: returns the items to store in a copy.
        same: compares the current items with those of a copy.
        parts: returns the objects in the items, with the keys of mappings.
    """

    look: Callable[[Any], Any] = lambda value: ()
    put: Callable[[Any, Any], object] = lambda value, items: None
    copy: Callable[[Any], Any] = lambda items: items
    same: Callable[[Any, Any], bool] = _same_items
    parts: Callable[[Any], Collection[Any]] = _parts_of


def _numbers(kind: Any) -> Native:
    return Native(
        lambda value: kind.__getitem__(value, _ALL),
        lambda value, items: kind.__setitem__(value, _ALL, items),
        same=lambda now, held: bytes(now) == bytes(held),
        parts=lambda items: (),
    )


def _refilled(kind: Any, look: Callable[[Any], Any], fill: Callable[[Any, Any], None]) -> Native:
    def put(value: Any, items: Any) -> None:
        kind.clear(value)
        fill(value, items)

    return Native(look, put)


def _fill_ordered(value: Any, items: dict[Any, Any]) -> None:
    for key, each in items.items():
        OrderedDict.__setitem__(value, key, each)


# Arrays


def _same_array(now: Any, held: Any) -> bool:
    looks = [(each.shape, each.dtype, each.flags.writeable) for each in (now, held)]
    return looks[0] == looks[1] and bool(now.tobytes() == held.tobytes())


def _objects_of(items: Any) -> Collection[Any]:
    return items.ravel().tolist() if items.dtype.kind == "O" else ()


def _copied_array(items: Any) -> Any:
    copied = items.copy()
    copied.flags.writeable = items.flags.writeable
    return copied


def _put_array(value: Any, items: Any) -> None:
    now = classes.plain_array(value)
    if now.size != items.size or now.dtype != items.dtype:
        raise ValueError("the array has other memory by now")
    if now.shape != items.shape:
        value.shape = items.shape
    value.flags.writeable = True
    classes.plain_array(value)[...] = items
    value.flags.writeable = items.flags.writeable


# Frames and series of pandas. With copy-on-write, a copy costs nothing until something is written.
# There is no public way to replace a frame's content in place, nor to ask whether two still share
# memory, so this uses the block managers, as pandas' own methods with inplace=True do.


def is_free(value: Any) -> bool:
    """Return whether a copy of ``value`` takes neither time nor memory."""
    return classes.is_frame(type(value)) and classes.copies_lazily()


def _manager_of(value: Any) -> Any:
    return classes.attributes_of(value)["_mgr"]


def _copied_manager(manager: Any) -> Any:
    return manager.copy(deep=not classes.copies_lazily())


def _put_manager(value: Any, manager: Any) -> None:
    own = classes.attributes_of(value)
    own["_mgr"] = _copied_manager(manager)
    own.get("_item_cache", {}).clear()  # columns that older versions of pandas cached


def _same_managers(one: Any, other: Any) -> bool:
    axes = zip(one.axes, other.axes, strict=True)
    return (
        len(one.blocks) == len(other.blocks)
        and all((a is b or a.is_(b)) and same_objects(a.names, b.names) for a, b in axes)
        # A block that was written to since the copy is another one, with a record of its own.
        and all(
            a.refs is b.refs and list(a.mgr_locs) == list(b.mgr_locs)
            for a, b in zip(one.blocks, other.blocks, strict=True)
        )
    )


def _objects_in(manager: Any) -> list[Any]:
    """Return the cells of object columns, if a sample of the first ones contains mutable values."""
    found: list[Any] = []
    for block in manager.blocks:
        # String columns have dtype kind "O" too, but no plain arrays.
        if classes.is_array(block.values) and block.values.dtype.kind == "O":
            cells = block.values.reshape(-1)
            if not all(classes.is_atomic(each) for each in cells[:_SAMPLED]):
                found.extend(cells)
    return found


# Frames and series of polars. Columns are shared until one is written to, so a copy is free.


def _same_polars(value: Any, held: Any) -> bool:
    one, other = (each.to_frame() if hasattr(each, "to_frame") else each for each in (value, held))
    return bool(one.schema == other.schema and one.equals(other))


def _put_polars(value: Any, held: Any) -> None:
    inner = "_s" if type(value) in classes.loaded("polars", "Series") else "_df"
    setattr(value, inner, getattr(held.clone(), inner))


# Objects of C code, by their pickled state


class State(NamedTuple):
    """The pickled state of an object of C code, and the arguments that reconstruct it."""

    content: bytes
    parts: tuple[Any, ...]


def _state(value: Any) -> State:
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):  # the name of a singleton
        return State(b"", ())
    made_of = tuple(reduced[1])
    state = reduced[2] if len(reduced) > 2 else None
    # If it can't take a state back, its constructor arguments are compared too.
    content = state if hasattr(value, "__setstate__") else (made_of, state)
    return State(pickle.dumps(content, 5), made_of)


# Classes of the notebook


def _members_of(value: type) -> dict[str, Any]:
    own = type.__dict__["__dict__"].__get__(value).items()
    return {name: each for name, each in own if name not in ("__dict__", "__weakref__")}


def _parts_of_class(items: dict[str, Any]) -> list[Any]:
    """Return the members of a class, without its functions and its metaclass's own data."""
    return [
        each
        for name, each in items.items()
        if type(each) is not types.FunctionType and name[:2] != "__" and name[:5] != "_abc_"
    ]


def _put_members(value: type, items: dict[str, Any]) -> None:
    now = _members_of(value)
    for name in now.keys() - items.keys():
        type.__delattr__(value, name)
    for name, each in items.items():
        if now.get(name, _ABSENT) is not each:
            type.__setattr__(value, name, each)


_BARE = Native()
_ARRAY = Native(classes.plain_array, _put_array, _copied_array, _same_array, _objects_of)
_FRAME = Native(_manager_of, _put_manager, _copied_manager, _same_managers, _objects_in)
_POLARS = Native(
    lambda value: value, _put_polars, lambda value: value.clone(), _same_polars, lambda items: ()
)
STATE = Native(
    _state,
    lambda value, items: value.__setstate__(pickle.loads(items.content)),
    same=lambda now, held: bool(now.content == held.content),
    parts=operator.attrgetter("parts"),
)
# The words on an axis of matplotlib, and the number of the next one.
_WORDS = Native(
    lambda value: [*value._mapping],
    lambda value, items: setattr(value, "_counter", count(len(items))),
)
_CLASS = Native(_members_of, _put_members, parts=_parts_of_class)
_MAPPING = _refilled(dict, dict.copy, dict.update)
_BOUND = (functools.partial, types.MethodType, types.BuiltinFunctionType)
_CONTAINERS: dict[type, Native] = {
    # In one assignment: a signal between two would leave the list empty.
    list: Native(list.copy, lambda value, items: list.__setitem__(value, _ALL, items)),
    array: _numbers(array),
    bytearray: _numbers(bytearray),
    dict: _MAPPING,
    defaultdict: _MAPPING,
    Counter: _MAPPING,
    OrderedDict: _refilled(
        OrderedDict, lambda value: dict(OrderedDict.items(value)), _fill_ordered
    ),
    set: _refilled(set, lambda value: set[Any]().union(value), set.update)._replace(
        same=lambda now, held: set(map(id, now)) == set(map(id, held))
    ),
    deque: _refilled(deque, lambda value: list(deque.__iter__(value)), deque.extend),
    tuple: Native(lambda value: tuple.__getitem__(value, _ALL)),
}
# Further fields of these types, by the names of their descriptors.
_MEMBERS: dict[type, str] = {
    BaseException: "args __traceback__ __cause__ __context__ __suppress_context__",
    types.FunctionType: "__defaults__ __kwdefaults__ __closure__ __code__",
    types.CellType: "cell_contents",
    functools.partial: "func args keywords",
    types.MethodType: "__func__ __self__",
    types.BuiltinFunctionType: "__self__",
}
_NO_ITEMS = (object, types.SimpleNamespace, str, bytes, int, float, complex, frozenset, *_MEMBERS)
_NATIVES = dict.fromkeys(_NO_ITEMS, _BARE) | _CONTAINERS
_CLASS_OF: Any = vars(object)["__class__"]
_BASES: Any = vars(type)["__bases__"]


@dataclass(frozen=True, eq=False)
class Kind:
    """How objects of one class are copied, compared and restored.

    Args:
        of: the class.
        base: the type whose C code defines their memory layout.
        native: the operations on their items.
        members: the descriptors of their slots and other fields.
        skipped: the attributes that are not restored.
        has_attributes: whether they have a ``__dict__``.
        is_instance: whether it is a class of a library or of the notebook, whose methods may
            mutate objects in ways that the calling code doesn't show.
    """

    of: type
    base: Any
    native: Native
    members: tuple[Any, ...] = ()
    skipped: frozenset[str] = frozenset()
    has_attributes: bool = False
    is_instance: bool = False

    @property
    def is_of_library(self) -> bool:
        """Whether it is a class of a library, not of the notebook."""
        return self.is_instance and not classes.is_theirs(self.of)

    def size(self, value: Any) -> int:
        """Return about how many bytes a copy takes, without the objects in it."""
        if self.native is _FRAME:
            return 0 if classes.copies_lazily() else classes.frame_bytes(value)
        own = sys.getsizeof(classes.attributes_of(value)) if self.has_attributes else 0
        if self.native is _ARRAY:
            return own + int(classes.plain_array(value).nbytes)
        return own + (self.base.__sizeof__(value) if self.base in _CONTAINERS else 0)

    def look(self, value: Any) -> tuple[Any, dict[Any, Any]]:
        """Return the current items of ``value``, and its fields by name or descriptor."""
        fields: dict[Any, Any] = {}
        for member in self.members:
            try:
                fields[member] = member.__get__(value)
            except (AttributeError, ValueError, TypeError):  # not set or bound; another class
                continue
        if self.has_attributes:
            fields |= classes.attributes_of(value)
            for name in self.skipped & fields.keys():
                del fields[name]
        return self.native.look(value), fields

    def parts(self, items: Any, fields: Mapping[Any, Any]) -> Collection[Any]:
        """Return the objects in some content, with the keys of mappings."""
        found = self.native.parts(items)
        return [*found, *fields.values()] if fields else found


def kind_of(value: Any) -> Kind | None:
    """Return how ``value`` is copied, ``None`` if it can't be."""
    kind: Any = type(value)
    if issubclass(kind, type):
        return Kind(kind, type, _CLASS, (_CLASS_OF, _BASES)) if classes.is_theirs(value) else None
    try:
        return _kind(kind)
    except TypeError:  # a metaclass whose classes have no hash
        return None


@functools.lru_cache(maxsize=1_024)
def _kind(kind: type) -> Kind | None:
    """Return how objects of a class are copied, ``None`` if C code hides some of their content."""
    if classes.is_frame(kind):
        own = classes.loaded("pandas", "DataFrame", "Series")
        base: Any = next(each for each in kind.__mro__ if each in own)
        skipped = _OF_FRAMES.union(base._accessors)  # which are created on first access
        return Kind(kind, base, _FRAME, (_CLASS_OF,), skipped, has_attributes=True)
    if kind in classes.loaded("polars", "DataFrame", "Series"):
        return Kind(kind, kind, _POLARS)
    if kind in classes.loaded("matplotlib.category", "UnitData"):
        return Kind(kind, object, _WORDS, (), frozenset({"_counter"}), True, True)
    if issubclass(kind, tuple) and not kind.__dictoffset__:
        return Kind(kind, tuple, _CONTAINERS[tuple])
    if any(classes.package_of(each) in OUTSIDE for each in kind.__mro__):
        return None
    base = kind
    while (native := _native_of(base)) is not _BARE and _is_of_python(base):
        base = base.__base__ or object
    if native is None:
        return None
    is_array = kind is base and native is _ARRAY
    is_plain = is_array or kind in _CONTAINERS or kind in _MEMBERS
    named = [vars(each)[name] for each in kind.__mro__ for name in _MEMBERS.get(each, "").split()]
    slots = [member for each in kind.__mro__ for member in _slots_of(each)]
    members = [*named, *slots] if is_plain else [_CLASS_OF, *named, *slots]
    skipped = frozenset[str]() if classes.is_theirs(kind) else _caches(kind)
    has_attributes = kind.__dictoffset__ != 0
    return Kind(kind, base, native, (*members,), skipped, has_attributes, not is_plain)


def parts_now(value: Any) -> Collection[Any]:
    """Return the objects in ``value`` now; empty if its kind is unknown."""
    kind = kind_of(value)
    return kind.parts(*kind.look(value)) if kind is not None else ()


def around(function: Any) -> list[Any]:
    """Return the values of a function's closure variables."""
    return [each for cell in function.__closure__ or () for each in parts_now(cell)]


def is_opaque(value: Any) -> bool:
    """Return whether ``value`` may change invisibly.

    That is a library object or another one that can't be copied, or a closure or bound callable,
    which may hold one.
    """
    if classes.is_atomic(value):
        return False
    if type(value) is types.FunctionType:
        return bool(value.__closure__)
    kind = kind_of(value)
    return kind is None or kind.native is _POLARS or kind.is_of_library or is_bound(value)


def is_bound(value: Any) -> bool:
    """Return whether ``value`` is a callable bound to objects that it may mutate."""
    kind = type(value)  # a metaclass may define its own ``==``
    return any(kind is each for each in _BOUND) and not classes.is_atomic(value)


def changes_arguments(value: Any) -> bool:
    """Return whether ``value`` is a function that mutates its arguments.

    Examples are ``list.append``, a partial of it, and ``heapq.heappush``.
    """
    kind = type(value)
    if kind is functools.partial:
        return changes_arguments(value.func)
    if kind is types.BuiltinFunctionType or kind is types.FunctionType:
        return value.__name__ in MUTATES_ARGUMENT
    return kind in (types.MethodDescriptorType, types.WrapperDescriptorType, operator.methodcaller)


def _native_of(kind: type) -> Native | None:
    if (known := _NATIVES.get(kind)) is not None:
        return known
    if kind in classes.loaded("numpy", "ndarray"):
        return _ARRAY
    if issubclass(kind, BaseException) and kind.__basicsize__ == BaseException.__basicsize__:
        return _BARE
    return STATE if classes.package_of(kind) in _STATE_OF else None


def _is_of_python(kind: type) -> bool:
    """Return whether instances of ``kind`` add only slots to the memory layout of its base.

    If so, the class is defined in Python, and C code of its own can't hide any content.
    """
    flags, base = type.__dict__["__flags__"].__get__(kind), kind.__base__
    if base is None or not flags & _HEAP:
        return False
    words = len(_slots_of(kind))
    if kind.__dictoffset__ and not base.__dictoffset__:
        words += not flags & _MANAGED_DICT
    if kind.__weakrefoffset__ and not base.__weakrefoffset__:
        words += not flags & _MANAGED_WEAKREF
    return kind.__basicsize__ == base.__basicsize__ + _WORD * words


def _slots_of(kind: type) -> list[Any]:
    """Return the descriptors of the slots that a class adds."""
    own = vars(kind)
    named = own.values() if "__slots__" in own else ()
    return [each for each in named if type(each) is types.MemberDescriptorType]


def _caches(kind: type) -> frozenset[str]:
    """Return the attributes in which objects of libraries cache what they can compute again."""
    members = [member for each in kind.__mro__ for member in vars(each).items()]
    names = {name for name, made in members if type(made) is functools.cached_property}
    return frozenset(names | {"_cache"} if classes.package_of(kind) in _CACHING else names)


# Copies of objects, within a budget per cell and one per run

# The memory budgets of copies, per run and per cell, and the effort budget of making them, per
# cell: about 50 ms.
ROOM_BYTES = 128 * 2**20
CELL_BYTES = 64 * 2**20
CELL_EFFORT = 1_200_000
# A copy costs about as much as visiting this many numbers.
_COPY_EFFORT = 130


class Kept(Enum):
    """The outcome of an attempt to copy an object."""

    YES = "copied"
    NO_ROOM = "too big to copy"
    NO_WAY = "not something that can be copied"
    ELSEWHERE = "in a database"
    SHARED = "shared by all code"


@dataclass
class Room:
    """The remaining budget for copies: bytes in all, bytes and effort for the current cell."""

    bytes: int = ROOM_BYTES
    effort: int = CELL_EFFORT
    cell_bytes: int = CELL_BYTES


@dataclass(slots=True, eq=False)
class Copy:
    """An object and a shallow copy of its content; the objects in it have copies of their own.

    Args:
        kind: how it is copied.
        value: the object.
        items: what C code keeps in it.
        fields: its attributes by name, and its slots by descriptor.
        size: about how many bytes the copy takes.
    """

    kind: Kind
    value: Any
    items: Any
    fields: dict[Any, Any]
    size: int

    @classmethod
    def of(cls, value: Any, kind: Kind) -> "Copy":
        """Copy the current content of ``value``."""
        items, fields = kind.look(value)
        items, size = kind.native.copy(items), kind.size(value)
        size += len(items.content) if type(items) is State else 0
        return cls(kind, value, items, fields, size)

    @property
    def parts(self) -> Collection[Any]:
        """The objects in the copied content."""
        return self.kind.parts(self.items, self.fields)

    @property
    def is_changed(self) -> bool:
        """Whether the object's content has changed; true if the comparison fails."""
        try:
            items, fields = self.kind.look(self.value)
            is_same = _same_items(fields, self.fields)
            return not (is_same and self.kind.native.same(items, self.items))
        except Exception:  # boundary: user object - its comparison may do anything
            return True

    def set_back(self) -> bool:
        """Restore the object's content in place, and return whether that worked."""
        try:
            self._set_back(self.value, self.kind)
        except Exception:  # boundary: user object - its methods may do anything
            return False
        return True

    def _set_back(self, value: Any, kind: Kind) -> None:
        own_class = self.fields.get(_CLASS_OF, type(value))
        if own_class is not type(value):
            object.__setattr__(value, "__class__", own_class)
        items, fields = kind.look(value)
        if not kind.native.same(items, self.items):
            kind.native.put(value, self.items)
        for member in kind.members:
            each, now = (known.get(member, _ABSENT) for known in (self.fields, fields))
            if each is _ABSENT and now is not _ABSENT:
                member.__delete__(value)
            elif each is not now:
                member.__set__(value, each)
        if kind.has_attributes:
            own = classes.attributes_of(value)
            then = {name: each for name, each in self.fields.items() if name not in kind.members}
            if kind.native is _FRAME or kind.native is _WORDS:
                then |= {name: own[name] for name in kind.skipped & own.keys()}
            then |= {name: {} for name in kind.skipped & own.keys() & {"_cache"}}
            _MAPPING.put(own, then)


@dataclass
class Copies:
    """Copies of objects by id, each with the content first seen.

    ``lost`` holds the objects that may have changed without a copy, by id.
    """

    by_id: dict[int, Copy] = field(default_factory=dict)
    lost: dict[int, Any] = field(default_factory=dict)

    def with_later(self, later: "Copies") -> "Copies":
        """Merge with copies made later; an object copied only then was unchanged until then.

        Later copies come first in the result, so that they are restored first: if arrays share
        memory, the earlier copy has the last word.
        """
        lost = {key: each for key, each in later.lost.items() if key not in self.by_id}
        new = {key: each for key, each in later.by_id.items() if key not in self.by_id}
        return Copies({**new, **self.by_id}, {**lost, **self.lost})

    def only(self, keys: Collection[int]) -> "Copies":
        """Return the copies of some objects, by their ids."""
        made = {key: each for key, each in self.by_id.items() if key in keys}
        return Copies(made, {key: each for key, each in self.lost.items() if key in keys})

    def keep(self, value: Any, room: Room) -> Kept:
        """Copy ``value`` and all objects it holds, or nothing.

        Existing copies are left as they are.
        """
        made: dict[int, Copy] = {}
        try:
            kept = self._copy_into(made, value, room)
        except Exception:  # boundary: user object - what it holds may be anything
            return Kept.NO_WAY
        if kept is Kept.YES:
            taken = sum(copy.size for copy in made.values())
            room.bytes -= taken
            room.cell_bytes -= taken
            self.by_id.update(made)
        return kept

    def _copy_into(self, made: dict[int, Copy], value: Any, room: Room) -> Kept:
        left = min(room.bytes, room.cell_bytes)
        pending: list[tuple[Any, Copy | None]] = [(value, None)]
        holders: dict[int, Copy | None] = {}
        while pending:
            each, holder = pending.pop()
            if issubclass(type(each), ref) and not any(
                above.kind.is_of_library and classes.package_of(above.kind.of) not in _WEAK
                for above in _above(holder, holders)
            ):  # the notebook's own, and no library's
                each = ref.__call__(each)
            if id(each) in holders or (type(each) not in COMMON and classes.is_atomic(each)):
                continue
            holders[id(each)] = holder
            copy = self.by_id.get(id(each))
            if copy is None:
                kind = kind_of(each)
                if kind is None and _is_left_out(each, holders):
                    continue
                if kind is None:
                    return Kept.NO_WAY
                if kind.size(each) > left:
                    return Kept.NO_ROOM
                copy = made[id(each)] = Copy.of(each, kind)
                left -= copy.size
                room.effort -= _COPY_EFFORT
            parts = copy.parts
            room.effort -= len(parts)
            if left < 0 or room.effort < 0:
                return Kept.NO_ROOM
            pending.extend((part, copy) for part in parts if type(part) not in classes.ATOMS)
        return Kept.YES

    def reachable(self, values: Iterable[Any]) -> set[int]:
        """Return the ids of the copied objects among ``values`` and all that they held."""
        pending, found = list(values), set[int]()
        while pending:
            each = pending.pop()
            copy = self.by_id.get(id(each))
            if copy is None or id(each) in found:
                continue
            found.add(id(each))
            pending.extend(part for part in copy.parts if type(part) not in classes.ATOMS)
        return found

    def changed(self) -> dict[int, Copy]:
        """Return the copies whose objects have changed since, by id."""
        return {key: copy for key, copy in self.by_id.items() if copy.is_changed}


def _is_left_out(part: Any, holders: Mapping[int, Copy | None]) -> bool:
    """Return whether a holder of ``part`` leaves the path to it out of its pickled state.

    Library objects leave out caches, counters, renderers.

    Args:
        holders: the copies by which the objects were found, by the ids of these.
    """
    for holder in _above(holders[id(part)], holders):
        if holder.kind.is_of_library and type(holder.value).__dictoffset__:
            own = classes.attributes_of(holder.value).values()
            state = holder.value.__getstate__() if any(each is part for each in own) else None
            if isinstance(state, dict) and all(each is not part for each in state.values()):
                return True
        part = holder.value
    return False


def _above(holder: Copy | None, holders: Mapping[int, Copy | None]) -> Iterator[Copy]:
    """Yield ``holder`` and the copies that hold it, from the nearest on."""
    while holder is not None:
        yield holder
        holder = holders[id(holder.value)]


COMMON = frozenset({list, dict, tuple, set, deque})
# By identity: a class may have a hash of its own.
COMMON_IDS = frozenset(map(id, COMMON))


def bytes_of(value: Any) -> int:
    """Return about how many bytes ``value`` itself takes, without running its code."""
    if classes.is_frame(type(value)):
        return classes.frame_bytes(value)
    if type(value) in classes.ATOMS:
        return sys.getsizeof(value)
    kind = kind_of(value)
    return 64 + (kind.size(value) if kind is not None else 0)
