"""The diff of a change to the variables, as lines for people: per name, and per table its columns.

It is bounded in time and size and runs no user code. The values in a table are not compared.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.checkpoint import ABSENT, Change
from parsimony_kernel.lineage.copies import Copy, kind_of
from parsimony_kernel.lineage.file_backups import FileState
from parsimony_kernel.lineage.snapshot import GONE

_MOST_NAMES = 40
_MOST_CHARS = 60
_MOST_COLUMNS = 10
_SIZED = frozenset({list, tuple, dict, set, frozenset, bytearray})
_name_of = type.__dict__["__name__"].__get__


class Diff(dict[str, tuple[str, ...]]):
    """The lines on each variable and file that differs, by name or path, variables first.

    The first line is about the name, the others about the content. ``+`` means new, ``-`` gone,
    ``~`` changed, ``?`` perhaps changed.
    """

    def lines(self) -> list[str]:
        """Return all lines, or those of the first names if there are very many."""
        if not self:
            return ["Nothing that it did to the variables is left to tell."]
        lines = [line for each in [*self.values()][:_MOST_NAMES] for line in each]
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
            found[name] = (f"? {name}: perhaps changed (there was no copy)",)
        elif one is not other or name in touched:
            found[name] = lines_of(name, (one, other), held, {**held, **images})
    for state in sorted(files, key=lambda each: each.path):
        found[str(state.path)] = (_of_file(state),)
    return found


def _of_file(state: FileState) -> str:
    name, was = state.path.name, f"file, {state.size:,} bytes"
    if not state.then:
        return f"- {name}: {was}"
    size = state.path.stat().st_size if state.path.is_file() else 0
    return f"~ {name}: {was} → file, {size:,} bytes"


def lines_of(
    name: str, values: tuple[Any, Any], before: Mapping[int, Copy], after: Mapping[int, Copy]
) -> tuple[str, ...]:
    """Return the diff lines of one name.

    Args:
        name: the name.
        values: its values before and after, each perhaps ``ABSENT`` or ``GONE``; if both are the
            same object, it was mutated in place.
        before: copies of the objects' content before, by id.
        after: copies of their content after, by id.
    """
    one, other = values
    held, then = _held(one, before), _held(other, after)
    was, now = _words(one, held), _words(other, then)
    if one is ABSENT:
        return (f"+ {name}: {now}",)
    if other is ABSENT:
        return (f"- {name}: {was}",)
    how = ", changed in place" if one is other else ", bound anew" if was == now else ""
    line = f"~ {name}: {now if was == now else f'{was} → {now}'}{how}"
    return (line, *(f"    {each}" for each in _column_lines(held, then)))


def _held(value: Any, copies: Mapping[int, Copy]) -> Any:
    """Return the items that ``value`` held, its manager if it is a frame; ``None`` if unknown."""
    kind, copy = kind_of(value), copies.get(id(value))
    if kind is None or classes.is_atomic(value):
        return None
    try:
        return (kind.look(value) if copy is None else copy.held).items
    except Exception:  # boundary: user object - what it holds may be anything
        return None


def _column_lines(one: Any, other: Any) -> Iterator[str]:
    """Yield the columns that only one of two frames has."""
    was, now = (dict.fromkeys(map(short, _columns(each))) for each in (one, other))
    for what, labels, than in (("added", now, was), ("removed", was, now)) if was and now else ():
        if new := [each for each in labels if each not in than]:
            more = " …" if len(new) > _MOST_COLUMNS else ""
            told = ", ".join(new[:_MOST_COLUMNS])
            yield f"{plural('column', len(new))} {what}: {told}{more}"


def _columns(held: Any) -> Iterable[Any]:
    axes: Sequence[Any] = getattr(held, "axes", ())  # a manager's; a series has one
    return axes[0] if len(axes) == 2 else getattr(held, "columns", ())


# Rendering single values


def _words(value: Any, held: Any) -> str:
    """Render ``value`` as it was when it had the content ``held``."""
    if value is ABSENT or value is GONE:
        return "no longer there"
    if classes.is_frame(type(value)) and held is not None:
        return f"{_name_of(type(value))}, {_by(len(axis) for axis in reversed(held.axes))}"
    return short(held if type(held) is type(value) else value)


def short(value: Any) -> str:
    """Render ``value`` in at most sixty characters, without running user code."""
    try:
        told = _told(value, type(value))
    except Exception:  # boundary: user object - what it answers may be anything
        told = str(_name_of(type(value)))
    return told if len(told) <= _MOST_CHARS else told[: _MOST_CHARS - 1] + "…"


def _told(value: Any, kind: type) -> str:
    name = str(_name_of(kind))
    if kind in (str, bytes):
        return repr(value[: _MOST_CHARS + 1])
    if kind in _SIZED:
        return f"{name} of {len(value):,}"
    if kind in classes.ATOMS and kind is not slice:
        return repr(value)
    if classes.is_frame(kind):
        axes = classes.attributes_of(value)["_mgr"].axes
        return f"{name}, {_by(len(axis) for axis in reversed(axes))}"
    if kind in classes.loaded("numpy", "ndarray"):
        return f"array of {value.dtype.name}, {_by(value.shape) or 'one value'}"
    if issubclass(kind, classes.loaded("numpy", "generic")) and classes.module_of(kind) == "numpy":
        return short(value.item()) if kind is not type(value.item()) else name
    if classes.is_scalar_of_pandas(kind):
        return str(value)
    if classes.package_of(kind) in ("polars", "pyarrow") and hasattr(kind, "shape"):
        return f"{name}, {_by(value.shape)}"
    return f"class {_name_of(value)}" if issubclass(kind, type) else name


def _by(shape: Iterable[int]) -> str:
    return " × ".join(f"{each:,}" for each in shape)
