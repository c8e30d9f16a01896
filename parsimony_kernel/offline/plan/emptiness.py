"""Tables without rows: nothing is computed from them but that there are none."""

from parsimony_kernel.offline.codegen.cells import INCOMPLETE
from parsimony_kernel.offline.grammar.clauses import Statement
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.records import product_of, result_calls
from parsimony_kernel.offline.plan.step import Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.words import spoken


def check_rows(turn: Turn, work: Work) -> None:
    """Raise ``Declined`` for a task that needs rows of a table that has none."""
    paths = {s.name: s.path for s in work.sources}
    for task in work.tasks:
        table = turn.tables.get(task.table)
        if table is None or table.rows != 0 or task.statement.describe or counts(task.statement):
            continue
        origin = f" from {paths[task.table]}" if task.table in paths else ""
        raise Declined(
            f"There are no rows in `{task.table}`{origin}, so there is nothing to show or compute.",
            [f"`{task.table}` has {len(table.columns)} columns and 0 rows"],
            ["Check the file or the cell that the table comes from."],
        )


def check_results(turn: Turn) -> None:
    """Raise ``Declined`` when there are results and none of them has a row."""
    rows: list[object] = []
    names: list[str] = []
    for call in result_calls(turn):
        if any(line.startswith(INCOMPLETE) for line in call.printed):
            return
        table = product_of(call).table
        found = [s.get("rows") for s in call.summaries() if s.get("name") == table]
        rows.append(found[-1] if table and found else None)
        names.append(table or "")
    if rows and all(count == 0 for count in rows):
        made = spoken(f"`{name}`" for name in names)
        raise Declined(
            f"There are no rows in {made}: no row has a value in every column that is needed.",
            [f"{made} came out empty, so there is nothing to draw or to tell"],
            ["Ask to describe the table to see which columns hold values."],
        )


def counts(statement: Statement) -> bool:
    """Whether it asks for the number of rows alone, which may be none."""
    only = [wish.func for wish in statement.wishes] == ["count"]
    return only and not (statement.groups or statement.chart or statement.rank)
