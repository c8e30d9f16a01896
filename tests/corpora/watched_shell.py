"""Run the cells of a corpus in a bare shell as an agent's, where nothing outside is allowed.

Usage: python -m tests.corpora.watched_shell reaching|harmless FOLDER

Prints a line of JSON for each entry whose needs are installed: its id, what the preview says, what
the code was stopped before, and the error it ended with. Each entry has a workspace and a home of
its own below FOLDER.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal, cast

from IPython.terminal.interactiveshell import TerminalInteractiveShell
from traitlets.config import Config

from parsimony_kernel.core.audit import listening
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.execution import NotebookExecutor
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.execution.run_scope import Permit, permitting
from parsimony_kernel.gate.preview import preview
from parsimony_kernel.lineage.file_access import Watch

from .entries import Entry, load

# Where code that slips through ends at the latest.
_MOST_S = 60


def _told(entry: Entry, shell: Any, workspace: Path) -> dict[str, Any]:
    with listening(Watch().hear):
        for cell in entry.before:
            shell.run_cell(cell)
    executor = NotebookExecutor(shell)
    bound = executor.variables()
    seen = preview(entry.cell, workspace=workspace, namespace=bound, is_watched=True)
    permit = Permit(workspace, lambda reach, lines: False)

    async def run() -> Any:
        with permitting(permit), stop_on_sigint(CancellationRequest()):
            return await executor.execute(entry.cell, timeout_seconds=_MOST_S)

    output = asyncio.run(run())
    error = output.error
    return {
        "id": entry.id,
        "preview": [each.sentence for each in seen],
        "held": "" if permit.held is None else permit.held.sentence,
        "error": "" if error is None else f"{error.name}: {error.message}",
    }


def main(name: Literal["reaching", "harmless"], folder: Path) -> None:
    settings = Config()
    settings.HistoryManager.hist_file = ":memory:"
    settings.InteractiveShell.colors = "nocolor"
    shell = TerminalInteractiveShell.instance(config=settings)
    outside, home = folder / "outside", folder / "home"
    outside.mkdir(parents=True, exist_ok=True)
    names, variables = set(shell.user_ns), dict(os.environ)
    chosen = set(sys.argv[3:])
    for entry in load(name, outside=str(outside), home="{home}"):
        if not entry.installed or (chosen and entry.id not in chosen):
            continue
        entry = load_one(entry, home / entry.id)
        workspace = folder / "cells" / entry.id
        workspace.mkdir(parents=True)
        os.environ["HOME"] = str(home / entry.id)
        os.chdir(workspace)
        entry.place(workspace, outside)
        told = _told(entry, shell, workspace)
        print(json.dumps(told), file=sys.__stdout__, flush=True)
        os.environ.clear()
        os.environ.update(variables)
        for bound in shell.user_ns.keys() - names:
            del shell.user_ns[bound]


def load_one(entry: Entry, home: Path) -> Entry:
    """The entry with an empty home of its own."""
    home.mkdir(parents=True)

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{home}", str(home))
        if isinstance(value, list):
            return [fill(each) for each in value]
        if isinstance(value, dict):
            return {key: fill(each) for key, each in value.items()}
        return value

    return Entry(**{key: fill(value) for key, value in vars(entry).items()})


if __name__ == "__main__":
    main(cast(Literal["reaching", "harmless"], sys.argv[1]), Path(sys.argv[2]))
