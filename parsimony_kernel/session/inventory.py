"""Context of a turn's first message: the notebook's inventory and the instruction files, capped.

Instruction files (AGENTS.md, PARSIMONY.md) count as the person's words and are only text: they
don't change approval, share mode, budgets or tools.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain, islice
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.artifacts.provenance import environment
from parsimony_kernel.artifacts.store import LogEntry
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.core.text import plural
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.factory import SNAPSHOT_BYTES, OutputFactory, rank, summarise
from parsimony_kernel.execution.inspection import is_exactly
from parsimony_kernel.execution.interrupt import CodeGuard, DeadlineReached
from parsimony_kernel.session.share import KEPT_OF_THE_NOTEBOOK, Share, shape_of

_INVENTORY_S = 2.0
_MAX_ARTIFACTS = 20
_DATA_SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".xlsx", ".xls", ".json", ".jsonl"})
_MAX_FILES = 40
_MAX_ENTRIES = 2_000
# Reserved for first rows of the tables named in the request.
_ROWS_BYTES = 2 * 1024
_FIRST_ROWS = 5
_SCALARS = (str, int, float, bool, type(None))
_TOLD = {
    Share.full: "variables with samples and first rows",
    Share.samples: "variables with samples",
    Share.schema: "variables without values",
}


def notebook_in_words(
    executor: BaseCodeExecutor,
    folder: Path,
    artifacts: Sequence[LogEntry],
    *,
    request: str = "",
    earlier_turns: int,
    replaceable: tuple[str, ...],
    share: Share = Share.samples,
    today: date | None = None,
    answers: Mapping[str, str] | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Render the inventory: a block for the first message, and one line per part for people.

    Args:
        executor: Holds the variables.
        folder: The notebook's folder, listed for data files.
        artifacts: Published artifacts, oldest first; the newest are listed.
        request: Variables named in it come first, then by kind and age.
        earlier_turns: How many earlier requests the model sees.
        replaceable: Names that the turn may rebind.
        share: The share mode; with ``none`` the block only says that it is withheld.
        today: Adds the date and the versions of libraries.
        answers: The person's answers that still hold in this kernel, by question.
    """
    if share is Share.none:
        return notebook_context(kept_back=KEPT_OF_THE_NOTEBOOK[share]), ()
    variables, more = _variables(executor, share, request)
    files = data_files(folder)
    published = [
        {"kind": artifact.kind, "title": artifact.title, "path": artifact.path}
        for artifact in artifacts[-_MAX_ARTIFACTS:]
    ]
    versions = ", ".join(map(" ".join, environment(("pandas", "altair")).items()))
    context = notebook_context(
        working_folder=folder.name,
        files=files,
        variables=variables,
        more_variables=more,
        artifacts=published,
        replaceable=replaceable,
        kept_back=KEPT_OF_THE_NOTEBOOK[share],
        answers=answers,
        around={} if today is None else {"today": f"{today:%Y-%m-%d, %a}", "versions": versions},
    )
    names = ", ".join(str(variable["name"]) for variable in variables)
    parts = (
        (earlier_turns, f"{earlier_turns} earlier {plural('request', earlier_turns)}"),
        (variables, f"{_TOLD[share]}: {names}"),
        (files, f"{_counted('name', files)} data {plural('file', len(files))}"),
        (published, f"{_counted('title', published)} {plural('artifact', len(published))}"),
    )
    return context, tuple(line for part, line in parts if part)


def _counted(noun: str, of: Sequence[Any]) -> str:
    return f"{plural(noun, len(of))} of {len(of)}"


def _variables(
    executor: BaseCodeExecutor, share: Share, request: str
) -> tuple[list[dict[str, Any]], int]:
    """Summarize the variables for the model, and count those that didn't fit."""
    bound, ledger = executor.variables(), executor.origin_ledger
    words = frozenset(re.findall(r"\w+", request.casefold()))

    def place(name: str) -> tuple[bool, int, bool, int]:
        """Sort key: named in the request, kind, tables made from no other variable, newest first.

        Scalars with names of one or two letters, as loops leave behind, come last in kind.
        """
        value, origin = bound[name], ledger.get(name)
        is_leftover = len(name) <= 2 and is_exactly(value, *_SCALARS)
        kind, age = 4 if is_leftover else rank(value), 0 if origin is None else origin.cell_run
        is_derived = origin is not None and bool(origin.inputs)
        return name.casefold() not in words, kind, kind == 0 and is_derived, -age

    def told() -> tuple[list[dict[str, Any]], int]:
        variables = {name: bound[name] for name in sorted(bound, key=place)}
        if share is Share.schema:
            summaries, more = summarise(variables)
            return [shape_of(each) for each in summaries], more
        summaries, more = summarise(variables, budget_bytes=SNAPSHOT_BYTES - _ROWS_BYTES)
        _add_rows(summaries, variables, None if share is Share.full else words)
        return summaries, more

    # Summaries call ``repr`` of user-defined classes, hence the deadline.
    guard = CodeGuard(_INVENTORY_S)
    try:
        with guard:
            return guard.call(told)
    except (DeadlineReached, KeyboardInterrupt):
        return [], len(bound)


