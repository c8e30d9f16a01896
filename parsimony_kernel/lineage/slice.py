"""A short script that rebuilds a variable: a backward slice over the cells that ran.

Across cells the ledger decides: a run is in when it made a version that is needed. Of such a run
only those top-level statements are left out that provably touch nothing that is kept; what cannot
be told at all is a ``SliceError``. No script is guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from parsimony_kernel.lineage.ledger import CellRun, OriginLedger
from parsimony_kernel.lineage.slicing.cell import SliceError
from parsimony_kernel.lineage.slicing.plan import Plan
from parsimony_kernel.lineage.slicing.program import Program
from parsimony_kernel.lineage.slicing.statements import ANY, SEEDS, is_future

__all__ = ["SEEDS", "Part", "Script", "SliceError", "slice"]


@dataclass(frozen=True)
class Part:
    """The statements of one run of a cell that a script holds, in their order.

    ``lines`` are their first and last lines in the cell's code, counted from 1.
    """

    run: CellRun
    statements: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Script:
    """A script that rebuilds ``name``.

    ``sources`` are the files and addresses that its statements read. ``unknown`` are names that its
    functions mention and that nothing is known to have bound.
    """

    name: str
    code: str
    parts: tuple[Part, ...] = ()
    sources: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def slice(ledger: OriginLedger, name: str, *, turns: Mapping[str, int] | None = None) -> Script:
    """A script of top-level statements that rebuilds ``name`` as it is now.

    What draws random numbers, asks the time or reads from outside is run again, not repeated.

    Args:
        turns: the number of the turn of each run id, for the comments.

    Raises:
        SliceError: when the origin of something that went in is unknown, or a cell stopped
            where its effect cannot be told, or no order of the cells gives the versions back.
    """
    origin = ledger.get(name)
    if origin is None:
        raise SliceError(
            f"nothing is known of where {name!r} comes from: run the cell that makes it again, "
            "or give a variable that a cell made since tracking began",
            {name},
        )
    if not origin.cell_run:
        raise SliceError(f"the run of the cell that made {name!r} was not recorded", {name})
    program = Program(ledger.cell_runs())
    plan = Plan(program, ledger)
    plan.need_at_end(name, origin.cell_run)
    plan.resolve()
    return _written(name, plan, turns or {})


def _written(name: str, plan: Plan, turns: Mapping[str, int]) -> Script:
    program = plan.program
    parts: list[Part] = []
    removals: dict[int, list[str]] = {}
    current: dict[str, int] = {}
    futures: dict[str, None] = {}
    for number in sorted(plan.chosen):
        chosen = plan.chosen[number]
        if not chosen.kept:
            continue
        _must_stand(chosen.finds, current)
        if gone := sorted(chosen.absent & current.keys()):
            removals[len(parts)] = gone
            for lost in gone:
                del current[lost]
        statements = program.statements(chosen.run)
        texts, lines = [], []
        made = program.made(chosen.run)
        for index in chosen.kept:
            each = statements[index]
            if is_future(each):
                futures.setdefault(each.source)
                continue
            texts.append(each.source)
            lines.append(each.lines)
            for bound in each.writes | chosen.wanted:
                if bound in made or bound not in program.tracked or bound in chosen.wanted:
                    current[bound] = number
                elif bound not in current:
                    current[bound] = plan.standing(bound, number)
            for other in program.changed(each, current.keys() & made):
                current[other] = number
            for gone_now in each.deletes - each.writes:
                current.pop(gone_now, None)
        if texts:
            parts.append(Part(chosen.run, tuple(texts), tuple(lines)))
    _must_stand(plan.at_end, current)
    sources = tuple(
        dict.fromkeys(
            source
            for part in parts
            for source in part.run.sources
            if _is_read_by(source, part, program)
        )
    )
    return Script(
        name,
        _text(name, plan, parts, removals, tuple(futures), sources, turns),
        tuple(parts),
        sources,
        tuple(sorted(plan.unknown)),
    )


def _is_read_by(source: str, part: Part, program: Program) -> bool:
    """Whether it is one of the statements of ``part`` that reads ``source``: its text stands in
    one of them, or in no statement of the cell at all."""
    naming = [
        each.lines
        for each in program.statements(part.run)
        if any(_names(literal, source) for literal in each.literals)
    ]
    return not naming or not set(naming).isdisjoint(part.lines)


def _names(literal: str, source: str) -> bool:
    return literal == source or PurePath(literal).name == PurePath(source).name


def _must_stand(finds: Mapping[str, int], current: Mapping[str, int]) -> None:
    for name, number in finds.items():
        if name != ANY and current.get(name) != number:
            raise SliceError(
                f"{name!r} went in twice, once as it is now and once as it was before an undo, "
                "and no order of the cells gives both: run the cells that use it again",
                {name},
            )


def _text(
    name: str,
    plan: Plan,
    parts: list[Part],
    removals: Mapping[int, list[str]],
    futures: tuple[str, ...],
    sources: tuple[str, ...],
    turns: Mapping[str, int],
) -> str:
    blocks = [f"# Rebuilds {name}."]
    blocks += [f"# Reads {_one_line(source)}" for source in sources]
    if futures:
        blocks += ["", *futures]
    imports = sorted(SEEDS[each] for each in plan.seeds)
    if imports:
        blocks += ["", *imports]
    for place, part in enumerate(parts):
        blocks += ["", f"# {_one_line(_place(part.run, turns))}"]
        blocks += [f"del {each}" for each in removals.get(place, ())]
        blocks += part.statements
    return "\n".join(blocks) + "\n"


def _place(run: CellRun, turns: Mapping[str, int]) -> str:
    if run.run_id in turns:
        return f"cell of turn {turns[run.run_id]} ({run.actor})"
    return f"cell {run.number} ({run.actor})"


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)
