"""Every task is read against its table; what must be seen first is looked at."""

from collections.abc import Mapping, Sequence

from parsimony_kernel.offline.codegen.cells import LOOK, Cell
from parsimony_kernel.offline.codegen.filtering import filtered_name
from parsimony_kernel.offline.codegen.looking import look, search
from parsimony_kernel.offline.codegen.missing_values import changed_name
from parsimony_kernel.offline.codegen.python import unique
from parsimony_kernel.offline.missing import LookFor
from parsimony_kernel.offline.plan.evidence import MAX_LOOKED, known_of, sampled, unseen
from parsimony_kernel.offline.plan.records import keep_calls
from parsimony_kernel.offline.plan.step import Step, Task, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.resolve.statement import read
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.words import spoken


def understand(turn: Turn, work: Work) -> Step | None:
    """Read every task against its table; a step when something must be seen first."""
    tables = turn.tables
    keeps = keep_calls(turn)
    looks = _looks(turn, work)
    if looks:
        names = dict.fromkeys(f"`{cell.purpose.removeprefix(LOOK).strip()}`" for cell in looks)
        return turn.run(f"I look at {spoken(names)}.", looks)
    wanted: dict[str, list[str]] = {}
    narrowed: dict[str, str] = {}
    for task in work.tasks:
        task.base = narrowed.get(task.table, task.table)
        kept = _kept(work)
        done = keeps[len(kept)] if len(kept) < len(keeps) else None
        done = next((c for c in keeps if c.bound[0] == _same_words(work, task)), done)
        table = sampled(turn, task, tables)
        assert table is not None
        known = known_of(turn, work, task, settled=done is not None)
        try:
            task.reading = read(Subject(table, known), task.statement)
        except LookFor as missing:
            wanted.setdefault(task.table, []).extend(missing.words)
            continue
        task.statement.missing = task.reading.statement.missing
        if task.reading.filters:
            known_name = done.bound[0] if done else _keep_name(turn, task, work)
            task.narrowed = _same_rows(work, task) or known_name
            if task.statement.is_plain:
                narrowed[task.table] = task.narrowed
        changed = changed_name(task.narrowed or task.base, task.statement.missing)
        if changed is not None:
            # What follows in the request goes on from the rows without missing values.
            narrowed[task.table] = unique(changed, turn.taken(work) - turn.free(work))
    return _search(turn, work, wanted) if wanted else None


def _looks(turn: Turn, work: Work) -> list[Cell]:
    """The cells that show what is not known of the tables yet; all in one step.

    The results of a step are shortened two steps later, so that looks one by one would never end.
    """
    cells: list[Cell] = []
    for task in work.tasks:
        table = sampled(turn, task, turn.tables)
        hidden = unseen(turn, table) if table is not None else []
        parts = range(0, len(hidden), MAX_LOOKED)
        found = [look(task.table, hidden[at : at + MAX_LOOKED]) for at in parts]
        cells += [look(task.table)] if table is None else found
    return list(dict.fromkeys(cells))


def _search(turn: Turn, work: Work, wanted: Mapping[str, Sequence[str]]) -> Step:
    """One step for all tables: what an older step found may have been shortened."""
    cells, told = [], []
    for task in work.tasks:
        words = list(dict.fromkeys(wanted.get(task.table, ())))
        table = sampled(turn, task, turn.tables)
        cell = search(table, words) if words and table is not None else None
        if cell is not None and cell not in cells:
            cells.append(cell)
            told.append(f"{spoken(repr(w[:40]) for w in words)} in `{task.table}`")
    return turn.run(f"I look for {spoken(told)}.", cells)


def _kept(work: Work) -> list[str]:
    return list(dict.fromkeys(t.narrowed for t in work.tasks if t.narrowed))


def _same_words(work: Work, task: Task) -> str | None:
    """The rows kept for an earlier task whose conditions are in the same words."""
    said = task.statement.conditions
    same = (t for t in _shareable(work, task) if t.statement.conditions == said)
    return next((t.narrowed for t in same), None) if said else None


def _same_rows(work: Work, task: Task) -> str | None:
    """The rows kept for an earlier task that are those of ``task``."""
    assert task.reading is not None
    filters = task.reading.filters
    same = (t for t in _shareable(work, task) if t.reading and t.reading.filters == filters)
    return next((t.narrowed for t in same), None)


def _shareable(work: Work, task: Task) -> list[Task]:
    if task.statement.is_plain:
        return []
    others = [t for t in work.tasks if t is not task and t.narrowed and t.base == task.base]
    return [t for t in others if not t.statement.is_plain]


def _keep_name(turn: Turn, task: Task, work: Work) -> str:
    assert task.reading is not None
    wanted = filtered_name(task.base, task.reading.filters)
    taken = (turn.taken(work) - turn.free(work)) | {t.narrowed for t in work.tasks if t.narrowed}
    return unique(wanted, taken)
