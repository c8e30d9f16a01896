"""What is bound in a namespace, and what became of it.

A snapshot is shallow: it holds the objects and compares them by identity, so its cost depends on
the number of names and never on the size of the data. No code of an object's own is run.
"""

import functools
import operator
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import compress, filterfalse, repeat
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from parsimony_kernel.lineage.classes import loaded, said_module

_ABSENT = object()
_IMPORTABLE = (ModuleType, type, FunctionType, BuiltinFunctionType)
# What stands for a value that is gone: nothing in a namespace is it.
GONE: Any = range(0)


@dataclass(frozen=True)
class Difference:
    """The names bound to another object than before, and those that are gone, each sorted."""

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class Snapshot:
    """Bindings as they stand, which keeps no large object alive: while a cell runs, or for an undo.

    What can be referred to weakly is. An array that may be resized, which numpy refuses for one
    with references, weak ones too, is told by its id.
    """

    def __init__(
        self, bindings: Mapping[str, Any], used: Collection[str] = (), *, resizes: bool = False
    ) -> None:
        """Take ``bindings``.

        Args:
            used: the names that the cell can come to; the others are kept as they are.
            resizes: it may resize arrays.
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
        """The bindings again, which are kept from now on; what is gone is unlike all there is.

        Args:
            namespace: what is bound now, where objects that are told by id are looked for.
        """
        found = self._bindings
        found.update(self._alive())
        if self._ids:
            present = {id(value): value for value in namespace.values()}
            found.update({name: present.get(key, GONE) for name, key in self._ids.items()})
        return found

    def look(self) -> dict[str, Any]:
        """The bindings again, which are kept no longer than before."""
        return self._bindings | self._alive()

    def _alive(self) -> dict[str, Any]:
        found = {name: get() for name, get in self._weak.items()}
        return {name: value for name, value in found.items() if value is not None}


def _is_weak(kind: type) -> bool:
    is_weak = bool(type.__dict__["__weakrefoffset__"].__get__(kind))
    return is_weak and not issubclass(kind, ModuleType)


def visible(namespace: dict[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """The bindings that a person made: no private names, no imports, nothing of ``hidden``.

    Imports are modules, and the functions and classes of other modules. A name of ``hidden``
    counts once it is bound to something else than ``hidden`` has there. A key that no code could
    name is no variable.
    """
    found = namespace.copy()
    if set(map(type, found)) != {str}:
        found = {name: value for name, value in found.items() if type(name) is str}
    for name in [*filterfalse(_is_name, found)]:
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


@functools.lru_cache(maxsize=16_384)
def _is_name(name: str) -> bool:
    return name.isidentifier() and name[0] != "_"


def _is_imported(value: Any) -> bool:
    kind = type(value)
    if not issubclass(kind, _IMPORTABLE):
        return False
    if issubclass(kind, ModuleType):
        return True
    module = said_module(value) if issubclass(kind, type) else value.__module__
    return module is None or (type(module) is str and module not in ("", "__main__"))


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Difference:
    """What changed between two snapshots, by identity."""
    is_other = map(operator.is_not, after.values(), map(before.get, after, repeat(_ABSENT)))
    changed = tuple(sorted(compress(after, is_other)))
    new = sum(name not in before for name in changed)
    is_any_gone = len(before) + new > len(after)  # which takes a while to look for
    return Difference(changed, tuple(sorted(before.keys() - after.keys())) if is_any_gone else ())
