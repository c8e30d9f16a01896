"""What of a notebook is told to a model at the beginning of a turn, within caps."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.factory import SNAPSHOT_BYTES, OutputFactory, summarise
from parsimony_kernel.execution.interrupt import CodeGuard, DeadlineReached
from parsimony_kernel.session.share import (
    KEPT_BY_CHOICE,
    KEPT_OF_THE_NOTEBOOK,
    Share,
    first_rows,
    shape_of,
)
from parsimony_kernel.session.turns import PublishedArtifact

_INVENTORY_S = 2.0
_MAX_ARTIFACTS = 20
_DATA_SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".xlsx", ".xls", ".json", ".jsonl"})
_MAX_FILES = 40
_MAX_ENTRIES = 2_000

_TOLD = {
    Share.full: "variables with samples and first rows",
    Share.samples: "variables with samples",
    Share.schema: "variables without values",
}


def notebook_in_words(
    executor: BaseCodeExecutor,
    folder: Path,
    artifacts: Sequence[PublishedArtifact],
    *,
    earlier_turns: int,
    replaceable: tuple[str, ...],
    share: Share = Share.samples,
    chosen: tuple[str, ...] | None = None,
) -> tuple[str, tuple[str, ...]]:
    """The inventory as a block of the first message, and a line for each part of it for people.

    ``chosen`` are the variables, data files and titles of artifacts that are told of; ``None`` is
    all of them.
    """
    if share is Share.none:
        kept = KEPT_OF_THE_NOTEBOOK[share]
        return notebook_context(working_folder="", files=(), variables=(), kept_back=kept), ()
    variables, more = _variables(executor, share, chosen)
    files = data_files(folder)
    published = [
        {"kind": artifact.kind, "title": artifact.title, "path": artifact.path}
        for artifact in artifacts[-_MAX_ARTIFACTS:]
    ]
    kept = KEPT_OF_THE_NOTEBOOK[share]
    if chosen is not None:
        files = tuple(file for file in files if file in chosen or Path(file).name in chosen)
        published = [each for each in published if each["title"] in chosen]
        replaceable = tuple(name for name in replaceable if name in chosen)
        kept = " ".join(filter(None, (kept, KEPT_BY_CHOICE)))
    context = notebook_context(
        working_folder=folder.name if chosen != () else "",
        files=files,
        variables=variables,
        more_variables=more,
        artifacts=published,
        replaceable=replaceable,
        kept_back=kept,
    )
    shared = []
    if earlier_turns:
        shared.append(f"{earlier_turns} earlier {_plural('request', earlier_turns)}")
    if variables:
        names = ", ".join(str(variable.get("name")) for variable in variables)
        shared.append(f"{_TOLD[share]}: {names}")
    if files:
        names, data = _plural("name", len(files)), _plural("file", len(files))
        shared.append(f"{names} of {len(files)} data {data}")
    if published:
        titles, things = (_plural(each, len(published)) for each in ("title", "artifact"))
        shared.append(f"{titles} of {len(published)} {things}")
    return context, tuple(shared)


def _variables(
    executor: BaseCodeExecutor, share: Share, chosen: tuple[str, ...] | None
) -> tuple[list[dict[str, Any]], int]:
    """The variables as a model reads them, and how many were left out for want of room.

    A summary runs the ``repr`` of the user's own classes, so it has a deadline.
    """
    bound = executor.variables()
    variables = {name: bound[name] for name in bound if chosen is None or name in chosen}
    guard = CodeGuard(_INVENTORY_S)
    try:
        with guard:
            return guard.call(_summaries, variables, share)
    except (DeadlineReached, KeyboardInterrupt):
        return [], len(variables)


def _summaries(variables: Mapping[str, Any], share: Share) -> tuple[list[dict[str, Any]], int]:
    summaries, more = summarise(variables)
    if share is Share.schema:
        return [shape_of(each) for each in summaries], more
    if share is Share.full:
        _add_rows(summaries, variables)
    return summaries, more


def _add_rows(summaries: Sequence[dict[str, Any]], variables: Mapping[str, Any]) -> None:
    """Add the first rows of the tables, as long as there is room for as much again."""
    room = SNAPSHOT_BYTES
    factory = OutputFactory()
    for summary in summaries:
        if summary.get("type") != "dataframe":
            continue
        table = factory.convert(variables[summary["name"]], summary["name"])
        rows = first_rows(table) if isinstance(table, DataFrameObject) else []
        room -= len(json.dumps(rows, ensure_ascii=False).encode())
        if room < 0:
            return
        if rows:
            summary["first_rows"] = rows


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
