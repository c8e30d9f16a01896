"""Files are read, and tables that have gone are read again under the name that they had."""

from collections.abc import Sequence

from parsimony_kernel.offline import recovery
from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.codegen.cells import LOAD, Cell
from parsimony_kernel.offline.codegen.loading import load, name_for_file
from parsimony_kernel.offline.columns import near_files
from parsimony_kernel.offline.missing import STOP, Declined
from parsimony_kernel.offline.plan.sources import load_calls, told_file
from parsimony_kernel.offline.plan.step import Source, Step, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.schema import read_table
from parsimony_kernel.offline.transcript import Call
from parsimony_kernel.offline.words import spoken

GO_ON = "Go on with the file"


def load_sources(turn: Turn, work: Work) -> Step | None:
    """The step that loads what is not there yet."""
    _add_lost(turn, work)
    cells = [cell for source in work.sources if (cell := _cell(turn, source)) is not None]
    if cells:
        return turn.run(f"I load {spoken(f'`{c.table}`' for c in cells)}.", cells)
    for source in work.sources:
        _check_restored(turn, source)
    return None


def _cell(turn: Turn, source: Source) -> Cell | None:
    tried = load_calls(turn, source.path, source.name)
    alive = [c for c in tried if c.ok and not c.void]
    options = recovery.load_options(source.path, [c for c in tried if c.failed])
    path = _path(turn, source, tried)
    if alive:
        separator = _wrong_separator(turn, source, alive)
        if separator is None or f'sep="{separator}"' in alive[-1].code:
            return None
        options = [*[o for o in options if not o.startswith("sep")], f'sep="{separator}"']
        turn.tell(["The file does not separate its values by commas; I read it again"])
    if 'encoding="latin-1"' in options:
        turn.tell([f"{source.path!r} is not UTF-8; I read it as Latin-1"])
    return load(path, source.name, options)


def _path(turn: Turn, source: Source, tried: Sequence[Call]) -> str:
    missing = [c for c in tried if c.error_type == "FileNotFoundError"]
    if not missing:
        return source.path
    for path in recovery.other_paths(source.path, turn.transcript.working_folder):
        if not any(c.purpose.startswith(f"{LOAD} {path} as ") for c in missing):
            return path
    near = [f for f in near_files(source.path, turn.files) if f != source.path]
    raise Declined(
        f"The file {source.path!r} was not found.",
        [f"{source.path} does not exist"],
        [f"Did you mean {spoken(near, 'or')}?"] if near else ["Check the name and the folder."],
    )


def _wrong_separator(turn: Turn, source: Source, done: Sequence[Call]) -> str | None:
    table = turn.tables.get(source.name)
    if table is None or len(table.columns) != 1 or source.path.endswith(("json", "parquet")):
        return None
    if len(done) > 1:
        return None
    name = table.columns[0].name
    return next((s for s in (";", "\\t", "|") if name.count("\t" if "t" in s else s)), None)


# -- what has gone -------------------------------------------------------------------------------


def _add_lost(turn: Turn, work: Work) -> None:
    """Tables of the notebook that have gone become sources, under the names that they had."""
    known = set(work.made)
    needed = [*(t.table for t in work.tasks), *(n for p in work.preparing for n in p.made_of)]
    for name in needed:
        if name in turn.transcript.lost - known:
            work.sources.append(Source(_origin(turn, name), name))
            known.add(name)


def _origin(turn: Turn, name: str) -> str:
    """The file that a variable was read from, as was told before or as its name says."""
    told = told_file(turn, name)
    if told is not None:
        return told
    alike = [f for f in turn.files if name_for_file(f) == name]
    if len(alike) == 1:
        return alike[0]
    if alike:
        question = f"`{name}` no longer exists. Which file should I load it from?"
        return choose(turn.answers, question, alike[:8])
    raise Declined(
        f"The variable `{name}` no longer exists, and I do not know how it was made.",
        [f"`{name}` is gone"],
        [f"Run the cell that makes `{name}`, then ask again."],
    )


def _check_restored(turn: Turn, source: Source) -> None:
    """Ask before going on with a file that does not hold what the variable held."""
    if source.name not in turn.transcript.lost:
        return
    before = next((read_table(v) for v in turn.transcript.variables
                   if v.get("name") == source.name), None)  # fmt: skip
    now = turn.tables.get(source.name)
    if before is None or now is None:
        return
    added = {c.name for c in before.columns} - {c.name for c in now.columns}
    if before.rows == now.rows and not added:
        return
    had = f"{before.rows:,} rows" + (f" and the columns {spoken(sorted(added))}" if added else "")
    question = (
        f"`{source.name}` had {had} before it was gone; {source.path!r} has {now.rows:,} rows"
        f"{' and not these columns' if added else ''}. Shall I go on with the file?"
    )
    choose(turn.answers, question, [GO_ON, STOP])
