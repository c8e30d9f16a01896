"""How the objects of Python, numpy and any class written in Python are copied and set back.

A copy is shallow: what lies in an object has a copy of its own. An object is its attributes, its
slots and, under these, a container, an array or the state that its C code pickles; it is set back
where it lies, past the methods of its own class, so that whoever holds it sees it as it was.
"""

import functools
import hashlib
import operator
import pickle
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple
from weakref import ref

from parsimony_kernel.analysis.calls import MUTATES_ARGUMENT
from parsimony_kernel.lineage.classes import is_atomic, is_theirs, loaded, package_of

# Packages whose C code is asked for the state that it pickles, and given it again.
_STATE_OF = frozenset(
    {"numpy", "pandas", "scipy", "sklearn", "statsmodels", "_random", "_io", "decimal"}
)
_ARRAYS_INSIDE = ("_pa_array", "_ndarray", "_codes", "_data", "_mask", "_left", "_right")
_ALL = slice(None)
_ARGS: Any = vars(BaseException)["args"]


def same_objects(one: Collection[Any], other: Collection[Any]) -> bool:
    """Whether two hold the very same objects in the same order."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _all(held: Any) -> Collection[Any]:
    """All that lies in what is held."""
    parts: Collection[Any] = held
    return parts


@dataclass(frozen=True)
class Kind:
    """How objects of one kind are copied, compared with the copy, and set back.

    Args:
        copy: what a value holds, shallow, in a container of its own.
        same: whether a value still holds that.
        write: gives a value that again; may return what takes the place of the value.
        parts: what lies in it.
        size: the bytes that a copy takes.
    """

    copy: Callable[[Any], Any]
    same: Callable[[Any, Any], bool]
    write: Callable[[Any, Any], Any] = lambda value, held: None
    parts: Callable[[Any], Collection[Any]] = _all
    size: Callable[[Any], int] = sys.getsizeof

    def set_back(self, value: Any, held: Any) -> Any:
        """``value`` holding that again, or what takes its place where it cannot be mended."""
        again = self.write(value, held)
        return value if again is None else again


def _kind(
    copy: Callable[[Any], Any],
    write: Callable[[Any, Any], Any],
    compare: Callable[[Any, Any], bool] = same_objects,
    **others: Callable[[Any], Any],
) -> Kind:
    """What is compared by a copy of what it holds now."""
    return Kind(copy, lambda value, held: compare(copy(value), held), write, **others)


def _fixed(copy: Callable[[Any], Any]) -> Kind:
    """Cannot be changed; what it holds can."""
    return Kind(copy, lambda value, held: True, size=lambda value: 0)


# Mappings. A weak reference that was added since stays, and is no change: what it refers to takes
# it out again when it is gone, and looks for it here.


def same_mapping(now: dict[Any, Any], held: dict[Any, Any]) -> bool:
    """Whether two mappings hold the same objects; ``now`` is changed."""
    for key in _new_references(now, held):
        del now[key]
    return same_objects(now, held) and same_objects(now.values(), held.values())


def _new_references(now: dict[Any, Any], held: dict[Any, Any]) -> dict[Any, Any]:
    if len(now) <= len(held) or ref not in set(map(type, now.values())):
        return {}
    return {key: each for key, each in now.items() if type(each) is ref and key not in held}


def _write_dict(value: Any, held: Any) -> None:
    more = _new_references(dict.copy(value), held)
    dict.clear(value)
    dict.update(value, {**held, **more})


def _write_ordered(value: Any, held: Any) -> None:
    items = {**held, **_new_references(_ordered(value), held)}
    OrderedDict.clear(value)
    for key, each in items.items():
        OrderedDict.__setitem__(value, key, each)


def _ordered(value: Any) -> dict[Any, Any]:
    return dict(OrderedDict.items(value))


def _write_set(value: Any, held: Any) -> None:
    set.clear(value)
    set.update(value, held)


def _write_deque(value: Any, held: Any) -> None:
    deque.clear(value)
    deque.extend(value, held)


def _sequence(kind: Any) -> Kind:
    """A list, or raw bytes of any kind, which are compared by what they are."""
    raw: dict[str, Any] = {} if kind is list else {"compare": _same_bytes, "parts": lambda held: ()}
    return _kind(
        lambda value: kind.__getitem__(value, _ALL),
        lambda value, held: kind.__setitem__(value, _ALL, held),
        **raw,
    )


def _same_bytes(now: Any, held: Any) -> bool:
    return bytes(now) == bytes(held)


# Arrays


def _plain_array(value: Any) -> Any:
    plain = sys.modules["numpy"].ndarray
    return plain.view(value, plain)


def _same_array(value: Any, held: Any) -> bool:
    now = _plain_array(value)
    if now.shape != held.shape or now.dtype != held.dtype:
        return False
    if now.flags.c_contiguous and held.flags.c_contiguous and now.dtype.kind != "O":
        mine, its = (memoryview(each.reshape(-1).view("u1")) for each in (now, held))
        return mine == its
    return bool(now.tobytes() == held.tobytes())


def _write_array(value: Any, held: Any) -> Any:
    now = _plain_array(value)
    if now.size != held.size or now.dtype != held.dtype or not now.flags.writeable:
        return held.copy()
    if now.shape != held.shape:
        value.shape = held.shape
    _plain_array(value)[...] = held
    return None


def _objects_of_array(held: Any) -> Collection[Any]:
    objects: list[Any] = held.ravel().tolist() if held.dtype.kind == "O" else []
    return objects


# Objects of C code, by the state that they pickle


class State(NamedTuple):
    """What C code pickles of an object, and what it holds beside that."""

    content: bytes
    parts: tuple[Any, ...]


def _state(value: Any) -> State:
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):  # the name of what there is one of
        return State(b"", ())
    made_of = tuple(reduced[1])
    state = reduced[2] if len(reduced) > 2 else None
    # Without a way to be given its state, all that it is made of is compared.
    content = state if hasattr(value, "__setstate__") else (made_of, state)
    return State(pickle.dumps(content, 5), made_of)


# Callables


def _bound(value: Any) -> Any:
    """A callable with what is bound to it."""
    if type(value) is functools.partial:
        return (value.func, value.args, value.keywords)
    if type(value) is MethodType:
        return (value.__func__, value.__self__)
    return (value.__self__,)


def _variable(value: Any) -> Any:
    """A variable of a closure."""
    try:
        return (value.cell_contents,)
    except ValueError:  # not bound yet
        return ()


def _write_variable(value: Any, held: Any) -> None:
    if held:
        value.cell_contents = held[0]
    else:
        del value.cell_contents


def _function(value: Any) -> Any:
    """What a function keeps: its attributes, its defaults, and the variables around it."""
    return dict(value.__dict__), value.__defaults__, value.__kwdefaults__, value.__closure__


def _write_function(value: Any, held: Any) -> None:
    attributes, value.__defaults__, value.__kwdefaults__, _ = held
    _write_dict(value.__dict__, attributes)


def _inside_function(held: Any) -> Collection[Any]:
    attributes, defaults, named, closure = held
    return [*attributes.values(), *(defaults or ()), *([named] if named else []), *(closure or ())]


MAPPING = _kind(dict.copy, _write_dict, same_mapping, parts=dict.values)
ARRAY = Kind(
    lambda value: _plain_array(value).copy(),
    _same_array,
    _write_array,
    _objects_of_array,
    lambda value: int(value.nbytes),
)
STATE = _kind(
    _state,
    lambda value, held: value.__setstate__(pickle.loads(held.content)),
    lambda now, held: bool(now.content == held.content),
    parts=lambda held: held.parts,
)
_ERROR = _kind(_ARGS.__get__, _ARGS.__set__)
# What holds nothing that could change beside attributes and slots.
BARE = _fixed(lambda value: ())
_BARE = (object, SimpleNamespace, str, bytes, int, float, complex, frozenset)
TUPLE = _fixed(lambda value: tuple.__getitem__(value, _ALL))
_BASES: dict[type, Kind] = {
    **dict.fromkeys(_BARE, BARE),
    **{kind: _sequence(kind) for kind in (list, array, bytearray)},
    dict: MAPPING,
    defaultdict: MAPPING,
    OrderedDict: _kind(_ordered, _write_ordered, same_mapping, parts=dict.values),
    set: _kind(
        lambda value: set[Any]().union(value),
        _write_set,
        lambda now, held: set(map(id, now)) == set(map(id, held)),
    ),
    deque: _kind(lambda value: list(deque.__iter__(value)), _write_deque),
    tuple: TUPLE,
}
_BOUND_TYPES = (functools.partial, MethodType, BuiltinFunctionType)
BY_TYPE: dict[type, Kind] = {
    **{kind: known for kind, known in _BASES.items() if known is not BARE},
    Counter: MAPPING,
    **dict.fromkeys(_BOUND_TYPES, _fixed(_bound)),
    FunctionType: _kind(
        _function,
        _write_function,
        lambda now, held: same_mapping(now[0], held[0]) and same_objects(now[1:], held[1:]),
        parts=_inside_function,
        size=lambda value: sys.getsizeof(value.__dict__),
    ),
    CellType: _kind(_variable, _write_variable),
}


def base_of(kind: type) -> Kind | None:
    """How the part that ``kind``, a class of C code, is of an instance is copied; ``None`` for one
    that cannot be."""
    if (known := _BASES.get(kind)) is not None:
        return known
    if kind in loaded("numpy", "ndarray"):
        return ARRAY
    if issubclass(kind, BaseException) and kind.__basicsize__ == BaseException.__basicsize__:
        return _ERROR
    return STATE if package_of(kind) in _STATE_OF else None


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array of numpy, and of no class that derives from it."""
    return type(value) in loaded("numpy", "ndarray")


