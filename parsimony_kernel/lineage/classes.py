"""Classification of classes by package, of immutable values, and the memory of arrays and frames.

No code of a metaclass runs, no package is imported, and nothing is copied.
"""

import enum
import sys
import tomllib
import types
from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from importlib.resources import files
from sys import getrefcount
from typing import Any

_loaded: dict[tuple[str, tuple[str, ...]], tuple[Any, ...]] = {}
_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__


def module_of(kind: type) -> str:
    """Return the module name of a class, empty if it has none."""
    try:
        module = _module_of(kind)
    except AttributeError:
        return ""
    return module if type(module) is str else ""


def package_of(kind: type) -> str:
    """Return the top-level package of a class, empty if it has none."""
    return module_of(kind).partition(".")[0]


def package_among(kind: type, names: Mapping[str, Collection[str]]) -> str:
    """Return the package that defines ``kind`` or one of its bases under one of ``names``.

    A private package such as ``_duckdb`` counts as the public one.

    Args:
        kind: the class.
        names: class names by package.

    Returns:
        The package, empty if there is none.
    """
    for each in _mro_of(kind):
        package, name = package_of(each).lstrip("_"), _name_of(each)
        if type(name) is str and name in names.get(package, ()):
            return package
    return ""


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the ``__dict__`` of an instance, bypassing any override by its class."""
    attributes: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return attributes


def is_theirs(kind: type) -> bool:
    """Return whether a class is defined in the notebook; one without a module counts too."""
    return module_of(kind) in ("", "__main__")


def loaded(package: str, *names: str) -> tuple[Any, ...]:
    """Return the existing classes ``names`` of a package; none if it isn't imported yet."""
    found = _loaded.get((package, names))
    if found is None:
        module: Any = sys.modules.get(package)
        found = tuple(getattr(module, name) for name in names if hasattr(module, name))
        if len(found) == len(names):
            _loaded[package, names] = found
    return found


def is_frame(kind: type) -> bool:
    """Return whether values of ``kind`` are pandas frames or series."""
    return issubclass(kind, loaded("pandas", "DataFrame", "Series"))


def copies_lazily() -> bool:
    """Return whether pandas uses copy-on-write: a copy takes no memory until a write."""
    pandas = sys.modules["pandas"]
    is_always = int(pandas.__version__.partition(".")[0]) >= 3
    return is_always or pandas.get_option("mode.copy_on_write") is True


def is_tabular(value: Any) -> bool:
    """Return whether a value's class is one of pandas or polars."""
    return package_of(type(value)) in ("pandas", "polars")


# Known facts about classes, packages and files by name: rows of words.
FACTS: dict[str, dict[str, str]] = tomllib.loads(
    files(__package__).joinpath("facts.toml").read_text(encoding="utf-8")
)


def _named(table: str) -> tuple[type, ...]:
    rows = FACTS[table].items()
    return tuple(
        getattr(import_module(module), name) for module, row in rows for name in row.split()
    )


_INSIDE = FACTS["arrays"]["inside"].split()
_MOST_BLOCKS = 64
_CONTAINERS = (list, tuple, set, dict)
_MOST_PARTS = 1_000
ATOMS = frozenset(_named("atoms"))
ATOM_IDS = frozenset(map(id, ATOMS))
_ATOMIC = _named("atomic")
_SCALARS_OF_PANDAS = frozenset({"Timestamp", "Timedelta", "Period", "Interval"})
# Objects of these modules describe classes and are never mutated.
_DESCRIBING = frozenset({"dataclasses", "typing"})
TABLES, _CONSTANT = (
    {package: tuple(row.split()) for package, row in FACTS[each].items()}
    for each in ("tables", "constant")
)


def is_immutable(value: Any) -> bool:
    """Return whether ``value`` itself is immutable; the object a method is bound to may not be."""
    kind = type(value)
    return kind is types.MethodType or kind is types.BuiltinFunctionType or is_atomic(value)


def is_atomic(value: Any) -> bool:
    """Return whether ``value``, and all that is reached through it, is immutable."""
    kind = type(value)
    if id(kind) in ATOM_IDS or issubclass(kind, _ATOMIC):
        return True
    if issubclass(kind, type):
        return not is_theirs(value) or issubclass(value, tuple)
    if issubclass(kind, enum.Enum):
        return not is_theirs(kind)
    if kind is types.FunctionType:
        return bool(value.__module__ != "__main__")
    if kind is types.BuiltinFunctionType:
        return value.__self__ is None or type(value.__self__) is types.ModuleType
    if package_of(kind).lstrip("_") in _CONSTANT:
        return bool(package_among(kind, _CONSTANT))
    return module_of(kind) in _DESCRIBING or is_scalar_of_pandas(kind)