def _add_rows(
    summaries: Sequence[dict[str, Any]], variables: Mapping[str, Any], named: frozenset[str] | None
) -> None:
    """Add first rows of the tables in ``named`` (``None``: of all) while there is room."""
    room = SNAPSHOT_BYTES - len(json.dumps(summaries, ensure_ascii=False).encode())
    factory = OutputFactory()
    for summary in summaries:
        name = summary["name"]
        is_meant = named is None or name.casefold() in named
        if summary.get("type") != "dataframe" or not is_meant:
            continue
        table = factory.convert(variables[name], name)
        rows = table.first_rows(_FIRST_ROWS) if isinstance(table, DataFrameObject) else []
        room -= len(json.dumps(rows, ensure_ascii=False).encode())
        if room < 0:
            return
        if rows:
            summary["rows_begin"] = rows


def data_files(folder: Path) -> tuple[str, ...]:
    """Return at most 40 data files in ``folder`` and one level below, as relative paths."""

    def is_data(path: Path) -> bool:  # a folder such as sales.parquet is one table
        return path.suffix.lower() in _DATA_SUFFIXES and not path.name.startswith(".")

    top = sorted(islice(folder.glob("*"), _MAX_ENTRIES))
    folders = (each for each in top if not each.name.startswith((".", "_")) and not is_data(each))
    below = islice(chain.from_iterable(each.glob("*") for each in folders), _MAX_ENTRIES)
    found = filter(is_data, chain(top, sorted(below)))
    return tuple(each.relative_to(folder).as_posix() for each in islice(found, _MAX_FILES))


# -- instructions

INSTRUCTION_FILES = ("AGENTS.md", "PARSIMONY.md")
MAX_INSTRUCTIONS_BYTES = 8 * 1024


@dataclass(frozen=True)
class Written:
    """An instruction file: path in the workspace, text as sent (capped), SHA-256 of all of it."""

    path: str
    text: str
    sha: str

    @property
    def block(self) -> str:
        """The text as appended to the system prompt."""
        return f'<instructions from="{self.path}">\n{self.text.strip()}\n</instructions>'


def read_instructions(folder: Path, workspace: Path) -> tuple[Written, ...]:
    """Read the nearest instruction file of each name, from ``folder`` up to ``workspace``.

    Unreadable or blank files, and links out of the workspace, are skipped.
    """
    root, here = workspace.resolve(), folder.resolve()
    places = [each for each in (here, *here.parents) if each.is_relative_to(root)]
    found: list[Written] = []
    for name in INSTRUCTION_FILES:
        there = (each for place in places if (each := _read_instruction(place / name, root)))
        found += islice(there, 1)
    return tuple(found)


def _read_instruction(path: Path, root: Path) -> Written | None:
    try:
        if not path.resolve(strict=True).is_relative_to(root):
            return None
        content = path.read_bytes()
    except OSError:
        return None
    text = content[:MAX_INSTRUCTIONS_BYTES].decode("utf-8", "replace")
    if len(content) > MAX_INSTRUCTIONS_BYTES:
        text = f"{text}\n… the rest is left out: {MAX_INSTRUCTIONS_BYTES // 1024} KB are read."
    sha = hashlib.sha256(content).hexdigest()
    return Written(path.relative_to(root).as_posix(), text, sha) if text.strip() else None


def instructions_in_words(files: Sequence[Written], before: RunStarted | None) -> tuple[str, ...]:
    """Render one line per instruction file, noting those changed since the turn ``before``."""
    known = before.instructions if before else {}
    changed = ", which has changed since the turn before"
    return tuple(
        f"your instructions in {each.path}"
        f"{'' if known.get(each.path, each.sha) == each.sha else changed}"
        for each in files
    )
