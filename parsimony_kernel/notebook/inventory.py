"""What of a notebook is told to a model at the beginning of a turn, within caps."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.execution.executor import BaseCodeExecutor
from parsimony_kernel.execution.factory import summarise
from parsimony_kernel.execution.interrupt import CodeGuard, DeadlineReached
from parsimony_kernel.notebook.turns import PublishedArtifact

_INVENTORY_S = 2.0
_MAX_ARTIFACTS = 20
_DATA_SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".xlsx", ".xls", ".json", ".jsonl"})
_MAX_FILES = 40
_MAX_ENTRIES = 2_000


def notebook_in_words(
    executor: BaseCodeExecutor,
    folder: Path,
    artifacts: Sequence[PublishedArtifact],
    *,
    earlier_turns: int,
    replaceable: tuple[str, ...],
) -> tuple[str, tuple[str, ...]]:
    """The inventory as a block of the first message, and a line for each part of it for people."""
    variables, more = _variables(executor)
    files = data_files(folder)
    published = [
        {"kind": artifact.kind, "title": artifact.title, "path": artifact.path}
        for artifact in artifacts[-_MAX_ARTIFACTS:]
    ]
    context = notebook_context(
        working_folder=folder.name,
        files=files,
        variables=variables,
        more_variables=more,
        artifacts=published,
        replaceable=replaceable,
    )
    shared = []
    if earlier_turns:
        shared.append(f"{earlier_turns} earlier {_plural('request', earlier_turns)}")
    if variables:
        names = ", ".join(str(variable.get("name")) for variable in variables)
        shared.append(f"variables with samples: {names}")
    if files:
        shared.append(f"names of {len(files)} data {_plural('file', len(files))}")
    if published:
        shared.append(f"titles of {len(published)} {_plural('artifact', len(published))}")
    return context, tuple(shared)


def _variables(executor: BaseCodeExecutor) -> tuple[list[dict[str, Any]], int]:
    """The variables as a model reads them, and how many were left out.

    A summary runs the ``repr`` of the user's own classes, so it has a deadline.
    """
    variables = executor.variables()
    guard = CodeGuard(_INVENTORY_S)
    try:
        with guard:
            return guard.call(summarise, variables)
    except (DeadlineReached, KeyboardInterrupt):
        return [], len(variables)


def data_files(folder: Path) -> tuple[str, ...]:
    """Data files in ``folder`` and one level below, by relative path, at most forty."""
    found: list[str] = []
    seen = 0
    for parent in (folder, *_subfolders(folder)):
        try:
            entries = sorted(os.scandir(parent), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MAX_ENTRIES or len(found) >= _MAX_FILES:
                return tuple(found)
            if Path(entry.name).suffix.lower() in _DATA_SUFFIXES and not entry.name.startswith("."):
                found.append(Path(entry.path).relative_to(folder).as_posix())
    return tuple(found)


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(
            Path(entry.path)
            for entry in os.scandir(folder)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith((".", "_"))
        )
    except OSError:
        return []


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
