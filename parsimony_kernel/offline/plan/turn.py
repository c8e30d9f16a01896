"""What is known at one step of a turn, and the step that runs code.

Read off the transcript each time; nothing is remembered between requests.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from parsimony_kernel.offline import recovery
from parsimony_kernel.offline.codegen.aliases import with_free_aliases
from parsimony_kernel.offline.codegen.cells import Cell
from parsimony_kernel.offline.plan.step import Step, Work
from parsimony_kernel.offline.transcript import Transcript, missing_name
from parsimony_kernel.offline.words import is_data_file

NOTE = "Note: "


class Turn:
    """A transcript read for planning; ``tools`` are the names that may be called."""

    def __init__(self, transcript: Transcript, tools: Sequence[str]) -> None:
        self.transcript, self.tools = transcript, frozenset(tools)
        self.answers = {a.question: a.reply for a in transcript.asked if a.reply is not None}
        self.notes: list[str] = []
        self.tables = transcript.tables()
        self.files = [f for f in transcript.files if is_data_file(f)]

    @property
    def frames(self) -> list[str]:
        """The tables of the notebook, also those that have gone: a request may name them."""
        listed = self.transcript.variables
        return [str(v["name"]) for v in listed if v.get("type") == "dataframe" and v.get("name")]

    @property
    def results(self) -> set[str]:
        """The names of tables that were made of others, by this model as far as can be told."""
        told = " ".join(self.transcript.earlier)
        loaded = set(re.findall(r"Loaded `(\w+)` from", told))
        made = {*self.transcript.mine, *self.transcript.replaceable}
        return (made | self._parts()) - loaded

    def _parts(self) -> set[str]:
        """Tables named after another one with the same columns: rows that were kept of it."""
        names = {n: [c.name for c in table.columns] for n, table in self.tables.items()}
        return {
            name
            for name, columns in names.items()
            if any(name.startswith(f"{n}_") and columns == other for n, other in names.items())
        }

    def taken(self, work: Work | None = None) -> set[str]:
        """The names that are in use."""
        return set(self.transcript.all_names) | set(work.made if work is not None else ())

    def free(self, work: Work) -> set[str]:
        """The names that may be bound again: made before by this model, and not worked on now."""
        made = {*self.transcript.mine, *self.transcript.replaceable}
        return made - {task.table for task in work.tasks}

    def tell(self, notes: Sequence[str]) -> None:
        """Note what a person should know of how the request was read."""
        for note in notes:
            if note not in self.notes:
                self.notes.append(note)

    def run(self, text: str, cells: Sequence[Cell]) -> Step:
        """The step that runs ``cells``; notes that were not told yet go with it."""
        names = set(self.transcript.all_names)
        cells = [
            self._fresh(replace(cell, code=with_free_aliases(cell.code, names))) for cell in cells
        ]
        told = {line for said in self.transcript.said for line in said.splitlines()}
        new = [f"{NOTE}{n}." for n in self.notes if f"{NOTE}{n}." not in told]
        calls = tuple(("run_code", {"code": c.code, "purpose": c.purpose}) for c in cells)
        return Step("\n".join([text, *new]), calls)

    def _fresh(self, cell: Cell) -> Cell:
        """The cell, never with code that failed; raises ``Declined`` when nothing else is left."""
        failed = [c for c in self.transcript.calls if c.failed and c.code == cell.code]
        if not failed:
            return cell
        name = missing_name(failed[-1])
        again = replace(cell, code=f"# Once more, now that {name} is there again.\n{cell.code}")
        if name is None or again.code in self.transcript.failed_code:
            raise recovery.gave_up(failed[-1])
        return again
