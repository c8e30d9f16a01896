"""Values that cannot change, and those that stand for none."""

import datetime
import decimal
import enum
import fractions
import functools
import logging
import operator
import pathlib
import re
import sys
import uuid
import weakref
from types import (
    BuiltinFunctionType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

# The most frequent ones first: they are looked for in every container.
ATOMS = frozenset(
    {
        int, float, str, bool, type(None), bytes, complex, frozenset, range, slice,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
        decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern, re.Match,
        type(Ellipsis), type(NotImplemented), property, staticmethod, classmethod,
        functools.cached_property, GenericAlias, UnionType, GetSetDescriptorType,
        MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType,
        object, operator.itemgetter, operator.attrgetter,
    }
)  # fmt: skip
_ATOMIC = (
    enum.Enum, ModuleType, pathlib.PurePath, datetime.tzinfo, weakref.ref, logging.Logger,
)  # fmt: skip
_SCALARS_OF_PANDAS = frozenset({"Timestamp", "Timedelta", "Period", "Interval"})
# What these make describes classes and is never changed.
_DESCRIBING = frozenset({"dataclasses", "typing"})
_OF_ARROW = ("_PandasConvertible", "Scalar", "DataType", "Schema", "Field", "Buffer")


def is_atomic(value: Any) -> bool:
    """Whether ``value`` cannot change, nor anything that is reached through it."""
    kind = type(value)
    if kind in ATOMS or issubclass(kind, _ATOMIC):
        return True
    if issubclass(kind, type):
        return bool(value.__module__ != "__main__")
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
    if module == "pyarrow.lib":
        arrow = sys.modules["pyarrow.lib"]
        return issubclass(kind, tuple(getattr(arrow, name) for name in _OF_ARROW))
    return is_scalar_of_pandas(kind)


def is_scalar_of_pandas(kind: type) -> bool:
    """Whether ``kind`` is that of single values of pandas: times, spans, intervals, missing."""
    module = kind.__module__
    return type(module) is str and (
        module.startswith("pandas._libs.")
        or (module == "pandas" and kind.__name__ in _SCALARS_OF_PANDAS)
    )


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
