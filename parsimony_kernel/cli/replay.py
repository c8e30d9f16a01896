"""``replay``: a notebook, run with the answers that were recorded and no model."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parsimony_kernel.cli import output
from parsimony_kernel.cli.parser import Commands, Examples, add_command, add_json

if TYPE_CHECKING:
    from parsimony_kernel.cli.replaying import Replayed

EXAMPLES: Examples = (
    ("replay sales.ipynb", "run a notebook with its recording, no model and no key"),
    ("replay sales.ipynb --output out.ipynb", "and keep what was executed"),
    ("replay sales.ipynb --json", "for a program"),
)
KEYS = {
    "ok": "whether the recording had every answer, and nothing failed",
    "notebook": "its path, as it was given",
    "cells": "agent cells, and others that failed: cell, outcome, why, source",
    "output": "the executed notebook, or null",
}
_SHOWN_CHARS = 66


def add(commands: Commands) -> None:
    command = add_command(
        commands,
        "replay",
        run,
        "run a notebook with its recording and no model, and tell what differs",
        examples=EXAMPLES,
        keys=KEYS,
    )
    command.add_argument(
        "notebook",
        type=Path,
        metavar="NOTEBOOK",
        help="its recording lies beside it, in cassettes/NAME.yaml",
    )
    command.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="where the executed notebook goes (default: it is not kept)",
    )
    add_json(command)


def run(arguments: argparse.Namespace) -> int:
    from parsimony_kernel.cli.replaying import Outcome, ReplayError, replay

    try:
        found = replay(arguments.notebook, arguments.output)
    except ReplayError as problem:
        return output.fail(problem)
    is_well = all(each.outcome is Outcome.ok for each in found)
    kept = None if arguments.output is None else str(arguments.output)
    if arguments.json:
        cells = [vars(each) for each in found]
        notebook = str(arguments.notebook)
        output.as_json({"ok": is_well, "notebook": notebook, "cells": cells, "output": kept})
    else:
        output.say("\n".join(_told(found)))
        if kept is not None:
            output.say(f"The executed notebook is {kept}.")
    return output.DONE if is_well else output.FAILED


def _told(found: "Sequence[Replayed]") -> Iterator[str]:
    """A line for each cell, with what is wrong with it below, and how many there are of each."""
    from parsimony_kernel.view.escape import inline, plain, shortened

    for each in found:
        begin = f"[{'' if each.cell is None else each.cell}]"
        yield f"{begin:<5} {each.outcome:<8}{shortened(inline(each.source), _SHOWN_CHARS)}"
        yield from (f"      {line}".rstrip() for line in plain(each.why).splitlines())
    counted = Counter(each.outcome.value for each in found)
    told = ", ".join(f"{number} {outcome}" for outcome, number in counted.items())
    yield f"Cells: {told}." if told else "No cell of it runs the agent."
