"""The diff of a change to the variables, as lines for people: one per name.

It is bounded in time and size and runs no user code. The values in a table are not compared.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.checkpoint import ABSENT, Change
from parsimony_kernel.lineage.copies import Copy
from parsimony_kernel.lineage.file_backups import FileState
from parsimony_kernel.lineage.snapshot import GONE

_MOST_NAMES = 40
_MOST_CHARS = 60
_SIZED = frozenset({list, tuple, dict, set, frozenset, bytearray})
_name_of = type.__dict__["__name__"].__get__


class Diff(dict[str, str]):
    """The line on each variable and file that differs, by name or path, variables first.

    ``+`` means new, ``-`` gone, ``~`` changed, ``?`` perhaps changed.
    """

    def lines(self) -> list[str]:
        """Return all lines, or those of the first names if there are very many."""
        if not self:
            return ["Nothing that it did to the variables is left to tell."]
        lines = [*self.values()][:_MOST_NAMES]
        more = len(self) - _MOST_NAMES
        return [*lines, f"And {more} more."] if more > 0 else lines


def of_changes(changes: Sequence[Change], files: Sequence[FileState] = ()) -> Diff:
    """Return the combined diff of ``changes``, without private names, and of ``files``.

    Args:
        changes: the changes, oldest first.
        files: the state of the replaced files before.
    """
    before, after = dict[str, Any](), dict[str, Any]()
    held, images = dict[int, Copy](), dict[int, Copy]()
    touched, uncertain = set[str](), set[str]()
    for change in changes:
        then = change.after.look()
        for name, was in change.before.items():
            before.setdefault(name, was.value)
            after[name] = then.get(name, ABSENT)
            if was.held:
                touched.add(name)
            if was.held & change.copies.lost.keys():
                uncertain.add(name)
        held = {**change.copies.by_id, **held}
        images.update(change.images)
    found = Diff()
    for name in sorted(each for each in before if not each.startswith("_")):
        one, other = before[name], after[name]
        if name in uncertain and (one is ABSENT or one is other):
            found[name] = f"? {name}: perhaps changed (there was no copy)"
        elif one is not other or name in touched:
            found[name] = line_of(name, (one, other), held, {**held, **images})
    for state in sorted(files, key=lambda each: each.path):
        found[str(state.path)] = _of_file(state)
    return found


def _of_file(state: FileState) -> str:
    name, was = state.path.name, f"file, {state.size:,} bytes"
    if not state.then:
        return f"- {name}: {was}"
    size = state.path.stat().st_size if state.path.is_file() else 0
    return f"~ {name}: {was} → file, {size:,} bytes"


def line_of(
    name: str, values: tuple[Any, Any], before: Mapping[int, Copy], after: Mapping[int, Copy]
) -> str:
    """Return the diff line of one name.

    Args:
        name: the name.
        values: its values before and after, each perhaps ``ABSENT`` or ``GONE``; if both are the
            same object, it was mutated in place.
        before: copies of the objects' content before, by id.
        after: copies of their content after, by id.
    """
    one, other = values
    was, now = _words(one, before), _words(other, after)
    if one is ABSENT:
        return f"+ {name}: {now}"
    if other is ABSENT:
        return f"- {name}: {was}"
    how = ", changed in place" if one is other else ", bound anew" if was == now else ""
    return f"~ {name}: {now if was == now else f'{was} → {now}'}{how}"


# Rendering single values


def _words(value: Any, copies: Mapping[int, Copy]) -> str:
    """Render ``value`` as it was when ``copies`` were made, of it or of others."""
    if value is ABSENT or value is GONE:
        return "no longer there"
    copy = copies.get(id(value))
    return short(value, None if copy is None else copy.items)


def short(value: Any, held: Any = None) -> str:
    """Render ``value`` in at most sixty characters, without running user code.

    Args:
        held: the items that it held at the time in question, by default those of now.
    """
    name = str(_name_of(type(value)))
    try:
        told = _told(value, value if held is None else held, name)
    except Exception:  # boundary: user object - what it answers may be anything
        told = name
    return told if len(told) <= _MOST_CHARS else told[: _MOST_CHARS - 1] + "…"


def _told(value: Any, held: Any, name: str) -> str:
    kind = type(value)
    if kind in (str, bytes):
        return repr(value[: _MOST_CHARS + 1])
    if kind in _SIZED:
        return f"{name} of {len(held):,}"
    if kind in classes.ATOMS and kind is not slice:
        return repr(value)
    if classes.is_frame(kind):
        manager = classes.attributes_of(value)["_mgr"] if held is value else held
        return f"{name}, {_by(len(axis) for axis in reversed(manager.axes))}"
    if kind in classes.loaded("numpy", "ndarray"):
        return f"array of {held.dtype.name}, {_by(held.shape) or 'one value'}"
    of_numpy = classes.loaded("numpy", "number", "bool_", "character", "datetime64")
    is_of_numpy = issubclass(kind, of_numpy) and classes.module_of(kind) == "numpy"
    if is_of_numpy or classes.is_scalar_of_pandas(kind):
        return str(value)
    if classes.package_of(kind) in ("polars", "pyarrow") and hasattr(kind, "shape"):
        return f"{name}, {_by(held.shape)}"
    return f"class {_name_of(value)}" if issubclass(kind, type) else name


def _by(shape: Iterable[int]) -> str:
    return " × ".join(f"{each:,}" for each in shape)
