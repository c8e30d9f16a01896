"""What one cell did to the namespace: names bound, unbound, and changed in place.

Bindings are compared by identity. What changed in place is told by the text of the cell where
that is plain, and by fingerprints where a call may have done it. Nothing here imports anything
heavy, and no code of a person's runs.
"""

import functools
import gc
import re
import sys
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from itertools import islice
from pathlib import Path
from sys import getrefcount
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any

from parsimony_kernel.lineage.analysis import CellNames, Steps, analyse
from parsimony_kernel.lineage.file_access import sources_in
from parsimony_kernel.lineage.fingerprint import (
    MOST_STEPS,
    MOST_STEPS_OF_A_CELL,
    Fingerprint,
    fingerprint,
)
from parsimony_kernel.lineage.reach import (
    changes_by,
    changes_through,
    columns_only,
    used_by,
    used_through,
    uses_by_name,
)
from parsimony_kernel.lineage.snapshot import Standing, difference, is_theirs, module_of

# Values that no code can change in place.
_IMMUTABLE = (
    bool, int, float, complex, str, bytes, frozenset, type(None), range, slice, date, time,
    timedelta, tzinfo, Decimal, ModuleType, BuiltinFunctionType, MethodType,
)  # fmt: skip
_FRAMES = ("pandas.", "polars.")
# By identity: a class may have a hash of its own.
_SIMPLE = frozenset(map(id, (int, float, str, bool, type(None), bytes, complex)))
# What looking into containers may take for one cell.
_MOST_LOOKED_INTO = 300
_MOST_OF_ONE = 1_000
_FIRST = slice(None, _MOST_OF_ONE)
_DEEPEST = 3
_MOST_BLOCKS = 64
_MOST_UNNAMED = 64
_MOST_PLAIN = 8
_MOST_OF_PLAIN = 100
_MOST_COMPARED = 32 * 2**10
_HAS_GC = 1 << 14
_VIEWS: tuple[type, ...] = (MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))
# What these packages make holds no variable, or leads to everything that there is.
_HOLD_NOTHING = (
    "numpy.", "pandas._libs.", "pandas.core.indexes.", "pandas.core.arrays.",
    "pandas.core.dtypes.", "pyarrow.", "polars.", "re", "pathlib", "parsimony_", "IPython.",
    "ipykernel.", "asyncio.", "_asyncio", "threading", "_thread", "concurrent.", "weakref",
)  # fmt: skip
_LAST_OUTPUTS = ("_", "__", "___")
_RESIZE = "resize"
_MAJOR = re.compile(r"[0-2]\.")


