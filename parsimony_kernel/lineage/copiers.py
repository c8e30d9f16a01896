"""How each kind of object is copied and set back: one table, two functions a row.

A copy is shallow: what lies in an object has a copy of its own. An object is its attributes, its
slots and, under these, a container, an array, a frame or the state that its C code pickles; it is
set back where it lies, past the methods of its own class, so that whoever holds it sees it as it
was.
"""

import functools
import operator
import pickle
import sys
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection
from itertools import starmap
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
from parsimony_kernel.lineage.buffers import frame_bytes, is_array, plain_array, same_memory
from parsimony_kernel.lineage.classes import (
    FACTS,
    attributes_of,
    copies_lazily,
    is_atomic,
    is_frame,
    is_theirs,
    loaded,
    package_of,
)

_STATE_OF, OUTSIDE = (frozenset(FACTS["packages"][each].split()) for each in ("state", "outside"))
# The attribute in which instances of these keep what their properties gave.
_FILLED, _FILLING = "_cache", frozenset({"pandas", "statsmodels"})
# Flags of types: made by a class statement or the like; attributes and weak references are kept
# before the object, where they do not count.
_HEAP, _MANAGED_DICT, _MANAGED_WEAKREF = 1 << 9, 1 << 4, 1 << 3
_WORD = 8
_ALL = slice(None)
_ARGS: Any = vars(BaseException)["args"]
_ABSENT = object()
_SAMPLED = 1_000
# What pandas itself keeps of a frame.
_OF_PANDAS = frozenset({"_mgr", "_flags", "_item_cache", "_is_copy"})


