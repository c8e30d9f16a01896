"""Which values no code can change in place."""

from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from parsimony_kernel.lineage.snapshot import is_theirs

IMMUTABLE = (
    bool, int, float, complex, str, bytes, frozenset, type(None), range, slice, date, time,
    timedelta, tzinfo, Decimal, ModuleType, BuiltinFunctionType, MethodType,
)  # fmt: skip
# By identity: a class may have a hash of its own.
SIMPLE = frozenset(map(id, (int, float, str, bool, type(None), bytes, complex)))


def is_immutable(value: Any) -> bool:
    """Whether no code of the notebook changes ``value`` in place."""
    kind = type(value)
    if id(kind) in SIMPLE or issubclass(kind, IMMUTABLE):
        return True
    if issubclass(kind, FunctionType):
        return type(value.__module__) is str and value.__module__ != "__main__"
    return issubclass(kind, type) and not is_theirs(value)