def is_scalar_of_pandas(kind: type) -> bool:
    """Return whether ``kind`` is a pandas scalar: a time, a span, an interval, a missing value."""
    module = module_of(kind)
    return module.startswith("pandas._libs.") or (
        module == "pandas" and kind.__name__ in _SCALARS_OF_PANDAS
    )


def is_data(value: Any) -> bool:
    """Return whether a value is a table, an array, or a small container of plain values.

    A library changes none that it is handed, save by the calls that ``calls.toml`` names.
    """
    if is_array(value):
        return not value.dtype.hasobject
    parts = value.values() if type(value) is dict else value
    is_plain = type(value) in _CONTAINERS and len(value) <= _MOST_PARTS
    return is_tabular(value) or (is_plain and all(map(is_atomic, parts)))


def is_missing(value: Any) -> bool:
    """Return whether ``value`` is missing: ``None``, a NaN or NaT, or ``pandas.NA``."""
    if issubclass(type(value), float):
        return float.__ne__(value, value)
    return value is None or any(value is each for each in loaded("pandas", "NaT", "NA"))


# The memory of arrays and frames, and who shares it


def is_array(value: Any) -> bool:
    """Return whether ``value`` is a NumPy array, and not of a subclass."""
    return any(type(value) is each for each in loaded("numpy", "ndarray"))


def plain_array(value: Any) -> Any:
    """Return a view of an array, perhaps of a subclass, as a plain NumPy array."""
    plain = sys.modules["numpy"].ndarray
    return plain.view(value, plain)


def arrays_inside(value: Any) -> Iterable[Any]:
    """Return the arrays inside a pandas extension array."""
    return (each for name in _INSIDE if (each := getattr(value, name, None)) is not None)


def has_memory(kind: type) -> bool:
    """Return whether values of ``kind`` are pandas frames, NumPy arrays or memoryviews."""
    arrays = loaded("numpy", "ndarray")
    return bool(arrays) and (is_frame(kind) or issubclass(kind, (*arrays, memoryview)))


def _blocks(frame: Any) -> Any:
    return attributes_of(frame)["_mgr"].blocks


def blocks_of(value: Any) -> list[tuple[Any, int]]:
    """Return the arrays that hold a value's data, each with the id of its reference record.

    In this record, pandas with copy-on-write tracks which frames share a block; 0 if none.
    """
    kind = type(value)
    if not is_frame(kind):
        return [(value, 0)] if has_memory(kind) else []
    is_lazy, blocks = copies_lazily(), _blocks(value)[:_MOST_BLOCKS]
    return [(b.values, id(b.refs) if is_lazy else 0) for b in blocks if is_array(b.values)]


def is_alone(value: Any) -> bool:
    """Return whether no other array or frame shares the memory of ``value``.

    Decided by reference counts: a view holds the owner of its memory, and pandas tracks which
    frames share a block.
    """
    if not is_frame(type(value)):
        return is_array(value) and _is_seen_by_none(value)
    return copies_lazily() and not any(
        block.refs.has_reference()
        # One reference is held by the block, one by the call.
        or (is_array(block.values) and getrefcount(block.values) > 2)
        or (is_array(block.values) and not _is_seen_by_none(block.values))
        for block in _blocks(value)
    )


def _is_seen_by_none(array: Any) -> bool:
    """Return whether nothing but ``array`` holds the owner of its memory."""
    while (base := array.base) is not None:
        # One reference is held by the view, one by this name, one by the call.
        if not is_array(base) or getrefcount(base) > 3:
            return False
        array = base
    return True


def owner(value: Any) -> Any:
    """Return the object that owns the memory of an array or a memoryview."""
    arrays = loaded("numpy", "ndarray")
    value = value.obj if type(value) is memoryview else value
    while isinstance(value, arrays) and (base := value.base) is not None:
        value = base
    return value.obj if type(value) is memoryview else value


def overlap(one: Any, other: Any) -> bool:
    """Return whether two arrays with the same owner may overlap; true if either is no array."""
    arrays = loaded("numpy", "ndarray")
    if not (isinstance(one, arrays) and isinstance(other, arrays)):
        return True
    return bool(sys.modules["numpy"].may_share_memory(one, other))


def frame_bytes(frame: Any) -> int:
    """Return the memory of a frame's columns in bytes, without the text of Python strings."""
    return _bytes_of(_blocks(frame))


def unshared_bytes(manager: Any, frame: Any) -> int:
    """Return the bytes that ``manager``, a lazy copy of the one of ``frame``, doesn't share."""
    live = {id(block.refs) for block in _blocks(frame)}
    return _bytes_of(block for block in manager.blocks if id(block.refs) not in live)


def _bytes_of(blocks: Iterable[Any]) -> int:
    return sum(int(getattr(block.values, "nbytes", 0)) for block in blocks)