def arrays_inside(value: Any) -> Iterable[Any]:
    """The arrays in which one of pandas keeps its values."""
    return (each for name in _ARRAYS_INSIDE if (each := getattr(value, name, None)) is not None)


def same_memory(one: Any, other: Any) -> bool:
    """Whether two arrays of numpy or pandas are the same place in memory."""
    if one is other:
        return True
    arrays = loaded("numpy", "ndarray")
    if isinstance(one, arrays) and isinstance(other, arrays):
        return bool(one.__array_interface__ == other.__array_interface__)
    if type(one) is not type(other) or not hasattr(one, "dtype") or one.dtype is not other.dtype:
        return False
    pairs = list(zip(arrays_inside(one), arrays_inside(other), strict=False))
    return bool(pairs) and all(same_memory(mine, its) for mine, its in pairs)


def is_bound(value: Any) -> bool:
    """Whether ``value`` is a callable that holds what it may change."""
    kind = type(value)  # which may compare as it likes
    return any(kind is each for each in _BOUND_TYPES) and not is_atomic(value)


def changes_arguments(value: Any) -> bool:
    """Whether ``value`` is a function that changes what it is handed: ``list.append``, or what is
    bound to that, and such as ``heapq.heappush``."""
    kind = type(value)
    if kind is functools.partial:
        return changes_arguments(value.func)
    if kind is BuiltinFunctionType or kind is FunctionType:
        return value.__name__ in MUTATES_ARGUMENT
    return kind in (MethodDescriptorType, WrapperDescriptorType, operator.methodcaller)


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
class InstanceKind:
    """How instances of one class are copied, with the methods of ``Kind``.

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
        now = attributes_of(value).copy() if self.has_attributes else {}
        return (
            same_mapping(self._uncached(now), self._uncached(held.attributes))
            and (not self.members or same_mapping(_slots(value, self.members), held.slots))
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
            _write_dict(attributes_of(value), held.attributes | emptied)
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


AnyKind = Kind | InstanceKind


def fields(kind: AnyKind, held: Any) -> dict[str, Any] | None:
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


def _inside_class(held: dict[str, Any]) -> list[Any]:
    """What a class holds but its functions, and what its metaclass keeps."""
    return [
        each
        for name, each in held.items()
        if type(each) is not FunctionType and name[:2] != "__" and name[:5] != "_abc_"
    ]


CLASS = _kind(
    _class,
    _write_class,
    same_mapping,
    parts=_inside_class,
    size=lambda value: 64 * len(vars(value)),
)