def same_objects(one: Collection[Any], other: Collection[Any]) -> bool:
    """Whether two hold the very same objects in the same order."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _whole(held: Any) -> Any:
    return held


def _none(held: Any) -> tuple[Any, ...]:
    return ()


class Kind(NamedTuple):
    """How objects of one kind are copied, compared and set back.

    Args:
        get: what a value holds, shallow, in containers of its own.
        put: gives a value that again; may return what takes the place of the value.
        size: the bytes that a copy takes.
        same: whether what a value holds now, which may be changed by it, is what a copy holds.
        parts: what lies in what a copy holds, without the keys of mappings.
        look: what a value holds now, to be compared with a copy; ``get`` without it.
        instances_of: the class, for the kind of its instances.
        base: how what these are beside attributes and slots is copied.
    """

    get: Callable[[Any], Any]
    put: Callable[[Any, Any], Any] = lambda value, held: None
    size: Callable[[Any], int] = sys.getsizeof
    same: Callable[[Any, Any], bool] = same_objects
    parts: Callable[[Any], Collection[Any]] = _whole
    look: Callable[[Any], Any] | None = None
    instances_of: type | None = None
    base: "Kind | None" = None

    def now(self, value: Any) -> Any:
        """What ``value`` holds now, to be compared with a copy; an array or a frame is itself."""
        return (self.look or self.get)(value)

    def is_same(self, value: Any, held: Any) -> bool:
        """Whether ``value`` still holds ``held``."""
        return self.same(self.now(value), held)

    def set_back(self, value: Any, held: Any) -> Any:
        """``value`` holding that again, or what takes its place where it cannot be mended."""
        again = self.put(value, held)
        return value if again is None else again


class Held(NamedTuple):
    """What an instance held: its items, its slots by descriptor, and its attributes; and its class
    where that is of the notebook: code may change it through any instance."""

    items: Any
    slots: dict[Any, Any]
    attributes: dict[str, Any]
    own: tuple[type, ...] = ()


class State(NamedTuple):
    """What C code pickles of an object, and what it holds beside that."""

    content: bytes
    parts: tuple[Any, ...]


def _of_held(base: Kind) -> dict[str, Any]:
    """How what instances held is compared, and what lies in it.

    Args:
        base: how their items are.
    """

    def same(now: Held, held: Held) -> bool:
        pairs = (now.slots, held.slots), (now.attributes, held.attributes)
        is_same = same_objects(now.own, held.own) and all(starmap(same_mapping, pairs))
        return is_same and base.same(now.items, held.items)

    def parts(held: Held) -> list[Any]:
        own = (held.slots.values(), held.attributes.values(), held.own)
        return [*base.parts(held.items), *(part for each in own for part in each)]

    return {"same": same, "parts": parts}


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


def _put_dict(value: Any, held: Any) -> None:
    more = _new_references(dict.copy(value), held)
    dict.clear(value)
    dict.update(value, {**held, **more})


def _put_ordered(value: Any, held: Any) -> None:
    items = {**held, **_new_references(_ordered(value), held)}
    OrderedDict.clear(value)
    for key, each in items.items():
        OrderedDict.__setitem__(value, key, each)


def _ordered(value: Any) -> dict[Any, Any]:
    return dict(OrderedDict.items(value))


def _refill(kind: Any, fill: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def put(value: Any, held: Any) -> None:
        kind.clear(value)
        fill(value, held)

    return put


def _sequence(kind: Any) -> Kind:
    return Kind(
        lambda value: kind.__getitem__(value, _ALL),
        lambda value, held: kind.__setitem__(value, _ALL, held),
    )


def _same_members(now: Any, held: Any) -> bool:
    return set(map(id, now)) == set(map(id, held))


# Arrays


def _same_array(now: Any, held: Any) -> bool:
    if now.shape != held.shape or now.dtype != held.dtype:
        return False
    if now.flags.c_contiguous and held.flags.c_contiguous and now.dtype.kind != "O":
        mine, its = (memoryview(each.reshape(-1).view("u1")) for each in (now, held))
        return mine == its
    return bool(now.tobytes() == held.tobytes())


def _objects_of(held: Any) -> Collection[Any]:
    return held.ravel().tolist() if held.dtype.kind == "O" else ()


def _put_array(value: Any, held: Any) -> Any:
    now = plain_array(value)
    if now.size != held.size or now.dtype != held.dtype or not now.flags.writeable:
        return held.copy()
    if now.shape != held.shape:
        value.shape = held.shape
    plain_array(value)[...] = held
    return None


# Frames and series of pandas. It copies lazily, so that a copy costs nothing until something is
# written. It has no public way to give a frame another content where it lies, nor to ask whether
# two still share their memory: its managers are asked, as its own methods with inplace=True do.


def is_free(value: Any) -> bool:
    """Whether a copy of ``value`` takes neither time nor room."""
    return is_frame(type(value)) and copies_lazily()


def _frame(value: Any) -> Any:
    """A frame or a series of pandas' own class, with the attributes of ``value``."""
    pandas, own = sys.modules["pandas"], attributes_of(value)
    manager = own["_mgr"].copy(deep=not copies_lazily())
    base = pandas.DataFrame if issubclass(type(value), pandas.DataFrame) else pandas.Series
    held = base._from_mgr(manager, axes=manager.axes)
    _give(attributes_of(held), own, type(value))
    return held


def _beside(own: dict[str, Any], kind: type) -> dict[str, Any]:
    """Of the attributes of a frame of ``kind`` those beside its data: what pandas calls metadata,
    and what code has set. Accessors such as ``str`` are made when they are read."""
    known = {"_attrs", "_name", *type.__getattribute__(kind, "_metadata")}
    made = type.__getattribute__(kind, "_accessors")
    return {
        name: each
        for name, each in own.items()
        if name in known or (name[:1] != "_" and name not in made)
    }


def _give(to: dict[str, Any], own: dict[str, Any], kind: type) -> None:
    """Give the attributes of a frame of ``kind`` to those of another, in the place of its own."""
    mine = _beside(own, kind)
    for name in _beside(to, kind).keys() - mine.keys():
        del to[name]
    for name, each in mine.items():
        to[name] = each.copy() if type(each) is dict else each
    to["_flags"]._allows_duplicate_labels = own["_flags"]._allows_duplicate_labels


