"""What a cell of code would do outside the notebook, read from its text.

This is no sandbox. It shows a person what the code says it will do, so that they can decide;
code that hides what it does is not found, and nothing is held back by it. So it does not see

- a file whose name is computed, and what lies behind a link: in ``.ockham`` as well;
- a module that a library imports by itself, that is compiled, or that lies in a folder which the
  code puts on ``sys.path`` itself;
- a namespace that is emptied name by name.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parsimony_kernel.analysis.parse import parse_cell
from parsimony_kernel.core.reach import Finding, Reach, ReachKind
from parsimony_kernel.gate.call_reaches import CallReaches, Modules
from parsimony_kernel.gate.place import Place
from parsimony_kernel.gate.stand_ins import Scopes

_MAX_WHAT = 120
_MAX_SOURCE = 200
_MAX_DEPTH = 5


def screened(
    code: str,
    *,
    workspace: Path,
    folder: Path | None = None,
    namespace: Mapping[str, Any] | None = None,
    modules: Modules = lambda name: None,
) -> tuple[Reach, ...]:
    """Where ``code`` reaches outside the notebook, in the order of its lines.

    Never raises. ``code`` may hold IPython's syntax, or be what IPython makes of it.

    Args:
        workspace: what may be written to; an absolute path.
        folder: where the code runs, absolute; ``workspace`` if not given. Paths are compared by
            their names: links are not followed.
        namespace: what is bound before the code runs, for names that it does not bind itself.
            Without it, ``os``, ``pd`` and their like stand for what they usually do.
        modules: gives the text of a module that is read where it is imported, as if it stood
            there; ``None`` for one that is taken for what its name says.
    """
    place = Place(str(workspace), str(folder or workspace))
    try:
        found = _screen(code, place, Scopes(namespace or {}), _each_once(modules))
    except RecursionError:
        found = [(ReachKind.dynamic_code, "the code is nested too deeply to be read", 1)]
    lines = re.split(r"\r\n|\r|\n", code)  # as Python counts them
    ordered = sorted(dict.fromkeys(_told_once(found)), key=lambda each: each[2])
    return tuple(
        Reach(kind, _flat(what, _MAX_WHAT), line, _flat(_line(lines, line), _MAX_SOURCE))
        for kind, what, line in ordered
    )


def _each_once(modules: Modules) -> Modules:
    """``modules``, of which each is given when it is imported for the first time."""
    given: set[str] = set()

    def once(name: str) -> str | None:
        if name in given:
            return None
        given.add(name)
        return modules(name)

    return once


def _screen(
    code: str, place: Place, scopes: Scopes, modules: Modules, depth: int = 0
) -> list[Finding]:
    """What ``code`` reaches; ``depth`` counts how many texts that are run it stands in."""

    def within(text: str, inner: Scopes, line: int) -> list[Finding]:
        read = _screen(text, place, inner, modules, depth + 1)
        return [(kind, what, line) for kind, what, _ in read]

    found: list[Finding] = []
    inner = within if depth < _MAX_DEPTH else None
    CallReaches(place, scopes, found, inner, modules).read(parse_cell(code)[1])
    return found


def _told_once(found: Sequence[Finding]) -> list[Finding]:
    """The findings without deletions of a line that another one tells with what goes."""
    named = {(what.partition(" ")[0], line) for _, what, line in found if " " in what}
    return [
        (kind, what, line)
        for kind, what, line in found
        if kind is not ReachKind.deletion or (what, line) not in named
    ]


def _line(lines: Sequence[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _flat(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
