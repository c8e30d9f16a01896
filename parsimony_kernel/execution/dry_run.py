"""Code that runs to see what it does, and leaves nothing behind.

Put back afterwards: every binding of the namespace; what lay in the objects that the code could
change, as far as ``lineage.checkpoint`` has copied it; ``os.environ``, ``sys.path``, the warning
filters, and the generators of ``random`` and ``numpy.random``. Not run at all is a cell that
plainly changes an object of which no copy can be made; one that only may have done so is told
about in stderr.

Prevented: that Python writes, removes or renames a file, or starts a process. Writing is left to
it in the folder for temporary files and in caches. Libraries that write natively are recognised by
the names of their functions before the cell runs; what they write otherwise is named afterwards.

Left: imported modules and what else is kept in modules (the options of a library, its
connections), what is sent over the network or to a file that was open before, and what threads do
that are older than the cell.
"""

import os
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from parsimony_kernel.analysis.cell import Call, Names
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.reach import ReachKind
from parsimony_kernel.execution.guard import Keeper, keep
from parsimony_kernel.execution.side_effects import Caller, Target
from parsimony_kernel.execution.statement_guard import (
    QUERIES,
    WRITERS,
    WRITING_QUERY,
    Running,
    process_state,
)

_ABSENT = object()
_MOST_NAMES = 10
_BUFFERS = frozenset({"BytesIO", "StringIO", "BufferOutputStream"})
_MOST_FILES = 1_000


class DryRunError(PermissionError):
    """A dry run writes nothing and starts nothing."""


@contextmanager
def leaving_nothing(run: Running) -> Iterator[None]:
    """Whatever the cell does in the body is taken back; what could not be is told in stderr.

    Raises:
        DryRunError: before the body, when the code would change what cannot be put back.
    """
    code, namespace = run.cell.code, run.executor.namespace
    run.before_statement = lambda part: _refuse_native_writers(
        read(run.cell.text(part)), namespace()
    )
    kept = run.executor.new_checkpoints()
    number = kept.take()
    kept.protect(code)
    # Going back at once changes nothing, and tells of what there is no copy.
    without = set(kept.put_back(number).lost)
    plainly = sorted(without & read(code).mutated)
    if plainly:
        raise DryRunError(
            f"a dry run leaves everything as it is: {_listed(plainly)} would be changed in place, "
            "and cannot be copied first; work on a copy, or run the code for real"
        )
    before, files = dict(namespace()), _files(run.folder)
    keep(run.capture, Keeper(run.judge(run.folder, is_dry=True), _refuse))
    process = process_state()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        process()
        _rebind(namespace(), before)
        lost = kept.put_back(number).lost
        if lost:
            run.capture.stderr.write(
                "This dry run may have changed what could not be copied before it: "
                f"{_listed(lost)}.\n"
            )
        now = _files(run.folder)
        if files is not None and now is not None and files != now:
            written = sorted({path for path, _ in files.items() ^ now.items()})
            run.capture.stderr.write(
                "Files that changed during this dry run, past Python or by somebody else: "
                f"{_listed(written)}.\n"
            )


def _listed(of: Iterable[str]) -> str:
    names = tuple(of)
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _rebind(namespace: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name in namespace.keys() - before.keys():
        del namespace[name]
    for name, value in before.items():
        if namespace.get(name, _ABSENT) is not value:
            namespace[name] = value


def _refuse(event: str, found: Target, by: Caller) -> NoReturn:
    if event == "sqlite3.connect":
        raise DryRunError(
            f"a dry run writes nothing: to read {found[1]!r}, open it as "
            "'file:{path}?mode=ro' with uri=True"
        )
    if found[0] is ReachKind.shell:
        raise DryRunError("a dry run starts no process: run the code for real")
    raise DryRunError(f"a dry run writes nothing: {found[1]!r} stays as it is")


def _refuse_native_writers(statement: Names, namespace: Mapping[str, Any]) -> None:
    for call in statement.calls:
        native = call.last in WRITERS and call.names and not _to_buffer(call, namespace)
        if native or (call.last in QUERIES and WRITING_QUERY.search("".join(call.texts))):
            raise DryRunError(
                f"a dry run writes nothing: {call.last}() writes past Python, where it cannot be "
                "kept from it; leave it out, or run the code for real"
            )


def _to_buffer(call: Call, namespace: Mapping[str, Any]) -> bool:
    held = (type(namespace.get(name)) for name in call.names)
    return not _BUFFERS.isdisjoint(call.names) or any(hasattr(kind, "write") for kind in held)


def _files(folder: Path) -> dict[str, tuple[int, int]] | None:
    """Time and size of what lies below ``folder`` by its path, without hidden files; ``None`` where
    that is too much to look at."""
    found: dict[str, tuple[int, int]] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = (each for each in folders if each not in ("__pycache__", "node_modules"))
        folders[:] = (each for each in folders if not each.startswith("."))
        if len(found) + len(folders) + len(names) > _MOST_FILES:
            return None
        for name in (*folders, *(each for each in names if not each.startswith("."))):
            path = Path(place, name)
            with suppress(OSError):
                facts = path.lstat()
                is_folder = stat.S_ISDIR(facts.st_mode)
                seen = (0, 0) if is_folder else (facts.st_mtime_ns, facts.st_size)
                found[str(path.relative_to(folder))] = seen
    return found
