"""Where a snapshot comes from: the code that made it, its sources, and what it ran with."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import PackageNotFoundError, version

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.lineage.ledger import VariableOrigin

_LIBRARIES = ("pandas", "pyarrow", "altair", "numpy")


@cache
def environment() -> Mapping[str, str]:
    """The versions of Python and of the libraries whose values are published."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def sources_of(origins: Iterable[VariableOrigin]) -> list[str]:
    """The sources of all ``origins``, sorted."""
    return sorted({source for origin in origins for source in origin.sources})


def split_datasets(sources: Iterable[str]) -> tuple[list[str], list[str]]:
    """The logical ids of the published datasets among ``sources``, and the other sources."""
    datasets, others = set(), []
    marker = f"{ARTIFACT_FOLDER}/datasets/"
    for source in sources:
        _, found, rest = source.replace("\\", "/").partition(marker)
        if found and "/" in rest:
            datasets.add(rest.partition("/")[0])
        else:
            others.append(source)
    return sorted(datasets), others


# One run of one cell: when, in which run, which cell, which code.
_CellRun = tuple[str, str, str, str]


def producing_code(origins: Sequence[VariableOrigin]) -> str:
    """The cells that made a variable as one script, each after what it reads, oldest first.

    A cell that bound several of the variables stands once for each time it ran.
    """
    cells: dict[_CellRun, VariableOrigin] = {}
    cell_of: dict[tuple[str, int], _CellRun] = {}
    for origin in origins:
        ran = (origin.at, origin.run_id, origin.cell_id, origin.code_sha)
        cells.setdefault(ran, origin)
        cell_of[(origin.name, origin.version)] = ran
    before: dict[_CellRun, set[_CellRun]] = {ran: set() for ran in cells}
    for origin in origins:
        ran = cell_of[(origin.name, origin.version)]
        read = {cell_of.get((ref.name, ref.version), ran) for ref in origin.inputs}
        before[ran] |= read - {ran}
    blocks = [f"# %% {cells[ran].actor}\n{cells[ran].code.strip()}\n" for ran in _in_order(before)]
    return "\n".join(blocks)


def _in_order(
    before: dict[_CellRun, set[_CellRun]],
) -> list[_CellRun]:
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError:  # stamps that contradict one another: time decides
        return sorted(before)
    ordered: list[_CellRun] = []
    waiting: list[_CellRun] = []
    while sorter.is_active():
        waiting = sorted([*waiting, *sorter.get_ready()])
        ordered.append(waiting.pop(0))
        sorter.done(ordered[-1])
    return ordered
