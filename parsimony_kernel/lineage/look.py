"""What is seen before a cell runs of the values that it could change without saying so.

Its text names what it may change; what a call may change is fingerprinted, within limits for one
cell. Nothing here imports anything heavy, and no code of a person's runs.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any

from parsimony_kernel.analysis.columns import columns_only
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.classes import is_theirs
from parsimony_kernel.lineage.fingerprint import (
    MOST_STEPS,
    MOST_STEPS_OF_A_CELL,
    Fingerprint,
    fingerprint,
)
from parsimony_kernel.lineage.kinds.atoms import is_immutable
from parsimony_kernel.lineage.may_mutate import (
    changes_by,
    changes_through,
    used_by,
    used_through,
    uses_by_name,
)
from parsimony_kernel.lineage.memory import contents_of
from parsimony_kernel.lineage.parts import held_by, part_at, parts_in, reachable_from
from parsimony_kernel.lineage.snapshot import Standing

_MOST_UNNAMED = 64
_MOST_PLAIN = 8
_MOST_OF_PLAIN = 100
_RESIZE = "resize"


@dataclass(frozen=True)
class Looked:
    """What was seen before a cell ran of the values that it could change.

    ``namespace`` is the live one, which is asked again afterwards for what was imported.
    """

    namespace: Mapping[str, Any] = field(default_factory=dict)
    reads: frozenset[str] = frozenset()
    seen: Mapping[str, Fingerprint] = field(default_factory=dict)
    values: Standing = field(default_factory=lambda: Standing({}))
    # Those that count as changed unless all of them was seen and is the same.
    likely: frozenset[str] = frozenset()
    # The names that the cell binds or unbinds, those that it uses, whether its text does not tell
    # them all, and whether it may resize arrays.
    rebound: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    opaque: bool = False
    resizes: bool = False
    # The names whose objects its functions change, and whether one changes what it is handed.
    through: frozenset[str] = frozenset()
    by_argument: bool = False
    # The small arrays in which frames have their values, and their bytes.
    contents: tuple[tuple[Callable[[], Any], bytes], ...] = ()
    # The frames with which the cell does nothing that writes into the memory they have.
    columns_only: frozenset[str] = frozenset()

    def is_same(self, name: str, value: Any) -> bool:
        """Whether ``value``, which ``name`` had before and has now, is seen not to have changed."""
        seen = self.seen.get(name)
        if seen is None or not seen.is_whole or issubclass(type(value), type | FunctionType):
            return False
        return not seen.differs_from(value)

    def keep(self, bindings: Mapping[str, Any]) -> Standing:
        """``bindings``, such as those that stood before, for as long as the cell runs."""
        used = bindings.keys() if self.opaque else self.used
        return Standing(bindings, used, self.rebound, resizes=self.resizes)


def before_cell(code: str, namespace: Mapping[str, Any]) -> Looked:
    """Look at what ``code``, which is about to run, could change without saying so.

    Args:
        code: the cell after IPython's transforms.
        namespace: the live namespace; hand over the same object that the cell runs in.
    """
    names = read(code)
    used, theirs = used_through(names.reads | names.called, namespace)
    through, by_argument = changes_through(names.reads | names.called, namespace)
    likely = set(names.reached) | through
    maybe = set(names.touched) | {
        name for name in names.reads if name in namespace and _may_change_when_read(namespace[name])
    }
    if names.opaque:
        maybe |= {name for name in namespace if type(name) is str and not name.startswith("_")}
    # Names whose parts are changed, or may be by what the cell calls by a name of its own.
    reached = names.reached | {root.name for name, root in names.links if name in names.called}
    maybe |= reached
    called = maybe | names.called
    held = held_by([namespace[name] for name in called if name in namespace], reachable_from)
    bound = [value for name in called if _is_bound(value := namespace.get(name))]
    for function in _functions_among(held, [namespace.get(name) for name in called]):
        theirs = True
        used |= used_by(function, namespace)
        globals_, hands = changes_by(function)
        through |= globals_ & namespace.keys()
        by_argument = by_argument or hands
    likely |= through
    inside = _named(held, namespace)
    maybe |= names.called | inside
    if theirs:
        maybe |= used
    if by_argument:
        likely |= names.touched | inside
    unclear = {name for name, path in names.paths if None in path}
    unknown = [
        end
        for name, path in names.paths
        if path and name in namespace and (end := part_at(namespace[name], path)) is namespace[name]
    ]
    maybe |= _named(held_by(unknown, parts_in), namespace)
    roots = [namespace[name] for name in likely | unclear if name in namespace]
    likely |= _named(held_by(roots, parts_in), namespace)
    seen: dict[str, Fingerprint] = {}
    values: dict[str, Any] = {}
    left = MOST_STEPS_OF_A_CELL

    def see(name: str, value: Any, most: int = MOST_STEPS) -> None:
        nonlocal left
        if left > 0:
            seen[name] = fingerprint(value, min(left, most))
            left -= seen[name].taken

    for name in (*sorted(likely), *sorted(maybe - likely - names.mutated)):
        value = namespace.get(name)
        if name not in namespace or is_immutable(value):
            continue
        if left <= 0 and name not in likely:
            break
        values[name] = value
        see(name, value)
    own = _unnamed(bound)
    # What a name is handed to, or a way that no text tells, may change what only parts hold.
    parts = own | held if by_argument or reached or names.defined else own
    named = set(map(id, values.values()))
    for number, (key, value) in enumerate(islice(parts.items(), _MOST_UNNAMED)):
        if left > 0 and key not in named and not is_immutable(value):
            name = f"{number}"  # that no variable has
            values[name] = value
            see(name, value)
            if key in own:
                likely.add(name)
    # What the text of the cell changes, and can be seen whole, may be seen not to have changed.
    for name in sorted(names.mutated - seen.keys())[:_MOST_PLAIN]:
        if name in namespace and not is_immutable(namespace[name]):
            see(name, namespace[name], _MOST_OF_PLAIN)
    columns = frozenset[str]()
    if names.mutated and not (theirs or own or names.opaque or names.reached):
        columns = columns_only(code)
        columns = columns if names.mutated <= columns else frozenset()
    rebound = names.writes | names.deletes
    resizes = _RESIZE in code or (theirs and uses_by_name(_RESIZE, used, namespace))
    return Looked(
        namespace,
        frozenset(used),
        seen,
        Standing(values, values.keys(), rebound, resizes=resizes),
        frozenset(likely & values.keys()),
        rebound,
        frozenset(used | names.reads | names.mutated | names.touched | rebound),
        names.opaque,
        resizes,
        frozenset(through),
        by_argument,
        () if resizes else tuple(contents_of(map(namespace.get, names.mutated | likely))),
        columns,
    )


def _named(held: Mapping[int, Any], namespace: Mapping[str, Any]) -> set[str]:
    """The names bound to one of ``held``, which is by id."""
    if not held:
        return set()
    return {
        name
        for name, value in namespace.items()
        if id(value) in held and type(name) is str and not is_immutable(value)
    }


def _functions_among(held: Mapping[int, Any], values: Iterable[Any]) -> list[Any]:
    """The functions that are held, and the generators, of the notebook."""
    return [
        each
        for each in (*held.values(), *values)
        if (type(each) is FunctionType and not is_immutable(each)) or type(each) is GeneratorType
    ]


def _is_bound(value: Any) -> bool:
    """Whether a value is called on what it holds."""
    kind = type(value)
    if kind is BuiltinFunctionType:
        return not is_immutable(value.__self__)
    return kind is MethodType or kind is functools.partial or kind is FunctionType


def _unnamed(values: Iterable[Any]) -> dict[int, Any]:
    """The objects on which the methods and functions among ``values`` are called."""
    return {id(part): part for value in values for part in reachable_from(value)}


def _may_change_when_read(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, defaultdict) or is_theirs(kind)
