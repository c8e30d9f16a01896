"""The kinds of objects that can be copied and set back, each by its exact type.

A copy is shallow: what lies in an object has a copy of its own. An object is set back where it
lies, so that whoever else holds it sees it too. No code of a person's is run for any of this.
"""

import datetime
import decimal
import enum
import fractions
import functools
import operator
import pathlib
import re
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, Protocol

# An object of more than this is not copied: its copy would hold up the cell.
MOST_CONTAINER_BYTES = 16 * 2**20
MOST_ARRAY_BYTES = 64 * 2**20

# Functions of libraries that change an argument of theirs.
CHANGING_FUNCTIONS = frozenset(
    {
        "shuffle", "heappush", "heappop", "heapify", "heapreplace", "heappushpop", "insort",
        "insort_left", "insort_right", "copyto", "put", "place", "putmask", "fill_diagonal",
        "setattr", "delattr", "next", "setitem", "delitem", "iadd", "isub", "imul", "iconcat",
        "ior", "iand", "ixor", "advance", "put_along_axis", "move_to_end",
    }
)  # fmt: skip

# The most frequent ones first: they are looked for in every container.
ATOMS = frozenset(
    {
        int, float, str, bool, type(None), bytes, complex, frozenset, range, slice,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
        decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, re.Match,
        type(Ellipsis), type(NotImplemented), property, staticmethod, classmethod,
        functools.cached_property, GenericAlias, UnionType, GetSetDescriptorType,
        MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType,
    }
)  # fmt: skip
_ATOMIC = (enum.Enum, ModuleType, pathlib.PurePath, datetime.tzinfo)
_SCALARS_OF_PANDAS = frozenset({"Timestamp", "Timedelta", "Period", "Interval"})
# What these make describes classes and is never changed.
_DESCRIBING = frozenset({"dataclasses", "typing"})
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
_ABSENT = object()


class Kind(Protocol):
    """How objects of one kind are copied."""

    def size(self, value: Any) -> int:
        """The bytes that a copy takes."""
        ...

    def copy(self, value: Any) -> Any:
        """What ``value`` holds."""
        ...

    def same(self, value: Any, held: Any) -> bool:
        """Whether ``value`` still holds that."""
        ...

    def set_back(self, value: Any, held: Any) -> Any:
        """``value`` holding that again, or what takes its place where it cannot be mended."""
        ...

    def parts(self, held: Any) -> Collection[Any]:
        """What lies in it."""
        ...


def is_atomic(value: Any) -> bool:
    """Whether ``value`` cannot change, nor anything that is reached through it."""
    kind = type(value)
    if kind in ATOMS or issubclass(kind, _ATOMIC):
        return True
    if issubclass(kind, type):
        return value.__module__ != "__main__" or type(value) is not type
    if kind is FunctionType:
        return bool(value.__module__ != "__main__")
    if kind is BuiltinFunctionType:
        return value.__self__ is None or type(value.__self__) is ModuleType
    module = kind.__module__
    if type(module) is not str:
        return False
    if module == "numpy":
        numpy = sys.modules.get("numpy")
        return numpy is not None and issubclass(kind, numpy.generic | numpy.dtype | numpy.ufunc)
    if module in _DESCRIBING or module.startswith("numpy.dtypes"):
        return True
    return is_scalar_of_pandas(kind)


def is_scalar_of_pandas(kind: type) -> bool:
    """Whether ``kind`` is that of single values of pandas: times, spans, intervals, missing."""
    module = kind.__module__
    return type(module) is str and (
        module.startswith("pandas._libs.")
        or (module == "pandas" and kind.__name__ in _SCALARS_OF_PANDAS)
    )


def kind_of(value: Any) -> Kind | None:
    """How ``value`` is copied; ``None`` for an object that is not."""
    kind = type(value)
    if (known := _BY_TYPE.get(kind)) is not None:
        return known
    if issubclass(kind, tuple):
        return _TUPLE
    if is_frame(kind):
        return _FRAME
    if _is_array(value):
        return _ARRAY
    if kind is type:
        return _CLASS if value.__module__ == "__main__" else None
    if _is_plain(kind):
        return _INSTANCE
    own = next((each for each in kind.__mro__ if each.__module__ != "__main__"), object)
    extended = _EXTENDED.get(own)
    return extended if extended is not None and _is_theirs(kind, own) else None


def _is_plain(kind: type) -> bool:
    """Whether all that its instances hold are attributes: classes of the notebook, without
    slots, that derive from nothing else."""
    return bool(kind.__dictoffset__) and all(
        each is object or (each.__module__ == "__main__" and "__slots__" not in vars(each))
        for each in kind.__mro__
    )


