"""Notebooks run without a front end: the demonstration, and a recording replayed."""

import argparse
import atexit
import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from parsimony_kernel import KERNEL_NAME
from parsimony_kernel.cli import output
from parsimony_kernel.core.deferred import defer_grammar_of_addresses
from parsimony_kernel.storage import durable

TIMEOUT_S = 300

_NAME = "01_quickstart.ipynb"
_DATA = (Path("data") / "iowa-electricity.csv", Path("data") / "README.md")
_HERE = Path(__file__).parents[1]
# In an installation the quickstart lies in the package, in a checkout among the examples.
_PLACES = (_HERE / "quickstart", _HERE.parent / "notebooks")
_DEMO_FOLDER = Path("parsimony-demo")

# What begins a turn or goes on with one, under either name that the magics may have.
_AGENT_CELL = re.compile(r"\A\s*%%(?:agent|parsimony)\b")
_AGENT_LINE = re.compile(r"^\s*%(?:agent|parsimony)[ \t]+(?:answer|fix)\b", re.MULTILINE)
_SENDS_NOTHING = re.compile(r"\A\s*%%\w+(?:\?|[^\n]*?\s(?:--dry-run|--help|-h)(?=\s|\Z))")
_SHOWN_CHARS = 66


class HeadlessError(Exception):
    """Why a notebook was not run, in one sentence with the remedy; ``began`` says that cells
    have run."""

    def __init__(self, why: str, *, began: bool = False) -> None:
        super().__init__(why)
        self.began = began


# -- running


def execute(
    content: Any,
    name: str,
    *,
    folder: Path,
    kernel: str,
    environ: Mapping[str, str],
    goes_on: bool = False,
) -> None:
    """Run the cells of ``content`` in ``folder``; their outputs are put into it.

    With ``goes_on`` a cell that raises does not end it. Raises ``HeadlessError`` when the kernel
    is not known, does not start or dies, when a cell raises, or takes longer than ``TIMEOUT_S``.
    """
    from jupyter_client.kernelspec import NoSuchKernel
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    client = NotebookClient(
        content,
        kernel_name=kernel,
        timeout=TIMEOUT_S,
        allow_errors=goes_on,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute(env={**os.environ, **environ})
    except NoSuchKernel as exc:
        raise HeadlessError(
            f"Jupyter does not know the kernel {kernel!r}. Ours is installed with: "
            "jupyter parsimony install --sys-prefix"
        ) from exc
    except CellTimeoutError as exc:
        raise HeadlessError(
            f"{name} was stopped: a cell ran for longer than {TIMEOUT_S} s.", began=True
        ) from exc
    except CellExecutionError as exc:
        raise HeadlessError(f"{name} stopped: {_last_line(str(exc))}", began=True) from exc
    except DeadKernelError as exc:
        raise HeadlessError(
            f"{name} stopped: the kernel ended while a cell ran.", began=True
        ) from exc
    except (RuntimeError, OSError) as exc:
        # Else the client, which has no kernel to end, fails once more as this process ends.
        atexit.unregister(client._cleanup_kernel)
        raise HeadlessError(
            f"The kernel {kernel!r} did not start: {_last_line(str(exc)).rstrip('.')}. "
            "Look at what it needs with: jupyter parsimony doctor"
        ) from exc


def _read(path: Path) -> Any:
    defer_grammar_of_addresses()
    import nbformat  # deferred: a second of imports that few commands need

    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, OSError, nbformat.reader.NotJSONError) as exc:
        raise HeadlessError(f"{str(path)!r} cannot be read as a notebook: {exc}") from exc


def _write(content: Any, path: Path, flag: str) -> None:
    import nbformat

    try:
        durable.replace(path, nbformat.writes(content).encode())
    except durable.StorageError as exc:
        raise _unwritable(path, exc, flag) from exc


def _unwritable(path: Path, problem: OSError, flag: str) -> HeadlessError:
    why = (
        str(problem).rstrip(".") if isinstance(problem, durable.StorageError) else problem.strerror
    )
    return HeadlessError(
        f"The executed notebook cannot be written to {str(path)!r}: {why}. "
        f"Name another place with {flag}."
    )


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), text)


# -- demo


def demo(arguments: argparse.Namespace) -> int:
    """Run an agent notebook with the built-in model."""
    run_demo(arguments.notebook, arguments.out, output.say)
    return output.DONE


