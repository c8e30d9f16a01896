"""Snapshots of the bindings of a namespace, and their differences.

A snapshot is shallow: it holds the objects and compares them by identity, so its cost depends on
the number of names and never on the size of the data. No code of the objects runs.
"""

import operator
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import compress, repeat
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from parsimony_kernel.lineage.classes import loaded, module_of

_ABSENT = object()
_IMPORTABLE = (ModuleType, type, FunctionType, BuiltinFunctionType)
# Names of variables, met before: to look each up anew costs more than all else of a short cell.
_names = set[str]()
_MANY = 1_000
# Stands for a value that is gone. No value in a namespace is identical to it.
GONE: Any = range(0)


@dataclass(frozen=True)
class Difference:
    """The names that are new or bound to another object, and the deleted ones, each sorted."""

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class Snapshot:
    """A snapshot of bindings that keeps no large object alive, for a cell's run or for an undo.

    It uses weak references where possible. NumPy refuses to resize an array that has references,
    even weak ones, so an array that may be resized is remembered by its id.
    """

    def __init__(
        self, bindings: Mapping[str, Any], used: Collection[str] = (), *, resizes: bool = False
    ) -> None:
        """Take a snapshot of ``bindings``.

        Args:
            bindings: the objects by name.
            used: the names that the cell can reach; the objects of others are held strongly.
            resizes: whether the cell may resize arrays.
        """
        self._bindings: dict[str, Any] = dict(bindings)
        self._weak: dict[str, Callable[[], Any]] = {}
        self._ids: dict[str, int] = {}
        for name in used:
            value = bindings.get(name)
            kind = type(value)
            if resizes and issubclass(kind, loaded("numpy", "ndarray")):
                self._ids[name] = id(value)
            elif _is_weak(kind):
                self._weak[name] = weakref.ref(value)
            else:
                continue
            self._bindings[name] = GONE

    def now(self, namespace: Mapping[str, Any]) -> dict[str, Any]:
        """Return the bindings, held strongly from now on; dead objects become ``GONE``.

        Args:
            namespace: the current bindings, to find objects remembered by id.
        """
        found = self._bindings
        found.update(self._alive())
        if self._ids:
            present = {id(value): value for value in namespace.values()}
            found.update({name: present.get(key, GONE) for name, key in self._ids.items()})
        return found

    def look(self) -> dict[str, Any]:
        """Return the bindings, without keeping their objects alive any longer."""
        return self._bindings | self._alive()

    def _alive(self) -> dict[str, Any]:
        found = {name: get() for name, get in self._weak.items()}
        return {name: value for name, value in found.items() if value is not None}


def _is_weak(kind: type) -> bool:
    is_weak = bool(type.__dict__["__weakrefoffset__"].__get__(kind))
    return is_weak and not issubclass(kind, ModuleType)


def visible(namespace: dict[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bindings that a person made: no private names, no imports, nothing in ``hidden``.

    Imports are modules, and functions and classes of other modules. A name in ``hidden`` is
    visible once it is bound to another object. Keys that are no identifiers are no variables.
    """
    found = namespace.copy()
    if len(_names) > _MANY + 2 * len(found):
        _names.clear()
    for name in found.keys() - _names:
        if type(name) is str and name[:1] != "_" and name.isidentifier():
            _names.add(name)
        else:
            del found[name]
    kinds = map(type, found.values())
    may_be_imported = map(issubclass, kinds, repeat(_IMPORTABLE))
    for name in [*compress(found, may_be_imported)]:
        if _is_imported(found[name]):
            del found[name]
    for name in hidden:
        if name in found and found[name] is hidden[name]:
            del found[name]
    return found


def _is_imported(value: Any) -> bool:
    if issubclass(type(value), ModuleType):
        return True
    module = module_of(value) if issubclass(type(value), type) else value.__module__
    return module is None or (type(module) is str and module not in ("", "__main__"))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Difference:
    """Return the difference between two snapshots, compared by identity."""
    # Mostly a cell leaves the names as they are.
    held = before.values() if [*before] == [*after] else map(before.get, after, repeat(_ABSENT))
    is_other = map(operator.is_not, after.values(), held)
    changed = tuple(sorted(compress(after, is_other)))
    new = sum(name not in before for name in changed)
    is_any_gone = len(before) + new > len(after)  # a cheap test before a slow search
    return Difference(changed, tuple(sorted(before.keys() - after.keys())) if is_any_gone else ())