def _is_theirs(kind: type, own: type) -> bool:
    """Whether ``kind`` is a class of the notebook that adds attributes to ``own``, no more."""
    return all(each.__module__ == "__main__" or each in (own, object) for each in kind.__mro__)


def _same(one: Iterable[Any], other: Iterable[Any], sizes: tuple[int, int]) -> bool:
    """Whether two hold the very same objects in the same order."""
    return sizes[0] == sizes[1] and all(a is b for a, b in zip(one, other, strict=False))


@dataclass(frozen=True)
class _Container:
    def size(self, value: Any) -> int:
        return sys.getsizeof(value)

    def copy(self, value: Any) -> Any:
        return value.copy()

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held
        return parts


@dataclass(frozen=True)
class _Sequence(_Container):
    def same(self, value: Any, held: Any) -> bool:
        return _same(value, held, (len(value), len(held)))

    def set_back(self, value: Any, held: Any) -> Any:
        if type(value) is list:
            value[:] = held
        else:
            value.clear()
            value.extend(held)
        return value


@dataclass(frozen=True)
class _Mapping(_Container):
    def same(self, value: Any, held: Any) -> bool:
        sizes = (len(value), len(held))
        return _same(value, held, sizes) and _same(value.values(), held.values(), sizes)

    def set_back(self, value: Any, held: Any) -> Any:
        value.clear()
        value.update(held)
        return value

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held.values()
        return parts


@dataclass(frozen=True)
class _Set(_Container):
    def same(self, value: Any, held: Any) -> bool:
        return len(value) == len(held) and {id(each) for each in value} == {
            id(each) for each in held
        }

    def set_back(self, value: Any, held: Any) -> Any:
        value.clear()
        value.update(held)
        return value


@dataclass(frozen=True)
class _Bytes(_Container):
    def same(self, value: Any, held: Any) -> bool:
        return bool(value == held)

    def set_back(self, value: Any, held: Any) -> Any:
        value[:] = held
        return value

    def parts(self, held: Any) -> Collection[Any]:
        return ()


@dataclass(frozen=True)
class _Tuple(_Container):
    """Cannot be changed; what it holds can."""

    def size(self, value: Any) -> int:
        return 0

    def copy(self, value: Any) -> Any:
        return tuple.__getitem__(value, slice(None))

    def same(self, value: Any, held: Any) -> bool:
        return True

    def set_back(self, value: Any, held: Any) -> Any:
        return value


@dataclass(frozen=True)
class _Bound(_Tuple):
    """A callable with what is bound to it. Cannot be changed; what it holds can."""

    def copy(self, value: Any) -> Any:
        if type(value) is functools.partial:
            return (value.func, value.args, value.keywords)
        if type(value) is MethodType:
            return (value.__func__, value.__self__)
        return (value.__self__,)


@dataclass(frozen=True)
class _Instance(_Mapping):
    def size(self, value: Any) -> int:
        return sys.getsizeof(_attributes(value))

    def copy(self, value: Any) -> Any:
        return _attributes(value).copy()

    def same(self, value: Any, held: Any) -> bool:
        return super().same(_attributes(value), held)

    def set_back(self, value: Any, held: Any) -> Any:
        super().set_back(_attributes(value), held)
        return value


@dataclass(frozen=True)
class _Extended:
    """An instance of a class of the notebook, with slots or derived from a container."""

    inner: "Kind | None"
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
            and _MAPPING.same(slots, held[1])
            and _MAPPING.same(attributes, held[2])
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
            _MAPPING.set_back(_attributes(value), attributes)
        return value

    def parts(self, held: Any) -> Collection[Any]:
        inside, slots, attributes = held
        found = [] if self.inner is None else list(self.inner.parts(inside))
        return [*found, *slots.values(), *attributes.values()]


def fields(kind: Kind, held: Any) -> dict[str, Any] | None:
    """What an instance of a class with slots, or derived from a container, held, by name: its
    items together. ``None`` for what is of another kind."""
    if not isinstance(kind, _Extended):
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
    return _attributes(value).copy() if type(value).__dictoffset__ else {}


def _refill_list(value: Any, held: Any) -> None:
    list.__setitem__(value, slice(None), held)


def _refill_dict(value: Any, held: Any) -> None:
    dict.clear(value)
    dict.update(value, held)


