"""What is bound in a namespace, and what became of it.

A snapshot is shallow: it holds the objects and compares them by identity, so its cost depends on
the number of names and never on the size of the data. No code of an object's own is run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any

_ABSENT = object()
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_IMPORTABLE = (ModuleType, type, FunctionType, BuiltinFunctionType)
_IMPORTABLE = (ModuleType, type, FunctionType, BuiltinFunctionType)

_module_of = type.__dict__["__module__"].__get__


@dataclass(frozen=True)
class Difference:
    """The names bound to another object than before, and those that are gone, each sorted."""

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


def visible(
    namespace: dict[str, Any], hidden: Mapping[str, Any], earlier: Mapping[str, Any] = _NOTHING
) -> dict[str, Any]:
    """The bindings that a person made: no private names, no imports, nothing of ``hidden``.

    Imports are modules, and the functions and classes of other modules. A name of ``hidden``
    counts once it is bound to something else than ``hidden`` has there. A key that no code could
    name is no variable. What ``earlier``, an earlier answer, has in the same way is not judged
    again.
    """
    return {
        name: value
        for name, value in namespace.copy().items()
        if type(name) is str
        and (
            earlier.get(name, _ABSENT) is value
            or (
                name.isidentifier()
                and name[0] != "_"
                and not (issubclass(type(value), _IMPORTABLE) and _is_imported(value))
                and value is not hidden.get(name, _ABSENT)
            )
        )
    }


def is_theirs(kind: type) -> bool:
    """Whether a class is of the notebook, as one that says no module is; no metaclass is asked."""
    try:
        module = _module_of(kind)
    except AttributeError:
        return True
    return type(module) is not str or module == "__main__"


def module_of(kind: type) -> str:
    """The module that a class says, empty where it says none. Its metaclass is not asked."""
    try:
        module = _module_of(kind)
    except AttributeError:
        return ""
    return module if type(module) is str else ""


def _is_imported(value: Any) -> bool:
    kind = type(value)
    if not issubclass(kind, _IMPORTABLE):
        return False
    if issubclass(kind, ModuleType):
        return True
    if issubclass(kind, type):
        try:
            module = _module_of(value)  # past the metaclass, which is the user's
        except AttributeError:
            return False
    else:
        module = value.__module__
    return module is None or (type(module) is str and module != "__main__")


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Difference:
    """What changed between two snapshots, by identity."""
    return Difference(
        changed=tuple(
            sorted(name for name, value in after.items() if value is not before.get(name, _ABSENT))
        ),
        deleted=tuple(sorted(name for name in before if name not in after)),
    )
