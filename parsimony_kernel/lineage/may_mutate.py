"""Static analysis of which variables code may mutate, itself or through functions it calls."""

import dis
import functools
import linecache
from collections.abc import Iterable, Iterator, Mapping, Set
from types import CodeType, FunctionType, GeneratorType, MethodType
from typing import Any

from parsimony_kernel.analysis.calls import MUTATES
from parsimony_kernel.analysis.cell_names import Cell
from parsimony_kernel.analysis.read import read_function
from parsimony_kernel.lineage.classes import is_immutable, is_theirs
from parsimony_kernel.lineage.copies import changes_arguments, is_bound
from parsimony_kernel.lineage.object_graph import around, held_by

_STORES = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_ATTR", "DELETE_ATTR"})
_MOST_FUNCTIONS = 200


def suspects(what: Cell, bound: Mapping[str, Any]) -> tuple[Set[str], Set[str]]:
    """Return the names in ``bound`` that the analyzed code ``what`` may mutate.

    Returns:
        The names whose objects it probably mutates, by static analysis, and the others it uses.
    """
    reach = Reach(bound, what.reads | what.may_mutate)
    asked = what.linked(what.may_mutate | what.called | what.receivers)
    held = held_by([bound[name] for name in asked & bound.keys()]).values()
    reach.run(each for each in held if type(each) is FunctionType and not is_immutable(each))
    used = reach.used
    if what.changes_any:
        return bound.keys(), set()
    if what.changes_all or reach.functions or any(changes_arguments(bound[name]) for name in used):
        return used, set()
    likely = {name for name in used if name in what.may_mutate or is_bound(bound[name])}
    return likely, used - likely


class Reach:
    """The names and notebook functions that code can reach in a namespace.

    Args:
        bound: the namespace.
        names: the names that the code uses.

    ``used`` holds these names and, transitively, those used by the functions among them.
    ``functions`` holds these notebook functions, and generators that the code may advance.
    """

    def __init__(self, bound: Mapping[str, Any], names: Iterable[str] = ()) -> None:
        self._bound = bound
        self.used = set[str]()
        self.functions: list[Any] = []
        self._follow(names)

    def run(self, values: Iterable[Any], *, are_called: bool = True) -> None:
        """Follow the functions that calling ``values``, or advancing generators, may run.

        Args:
            are_called: if false, nothing calls the values: ``functions`` gets only the values
                themselves, and the names that they can reach count as used.
        """
        for each in values:
            found = [each] if type(each) is GeneratorType else [*_functions_of(each)]
            if are_called:
                self._follow(self._names_of(found))
                continue
            self.functions.append(each)
            names = (name for one in found for name in _names_in(_code_of(one)))
            self.used |= Reach(self._bound, names).used

    def _follow(self, names: Iterable[str]) -> None:
        pending = [*names]
        while pending and len(self.functions) <= _MOST_FUNCTIONS:
            name = pending.pop()
            if name in self._bound and name not in self.used:
                self.used.add(name)
                pending += self._names_of(_functions_of(self._bound[name]))

    def _names_of(self, functions: Iterable[Any]) -> Iterator[str]:
        for each in functions:
            self.functions.append(each)
            yield from _names_in(_code_of(each))

    def says(self, word: str) -> bool:
        """Return whether one of the functions uses ``word`` as a name."""
        return any(word in _names_in(_code_of(each)) for each in self.functions)

    def changes(self) -> tuple[set[str], bool]:
        """Return the names whose objects the functions may mutate.

        The second value is true if a function may mutate its arguments or closure variables.
        """
        found = [_changed_by(_code_of(each)) for each in self.functions]
        names = {name for globals_, _ in found for name in globals_ if name in self._bound}
        return names, any(by_argument for _, by_argument in found)


def _code_of(function: Any) -> CodeType:
    code: CodeType = function.gi_code if type(function) is GeneratorType else function.__code__
    return code


@functools.lru_cache(maxsize=512)
def _changed_by(code: CodeType) -> tuple[Set[str], bool]:
    """Return the global names whose objects a function mutates.

    The second value is true if it mutates the objects of its locals or closure variables. Without
    source text, the bytecode decides: a store or a mutating name taints every name it uses.
    """
    lines = linecache.cache.get(code.co_filename, ())
    names = None
    if len(lines) > 2:  # its source text
        names = read_function("".join(lines[2]), code.co_firstlineno, code.co_name)
    if names is None:
        stores = any(each.opname in _STORES for each in dis.get_instructions(code))
        changes = stores or not MUTATES.isdisjoint(code.co_names)
        return (frozenset(code.co_names) if changes else frozenset()), changes
    parameters = frozenset(code.co_varnames) | frozenset(code.co_freevars)
    changed = names.mutated | names.reached
    if code.co_name == "__init__" and code.co_varnames:
        changed -= {code.co_varnames[0]}
    return changed - parameters, not changed.isdisjoint(parameters)


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """Yield the notebook functions that calling ``value``, or one of its methods, may run."""
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
        elif kind is staticmethod or kind is classmethod:
            pending.append(each.__func__)
        elif kind is property:
            pending += [each.fget, each.fset]
        elif issubclass(kind, type):
            if is_theirs(each):
                pending.extend(type.__dict__["__dict__"].__get__(each).values())
                pending.append(kind)  # a metaclass, whose methods run too
        elif is_theirs(kind):
            pending.append(kind)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names_in(constant)
