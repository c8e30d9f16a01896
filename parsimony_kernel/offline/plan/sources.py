"""The sources of a turn: which file is read into which variable.

A file that was read in this turn keeps its variable's name, also when it must be read again.
"""

import re

from parsimony_kernel.offline import recovery
from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.codegen.cells import LOAD
from parsimony_kernel.offline.codegen.loading import name_for_file
from parsimony_kernel.offline.codegen.python import identifier, unique
from parsimony_kernel.offline.plan.step import Source, Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.transcript import Call


def add_source(turn: Turn, work: Work, path: str, given: str | None = None) -> str:
    """The variable for ``path``, a free name or the one that was ``given``."""
    for source in work.sources:
        if source.path == path:
            return source.name
    before = [c.bound[0] for c in load_calls(turn, path) if c.bound]
    name = before[-1] if before else _new_name(turn, work, path, given)
    work.sources.append(Source(path, name))
    return name


def load_calls(turn: Turn, path: str, name: str | None = None) -> list[Call]:
    """The cells of this turn that read ``path``, into ``name`` if one is said."""
    paths = recovery.other_paths(path, turn.transcript.working_folder)
    starts = tuple(f"{LOAD} {p} as {name or ''}" for p in paths)
    return [
        c
        for c in turn.transcript.calls
        if c.name == "run_code" and (c.purpose in starts if name else c.purpose.startswith(starts))
    ]


def told_file(turn: Turn, name: str) -> str | None:
    """The file that a variable was read from, as an earlier turn told."""
    told = re.compile(rf"`{re.escape(name)}` from (.+?): [\d,]+ rows")
    found = [told.search(text) for text in reversed(turn.transcript.earlier)]
    return next((match.group(1) for match in found if match is not None), None)


def _new_name(turn: Turn, work: Work, path: str, given: str | None) -> str:
    wanted = (given if given.isidentifier() else identifier(given, "data")) if given else ""
    wanted = wanted or name_for_file(path)
    free = _own(turn, path, wanted) | turn.transcript.replaceable
    name = unique(wanted, turn.taken(work) - free)
    if name == wanted:
        return name
    if given and wanted in turn.transcript.all_names:
        overwrite = f"overwrite {wanted}"
        question = f"There is a variable {wanted!r} already. Shall I overwrite it?"
        choice = choose(turn.answers, question, [overwrite, f"call it {name}"])
        return wanted if choice == overwrite else name
    turn.tell([f"There is a variable {wanted!r} already, so I loaded {path!r} as `{name}`"])
    return name


def _own(turn: Turn, path: str, name: str) -> set[str]:
    """The name, if an earlier turn of this model bound it to this very file."""
    table = turn.tables.get(name)
    told = f"`{name}` from {path}"
    for text in turn.transcript.earlier:
        if told in text and table is not None and f"{table.rows:,} rows" in text:
            return {name}
    return set()