def _refill_set(value: Any, held: Any) -> None:
    set.clear(value)
    set.update(value, held)


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an instance, past what its class makes of them."""
    attributes: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return attributes


@dataclass(frozen=True)
class _Cell:
    """A variable of a closure."""

    def size(self, value: Any) -> int:
        return 0

    def copy(self, value: Any) -> Any:
        try:
            return (value.cell_contents,)
        except ValueError:  # not bound yet
            return ()

    def same(self, value: Any, held: Any) -> bool:
        now = self.copy(value)
        return len(now) == len(held) and all(a is b for a, b in zip(now, held, strict=True))

    def set_back(self, value: Any, held: Any) -> Any:
        if held:
            value.cell_contents = held[0]
        else:
            del value.cell_contents
        return value

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held
        return parts


@dataclass(frozen=True)
class _Function:
    """What a function keeps: its attributes, its defaults, and the variables around it."""

    def size(self, value: Any) -> int:
        return sys.getsizeof(value.__dict__)

    def copy(self, value: Any) -> Any:
        return dict(value.__dict__), value.__defaults__, value.__kwdefaults__, value.__closure__

    def same(self, value: Any, held: Any) -> bool:
        attributes, defaults, named, _ = held
        sizes = (len(value.__dict__), len(attributes))
        return (
            value.__defaults__ is defaults
            and value.__kwdefaults__ is named
            and _same(value.__dict__, attributes, sizes)
            and _same(value.__dict__.values(), attributes.values(), sizes)
        )

    def set_back(self, value: Any, held: Any) -> Any:
        attributes, value.__defaults__, value.__kwdefaults__, _ = held
        value.__dict__.clear()
        value.__dict__.update(attributes)
        return value

    def parts(self, held: Any) -> Collection[Any]:
        attributes, defaults, named, closure = held
        kept = [named] if named else []
        return [*attributes.values(), *(defaults or ()), *kept, *(closure or ())]


@dataclass(frozen=True)
class _Class:
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
        return _same(now, held, sizes) and _same(now.values(), held.values(), sizes)

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


# Frames: pandas copies lazily, so that a copy costs nothing until something is written. It has no
# public way to give a frame another content where it lies, nor to ask whether two still share
# their memory: here its managers are asked, as its own methods with inplace=True do.

_SAMPLED = 1_000
_ARRAYS_INSIDE = ("_pa_array", "_ndarray", "_codes", "_data", "_mask", "_left", "_right")


def is_frame(kind: type) -> bool:
    """Whether values of ``kind`` are frames or series of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and issubclass(kind, pandas.DataFrame | pandas.Series)


def copies_lazily() -> bool:
    """Whether a copy of a frame takes no room until either is written to."""
    pandas = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


@dataclass(frozen=True)
class _HeldFrame:
    manager: Any
    attributes: dict[str, Any]
    allows_duplicates: bool = True


@dataclass(frozen=True)
class _Frame:
    """A frame or a series, with what its class says belongs to it."""

    def size(self, value: Any) -> int:
        return 0 if copies_lazily() else frame_bytes(value)

    def copy(self, value: Any) -> _HeldFrame:
        own = _attributes(value)
        names = ("_attrs", "_name", *type.__getattribute__(type(value), "_metadata"))
        attributes = {name: own[name] for name in names if name in own}
        if type(attributes.get("_attrs")) is dict:
            attributes["_attrs"] = attributes["_attrs"].copy()
        manager = own["_mgr"].copy(deep=not copies_lazily())
        return _HeldFrame(manager, attributes, _allows_duplicates(own))

    def same(self, value: Any, held: _HeldFrame) -> bool:
        own = _attributes(value)
        return (
            _allows_duplicates(own) == held.allows_duplicates
            and _same_managers(own["_mgr"], held.manager)
            and all(
                _same_attribute(own.get(name, _ABSENT), each)
                for name, each in held.attributes.items()
            )
        )

    def set_back(self, value: Any, held: _HeldFrame) -> Any:
        own = _attributes(value)
        own["_mgr"] = held.manager.copy(deep=not copies_lazily())
        for name, each in held.attributes.items():
            own[name] = each.copy() if type(each) is dict else each
        own["_flags"]._allows_duplicate_labels = held.allows_duplicates
        own.pop("_item_cache", None)
        return value

    def parts(self, held: _HeldFrame) -> Collection[Any]:
        """What lies in its columns of objects, where the first of them can change."""
        found: list[Any] = []
        for each in held.attributes.values():
            found.extend(each.values() if type(each) is dict else [each])
        numpy = sys.modules["numpy"]
        for block in held.manager.blocks:
            # Columns of strings call themselves objects too; they are no plain arrays.
            if type(block.values) is numpy.ndarray and block.values.dtype.kind == "O":
                cells = block.values.reshape(-1)
                if not all(is_atomic(each) for each in cells[:_SAMPLED]):
                    found.extend(cells)
        return found