def _put_frame(value: Any, held: Any) -> None:
    own, then = attributes_of(value), attributes_of(held)
    own["_mgr"] = then["_mgr"].copy(deep=not copies_lazily())
    _give(own, then, type(value))
    own.pop("_item_cache", None)


def _same_frames(value: Any, held: Any) -> bool:
    now, then = attributes_of(value), attributes_of(held)
    if now["_flags"]._allows_duplicate_labels != then["_flags"]._allows_duplicate_labels:
        return False
    mine, its = (_beside(each, type(value)) for each in (now, then))
    for name in mine.keys() | its.keys():
        one, other = mine.get(name, _ABSENT), its.get(name, _ABSENT)
        both = type(one) is dict and type(other) is dict
        if one is not other and not (both and same_mapping(one.copy(), other)):
            return False
    one, other = now["_mgr"], then["_mgr"]
    axes = zip(one.axes, other.axes, strict=True)
    return (
        len(one.blocks) == len(other.blocks)
        and all((a is b or a.is_(b)) and same_objects(a.names, b.names) for a, b in axes)
        and all(
            list(a.mgr_locs) == list(b.mgr_locs) and same_memory(a.values, b.values)
            for a, b in zip(one.blocks, other.blocks, strict=True)
        )
    )


def _parts_of_frame(held: Any) -> list[Any]:
    """What lies in its columns of objects, where the first of them can change."""
    found: list[Any] = []
    for name, each in attributes_of(held).items():
        if name not in _OF_PANDAS:
            found.extend(each.values() if type(each) is dict else [each])
    for block in attributes_of(held)["_mgr"].blocks:
        # Columns of strings call themselves objects too; they are no plain arrays.
        if is_array(block.values) and block.values.dtype.kind == "O":
            cells = block.values.reshape(-1)
            if not all(is_atomic(each) for each in cells[:_SAMPLED]):
                found.extend(cells)
    return found


# Frames and series of polars. Columns are shared until one is written to, so that a copy takes no
# room.


def _is_polars(kind: type) -> bool:
    return kind in loaded("polars", "DataFrame", "Series")


def _same_polars(value: Any, held: Any) -> bool:
    one, other = (each.to_frame() if hasattr(each, "to_frame") else each for each in (value, held))
    return bool(one.schema == other.schema and one.equals(other))


def _put_polars(value: Any, held: Any) -> None:
    inner = "_s" if type(value) in loaded("polars", "Series") else "_df"
    setattr(value, inner, getattr(held.clone(), inner))


# Objects of C code, by the state that they pickle


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


def variable_of(cell: Any) -> tuple[Any, ...]:
    """What a variable of a closure is bound to, if it is."""
    try:
        return (cell.cell_contents,)
    except ValueError:  # not bound yet
        return ()


def _put_variable(cell: Any, held: Any) -> None:
    if held:
        cell.cell_contents = held[0]
    else:
        del cell.cell_contents


def _function(value: Any) -> Held:
    """What a function keeps: its defaults, the variables around it, and its attributes."""
    around = (value.__defaults__, value.__kwdefaults__, value.__closure__)
    return Held(around, {}, dict(value.__dict__))


def _put_function(value: Any, held: Held) -> None:
    value.__defaults__, value.__kwdefaults__, _ = held.items
    _put_dict(value.__dict__, held.attributes)


# Classes of the notebook


def _members_of(value: type) -> dict[str, Any]:
    own = type.__dict__["__dict__"].__get__(value).items()
    return {name: each for name, each in own if name not in ("__dict__", "__weakref__")}


def _parts_of_class(held: dict[str, Any]) -> list[Any]:
    """Its members, without its functions and what its metaclass keeps."""
    return [
        each
        for name, each in held.items()
        if type(each) is not FunctionType and name[:2] != "__" and name[:5] != "_abc_"
    ]


