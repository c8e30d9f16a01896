"""How the values of Python, callables and arrays of numpy are copied and set back.

The same serves for what derives from them: an instance is read and written past the methods of its
own class.
"""

import functools
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
    MethodDescriptorType,
    MethodType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple
from weakref import ref

from parsimony_kernel.analysis.calls import MUTATES_ARGUMENT
from parsimony_kernel.lineage.classes import loaded, package_of
from parsimony_kernel.lineage.kinds.atoms import is_atomic

# Packages whose C code is asked for the state that it pickles, and given it again.
_STATE_OF = frozenset(
    {"numpy", "pandas", "scipy", "sklearn", "statsmodels", "_random", "_io", "decimal"}
)
_ARRAYS_INSIDE = ("_pa_array", "_ndarray", "_codes", "_data", "_mask", "_left", "_right")
_ALL = slice(None)
_ARGS: Any = vars(BaseException)["args"]


class Kind:
    """How objects of one kind are copied, compared with the copy, and set back.

    What a copy holds is shallow and, but for a kind that says otherwise, its objects in order.
    """

    def size(self, value: Any) -> int:
        """The bytes that a copy takes."""
        return sys.getsizeof(value)

    def copy(self, value: Any) -> Any:
        """What ``value`` holds."""
        raise NotImplementedError

    def same(self, value: Any, held: Any) -> bool:
        """Whether ``value`` still holds that."""
        return same_objects(self.copy(value), held)

    def set_back(self, value: Any, held: Any) -> Any:
        """``value`` holding that again, or what takes its place where it cannot be mended."""
        return value

    def parts(self, held: Any) -> Collection[Any]:
        """What lies in it."""
        parts: Collection[Any] = held
        return parts