def _allows_duplicates(own: dict[str, Any]) -> bool:
    """What the flags of a frame say, from its attributes."""
    return bool(own["_flags"]._allows_duplicate_labels)


def frame_shape(value: Any) -> tuple[int, ...]:
    """The rows of a frame or a series, and the columns of a frame."""
    return tuple(len(axis) for axis in reversed(_attributes(value)["_mgr"].axes))


def plain_frame(value: Any, held: Any = None) -> Any:
    """A frame or a series of pandas' own class with what ``value`` has, or had in ``held``."""
    pandas = sys.modules["pandas"]
    own = _attributes(value)
    manager = (own["_mgr"] if held is None else held.manager).copy(deep=False)
    base = pandas.DataFrame if issubclass(type(value), pandas.DataFrame) else pandas.Series
    made = base._from_mgr(manager, axes=manager.axes)
    attributes = own if held is None else held.attributes
    allowed = _allows_duplicates(own) if held is None else held.allows_duplicates
    if base is pandas.Series:
        object.__setattr__(made, "_name", attributes.get("_name"))
    object.__setattr__(made, "_attrs", dict(attributes.get("_attrs") or {}))
    _attributes(made)["_flags"]._allows_duplicate_labels = allowed
    return made


def same_frames(one: Any, other: Any) -> bool:
    """Whether two frames or series share all of their memory, and so hold the same."""
    if type(one) is not type(other):
        return False
    own, others = _attributes(one), _attributes(other)
    if _allows_duplicates(own) != _allows_duplicates(others):
        return False
    if not _same_attribute(own.get("_attrs"), others.get("_attrs")):
        return False
    managers = own["_mgr"], others["_mgr"]
    held = _HeldFrame(managers[0], {"_attrs": own.get("_attrs") or {}})
    return _same_managers(*managers) and all(map(is_atomic, _FRAME.parts(held)))


def is_missing(value: Any) -> bool:
    """Whether ``value`` stands for none: ``None``, a NaN, or what pandas has for it."""
    kind = type(value)
    if value is None or kind is float:
        return value is None or value != value
    if is_scalar_of_pandas(kind):
        pandas = sys.modules["pandas"]
        return value is pandas.NaT or value is pandas.NA
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind.__module__ == "numpy" and issubclass(kind, numpy.generic):
        return value.dtype.kind in "fcmM" and bool(value != value)
    return False


def frame_bytes(value: Any) -> int:
    """The memory of a frame's columns, strings without their text."""
    blocks = _attributes(value)["_mgr"].blocks
    return sum(int(getattr(block.values, "nbytes", 0)) for block in blocks)


def unshared_bytes(held: Any, value: Any) -> int:
    """The memory in bytes that a lazy copy of ``value`` keeps for itself alone."""
    if not isinstance(held, _HeldFrame):
        return 0
    shared = {place for block in _attributes(value)["_mgr"].blocks for place, _ in _places(block)}
    return sum(
        size
        for block in held.manager.blocks
        for place, size in _places(block)
        if place not in shared
    )


def _places(block: Any) -> Iterator[tuple[int, int]]:
    """Where the memory of each column of a block begins, or its identity, and its bytes.

    By column: a write to one takes it out of its block and leaves the others where they are.
    """
    values, numpy = block.values, sys.modules["numpy"]
    inside = (getattr(values, name, None) for name in _ARRAYS_INSIDE)
    found = [values, *(each for each in inside if each is not None)]
    array = next((each for each in found if isinstance(each, numpy.ndarray)), None)
    size = int(getattr(values, "nbytes", 0))
    if array is None:
        yield id(found[-1]), size
    elif array.ndim == 2 and len(array):
        begin = int(array.__array_interface__["data"][0])
        for number in range(len(array)):
            yield begin + number * array.strides[0], size // len(array)
    else:
        yield int(array.__array_interface__["data"][0]), size


def _same_attribute(now: Any, held: Any) -> bool:
    if type(now) is dict and type(held) is dict:
        return _MAPPING.same(now, held)
    return now is held


def _same_managers(one: Any, other: Any) -> bool:
    if len(one.blocks) != len(other.blocks):
        return False
    axes = zip(one.axes, other.axes, strict=True)
    if not all((a is b or a.is_(b)) and _same_names(a, b) for a, b in axes):
        return False
    return all(
        list(a.mgr_locs) == list(b.mgr_locs) and same_memory(a.values, b.values)
        for a, b in zip(one.blocks, other.blocks, strict=True)
    )


def _same_names(one: Any, other: Any) -> bool:
    return len(one.names) == len(other.names) and all(
        a is b for a, b in zip(one.names, other.names, strict=True)
    )


