"""A process is killed at every audit event between code that begins to reach and its end.

``python -m tests.scenarios.code_kills FOLDER [STRIDE]`` prints the counts as JSON: the kills tried,
those after which the effect had happened without its end on record, and those after which the same
code, in another turn, ran again without a question.
"""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from parsimony_kernel.core.events import UserInputRequested
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.testing.scripted import call

from .notebooks import DONE, Notebook, turn

CODE = (
    "import sys\nsys.audit('armed')\nwith open('../ledger', 'a') as f:\n    n = f.write('x')\n"
    "    f.flush()\n    for each in range(10):\n        sys.audit('after it')\n"
    "sys.audit('over')"
)


def _in_child(act: Callable[[], Any]) -> str:
    """What ``act`` gives in a process of its own; empty where that was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.write(writer, str(act()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        said = told.read()
    os.waitpid(pid, 0)
    return said


def _run(folder: Path, kill_at: int = 0) -> str:
    """Run the code in a turn where nobody has to be asked; how many events there were."""
    seen, armed = 0, False

    def hear(event: str, _: tuple[Any, ...]) -> None:
        nonlocal seen, armed
        armed = event == "armed" or (armed and event != "over")
        if armed:
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    notebook = Notebook(folder)
    asked = asyncio.run(turn(notebook.open(call("run_code", code=CODE), DONE), Approval.auto))[-1]
    return f"asked {seen}" if isinstance(asked, UserInputRequested) else f"ran {seen}"


def _ended(folder: Path) -> bool:
    """Whether the end of the effect is on record."""
    (path,) = (folder / ".ockham").glob("journal*.sqlite")
    with sqlite3.connect(path) as journal:
        try:
            rows = journal.execute("SELECT state FROM effects").fetchall()
        except sqlite3.OperationalError:  # nothing was begun
            return False
    return ("committed",) in rows


def storm(root: Path, stride: int = 1) -> dict[str, int]:
    """The counts over every ``stride``-th event."""
    whole = _in_child(partial(_run, _place(root, "whole")))
    events = int(whole.partition(" ")[2])
    counts = {"kills": 0, "without an end": 0, "ran again": 0, "asked": 0}
    for at in range(1, events, stride):
        folder = _place(root, str(at))
        ledger = folder.parent / "ledger"
        if _in_child(partial(_run, folder, at)):
            continue
        counts["kills"] += 1
        happened = ledger.exists() and ledger.read_text() == "x"
        is_open = happened and not _ended(folder)
        counts["without an end"] += is_open
        again = _in_child(partial(_run, folder)).partition(" ")[0]
        counts["asked"] += again == "asked"
        counts["ran again"] += is_open and again != "asked"
    return counts


def _place(root: Path, name: str) -> Path:
    folder = root / name / "work"
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    print(json.dumps(storm(Path(sys.argv[1]), int((*sys.argv[2:], "1")[0]))))
