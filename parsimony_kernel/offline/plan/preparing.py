"""Tables that are made of others: their names, and what has to be seen first."""

from collections.abc import Sequence

from parsimony_kernel.offline.codegen.cells import Cell
from parsimony_kernel.offline.codegen.looking import look
from parsimony_kernel.offline.codegen.python import identifier, unique
from parsimony_kernel.offline.grammar.clauses import Join, Statement
from parsimony_kernel.offline.plan.evidence import MAX_LOOKED, sampled, unseen
from parsimony_kernel.offline.plan.step import Prepared, Task, Work
from parsimony_kernel.offline.plan.turn import Turn


def looks_of(turn: Turn, names: Sequence[str]) -> list[Cell]:
    """The cells that show what is not known yet of these tables."""
    cells: list[Cell] = []
    for name in names:
        table = sampled(turn, Task(Statement(), name), turn.tables)
        if table is None:
            cells.append(look(name))
            continue
        hidden = unseen(turn, table)
        parts = range(0, len(hidden), MAX_LOOKED)
        cells += [look(name, hidden[at : at + MAX_LOOKED]) for at in parts]
    return cells


def prepare_join(turn: Turn, clause: Join, sides: tuple[str, str], work: Work) -> str:
    """Put the join of two tables into the work; returns its name."""
    for prepared in work.preparing:
        if isinstance(prepared.clause, Join) and prepared.made_of == sides:
            return prepared.name
    wanted = identifier(f"{sides[0]}_with_{sides[1]}")
    name = unique(wanted, turn.taken(work) - turn.free(work))
    work.preparing.append(Prepared(clause, sides, name))
    return name