def same_memory(one: Any, other: Any) -> bool:
    """Whether two arrays of numpy or pandas are the same place in memory."""
    if one is other:
        return True
    numpy = sys.modules["numpy"]
    if isinstance(one, numpy.ndarray) and isinstance(other, numpy.ndarray):
        return bool(one.__array_interface__ == other.__array_interface__)
    if type(one) is not type(other) or not hasattr(one, "dtype") or one.dtype is not other.dtype:
        return False
    inside = [name for name in _ARRAYS_INSIDE if hasattr(one, name) and hasattr(other, name)]
    return bool(inside) and all(
        same_memory(getattr(one, name), getattr(other, name)) for name in inside
    )


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return False
    return value.dtype.kind == "O" or not value.dtype.hasobject


@dataclass(frozen=True)
class _Array:
    def size(self, value: Any) -> int:
        return int(value.nbytes)

    def copy(self, value: Any) -> Any:
        return value.copy()

    def same(self, value: Any, held: Any) -> bool:
        return bool(
            value.shape == held.shape and value.dtype == held.dtype and _same_bytes(value, held)
        )

    def set_back(self, value: Any, held: Any) -> Any:
        if value.size == held.size and value.dtype == held.dtype and value.flags.writeable:
            if value.shape != held.shape:
                value.shape = held.shape
            value[...] = held
            return value
        return held.copy()

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held.ravel().tolist() if held.dtype.kind == "O" else ()
        return parts


def _same_bytes(one: Any, other: Any) -> bool:
    """Whether two arrays of one shape and type hold the same bytes; of objects, the same ones."""
    if one.flags.c_contiguous and other.flags.c_contiguous and one.dtype.kind != "O":
        return memoryview(one.reshape(-1).view("u1")) == memoryview(other.reshape(-1).view("u1"))
    return bool(one.tobytes() == other.tobytes())


_BOUND = (functools.partial, MethodType, BuiltinFunctionType)
_MAPPING, _TUPLE, _FRAME, _ARRAY = _Mapping(), _Tuple(), _Frame(), _Array()
_INSTANCE, _CLASS, _SET, _SEQUENCE = _Instance(), _Class(), _Set(), _Sequence()
_BY_TYPE: dict[type, Kind] = {
    **dict.fromkeys((list, deque), _SEQUENCE),
    **dict.fromkeys(_MAPPINGS, _MAPPING),
    set: _SET,
    bytearray: _Bytes(),
    tuple: _TUPLE,
    **dict.fromkeys(_BOUND, _Bound()),
    FunctionType: _Function(),
    CellType: _Cell(),
    SimpleNamespace: _INSTANCE,
}
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
_EXTENDED: dict[type, Kind] = {
    object: _Extended(None, object),
    list: _Extended(_SEQUENCE, list),
    dict: _Extended(_MAPPING, dict),
    set: _Extended(_SET, set),
}


def bytes_of(value: Any) -> int:
    """About how much memory ``value`` itself takes; no code of its own is asked."""
    kind = type(value)
    if is_frame(kind):
        return frame_bytes(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        return int(value.nbytes)
    return sys.getsizeof(value) if kind in _BY_TYPE or kind in ATOMS else 64


def is_bound(value: Any) -> bool:
    """Whether ``value`` is a callable that holds what it may change."""
    return type(value) in _BOUND and not is_atomic(value)


def is_opaque(value: Any) -> bool:
    """Whether ``value`` may hold what changes and cannot be looked into, as the variables around
    a function when it is called."""
    if type(value) is FunctionType:
        cells = value.__closure__ or ()
        return not is_atomic(value) and bool(cells)
    return is_bound(value) or (kind_of(value) is None and not is_atomic(value))


def changes_arguments(value: Any) -> bool:
    """Whether ``value`` is a function that changes what it is handed: ``list.append``, or what is
    bound to that, and such as ``heapq.heappush``."""
    kind = type(value)
    if kind is functools.partial:
        return changes_arguments(value.func)
    if kind is BuiltinFunctionType or kind is FunctionType:
        return value.__name__ in CHANGING_FUNCTIONS
    return kind in (MethodDescriptorType, WrapperDescriptorType, operator.methodcaller)


def is_free(value: Any) -> bool:
    """Whether a copy of ``value`` takes neither time nor room."""
    return is_frame(type(value)) and copies_lazily()


def most_bytes(kind: Kind) -> int:
    """The most that one object of a kind may take to be copied."""
    return MOST_ARRAY_BYTES if kind in (_ARRAY, _FRAME) else MOST_CONTAINER_BYTES