def _put_members(value: type, held: dict[str, Any]) -> None:
    now = _members_of(value)
    for name in now.keys() - held.keys():
        type.__delattr__(value, name)
    for name, each in held.items():
        if now.get(name, _ABSENT) is not each:
            type.__setattr__(value, name, each)


def _nothing(value: Any) -> int:
    return 0


MAPPING = Kind(dict.copy, _put_dict, same=same_mapping, parts=dict.values)
_ARRAY = Kind(
    lambda value: plain_array(value).copy(),
    _put_array,
    lambda value: int(value.nbytes),
    _same_array,
    _objects_of,
    plain_array,
)
STATE = Kind(
    _state,
    lambda value, held: value.__setstate__(pickle.loads(held.content)),
    same=lambda now, held: bool(now.content == held.content),
    parts=operator.attrgetter("parts"),
)
_ERROR = Kind(_ARGS.__get__, _ARGS.__set__)
# What holds nothing that could change beside attributes and slots.
_BARE = Kind(lambda value: (), size=_nothing)
_TUPLE = Kind(lambda value: tuple.__getitem__(value, _ALL), size=_nothing)
_BOUND = Kind(_bound, size=_nothing)
_CLASS = Kind(
    _members_of,
    _put_members,
    lambda value: 64 * len(vars(value)),
    same_mapping,
    _parts_of_class,
)
_FRAME = Kind(
    _frame,
    _put_frame,
    lambda value: 0 if copies_lazily() else frame_bytes(value),
    _same_frames,
    _parts_of_frame,
    _whole,
)
_POLARS = Kind(lambda value: value.clone(), _put_polars, _nothing, _same_polars, _none, _whole)
_BARES = (object, SimpleNamespace, str, bytes, int, float, complex, frozenset)
_BUILTINS: dict[type, Kind] = {
    list: _sequence(list),
    **{
        kind: _sequence(kind)._replace(same=lambda *two: operator.eq(*map(bytes, two)), parts=_none)
        for kind in (array, bytearray)
    },
    dict: MAPPING,
    defaultdict: MAPPING,
    OrderedDict: Kind(_ordered, _put_ordered, same=same_mapping, parts=dict.values),
    set: Kind(lambda value: set[Any]().union(value), _refill(set, set.update), same=_same_members),
    deque: Kind(lambda value: list(deque.__iter__(value)), _refill(deque, deque.extend)),
    tuple: _TUPLE,
}
_BOUND_TYPES = (functools.partial, MethodType, BuiltinFunctionType)
BY_TYPE: dict[type, Kind] = {
    **_BUILTINS,
    Counter: MAPPING,
    **dict.fromkeys(_BOUND_TYPES, _BOUND),
    FunctionType: Kind(
        _function,
        _put_function,
        lambda value: sys.getsizeof(value.__dict__),
        **_of_held(_TUPLE),
    ),
    CellType: Kind(variable_of, _put_variable),
}


def kind_of(value: Any) -> Kind | None:
    """How ``value`` is copied; ``None`` for an object that is not."""
    kind: Any = type(value)
    if (known := BY_TYPE.get(kind)) is not None:
        return known
    if issubclass(kind, type):
        return _CLASS if is_theirs(value) else None
    if issubclass(kind, tuple) and not kind.__dictoffset__:
        return _TUPLE
    if is_frame(kind):
        return _FRAME
    if _is_polars(kind):
        return _POLARS
    if is_array(value) and (value.dtype.kind == "O" or not value.dtype.hasobject):
        return _ARRAY
    return _instances_of(kind)


def is_of_library(kind: Kind | None) -> bool:
    """Whether a kind is that of instances of a class that is not the notebook's."""
    return bool(kind and kind.instances_of and not is_theirs(kind.instances_of))


def is_opaque(value: Any) -> bool:
    """Whether ``value`` may change in ways that nobody sees: an object of a library, or what holds
    one as the variables around a function do."""
    if is_atomic(value):
        return False
    if type(value) is FunctionType:
        return bool(value.__closure__)
    kind = kind_of(value)
    return kind is None or kind is _POLARS or is_of_library(kind) or is_bound(value)


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