@dataclass(frozen=True)
class CellEffect:
    """What a cell did: names bound anew or changed in place, names gone, sources it names.

    Args:
        reads: the variables that it used, with what its functions used of the notebook.
        asked: other names that it used: imports, builtins, and what there was not.
        in_place: those of ``changed`` that still have the object they had.
        bound: the names that it bound, though perhaps to what they were bound to before.
        modules: the names that it imported, each with what it is bound to.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    modules: tuple[tuple[str, str], ...] = ()


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
    # What the text of the cell changes and could be seen whole.
    plain: Mapping[str, Fingerprint] = field(default_factory=dict)
    # The small arrays in which frames have their values, and their bytes.
    contents: tuple[tuple[Callable[[], Any], bytes], ...] = ()
    # The frames with which the cell does nothing that writes into the memory they have.
    columns_only: frozenset[str] = frozenset()

    def is_same(self, name: str, value: Any) -> bool:
        """Whether ``value``, which ``name`` had before and has now, is seen not to have changed."""
        seen = self.plain.get(name) or self.seen.get(name)
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
    names = analyse(code)
    used, theirs = used_through(names.reads | names.calls, namespace)
    through, by_argument = changes_through(names.reads | names.calls, namespace)
    likely = set(names.reached) | through
    maybe = set(names.touched) | {
        name for name in names.reads if name in namespace and _may_change_when_read(namespace[name])
    }
    if names.opaque:
        maybe |= {name for name in namespace if type(name) is str and not name.startswith("_")}
    called = maybe | names.calls
    held = _held([namespace[name] for name in called if name in namespace], _reach)
    bound = [value for name in called if _is_bound(value := namespace.get(name))]
    for function in _functions_among(held, [namespace.get(name) for name in called]):
        theirs = True
        used |= used_by(function, namespace)
        globals_, hands = changes_by(function)
        through |= globals_ & namespace.keys()
        by_argument = by_argument or hands
    likely |= through
    inside = _named(held, namespace)
    maybe |= names.calls | inside
    if theirs:
        maybe |= used
    if by_argument:
        likely |= names.touched | inside
    unclear = {name for name, path in names.paths if None in path}
    unknown = [
        end
        for name, path in names.paths
        if path and name in namespace and (end := _part(namespace[name], path)) is namespace[name]
    ]
    maybe |= _named(_held(unknown, _parts), namespace)
    roots = [namespace[name] for name in likely | unclear if name in namespace]
    likely |= _named(_held(roots, _parts), namespace)
    seen: dict[str, Fingerprint] = {}
    values: dict[str, Any] = {}
    left = MOST_STEPS_OF_A_CELL
    for name in (*sorted(likely), *sorted(maybe - likely - names.mutated)):
        value = namespace.get(name)
        if name not in namespace or _is_immutable(value):
            continue
        if left <= 0 and name not in likely:
            break
        values[name] = value
        if left > 0:
            seen[name] = fingerprint(value, min(left, MOST_STEPS))
            left -= seen[name].taken
    own = _unnamed(bound)
    parts = own | held if by_argument else own
    named = set(map(id, values.values()))
    for number, (key, value) in enumerate(islice(parts.items(), _MOST_UNNAMED)):
        if left > 0 and key not in named and not _is_immutable(value):
            name = f"{number}"  # that no variable has
            values[name] = value
            seen[name] = fingerprint(value, min(left, MOST_STEPS))
            left -= seen[name].taken
            if key in own:
                likely.add(name)
    plain = {
        name: fingerprint(value, min(left, _MOST_OF_PLAIN))
        for name in sorted(names.mutated - seen.keys())[:_MOST_PLAIN]
        if left > 0 and name in namespace and not _is_immutable(value := namespace[name])
    }
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
        {name: each for name, each in plain.items() if each.is_whole},
        () if resizes else tuple(_contents(map(namespace.get, names.mutated | likely))),
        columns,
    )


def observe_cell(
    before: Mapping[str, Any] | Standing,
    after: Mapping[str, Any],
    code: str,
    cwd: Path,
    *,
    looked: Looked | None = None,
    opened: Iterable[str] = (),
    shown: tuple[Any, ...] = (),
) -> tuple[CellEffect, CellNames]:
    """What the cell ``code`` did between two snapshots of the visible names.

    A name counts as changed in place when the code plainly changes its object, or when the
    object looks otherwise than in ``looked``; so do all other names of the same object, of the
    same memory, and of what holds it.

    Args:
        before: the visible names before the cell ran, or what ``Looked.keep`` made of them.
        looked: what ``before_cell`` gave; without it only the text is asked.
        shown: what the caller, and nobody else that is unknown here, holds beside this tuple: the
            value that the cell shows.
        opened: absolute paths of the files that were opened for reading meanwhile.
    """
    names = analyse(code)
    looked = looked or Looked()
    if isinstance(before, Standing):
        before = before.now(after)
    values = looked.values.now(after)
    found = difference(before, after)
    touched, in_place = _touched(names, before, after, looked)
    newly = {name for name in names.calls & after.keys() if name in found.changed}
    also, by_argument = changes_through(newly, after)
    handed = names.touched if by_argument else frozenset()
    touched |= _differing(looked, values, names, looked.likely | also | handed)
    through = looked.through | (names.touched if looked.by_argument else frozenset())
    for name in (names.writes & after.keys()) & (through | also):
        if not _is_immutable(after[name]):
            touched[id(after[name])] = after[name]
    in_place |= _names_of(touched, after, (before, values), looked, shown)
    reads = names.reads | names.mutated | names.reached | looked.reads | in_place
    modules = tuple(
        (name, home)
        for name, home in names.modules
        if name in names.imports
        and name not in after
        and (not looked.namespace or name in looked.namespace)
    )
    return (
        CellEffect(
            changed=tuple(sorted({*found.changed, *in_place})),
            deleted=found.deleted,
            sources=tuple(
                dict.fromkeys((*sources_in(names.literals, cwd), *sources_in(opened, cwd)))
            ),
            reads=tuple(sorted(reads & before.keys())),
            asked=tuple(sorted(reads - before.keys())),
            in_place=tuple(sorted(in_place - set(found.changed))),
            bound=tuple(sorted(names.writes & after.keys())),
            modules=modules,
        ),
        names,
    )


def _differing(
    looked: Looked, values: Mapping[str, Any], names: CellNames, likely: Set[str]
) -> dict[int, Any]:
    """The objects that look otherwise than before, and the ``likely`` that were not seen whole."""
    found: dict[int, Any] = {}
    for name, value in values.items():
        if _is_immutable(value):  # gone
            continue
        seen = looked.seen.get(name)
        counts = name in likely and not (_is_frame(value) and name in names.reached)
        if seen is None or seen.differs_from(value) or (counts and not seen.is_whole):
            found[id(value)] = value
    return found


def stopped_line(error: BaseException | None, namespace: Mapping[str, Any]) -> int:
    """The line of the cell at which ``error`` was raised, as code that ran in ``namespace``; 0
    when its traceback does not tell."""
    place: TracebackType | None = error.__traceback__ if error is not None else None
    while place is not None:
        frame = place.tb_frame
        if frame.f_code.co_name == "<module>" and frame.f_globals is namespace:
            return place.tb_lineno
        place = place.tb_next
    return 0


def _touched(
    names: CellNames, before: Mapping[str, Any], after: Mapping[str, Any], looked: Looked
) -> tuple[dict[int, Any], set[str]]:
    """The objects that the text plainly changes, by id, and the names that lead to them.

    Those that are seen to be the same are not among them. What is bound and is nobody's variable,
    such as the last output, is asked of the namespace.
    """
    others = looked.namespace
    same = {
        name
        for name in {name for name, _ in names.paths}
        if name in before and after.get(name) is before[name] and looked.is_same(name, after[name])
    }
    touched: dict[int, Any] = {}
    roots = set[str]()
    for name, path in names.paths:
        if name in same:
            continue
        stages = [after] if name not in names.stale else [after, before]
        for bindings in stages:
            held = bindings.get(name, others.get(name))
            if _is_immutable(held) or (not path and issubclass(type(held), tuple)):
                continue
            if name in after and not _is_immutable(after[name]):
                roots.add(name)
            value = _part(held, path)
            if not _is_immutable(value):
                touched[id(value)] = value
    return touched, roots


def _part(value: Any, path: Steps) -> Any:
    """What ``path`` leads to from ``value``; as far as that can be told, without running code."""
    for step in path:
        kind = type(value)
        if step is None or _is_frame(value):
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


def _named(held: Mapping[int, Any], namespace: Mapping[str, Any]) -> set[str]:
    """The names bound to one of ``held``, which is by id."""
    if not held:
        return set()
    return {
        name
        for name, value in namespace.items()
        if id(value) in held and type(name) is str and not _is_immutable(value)
    }


def _names_of(
    touched: Mapping[int, Any],
    after: Mapping[str, Any],
    earlier: tuple[Mapping[str, Any], ...],
    looked: Looked,
    shown: tuple[Any, ...],
) -> set[str]:
    """The names of these objects, of their memory, and of what holds them."""
    if not touched:
        return set()
    found = {name for name, value in after.items() if id(value) in touched}
    if _are_only_bound(touched, found, (after, *earlier), looked.namespace, shown):
        return found
    kinds = list(map(id, map(type, after.values())))
    distinct = dict(zip(kinds, map(type, after.values()), strict=True))
    columns = {id(after[name]) for name in looked.columns_only & found}
    columns -= {id(after[name]) for name in found - looked.columns_only}
    memory = {
        root
        for key, value in touched.items()
        if not (key in columns and _writes_nothing(value))
        for root in _memory(value)
    }
    memory -= {id(array) for get, content in looked.contents if _is_still(array := get(), content)}
    if memory:
        owning = {key: look for key, kind in distinct.items() if (look := _memory_of(kind))}
        found |= {
            name
            for (name, value), kind in zip(after.items(), kinds, strict=True)
            if kind in owning
            and not memory.isdisjoint(owning[kind](value))
            and _shares(value, touched)
        }
    holding = {key: _parts_of(kind) for key, kind in distinct.items() if _can_hold(kind)}
    holders = [
        (name, parts)
        for (name, value), kind in zip(after.items(), kinds, strict=True)
        if kind in holding
        and (parts := holding[kind](value))
        and not _SIMPLE.issuperset(map(id, map(type, parts)))
        and name not in found
    ]
    changed = touched.keys() | memory | {id(after[name]) for name in found}
    leading = _leading_to(changed, [parts for _, parts in holders])
    return found | {name for name, parts in holders if not leading.isdisjoint(map(id, parts))}


def _are_only_bound(
    touched: Mapping[int, Any],
    names: Collection[str],
    snapshots: Iterable[Mapping[str, Any]],
    namespace: Mapping[str, Any],
    held: tuple[Any, ...],
) -> bool:
    """Whether nothing holds these objects, or their memory, but their names and IPython's outputs.

    Told by the number of references, without a look at what else there is.
    """
    bindings = {id(each): each for each in (namespace, *snapshots) if type(each) is dict}
    outputs = namespace.get("_oh")
    if type(outputs) is not dict:
        outputs = {}
    for key in touched:
        shown = [f"_{number}" for number, each in outputs.items() if id(each) == key]
        known = len(shown) + sum(
            id(each.get(name)) == key
            for each in bindings.values()
            for name in (*names, *shown, *_LAST_OUTPUTS)
        )
        known += 2 * sum(id(each) == key for each in held)
        # One reference is that of ``touched``, one that of the call.
        if getrefcount(touched[key]) - 2 > known or _may_share(touched[key]):
            return False
    return True


def _may_share(value: Any) -> bool:
    """Whether something else may have the memory of an object that nothing else holds."""
    look = _memory_of(type(value))
    if look is None:
        return False
    if not issubclass(type(value), _frames_of(sys.modules.get("pandas"))):
        return tuple(look(value)) != (id(value),)
    blocks = value._mgr.blocks
    return len(blocks) > _MOST_BLOCKS or not all(map(_is_own, blocks))


def _is_own(block: Any) -> bool:
    """Whether the array of a frame's block, if it is one, is nobody else's."""
    box = [block.values]
    array = sys.modules["numpy"].ndarray
    if type(box[0]) is not array:
        return True
    while box[0] is not None:
        # One reference is that of the box, one that of the call, one the block's or the view's.
        if type(box[0]) is not array or getrefcount(box[0]) > 3:
            return False
        box[0] = box[0].base
    return True


def _leading_to(changed: Set[int], groups: Sequence[Sequence[Any]]) -> set[int]:
    """``changed`` and the ids of what holds one of them, a few levels down in ``groups``.

    Of each group as many are looked into as of the others.
    """
    leading = set(changed)
    if not groups:
        return leading
    share = slice(None, max(_MOST_LOOKED_INTO // len(groups), 1))
    level = [part for parts in groups for part in parts[share]]
    looked_into: list[list[tuple[int, Sequence[Any]]]] = []
    room = _MOST_LOOKED_INTO
    for _ in range(_DEEPEST):
        inside = {id(part): part for part in level if id(type(part)) not in _SIMPLE}
        held = [
            (key, parts)
            for key, part in islice(inside.items(), room)
            if not _are_simple(parts := _parts(part))
        ]
        room -= len(inside)
        looked_into.append(held)
        if not held or room <= 0:
            break
        level = [part for _, parts in held for part in parts]
    for held in reversed(looked_into):
        leading |= {key for key, parts in held if not leading.isdisjoint(map(id, parts))}
    return leading


def _functions_among(held: Mapping[int, Any], values: Iterable[Any]) -> list[Any]:
    """The functions that are held, and the generators, of the notebook."""
    return [
        each
        for each in (*held.values(), *values)
        if (type(each) is FunctionType and not _is_immutable(each)) or type(each) is GeneratorType
    ]


def _held(
    values: Iterable[Any], parts_of: Callable[[Any], Sequence[Any]], room: int = _MOST_LOOKED_INTO
) -> dict[int, Any]:
    """What containers and objects of the notebook hold, a few levels down, by id."""
    found: dict[int, Any] = {}
    level: Sequence[Any] = list(values)
    for _ in range(_DEEPEST):
        deeper: list[Any] = []
        for each in level:
            parts = parts_of(each)
            room -= 1 + len(parts) // 16
            if parts and not _are_simple(parts):
                deeper += [
                    part
                    for part in parts
                    if id(type(part)) not in _SIMPLE and id(part) not in found
                ]
            if room <= 0:
                break
        found.update(zip(map(id, deeper), deeper, strict=True))
        level = deeper
        if not level or room <= 0:
            break
    return found


def _is_bound(value: Any) -> bool:
    """Whether a value is called on what it holds."""
    kind = type(value)
    if kind is BuiltinFunctionType:
        return not _is_immutable(value.__self__)
    return kind is MethodType or kind is functools.partial or kind is FunctionType


def _unnamed(values: Iterable[Any]) -> dict[int, Any]:
    """The objects on which the methods and functions among ``values`` are called."""
    return {id(part): part for value in values for part in _reach(value)}


def _are_simple(parts: Sequence[Any]) -> bool:
    return _SIMPLE.issuperset(map(id, map(type, parts)))


def _reach(value: Any) -> Sequence[Any]:
    """What code can come to from a value: its parts, or what is bound to a callable."""
    kind = type(value)
    if kind is FunctionType:
        held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        for cell in value.__closure__ or ():
            try:
                held.append(cell.cell_contents)
            except ValueError:  # not bound yet
                continue
        return held
    if kind is BuiltinFunctionType or kind is MethodType:
        return (value.__self__,)
    if kind is functools.partial or kind is GeneratorType:
        return gc.get_referents(value)
    return _parts(value)


def _can_hold(kind: type) -> bool:
    return _parts_of(kind) is not _of_nothing


def _parts(value: Any) -> Sequence[Any]:
    """What a container or another object holds; the first of many."""
    return _parts_of(type(value))(value)


def _parts_of(kind: type) -> Callable[[Any], Sequence[Any]]:
    """How what a value of ``kind`` holds is told."""
    if id(kind) in _SIMPLE:
        return _of_nothing
    for base, look in _BY_KIND:
        if issubclass(kind, base):
            return look
    if is_theirs(kind):
        return _of_object
    module = module_of(kind)
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and issubclass(kind, getattr(numpy, "ndarray", ())):
        return _of_array
    if pandas is not None and issubclass(kind, _frames_of(pandas)):
        return _of_frame
    if module == "builtins" or module.startswith(_HOLD_NOTHING) or not _has_referents(kind):
        return _of_nothing
    return _of_object


def _has_referents(kind: type) -> bool:
    return bool(type.__dict__["__flags__"].__get__(kind) & _HAS_GC)


def _of_set(value: Any) -> Sequence[Any]:
    return tuple(
        islice((set if issubclass(type(value), set) else frozenset).__iter__(value), _MOST_OF_ONE)
    )


def _of_deque(value: Any) -> Sequence[Any]:
    return tuple(islice(deque.__iter__(value), _MOST_OF_ONE))


def _of_memory(value: Any) -> Sequence[Any]:
    try:
        return (value.obj,)
    except ValueError:  # released
        return ()


def _of_class(value: Any) -> Sequence[Any]:
    if not is_theirs(value):
        return ()
    return tuple(islice(type.__dict__["__dict__"].__get__(value).values(), _MOST_OF_ONE))


def _of_array(value: Any) -> Sequence[Any]:
    numpy = sys.modules["numpy"]
    if not numpy.ndarray.dtype.__get__(value).hasobject:
        return ()
    return tuple(islice(numpy.ndarray.view(value, numpy.ndarray).flat, _MOST_OF_ONE))


def _of_frame(value: Any) -> Sequence[Any]:
    array = sys.modules["numpy"].ndarray
    found: list[Any] = []
    for block in value._mgr.blocks[:_MOST_BLOCKS]:
        if type(held := block.values) is array and held.dtype.hasobject:
            found += _of_array(held)
    return found


def _of_list(value: Any) -> Sequence[Any]:
    return list.__getitem__(value, _FIRST)


def _of_dict(value: Any) -> Sequence[Any]:
    return tuple(islice(dict.values(value), _MOST_OF_ONE))


def _of_tuple(value: Any) -> Sequence[Any]:
    return tuple.__getitem__(value, _FIRST)


def _of_nothing(value: Any) -> Sequence[Any]:
    return ()


def _of_object(value: Any) -> Sequence[Any]:
    """What an object refers to, but its class, and modules and functions, which lead anywhere."""
    return [
        each
        for each in gc.get_referents(value)[:_MOST_OF_ONE]
        if not issubclass(type(each), type | ModuleType)
    ]


_BY_KIND: tuple[tuple[Any, Callable[[Any], Sequence[Any]]], ...] = (
    (list, _of_list),
    (dict, _of_dict),
    (tuple, _of_tuple),
    (set | frozenset, _of_set),
    (deque, _of_deque),
    (memoryview, _of_memory),
    (type, _of_class),
    (_IMMUTABLE, _of_nothing),
    ((FunctionType, GeneratorType, CoroutineType, FrameType, CodeType), _of_nothing),
    (_VIEWS, _of_object),
)


def _memory(value: Any) -> Sequence[int]:
    """The ids of what owns the memory of an array or a frame."""
    look = _memory_of(type(value))
    return look(value) if look is not None else ()


def _memory_of(kind: type) -> Callable[[Any], Sequence[int]] | None:
    """How the memory of a value of ``kind`` is told, ``None`` where it has none of its own."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    array = getattr(numpy, "ndarray", None)
    if array is None:
        return None
    if issubclass(kind, array):
        return lambda value: (_owner(value, array),)
    if kind is memoryview:
        return lambda value: (_owner(value.obj, array),)
    if pandas is not None and issubclass(kind, _frames_of(pandas)):
        return lambda value: _of_blocks(value, array)
    return None


