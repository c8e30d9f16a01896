"""Of whom a class is, and values that cannot change. No metaclass is asked, nothing is imported."""

import datetime
import decimal
import enum
import fractions
import functools
import gc
import logging
import operator
import pathlib
import re
import sys
import tomllib
import types
import uuid
import weakref
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any

_loaded: dict[tuple[str, tuple[str, ...]], tuple[Any, ...]] = {}
_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__


def said_module(kind: type) -> Any:
    """What a class says is its module, which may be anything; empty where it says none."""
    try:
        return _module_of(kind)
    except AttributeError:
        return ""


def module_of(kind: type) -> str:
    """The module that a class says, empty where it says none."""
    module = said_module(kind)
    return module if type(module) is str else ""


def package_of(kind: type) -> str:
    """The package of a class, empty where it says none."""
    return module_of(kind).partition(".")[0]


def package_among(kind: type, names: Mapping[str, Collection[str]]) -> str:
    """The package that defines ``kind``, or a class that it inherits from, under one of ``names``;
    empty if none does. A private one such as ``_duckdb`` counts as the public one.

    Args:
        names: class names by package.
    """
    for each in _mro_of(kind):
        package, name = package_of(each).lstrip("_"), _name_of(each)
        if type(name) is str and name in names.get(package, ()):
            return package
    return ""


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance, past what its class makes of them."""
    attributes: dict[str, Any] = object.__getattribute__(value, "__dict__")
    return attributes


def referents(value: Any) -> list[Any]:
    """What the collector of garbage says that an object holds, without modules and classes, which
    lead anywhere."""
    held = gc.get_referents(value)
    if any(type(each) is dict for each in held):
        with suppress(Exception):  # boundary: user object - a class may say what its dictionary is
            # Attributes lie no deeper where somebody has asked for the dictionary of them.
            own = attributes_of(value)
            held = [part for each in held for part in (own.values() if each is own else (each,))]
    return [each for each in held if not issubclass(type(each), type | types.ModuleType)]


def is_theirs(kind: type) -> bool:
    """Whether a class is of the notebook, as one that says no module is."""
    return module_of(kind) in ("", "__main__")


def loaded(package: str, *names: str) -> tuple[Any, ...]:
    """Those of a package's classes that there are: none of one that is not loaded yet."""
    found = _loaded.get((package, names))
    if found is None:
        module: Any = sys.modules.get(package)
        found = tuple(getattr(module, name) for name in names if hasattr(module, name))
        if len(found) == len(names):
            _loaded[package, names] = found
    return found


def is_frame(kind: type) -> bool:
    """Whether values of ``kind`` are frames or series of pandas."""
    return issubclass(kind, loaded("pandas", "DataFrame", "Series"))


def beside(frame: Any) -> list[Any]:
    """What a frame has beside its values and labels."""
    return [each for name, each in attributes_of(frame).items() if name != "_mgr"]


def copies_lazily() -> bool:
    """Whether a copy of a frame takes no room until either is written to."""
    pandas = sys.modules["pandas"]
    if int(pandas.__version__.partition(".")[0]) >= 3:
        return True
    return pandas.get_option("mode.copy_on_write") is True


def is_tabular(value: Any) -> bool:
    """Whether a value is of a class of pandas or polars."""
    return module_of(type(value)).startswith(("pandas.", "polars."))


# The most frequent ones first: they are looked for in every container.
ATOMS = frozenset(
    {
        int, float, str, bool, type(None), bytes, complex, frozenset, range, slice,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
        decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, re.Match,
        type(Ellipsis), type(NotImplemented), property, staticmethod, classmethod,
        functools.cached_property, types.GenericAlias, types.UnionType, types.GetSetDescriptorType,
        types.MemberDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType,
        object, operator.itemgetter, operator.attrgetter,
    }
)  # fmt: skip
ATOM_IDS = frozenset(map(id, ATOMS))
_ATOMIC = (
    enum.Enum, types.ModuleType, pathlib.PurePath, datetime.tzinfo, weakref.ref, logging.Logger,
)  # fmt: skip
_SCALARS_OF_PANDAS = frozenset({"Timestamp", "Timedelta", "Period", "Interval"})
# What these make describes classes and is never changed.
_DESCRIBING = frozenset({"dataclasses", "typing"})
# What is known of classes, packages and files by name: rows of words.
FACTS: dict[str, dict[str, str]] = tomllib.loads(
    files(__package__).joinpath("facts.toml").read_text(encoding="utf-8")
)
TABLES, _CONSTANT = (
    {package: tuple(row.split()) for package, row in FACTS[each].items()}
    for each in ("tables", "constant")
)


# By identity: a class may have a hash of its own.
SIMPLE = frozenset(map(id, (int, float, str, bool, type(None), bytes, complex)))


def are_simple(values: Iterable[Any]) -> bool:
    """Whether all of ``values`` are plain numbers, strings and the like."""
    return SIMPLE.issuperset(map(id, map(type, values)))


def is_immutable(value: Any) -> bool:
    """Whether nothing changes ``value`` itself in place; what a method is bound to may change."""
    kind = type(value)
    return kind is types.MethodType or kind is types.BuiltinFunctionType or is_atomic(value)


def is_atomic(value: Any) -> bool:
    """Whether ``value`` cannot change, nor anything that is reached through it."""
    kind = type(value)
    if id(kind) in SIMPLE or issubclass(kind, _ATOMIC) or id(kind) in ATOM_IDS:
        return True
    if issubclass(kind, type):
        return not is_theirs(value)
    if kind is types.FunctionType:
        return bool(value.__module__ != "__main__")
    if kind is types.BuiltinFunctionType:
        return value.__self__ is None or type(value.__self__) is types.ModuleType
    if package_of(kind).lstrip("_") in _CONSTANT:
        return bool(package_among(kind, _CONSTANT))
    return module_of(kind) in _DESCRIBING or is_scalar_of_pandas(kind)


def is_scalar_of_pandas(kind: type) -> bool:
    """Whether ``kind`` is that of single values of pandas: times, spans, intervals, missing."""
    module = module_of(kind)
    return module.startswith("pandas._libs.") or (
        module == "pandas" and kind.__name__ in _SCALARS_OF_PANDAS
    )


def is_missing(value: Any) -> bool:
    """Whether ``value`` stands for none: ``None``, a NaN, or what pandas has for it."""
    kind = type(value)
    if value is None or kind is float:
        return value is None or value != value
    if is_scalar_of_pandas(kind):
        return any(value is each for each in loaded("pandas", "NaT", "NA"))
    if module_of(kind) == "numpy" and issubclass(kind, loaded("numpy", "generic")):
        return value.dtype.kind in "fcmM" and bool(value != value)
    return False
