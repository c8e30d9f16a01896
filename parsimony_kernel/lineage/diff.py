"""The diff of a change to the variables, as lines for people: per name, and per table its cells.

It is bounded in time and size and runs no user code. Values that can't be compared within these
rules aren't, and the lines say so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.buffers import same_memory
from parsimony_kernel.lineage.checkpoint import ABSENT, Change
from parsimony_kernel.lineage.copies import Copy, kind_of, table_of
from parsimony_kernel.lineage.file_backups import FileState
from parsimony_kernel.lineage.snapshot import GONE

# Limits for one pair of tables: row or column labels, and cells with the same labels.
MOST_LABELS = 500_000
MOST_CELLS = 20_000_000
_MOST_NAMES = 40
_MOST_CHARS = 60
_MOST_COLUMNS = 10
_NOT_COMPARED = "Cells are not compared: "
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
            found[name] = (f"? {name}: perhaps changed, for there was no copy",)
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
    try:
        inside = [*_table_lines(_table(held), _table(then))]
    except Exception:  # boundary: user object - what it holds may be anything
        inside = [f"{_NOT_COMPARED}they can't be."]
    return (line, *(f"    {each}" for each in inside))


def _held(value: Any, copies: Mapping[int, Copy]) -> Any:
    """Return the content that ``value`` had, ``None`` if unknown."""
    kind, copy = kind_of(value), copies.get(id(value))
    if kind is None or classes.is_atomic(value):
        return None
    try:
        held = kind.look(value) if copy is None else copy.held
        return table_of(kind, held) if classes.is_frame(type(value)) else held.items
    except Exception:  # boundary: user object - what it holds may be anything
        return None


# Tables


def _table(held: Any) -> Any:
    """Convert a polars frame or a pandas series to a pandas frame; return others as they are."""
    if type(held) in classes.loaded("polars", "DataFrame"):
        return held.to_pandas(use_pyarrow_extension_array=True)
    return held.to_frame() if type(held) in classes.loaded("pandas", "Series") else held


def _table_lines(one: Any, other: Any) -> Iterator[str]:
    """Yield the differences in columns, types and cells of two frames."""
    if not (classes.is_frame(type(one)) and classes.is_frame(type(other))):
        return
    if not all(_is_plain(each.columns) and each.columns.is_unique for each in (one, other)):
        yield f"{_NOT_COMPARED}by these labels of columns they can't be."
        return
    for what, labels in (
        ("added", other.columns.difference(one.columns, sort=False)),
        ("removed", one.columns.difference(other.columns, sort=False)),
    ):
        if len(labels):
            told = ", ".join(map(short, labels[:_MOST_COLUMNS]))
            more = " …" if len(labels) > _MOST_COLUMNS else ""
            yield f"{plural('column', len(labels))} {what}: {told}{more}"
    shared = one.columns.intersection(other.columns, sort=False)
    for label in shared:
        was, now = one[label].dtype, other[label].dtype
        if str(was) != str(now):
            yield f"column {short(label)}: {was} → {now}"
    rows = one.index, other.index
    if not (rows[0].is_(rows[1]) or (all(map(_is_plain, rows)) and rows[0].equals(rows[1]))):
        yield f"{_NOT_COMPARED}the rows are others, or in another order."
    elif len(one) * len(shared) > MOST_CELLS:
        yield f"{_NOT_COMPARED}they are too many."
    else:
        yield from _cell_lines([(label, one[label], other[label]) for label in shared])


def _cell_lines(columns: Iterable[tuple[Any, Any, Any]]) -> Iterator[str]:
    """Yield how many cells differ, given label, old and new column, all with the same rows."""
    found, objects = 0, list[Any]()
    for label, was, now in columns:
        if object in (was.dtype, now.dtype):
            objects.append(label)
        elif not same_memory(was.array, now.array):
            same = (was == now).fillna(value=False) | (was.isna() & now.isna())
            found += int((~same).sum())
    if found:
        yield f"{found:,} {plural('cell', found)} changed"
    if objects:
        yield f"Not compared, for they hold objects: {', '.join(map(short, objects))}."


def _is_plain(index: Any) -> bool:
    """Return whether the labels of ``index`` can be compared quickly and without user code."""
    if hasattr(index, "levels"):
        return all(map(_is_plain, index.levels))
    return len(index) <= MOST_LABELS and (
        index.dtype.kind in "biufcmM" or classes.are_simple(index)
    )


# Rendering single values


def _words(value: Any, held: Any) -> str:
    """Render ``value`` as it was when it had the content ``held``."""
    if value is ABSENT or value is GONE:
        return "no longer there"
    is_alike = type(held) is type(value) or classes.is_frame(type(held))
    return short(held if is_alike else value)


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