def _contents(values: Iterable[Any]) -> Iterator[tuple[Callable[[], Any], bytes]]:
    """The small arrays that have the memory of the frames among ``values``, and their bytes."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    frames = _frames_of(pandas) if pandas is not None else ()
    for value in values:
        if numpy is None or not issubclass(type(value), frames):
            continue
        for block in value._mgr.blocks[:_MOST_BLOCKS]:
            array = block.values
            while type(array) is numpy.ndarray and type(array.base) is numpy.ndarray:
                array = array.base
            if (
                type(array) is numpy.ndarray
                and array.base is None
                and not array.dtype.hasobject
                and array.nbytes <= _MOST_COMPARED
            ):
                yield weakref.ref(array), array.tobytes()


def _is_still(array: Any, content: bytes) -> bool:
    return array is not None and array.tobytes() == content


def _writes_nothing(value: Any) -> bool:
    """Whether a column that is set is no write into memory: of a frame of pandas 3 or later."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) is not getattr(pandas, "DataFrame", None):
        return False
    return _MAJOR.match(pandas.__version__) is None


def _of_blocks(value: Any, array: type) -> list[int]:
    return [
        _owner(held, array)
        for block in value._mgr.blocks[:_MOST_BLOCKS]
        if type(held := block.values) is array
    ]