def same_objects(one: Collection[Any], other: Collection[Any]) -> bool:
    """Whether two hold the very same objects in the same order."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


@dataclass(frozen=True)
class _Plain(Kind):
    """``look`` gives what a value holds, ``write`` gives it that again."""

    look: Callable[[Any], Any]
    write: Callable[[Any, Any], object]

    def copy(self, value: Any) -> Any:
        return self.look(value)

    def set_back(self, value: Any, held: Any) -> Any:
        self.write(value, held)
        return value


class _Fixed(_Plain):
    """Cannot be changed; what it holds can."""

    def size(self, value: Any) -> int:
        return 0

    def same(self, value: Any, held: Any) -> bool:
        return True


class MappingKind(_Plain):
    """A mapping. A weak reference that was added since stays, and is no change: what it refers to
    takes it out again when it is gone, and looks for it here."""

    def same(self, value: Any, held: Any) -> bool:
        now = self.copy(value)
        for key in _new_references(now, held):
            del now[key]
        return same_objects(now, held) and same_objects(now.values(), held.values())

    def set_back(self, value: Any, held: Any) -> Any:
        self.write(value, {**held, **_new_references(self.copy(value), held)})
        return value

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held.values()
        return parts


def _new_references(now: dict[Any, Any], held: dict[Any, Any]) -> dict[Any, Any]:
    if len(now) <= len(held) or ref not in set(map(type, now.values())):
        return {}
    return {key: each for key, each in now.items() if type(each) is ref and key not in held}


class _SetKind(_Plain):
    def same(self, value: Any, held: Any) -> bool:
        return set(map(id, self.copy(value))) == set(map(id, held))


class _BytesKind(_Plain):
    def same(self, value: Any, held: Any) -> bool:
        return bytes(self.copy(value)) == bytes(held)

    def parts(self, held: Any) -> Collection[Any]:
        return ()


class State(NamedTuple):
    """What C code pickles of an object, and what it holds beside that."""

    content: bytes
    parts: tuple[Any, ...]


class _StateKind(_Plain):
    """Objects of C code, by the state that they pickle."""

    def same(self, value: Any, held: State) -> bool:
        return bool(self.copy(value).content == held.content)

    def parts(self, held: State) -> Collection[Any]:
        return held.parts


class _ArrayKind(Kind):
    def size(self, value: Any) -> int:
        return int(value.nbytes)

    def copy(self, value: Any) -> Any:
        return _plain_array(value).copy()

    def same(self, value: Any, held: Any) -> bool:
        now = _plain_array(value)
        if now.shape != held.shape or now.dtype != held.dtype:
            return False
        if now.flags.c_contiguous and held.flags.c_contiguous and now.dtype.kind != "O":
            mine, its = (memoryview(each.reshape(-1).view("u1")) for each in (now, held))
            return mine == its
        return bool(now.tobytes() == held.tobytes())

    def set_back(self, value: Any, held: Any) -> Any:
        now = _plain_array(value)
        if now.size != held.size or now.dtype != held.dtype or not now.flags.writeable:
            return held.copy()
        if now.shape != held.shape:
            value.shape = held.shape
        _plain_array(value)[...] = held
        return value

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held.ravel().tolist() if held.dtype.kind == "O" else ()
        return parts


class _FunctionKind(_Plain):
    """What a function keeps: its attributes, its defaults, and the variables around it."""

    def size(self, value: Any) -> int:
        return sys.getsizeof(value.__dict__)

    def same(self, value: Any, held: Any) -> bool:
        attributes, *others = self.copy(value)
        return MAPPING.same(attributes, held[0]) and same_objects(others, held[1:])

    def parts(self, held: Any) -> Collection[Any]:
        attributes, defaults, named, closure = held
        kept = [named] if named else []
        return [*attributes.values(), *(defaults or ()), *kept, *(closure or ())]


def _write_dict(value: Any, held: Any) -> None:
    dict.clear(value)
    dict.update(value, held)


def _write_ordered(value: Any, held: Any) -> None:
    OrderedDict.clear(value)
    for key, each in held.items():
        OrderedDict.__setitem__(value, key, each)


def _write_set(value: Any, held: Any) -> None:
    set.clear(value)
    set.update(value, held)


def _write_deque(value: Any, held: Any) -> None:
    deque.clear(value)
    deque.extend(value, held)


def _plain_array(value: Any) -> Any:
    plain = sys.modules["numpy"].ndarray
    return plain.view(value, plain)


def _state(value: Any) -> State:
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):  # the name of what there is one of
        return State(b"", ())
    made_of = tuple(reduced[1])
    state = reduced[2] if len(reduced) > 2 else None
    # Without a way to be given its state, all that it is made of is compared.
    content = state if hasattr(value, "__setstate__") else (made_of, state)
    return State(pickle.dumps(content, 5), made_of)


def _write_state(value: Any, held: State) -> None:
    value.__setstate__(pickle.loads(held.content))


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
    return dict(value.__dict__), value.__defaults__, value.__kwdefaults__, value.__closure__


def _write_function(value: Any, held: Any) -> None:
    attributes, value.__defaults__, value.__kwdefaults__, _ = held
    MAPPING.set_back(value.__dict__, attributes)


def _leave(value: Any, held: Any) -> None:
    pass


MAPPING = MappingKind(dict.copy, _write_dict)
ARRAY = _ArrayKind()
STATE = _StateKind(_state, _write_state)
_ERROR = _Plain(_ARGS.__get__, _ARGS.__set__)
# What holds nothing that could change beside attributes and slots.
BARE = _Fixed(lambda value: (), _leave)
_BARE = (object, SimpleNamespace, str, bytes, int, float, complex, frozenset)
TUPLE = _Fixed(lambda value: tuple.__getitem__(value, _ALL), _leave)
_BASES: dict[type, Kind] = {
    **dict.fromkeys(_BARE, BARE),
    list: _Plain(list.copy, lambda value, held: list.__setitem__(value, _ALL, held)),
    dict: MAPPING,
    defaultdict: MAPPING,
    OrderedDict: MappingKind(lambda value: dict(OrderedDict.items(value)), _write_ordered),
    set: _SetKind(lambda value: set[Any]().union(value), _write_set),
    deque: _Plain(lambda value: list(deque.__iter__(value)), _write_deque),
    tuple: TUPLE,
    array: _BytesKind(
        lambda value: array.__getitem__(value, _ALL),
        lambda value, held: array.__setitem__(value, _ALL, held),
    ),
    bytearray: _BytesKind(
        lambda value: bytearray.__getitem__(value, _ALL),
        lambda value, held: bytearray.__setitem__(value, _ALL, held),
    ),
}
_BOUND_TYPES = (functools.partial, MethodType, BuiltinFunctionType)
BY_TYPE: dict[type, Kind] = {
    **{kind: known for kind, known in _BASES.items() if known is not BARE},
    Counter: MAPPING,
    **dict.fromkeys(_BOUND_TYPES, _Fixed(_bound, _leave)),
    FunctionType: _FunctionKind(_function, _write_function),
    CellType: _Plain(_variable, _write_variable),
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
    return type(value) in _BOUND_TYPES and not is_atomic(value)


def changes_arguments(value: Any) -> bool:
    """Whether ``value`` is a function that changes what it is handed: ``list.append``, or what is
    bound to that, and such as ``heapq.heappush``."""
    kind = type(value)
    if kind is functools.partial:
        return changes_arguments(value.func)
    if kind is BuiltinFunctionType or kind is FunctionType:
        return value.__name__ in MUTATES_ARGUMENT
    return kind in (MethodDescriptorType, WrapperDescriptorType, operator.methodcaller)