def quickstart() -> Path:
    """The notebook that comes along, with its data beside it."""
    for place in _PLACES:
        if all((place / each).is_file() for each in (_NAME, *_DATA)):
            return place / _NAME
    raise HeadlessError(
        "The quickstart is not in this installation: reinstall it, or name a notebook."
    )


def run_demo(
    notebook: Path | None = None, out: Path | None = None, say: Callable[[str], None] = print
) -> Path:
    """Execute ``notebook`` in the Parsimony Agent kernel with the built-in model.

    Without one it is the quickstart, whose data is put beside what is executed. The executed
    notebook is given. It is written to ``out``: that file if it ends in ``.ipynb``, else into
    that folder; by default into the folder ``executed`` beside the notebook, of the quickstart
    into ``parsimony-demo``. What is published goes to a workspace in the same folder.

    Raises:
        HeadlessError: the notebook is missing, cannot be read, fails or takes too long, the
            kernel does not start, or the folder cannot be written.
    """
    source = notebook or quickstart()
    if not source.is_file():
        raise HeadlessError(
            f"There is no notebook {str(source)!r}. Without a name the quickstart is run."
        )
    place = out or (_DEMO_FOLDER if notebook is None else source.parent / "executed")
    executed = place if place.suffix == ".ipynb" else place / source.name
    folder = executed.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in _DATA if notebook is None else ():
            durable.make_folder((folder / path).parent)
            durable.create(folder / path, durable.read(source.parent / path))
    except OSError as exc:
        raise _unwritable(folder, exc, "--out") from exc
    content = _read(source)
    say(f"Running {source} with the built-in rule-based model (no LLM) …")
    environ = {
        "PARSIMONY_MODEL": "offline",
        "PARSIMONY_WORKSPACE": str(folder.resolve()),
        "PARSIMONY_ARTIFACTS": "",
        "JPY_SESSION_NAME": str(executed.resolve()),
    }
    # What tells of the run in the end is imported while the kernel works on another core.
    Thread(target=import_module, args=("parsimony_kernel.artifacts.store",)).start()
    beside = folder if notebook is None else source.parent
    try:
        execute(content, source.name, folder=beside, environ=environ, kernel=KERNEL_NAME)
    except HeadlessError as exc:
        if not exc.began:
            raise
        _write(content, executed, "--out")
        raise HeadlessError(
            f"{exc} What the cells before it gave is in {str(executed)!r}.", began=True
        ) from exc
    _write(content, executed, "--out")
    _tell(content, source, executed, say)
    return executed


def _tell(content: Any, source: Path, executed: Path, say: Callable[[str], None]) -> None:
    """What each agent cell showed; then what ran, what was published, and how to open it."""
    from parsimony_kernel.artifacts.places import Folder
    from parsimony_kernel.artifacts.store import ArtifactStore

    cells = [cell for cell in content.cells if cell.cell_type == "code"]
    of_agent = [cell for cell in cells if cell.source.startswith("%%agent")]
    for cell in of_agent:
        shown = (each.get("data", {}).get("text/plain", "").strip() for each in cell.outputs)
        say("\n".join([cell.source, *filter(None, shown), ""]))
    entries = ArtifactStore(executed.parent, place=Folder(executed.parent)).list()
    published = [
        f"{entry.kind} {entry.title!r} ({executed.parent / entry.path})"
        for entry in entries
        if entry.kind != "notebook"
    ]
    say(f"Ran: {source.name}, {len(cells)} cells, {len(of_agent)} of them the agent's")
    say(f"Published: {', '.join(published) or 'nothing'}")
    say(f"Executed notebook: {executed}")
    say(f"Open it: jupyter lab {shlex.quote(str(executed))}, or in VS Code")


# -- replay


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


def replay(arguments: argparse.Namespace) -> int:
    """Run a notebook with its recording and no model."""
    found = replayed(arguments.notebook, arguments.output)
    is_well = all(each.outcome is Outcome.ok for each in found)
    kept = None if arguments.output is None else str(arguments.output)
    if arguments.json:
        cells = [vars(each) for each in found]
        notebook = str(arguments.notebook)
        output.as_json({"ok": is_well, "notebook": notebook, "cells": cells, "output": kept})
    else:
        output.say("\n".join(_listing(found)))
        if kept is not None:
            output.say(f"The executed notebook is {kept}.")
    return output.DONE if is_well else output.FAILED


