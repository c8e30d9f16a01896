"""Classification of classes by package, and of immutable values.

No code of a metaclass runs, and no package is imported.
"""

import enum
import sys
import tomllib
import types
from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.resources import files
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
    return module_of(type(value)).startswith(("pandas.", "polars."))


# Known facts about classes, packages and files by name: rows of words.
FACTS: dict[str, dict[str, str]] = tomllib.loads(
    files(__package__).joinpath("facts.toml").read_text(encoding="utf-8")
)


def _named(table: str) -> tuple[type, ...]:
    rows = FACTS[table].items()
    return tuple(
        getattr(import_module(module), name) for module, row in rows for name in row.split()
    )


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
        return not is_theirs(value)
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


def is_missing(value: Any) -> bool:
    """Return whether ``value`` is missing: ``None``, a NaN or NaT, or ``pandas.NA``."""
    if issubclass(type(value), float):
        return float.__ne__(value, value)
    return value is None or any(value is each for each in loaded("pandas", "NaT", "NA"))
