"""What a person's own functions can reach: the names and objects that code changes through them."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

_MOST_FUNCTIONS = 200


def used_through(names: Iterable[str], bound: Mapping[str, Any]) -> tuple[set[str], bool]:
    """``names`` that are bound, with those that the functions among them use in turn, and
    whether there is any function of the notebook's among them."""
    return _through([name for name in names if name in bound], bound)


def used_by(function: Any, bound: Mapping[str, Any]) -> set[str]:
    """The names that calling ``function`` may use, through the functions of the notebook."""
    names = (each for found in _functions_of(function) for each in _names_in(found.__code__))
    return _through([name for name in names if name in bound], bound)[0]


def _through(pending: list[str], bound: Mapping[str, Any]) -> tuple[set[str], bool]:
    used, theirs, followed = set[str](), False, 0
    while pending:
        name = pending.pop()
        if name in used:
            continue
        used.add(name)
        for function in _functions_of(bound[name]):
            theirs = True
            followed += 1
            if followed > _MOST_FUNCTIONS:
                return used, theirs
            pending.extend(each for each in _names_in(function.__code__) if each in bound)
    return used, theirs


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """The functions of the notebook that calling ``value``, or a method of it, may run."""
    pending, seen = [value], set[int]()
    while pending and len(seen) < _MOST_FUNCTIONS:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        kind = type(each)
        if kind is FunctionType:
            if each.__module__ == "__main__":
                yield each
            for cell in each.__closure__ or ():
                try:
                    pending.append(cell.cell_contents)
                except ValueError:  # not bound yet
                    continue
        elif kind is functools.partial:
            pending += [each.func, *each.args, *each.keywords.values()]
        elif kind is MethodType:
            pending += [each.__func__, each.__self__]
        elif kind is BuiltinFunctionType:
            continue
        elif kind in (staticmethod, classmethod):
            pending.append(each.__func__)
        elif kind is property:
            pending += [each.fget, each.fset]
        elif issubclass(kind, type):
            if each.__module__ == "__main__":
                pending.extend(type.__getattribute__(each, "__dict__").values())
        elif kind.__module__ == "__main__":
            pending.append(kind)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names_in(constant)
