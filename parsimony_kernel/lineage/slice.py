"""A short script that rebuilds a variable: a backward slice over the cells that ran.

Across cells the ledger decides: a run is in when it made a version that is needed. Of such a run
only those top-level statements are left out that provably touch nothing that is kept; what cannot
be told at all is a ``SliceError``. No script is guessed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from parsimony_kernel.lineage.ledger import CellRun, OriginLedger
from parsimony_kernel.lineage.slicing.program import Program
from parsimony_kernel.lineage.slicing.statements import SEEDS, is_future
from parsimony_kernel.lineage.slicing.walk import SliceError, Walk

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
    walk = Walk(program, ledger)
    walk.run(name)
    if walk.missing and program.has_stars():
        walk = Walk(program, ledger, stars=True)
        walk.run(name)
    elif walk.missing:
        lost = min(walk.missing)
        raise SliceError(
            f"nothing is known of where {lost!r} comes from: run the cell that binds it again, "
            "then the cells that use it",
            {lost},
        )
    return _written(name, walk, program, turns or {})


def _written(name: str, walk: Walk, program: Program, turns: Mapping[str, int]) -> Script:
    parts: list[Part] = []
    futures: dict[str, None] = {}
    for number in sorted(walk.kept):
        run = program.runs[number - 1]
        every = program.statements(run)
        statements = [every[index] for index in walk.kept[number]]
        futures |= dict.fromkeys(each.source for each in statements if is_future(each))
        plain = [each for each in statements if not is_future(each)]
        if plain:
            texts, lines = [each.source for each in plain], [each.lines for each in plain]
            parts.append(Part(run, tuple(texts), tuple(lines)))
    sources = tuple(
        dict.fromkeys(
            source
            for part in parts
            for source in part.run.sources
            if _is_read_by(source, part, program)
        )
    )
    imports = sorted(SEEDS[each] for each in walk.seeds)
    code = _text(name, parts, (*futures,), imports, sources, turns)
    return Script(name, code, tuple(parts), sources, tuple(sorted(walk.unknown)))


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


def _text(
    name: str,
    parts: Sequence[Part],
    futures: Sequence[str],
    imports: Sequence[str],
    sources: Sequence[str],
    turns: Mapping[str, int],
) -> str:
    blocks = [f"# Rebuilds {name}."]
    blocks += [f"# Reads {_one_line(source)}" for source in sources]
    if futures:
        blocks += ["", *futures]
    if imports:
        blocks += ["", *imports]
    for part in parts:
        blocks += ["", f"# {_one_line(_place(part.run, turns))}"]
        blocks += part.statements
    return "\n".join(blocks) + "\n"


def _place(run: CellRun, turns: Mapping[str, int]) -> str:
    if run.run_id in turns:
        return f"cell of turn {turns[run.run_id]} ({run.actor})"
    return f"cell {run.number} ({run.actor})"


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)
