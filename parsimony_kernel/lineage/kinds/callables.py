"""How functions, the variables of closures and bound callables are copied and set back."""

import functools
import operator
import sys
from collections.abc import Collection
from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any

from parsimony_kernel.analysis.calls import MUTATES_ARGUMENT
from parsimony_kernel.lineage.kinds.atoms import is_atomic
from parsimony_kernel.lineage.kinds.containers import TupleKind
from parsimony_kernel.lineage.kinds.kind import same_objects

BOUND_TYPES = (functools.partial, MethodType, BuiltinFunctionType)


@dataclass(frozen=True)
class BoundKind(TupleKind):
    """A callable with what is bound to it. Cannot be changed; what it holds can."""

    def copy(self, value: Any) -> Any:
        if type(value) is functools.partial:
            return (value.func, value.args, value.keywords)
        if type(value) is MethodType:
            return (value.__func__, value.__self__)
        return (value.__self__,)


@dataclass(frozen=True)
class CellKind:
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
class FunctionKind:
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
            and same_objects(value.__dict__, attributes, sizes)
            and same_objects(value.__dict__.values(), attributes.values(), sizes)
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


BOUND = BoundKind()
CELL = CellKind()
FUNCTION = FunctionKind()


def is_bound(value: Any) -> bool:
    """Whether ``value`` is a callable that holds what it may change."""
    return type(value) in BOUND_TYPES and not is_atomic(value)


def changes_arguments(value: Any) -> bool:
    """Whether ``value`` is a function that changes what it is handed: ``list.append``, or what is
    bound to that, and such as ``heapq.heappush``."""
    kind = type(value)
    if kind is functools.partial:
        return changes_arguments(value.func)
    if kind is BuiltinFunctionType or kind is FunctionType:
        return value.__name__ in MUTATES_ARGUMENT
    return kind in (MethodDescriptorType, WrapperDescriptorType, operator.methodcaller)