def replayed(notebook: Path, to: Path | None = None) -> tuple[Replayed, ...]:
    """Run ``notebook`` with its recording; its agent cells in order, and any other that failed.

    The recording judges, not the saved outputs: those are compared by nbval. It runs beside its
    data and in an empty workspace of its own, to the end, whatever fails. The executed notebook is
    written to ``to``, if one is given.

    Raises:
        HeadlessError: the notebook or its recording is missing or cannot be read, the kernel does
            not start, dies, a cell takes longer than ``TIMEOUT_S``, or ``to`` cannot be written.
    """
    from parsimony_kernel.llm.cassette import FOLDER, path_of
    from parsimony_kernel.llm.cassette_file import Tape

    if not notebook.is_file():
        raise HeadlessError(f"There is no notebook {str(notebook)!r}.")
    notebook = notebook.resolve()
    content = _read(notebook)
    tape = Tape(path_of(notebook), notebook.name)
    if not tape.exists:
        raise HeadlessError(
            f"There is no recording to replay: {FOLDER}/{tape.path.name} is not beside "
            f"{notebook.name!r}. Run the notebook once with PARSIMONY_CASSETTE=record, and keep "
            "the file with the notebook."
        )
    tape.read()
    kernel = content.metadata.get("kernelspec", {}).get("name") or KERNEL_NAME
    with tempfile.TemporaryDirectory(prefix="parsimony-", ignore_cleanup_errors=True) as workspace:
        environ = {
            "PARSIMONY_CASSETTE": "replay",
            "PARSIMONY_WORKSPACE": workspace,
            "PARSIMONY_ARTIFACTS": "",
            "JPY_SESSION_NAME": str(notebook),
        }
        execute(
            content,
            notebook.name,
            folder=notebook.parent,
            environ=environ,
            kernel=kernel,
            goes_on=True,
        )
    if to is not None:
        _write(content, to, "--output")
    code = [cell for cell in content.cells if cell.cell_type == "code" and cell.source.strip()]
    found = [_outcome(cell, f"{FOLDER}/{tape.path.name}") for cell in code]
    return tuple(each for each in found if each is not None)


def _outcome(cell: Any, recording: str) -> Replayed | None:
    """What came of ``cell``; ``None`` for one that is well and has nothing to do with the agent."""
    source = cell.source.strip()
    is_agent = bool(
        _AGENT_LINE.search(source)
        or (_AGENT_CELL.search(source) and not _SENDS_NOTHING.search(source))
    )
    errors = [each for each in cell.outputs if each.output_type == "error"]
    if errors and "raises-exception" not in cell.metadata.get("tags", ()):
        return Replayed(cell.execution_count, *_judged(errors[-1], recording), source)
    if not is_agent:
        return None
    if any(each.output_type == "display_data" for each in cell.outputs):
        return Replayed(cell.execution_count, Outcome.ok, "", source)
    printed = "".join(each.get("text", "") for each in cell.outputs).strip()
    why = printed or "It showed nothing of a turn."
    return Replayed(cell.execution_count, Outcome.failed, why, source)


def _judged(error: Any, recording: str) -> tuple[Outcome, str]:
    """What an error output says of its cell, and why."""
    said = str(error.evalue)
    for beginning, outcome in _COMPLAINTS:
        if said.startswith(beginning.format(recording)):
            return outcome, said
    return Outcome.failed, f"{error.ename}: {said}" if said else str(error.ename)


def _listing(found: Sequence[Replayed]) -> Iterator[str]:
    """A line for each cell, with what is wrong with it below, and how many there are of each."""
    from parsimony_kernel.view.escape import inline, plain, shortened

    for each in found:
        begin = f"[{'' if each.cell is None else each.cell}]"
        yield f"{begin:<5} {each.outcome:<8}{shortened(inline(each.source), _SHOWN_CHARS)}"
        yield from (f"      {line}".rstrip() for line in plain(each.why).splitlines())
    counted = Counter(each.outcome.value for each in found)
    told = ", ".join(f"{number} {outcome}" for outcome, number in counted.items())
    yield f"Cells: {told}." if told else "No cell of it runs the agent."
