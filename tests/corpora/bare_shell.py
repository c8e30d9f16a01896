"""Run harmless cells in a bare IPython shell; print those that fail, one line of JSON each.

Usage: python -m tests.corpora.bare_shell FOLDER

Each entry whose needs are installed has a workspace of its own below FOLDER.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from IPython.terminal.interactiveshell import TerminalInteractiveShell
from traitlets.config import Config

from .entries import load


def _refuse_other_hosts(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(args[1], tuple):
        assert args[1][0] in {"127.0.0.1", "::1"}, f"connects to {args[1]!r}"


def main(folder: Path) -> None:
    settings = Config()
    settings.HistoryManager.hist_file = ":memory:"
    settings.InteractiveShell.colors = "nocolor"
    shell = TerminalInteractiveShell.instance(config=settings)
    sys.addaudithook(_refuse_other_hosts)
    outside = folder / "outside"
    outside.mkdir(parents=True)
    names = set(shell.user_ns)
    for entry in load("harmless", outside=str(outside)):
        if not entry.installed:
            continue
        workspace = folder / entry.id
        workspace.mkdir()
        os.chdir(workspace)
        entry.place(workspace, outside)
        for cell in [*entry.before, entry.cell]:
            done = shell.run_cell(cell)
            if error := done.error_before_exec or done.error_in_exec:
                print(json.dumps({entry.id: repr(error)}), file=sys.__stderr__)
        for name in shell.user_ns.keys() - names:
            del shell.user_ns[name]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