def _frames_of(pandas: Any) -> tuple[type, ...]:
    return (pandas.DataFrame, pandas.Series) if hasattr(pandas, "Series") else ()


def _owner(value: Any, array: type) -> int:
    while issubclass(type(value), array) and (base := value.base) is not None:
        value = base
    return id(value.obj if type(value) is memoryview else value)


def _shares(value: Any, touched: Mapping[int, Any]) -> bool:
    """Whether two arrays of one owner overlap; what is no array does, as far as can be told."""
    numpy = sys.modules["numpy"]
    if not issubclass(type(value), numpy.ndarray):
        return True
    return any(
        not issubclass(type(each), numpy.ndarray) or numpy.may_share_memory(each, value)
        for each in touched.values()
        if not set(_memory(each)).isdisjoint(_memory(value))
    )


def _is_immutable(value: Any) -> bool:
    kind = type(value)
    if id(kind) in _SIMPLE or issubclass(kind, _IMMUTABLE):
        return True
    if issubclass(kind, FunctionType):
        return type(value.__module__) is str and value.__module__ != "__main__"
    return issubclass(kind, type) and not is_theirs(value)


def _is_frame(value: Any) -> bool:
    return module_of(type(value)).startswith(_FRAMES)


def _may_change_when_read(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, defaultdict) or is_theirs(kind)
