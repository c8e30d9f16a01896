"""Rows are kept first, under names of their own."""

from collections.abc import Mapping

from parsimony_kernel.offline import recovery
from parsimony_kernel.offline.codegen.filtering import keep_rows
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.emptiness import counts
from parsimony_kernel.offline.plan.evidence import day_first
from parsimony_kernel.offline.plan.records import keep_calls
from parsimony_kernel.offline.plan.step import Step, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.transcript import Call
from parsimony_kernel.offline.words import spoken


def keep(turn: Turn, work: Work) -> Step | None:
    """The step that keeps rows for tasks that have conditions; raises when none is left."""
    keeps = {c.bound[0]: c for c in keep_calls(turn)}
    counted = {t.narrowed for t in work.tasks if counts(t.statement)}
    _check_empty({name: call for name, call in keeps.items() if name not in counted})
    cells = []
    begun: set[str] = set(keeps)
    for task in work.tasks:
        if not task.narrowed or task.narrowed in begun or task.reading is None:
            continue
        begun.add(task.narrowed)
        first = not task.statement.is_plain
        failed = [
            c for c in turn.transcript.code_calls if c.failed and c.bound[:1] == (task.narrowed,)
        ]
        options = recovery.analysis_options(failed, day_first(turn, task))
        cell = keep_rows(task.base, task.narrowed, task.reading.filters, options, first=first)
        cells.append(cell)
        turn.tell(task.reading.notes)
    if not cells:
        return None
    conditions = spoken(c.purpose.partition(" where ")[2] for c in cells)
    return turn.run(f"I keep the rows where {conditions}.", cells)


def _check_empty(keeps: Mapping[str, Call]) -> None:
    for name, call in keeps.items():
        rows = [s.get("rows") for s in call.summaries() if s.get("name") == name]
        if rows and rows[-1] == 0:
            what = call.purpose.partition(" where ")[2]
            raise Declined(
                f"No row is left: there is none where {what}.",
                [f"`{name}` is empty, so nothing was computed from it"],
                ["Widen the filter, or ask to describe the table to see what it holds."],
            )
