"""Names whose objects code may change in place: by its text, and through the functions it calls."""

import dis
import functools
import linecache
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, MethodType
from typing import Any, NamedTuple

from parsimony_kernel.analysis.calls import MUTATES
from parsimony_kernel.analysis.cell import Cell, Names
from parsimony_kernel.analysis.read import read_function
from parsimony_kernel.lineage.classes import is_theirs
from parsimony_kernel.lineage.copies import changes_arguments, is_bound
from parsimony_kernel.lineage.object_graph import around

_STORES = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_ATTR", "DELETE_ATTR"})
_MOST_FUNCTIONS = 200


@dataclass(frozen=True)
class Suspects:
    """Names of a namespace.

    Args:
        likely: those whose objects the code changes, as far as can be told.
        others: those that it only uses.
    """

    likely: frozenset[str]
    others: frozenset[str]


def suspects(what: Cell, bound: Mapping[str, Any]) -> Suspects:
    """What of ``bound`` code that says ``what`` may change, by name."""
    used, functions = reached_by(what.reads | what.may_mutate, bound)
    if what.changes_any:
        return Suspects(frozenset(bound), frozenset())
    if what.changes_all or functions or any(changes_arguments(bound[name]) for name in used):
        return Suspects(frozenset(used), frozenset())
    likely = {name for name in used if name in what.may_mutate or is_bound(bound[name])}
    return Suspects(frozenset(likely), frozenset(used - likely))


class Reached(NamedTuple):
    """Names that code uses, with those that functions among them use in turn, and the functions of
    the notebook among them."""

    used: set[str]
    functions: list[Any]


def reached_by(names: Iterable[str], bound: Mapping[str, Any]) -> Reached:
    """What code that uses ``names`` reaches of ``bound``."""
    pending, found = [name for name in names if name in bound], Reached(set(), [])
    while pending and len(found.functions) <= _MOST_FUNCTIONS:
        name = pending.pop()
        if name in found.used:
            continue
        found.used.add(name)
        for function in _functions_of(bound[name]):
            found.functions.append(function)
            pending.extend(each for each in _names_in(function.__code__) if each in bound)
    return found


def used_by(function: Any, bound: Mapping[str, Any]) -> set[str]:
    """The names that calling ``function`` may use, through the functions of the notebook."""
    codes = [found.__code__ for found in _functions_of(function)]
    if type(function) is GeneratorType:
        codes.append(function.gi_code)
    return reached_by((each for code in codes for each in _names_in(code)), bound).used


def says(word: str, functions: Iterable[Any]) -> bool:
    """Whether one of ``functions`` uses ``word`` as a name."""
    return any(word in _names_in(_code_of(function)) for function in functions)


def changes_of(functions: Iterable[Any], bound: Mapping[str, Any]) -> tuple[set[str], bool]:
    """The names of ``bound`` whose objects running ``functions``, some of them generators, may
    change, and whether one of them changes what it is handed or holds."""
    changed, by_argument = set[str](), False
    for function in functions:
        globals_, parameters = _changed_by(_code_of(function))
        changed |= globals_ & bound.keys()
        by_argument = by_argument or parameters
    return changed, by_argument


def _code_of(function: Any) -> CodeType:
    code: CodeType = function.gi_code if type(function) is GeneratorType else function.__code__
    return code


@functools.lru_cache(maxsize=512)
def _changed_by(code: CodeType) -> tuple[frozenset[str], bool]:
    """The global names whose objects a function changes, and whether it changes those of its
    parameters."""
    names = _names_of_body(code)
    if names is None:
        stores = any(each.opname in _STORES for each in dis.get_instructions(code))
        changes = stores or not MUTATES.isdisjoint(code.co_names)
        return (frozenset(code.co_names) if changes else frozenset()), changes
    parameters = frozenset(code.co_varnames) | frozenset(code.co_freevars)
    changed = names.mutated | names.reached
    if code.co_name == "__init__" and code.co_varnames:
        changed -= {code.co_varnames[0]}
    return changed - parameters, not changed.isdisjoint(parameters)


def _names_of_body(code: CodeType) -> Names | None:
    """What the body of a function says, where its text is at hand."""
    lines = linecache.cache.get(code.co_filename, ())
    if len(lines) < 3:
        return None
    return read_function("".join(lines[2]), code.co_firstlineno, code.co_name)


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
            pending += around(each)
        elif kind is functools.partial:
            pending += [each.func, *each.args, *each.keywords.values()]
        elif kind is MethodType:
            pending += [each.__func__, each.__self__]
        elif kind is BuiltinFunctionType:
            continue
        elif kind is staticmethod or kind is classmethod:
            pending.append(each.__func__)
        elif kind is property:
            pending += [each.fget, each.fset]
        elif issubclass(kind, type):
            if is_theirs(each):
                pending.extend(type.__dict__["__dict__"].__get__(each).values())
        elif is_theirs(kind):
            pending.append(kind)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names_in(constant)
