"""What the steps of a path lead to in an object."""

from types import MemberDescriptorType, ModuleType
from typing import Any

from parsimony_kernel.analysis.roots import Steps
from parsimony_kernel.lineage.objects.frames import is_tabular
from parsimony_kernel.lineage.snapshot import is_theirs


def part_at(value: Any, path: Steps) -> Any:
    """What ``path`` leads to from ``value``; as far as that can be told, without running code."""
    for step in path:
        kind = type(value)
        if step is None or is_tabular(value):
            return value
        if isinstance(step, tuple):
            key = step[0]
            if issubclass(kind, dict) and dict.__contains__(value, key):
                value = dict.__getitem__(value, key)
            elif (
                issubclass(kind, list | tuple)
                and type(key) is int
                and -len(held := _items(value)) <= key < len(held)
            ):
                value = held[key]
            else:
                return value
        else:
            inner = _attribute(value, step)
            if inner is value:
                return value
            value = inner
    return value


def _attribute(value: Any, name: str) -> Any:
    """What an instance has itself as ``name``; else ``value``."""
    kind = type(value)
    if issubclass(kind, type | ModuleType):
        return value
    for owner in type.__dict__["__mro__"].__get__(kind):
        defined = type.__dict__["__dict__"].__get__(owner).get(name)
        if type(defined) is MemberDescriptorType:
            try:
                return defined.__get__(value)
            except AttributeError:  # not set
                return value
        if type(defined) is property or (defined is not None and not is_theirs(owner)):
            return value
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return value
    return attributes.get(name, value) if type(attributes) is dict else value


def _items(value: Any) -> Any:
    return (list if issubclass(type(value), list) else tuple).__getitem__(value, slice(None))