# Instances


def _native_kind(kind: type) -> Kind | None:
    if (known := _BUILTINS.get(kind, _BARE if kind in _BARES else None)) is not None:
        return known
    if kind in loaded("numpy", "ndarray"):
        return _ARRAY
    if issubclass(kind, BaseException) and kind.__basicsize__ == BaseException.__basicsize__:
        return _ERROR
    return STATE if package_of(kind) in _STATE_OF else None


@functools.lru_cache(maxsize=1_024)
def _instances_of(kind: type) -> Kind | None:
    """How instances of ``kind`` are copied; ``None`` where C code keeps what nobody can ask for."""
    if any(package_of(each) in OUTSIDE for each in kind.__mro__):
        return None
    last = kind
    while (base := _native_kind(last)) is not _BARE and _is_of_python(last):
        last = last.__base__ or object
    if base is None:
        return None
    native = base
    members = tuple(member for each in kind.__mro__ for member in _slots_of(each))
    has_attributes = kind.__dictoffset__ != 0
    own = (kind,) if is_theirs(kind) else ()
    caches = frozenset[str]() if own else _caches(kind)

    def held(value: Any, items: Any) -> Held:
        attributes = attributes_of(value).copy() if has_attributes else {}
        for name in caches & attributes.keys():
            del attributes[name]
        now = type(value)  # which code may have changed
        whose = own if now is kind else (now,)
        return Held(items, _filled(value, members) if members else {}, attributes, whose)

    def put(value: Any, held: Held) -> None:
        if (own_class := (*held.own, kind)[0]) is not type(value):
            object.__setattr__(value, "__class__", own_class)
        is_same = native.is_same(value, held.items)
        if not is_same and native.set_back(value, held.items) is not value:
            raise TypeError("what it is made of cannot be given back")
        now = _filled(value, members)
        for member, each in held.slots.items():
            member.__set__(value, each)
        for member in now.keys() - held.slots.keys():
            member.__delete__(value)
        if has_attributes:
            own_now = attributes_of(value)
            emptied: dict[str, Any] = {name: {} for name in caches & {_FILLED} & own_now.keys()}
            _put_dict(own_now, held.attributes | emptied)

    return Kind(
        lambda value: held(value, native.get(value)),
        put,
        lambda value: (
            native.size(value) + (sys.getsizeof(attributes_of(value)) if has_attributes else 0)
        ),
        look=lambda value: held(value, native.now(value)),
        instances_of=kind,
        base=native,
        **_of_held(native),
    )


def leaves_out(kind: Kind, value: Any, part: Any) -> bool:
    """Whether an instance of a library does not pickle ``part``: a cache, a counter, a renderer."""
    if not is_of_library(kind) or not type(value).__dictoffset__:
        return False
    if all(each is not part for each in attributes_of(value).values()):
        return False
    state = value.__getstate__()
    return isinstance(state, dict) and all(each is not part for each in state.values())


def _is_of_python(kind: type) -> bool:
    """Whether an instance of ``kind`` takes no more memory than one of its base and its slots."""
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
    """The descriptors of the slots that a class adds."""
    own = vars(kind)
    named = own.values() if "__slots__" in own else ()
    return [each for each in named if type(each) is MemberDescriptorType]


def _filled(value: Any, members: Collection[Any]) -> dict[Any, Any]:
    """What those of the slots that are set hold."""
    found = {}
    for member in members:
        try:
            found[member] = member.__get__(value)
        except AttributeError:  # not set
            continue
    return found


def _caches(kind: type) -> frozenset[str]:
    """The attributes in which instances keep what they can work out again."""
    names = {
        name
        for each in kind.__mro__
        for name, made in vars(each).items()
        if type(made) is functools.cached_property
    }
    return frozenset(names | {_FILLED} if package_of(kind) in _FILLING else names)
