"""What every task asks is computed, in one step where nothing else must be known."""

import re
from dataclasses import replace

from parsimony_kernel.offline import recovery
from parsimony_kernel.offline.codegen.analyses import analyse
from parsimony_kernel.offline.codegen.cells import Cell
from parsimony_kernel.offline.codegen.looking import count_distinct
from parsimony_kernel.offline.missing import CountDistinct
from parsimony_kernel.offline.plan.evidence import day_first, known_of, sampled
from parsimony_kernel.offline.plan.records import final_keeps, is_load, keep_calls, result_calls
from parsimony_kernel.offline.plan.step import Step, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.resolve.decision import decide
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.transcript import Call
from parsimony_kernel.offline.words import spoken


def is_computed(turn: Turn, work: Work) -> bool:
    """Whether every task has its result."""
    done = len(result_calls(turn)) + len(final_keeps(turn))
    return done >= len(work.tasks)


def compute(turn: Turn, work: Work) -> Step | None:
    """The step that computes what has no result yet."""
    tables = turn.tables
    cells: list[Cell] = []
    counts: dict[str, list[str]] = {}
    headings: set[str] = set()
    names: set[str] = set()
    done = {c.purpose: c for c in result_calls(turn)}
    for task in work.tasks:
        if task.reading is None or (task.narrowed and task.statement.is_plain):
            continue
        base = task.narrowed or task.base
        table = sampled(turn, task, tables)
        assert table is not None
        rows = _rows(turn, base) or table.rows
        known = known_of(turn, work, task, settled=True)
        try:
            analysis = decide(Subject(replace(table, rows=rows), known), task.reading)
        except CountDistinct as missing:
            if any(cell.table == base for cell in cells):
                # The table that is counted in is made by this very step.
                continue
            counts.setdefault(base, []).extend(missing.columns)
            continue
        suffix = _suffix(turn, base)
        heading = f"{analysis.title}{suffix}"
        while heading in headings:
            heading += " again"
        headings.add(heading)
        if heading in done:
            names |= set(done[heading].bound)
            continue
        failed = [c for c in turn.transcript.code_calls if c.failed and c.purpose == heading]
        options = replace(
            recovery.analysis_options(failed, day_first(turn, task)), title_suffix=suffix
        )
        made = analyse(
            replace(table, name=base, rows=rows),
            analysis,
            _unavailable(turn, work) | names,
            options,
            heading,
        )
        _tell_other_name(turn, made, names)
        names |= {n for n in (made.table, made.chart) if n}
        turn.tell(analysis.notes)
        cells.append(made)
    if counts and not {task.base for task in work.tasks} & {cell.table for cell in cells}:
        # One step for all tables: what an older step found may have been shortened.
        checks = [count_distinct(base, list(dict.fromkeys(c))) for base, c in counts.items()]
        return turn.run("I check how often values repeat.", checks)
    if not cells:
        return None
    return turn.run(f"Next: {spoken(_lower(c.purpose) for c in cells)}.", cells)


def check_failures(turn: Turn) -> None:
    """What cannot be mended is said at once, before anything else is looked at."""
    failed: dict[str, list[Call]] = {}
    for call in turn.transcript.code_calls:
        if call.ok:
            failed.pop(call.purpose, None)
        elif call.failed and not is_load(call):
            failed.setdefault(call.purpose, []).append(call)
    for calls in failed.values():
        recovery.analysis_options(calls, frozenset())


def _unavailable(turn: Turn, work: Work) -> set[str]:
    kept = {c.bound[0] for c in keep_calls(turn)}
    return (
        (turn.taken(work) - turn.free(work)) | kept | {t.narrowed for t in work.tasks if t.narrowed}
    )


def _tell_other_name(turn: Turn, made: Cell, names: set[str]) -> None:
    """Say why a result has a number in its name: a variable of the person has the plain one."""
    for name in (made.table, made.chart):
        wanted = re.sub(r"_\d+$", "", name or "")
        theirs = wanted in turn.transcript.all_names and wanted not in names
        if name and name != wanted and theirs:
            turn.tell([f"There is a variable {wanted!r} already, so this is `{name}`"])
            return


def _rows(turn: Turn, base: str) -> int | None:
    """How many rows a table has, also where an older answer has kept no more than that."""
    counts = [
        summary.get("rows")
        for call in turn.transcript.code_calls
        for summary in call.summaries()
        if summary.get("name") == base
    ]
    told = next((n for n in reversed(counts) if isinstance(n, int)), None)
    return turn.tables[base].rows if base in turn.tables else told


def _suffix(turn: Turn, base: str) -> str:
    for call in keep_calls(turn):
        if call.bound[0] == base:
            where = call.purpose.partition(" where ")[2]
            return f" ({where})"
    return ""


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == "" else text
