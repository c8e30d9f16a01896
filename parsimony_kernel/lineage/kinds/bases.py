"""What a class may derive from beside ``object``: how that part of an instance is read and written,
past the class's own methods."""

import pickle
import sys
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

from parsimony_kernel.lineage.kinds.arrays import ARRAY
from parsimony_kernel.lineage.kinds.containers import (
    BYTES,
    MAPPING,
    SEQUENCE,
    SET,
    TUPLE,
    TupleKind,
)
from parsimony_kernel.lineage.kinds.kind import Kind, same_objects

# Packages whose C code is asked for the state that it pickles, and given it again.
_STATE_OF = frozenset(
    {"numpy", "pandas", "scipy", "sklearn", "statsmodels", "_random", "_io", "decimal"}
)
_ALL = slice(None)


class Base(NamedTuple):
    """How the part of an instance is looked at as a plain value, and written again."""

    kind: Kind
    look: Callable[[Any], Any]
    write: Callable[[Any, Any], object]


class State(NamedTuple):
    """What C code pickles of an object, and what it holds beside that."""

    content: bytes
    parts: tuple[Any, ...]


def base_of(kind: type) -> Base | None:
    """How the part that ``kind``, a class of C code, is of an instance is copied; ``None`` for one
    that cannot be."""
    if (known := _BASES.get(kind)) is not None:
        return known
    if kind is getattr(sys.modules.get("numpy"), "ndarray", None):
        return _ARRAY
    if issubclass(kind, BaseException) and kind.__basicsize__ == BaseException.__basicsize__:
        return _ERROR
    return _STATE if package_of(kind) in _STATE_OF else None


def package_of(kind: type) -> str:
    """The package of a class, empty where it says none."""
    module = kind.__module__
    return module.partition(".")[0] if type(module) is str else ""


def _write_dict(value: Any, held: Mapping[Any, Any]) -> None:
    dict.clear(value)
    dict.update(value, held)


def _write_ordered(value: Any, held: Mapping[Any, Any]) -> None:
    OrderedDict.clear(value)
    for key, each in held.items():
        OrderedDict.__setitem__(value, key, each)


def _write_set(value: Any, held: Collection[Any]) -> None:
    set.clear(value)
    set.update(value, held)


def _write_deque(value: Any, held: Collection[Any]) -> None:
    deque.clear(value)
    deque.extend(value, held)


def _write_tuple(value: Any, held: Any) -> NoReturn:
    raise TypeError("a tuple has no other items")


def _plain_array(value: Any) -> Any:
    plain = sys.modules["numpy"].ndarray
    return plain.view(value, plain)


def _write_array(value: Any, held: Any) -> None:
    plain = _plain_array(value)
    if ARRAY.set_back(plain, held) is not plain:
        raise TypeError("an array of another shape")


@dataclass(frozen=True)
class _ArgumentsKind(TupleKind):
    """What an exception was raised with, which may be given to it anew."""

    def same(self, value: Any, held: Any) -> bool:
        return same_objects(value, held, (len(value), len(held)))


@dataclass(frozen=True)
class _StateKind:
    """Objects of C code, by the state that they pickle."""

    def size(self, value: Any) -> int:
        return sys.getsizeof(value)

    def copy(self, value: State) -> State:
        return value

    def same(self, value: State, held: State) -> bool:
        return value.content == held.content

    def set_back(self, value: Any, held: State) -> NoReturn:
        raise TypeError("a state is given to its object")

    def parts(self, held: State) -> Collection[Any]:
        return held.parts


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


# What holds nothing that could change beside attributes and slots.
BARE = frozenset({object, SimpleNamespace, str, bytes, int, float, complex, frozenset})
_BASES: dict[type, Base] = {
    list: Base(SEQUENCE, list.copy, lambda value, held: list.__setitem__(value, _ALL, held)),
    dict: Base(MAPPING, dict.copy, _write_dict),
    defaultdict: Base(MAPPING, dict.copy, _write_dict),
    OrderedDict: Base(MAPPING, lambda value: dict(OrderedDict.items(value)), _write_ordered),
    set: Base(SET, lambda value: set(set.__iter__(value)), _write_set),
    deque: Base(SEQUENCE, lambda value: list(deque.__iter__(value)), _write_deque),
    tuple: Base(TUPLE, TUPLE.copy, _write_tuple),
    array: Base(
        BYTES,
        lambda value: array.__getitem__(value, _ALL),
        lambda value, held: array.__setitem__(value, _ALL, held),
    ),
}
_ARRAY = Base(ARRAY, _plain_array, _write_array)
_STATE = Base(_StateKind(), _state, _write_state)
_ARGS: Any = vars(BaseException)["args"]
_ERROR = Base(_ArgumentsKind(), _ARGS.__get__, _ARGS.__set__)
