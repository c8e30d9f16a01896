"""A notebook run with its recording and no model, and what came of each of its cells.

The rule of the place: the recording judges, not the saved outputs. Those are compared by nbval.
"""

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.cli import headless
from parsimony_kernel.llm.cassette import FOLDER, path_of
from parsimony_kernel.llm.cassette_file import Tape
from parsimony_kernel.storage import durable

# What begins a turn or goes on with one, under either name that the magics may have.
_AGENT_CELL = re.compile(r"\A\s*%%(?:agent|parsimony)\b")
_AGENT_LINE = re.compile(r"^\s*%(?:agent|parsimony)[ \t]+(?:answer|fix)\b", re.MULTILINE)
_SENDS_NOTHING = re.compile(r"\A\s*%%\w+(?:\?|[^\n]*?\s(?:--dry-run|--help|-h)(?=\s|\Z))")


class ReplayError(Exception):
    """Why the notebook was not replayed, in one sentence with the remedy."""


class Outcome(StrEnum):
    """What came of a cell.

    ``ok``: the recording had every answer. ``differs``: it has the turn, and not as it is asked
    now. ``missing``: it has no such turn. ``failed``: the cell raised for another reason.
    """

    ok = "ok"
    differs = "differs"
    missing = "missing"
    failed = "failed"


# How the complaints begin that a cell raises without an answer; ``{}`` is what they call the file.
_COMPLAINTS = (
    ("The recording {} has no turn with the request ", Outcome.missing),
    ("The recording {} has no answer to step ", Outcome.differs),
    ("The recording of this request is of ", Outcome.differs),
)


@dataclass(frozen=True)
class Replayed:
    """One cell. ``cell`` is the number that it had as it ran, ``why`` is empty when it is ok."""

    cell: int | None
    outcome: Outcome
    why: str
    source: str


def replay(notebook: Path, output: Path | None = None) -> tuple[Replayed, ...]:
    """Run ``notebook`` with its recording; its agent cells in order, and any other that failed.

    It runs beside its data and in an empty workspace of its own, to the end, whatever fails. The
    executed notebook is written to ``output``, if one is given. Raises ``ReplayError`` when the
    notebook or its recording is missing or cannot be read, the kernel does not start, dies, or a
    cell takes longer than ``headless.TIMEOUT_S``, or ``output`` cannot be written.
    """
    if not notebook.is_file():
        raise ReplayError(f"There is no notebook {str(notebook)!r}.")
    notebook = notebook.resolve()
    content = _tried(lambda: headless.read(notebook))
    tape = Tape(path_of(notebook), notebook.name)
    if not tape.exists:
        raise ReplayError(
            f"There is no recording to replay: {FOLDER}/{tape.path.name} is not beside "
            f"{notebook.name!r}. Run the notebook once with PARSIMONY_CASSETTE=record, and keep "
            "the file with the notebook."
        )
    try:
        tape.read()
    except durable.StorageError as exc:
        raise ReplayError(str(exc)) from exc
    _tried(lambda: _execute(content, notebook))
    if output is not None:
        try:
            headless.write(content, output)
        except durable.StorageError as exc:
            raise ReplayError(
                f"The executed notebook cannot be written to {str(output)!r}: "
                f"{str(exc).rstrip('.')}. Name another file with --output."
            ) from exc
    code = [cell for cell in content.cells if cell.cell_type == "code" and cell.source.strip()]
    found = [_outcome(cell, f"{FOLDER}/{tape.path.name}") for cell in code]
    return tuple(each for each in found if each is not None)


def _tried(do: Callable[[], Any]) -> Any:
    try:
        return do()
    except headless.HeadlessError as exc:
        raise ReplayError(str(exc)) from exc


def _execute(content: Any, notebook: Path) -> None:
    kernel = content.metadata.get("kernelspec", {}).get("name") or KERNEL_NAME
    with tempfile.TemporaryDirectory(prefix="parsimony-", ignore_cleanup_errors=True) as workspace:
        environ = {
            **os.environ,
            "PARSIMONY_CASSETTE": "replay",
            "PARSIMONY_WORKSPACE": workspace,
            "JPY_SESSION_NAME": str(notebook),
        }
        headless.execute(
            content,
            notebook.name,
            folder=notebook.parent,
            environ=environ,
            kernel=kernel,
            goes_on=True,
        )


def _outcome(cell: Any, recording: str) -> Replayed | None:
    """What came of ``cell``; ``None`` for one that is well and has nothing to do with the agent."""
    source = cell.source.strip()
    is_agent = bool(
        _AGENT_LINE.search(source)
        or (_AGENT_CELL.search(source) and not _SENDS_NOTHING.search(source))
    )
    errors = [output for output in cell.outputs if output.output_type == "error"]
    if errors and "raises-exception" not in cell.metadata.get("tags", ()):
        return Replayed(cell.execution_count, *_judged(errors[-1], recording), source)
    if not is_agent:
        return None
    shown = [output for output in cell.outputs if output.output_type == "display_data"]
    if shown:
        return Replayed(cell.execution_count, Outcome.ok, "", source)
    printed = "".join(output.get("text", "") for output in cell.outputs).strip()
    why = printed or "It showed nothing of a turn."
    return Replayed(cell.execution_count, Outcome.failed, why, source)


def _judged(error: Any, recording: str) -> tuple[Outcome, str]:
    """What an error output says of its cell, and why."""
    said = str(error.evalue)
    for beginning, outcome in _COMPLAINTS:
        if said.startswith(beginning.format(recording)):
            return outcome, said
    return Outcome.failed, f"{error.ename}: {said}" if said else str(error.ename)
