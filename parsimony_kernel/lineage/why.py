"""The explanation of a variable's provenance for people: the chain of steps that led to it.

Pure: the ledger in, an ``Explanation`` out. Unknown origins are reported as unknown, never guessed.
"""

import difflib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.ledger import FILE, InputRef, OriginLedger, VariableOrigin

MOST_STEPS = 20
_MOST_COLUMNS = 200
_MOST_LINES = 20
_MOST_INPUTS = 8
_NEAREST = 3


@dataclass(frozen=True)
class Explanation:
    """The provenance of a variable.

    Args:
        name: the variable.
        words: the chain for people, one step below the other, or why there is none.
        steps: the newest steps, newest first.
        stale: the inputs of all steps that have changed since, at the versions used.
    """

    name: str
    words: str
    steps: tuple[VariableOrigin, ...] = ()
    stale: tuple[InputRef, ...] = ()

    def text(self) -> str:
        """Return the chain for people."""
        return self.words


def why(ledger: OriginLedger, name: str, *, present: Collection[str] = ()) -> Explanation:
    """Explain which steps led to the current value of ``name``.

    Args:
        ledger: the provenance of the variables.
        name: the variable.
        present: the variables that are bound now.
    """
    chain = list(ledger.ancestry(name))
    if not chain:
        return Explanation(name, _unexplained(ledger, name, present))
    chain.sort(key=lambda each: (-each.cell_run, each.name != name, each.name, -each.version))
    stale, steps = ledger.stale(name, chain), chain[:MOST_STEPS]
    places = _places(ledger, {each.cell_run for each in steps})
    count = len(chain)
    heading = f"{safe(name)} comes from {count:,} {plural('step', count)}"
    heading += ", newest first." if count > 1 else "."
    if stale:
        heading += f" Stale: {', '.join(_now(ref, ledger) for ref in stale)}."
    lines, names = [heading, ""], [_versioned(each) for each in steps]
    beside = max(map(len, names)) + 2
    for label, each in zip(names, steps, strict=True):
        at = f" · {safe(each.at[:16].replace('T', ' '))}" if each.at else ""
        lines.append(f"{label:<{beside}}{places.get(each.cell_run, '')}{at}")
        lines += [(" " * beside + detail).rstrip() for detail in _details(each)]
    if left := count - len(steps):
        lines.append(f"and {left:,} earlier {plural('step', left)}")
    return Explanation(name, "\n".join(lines), tuple(steps), stale)


def _unexplained(ledger: OriginLedger, name: str, present: Collection[str]) -> str:
    if name in present:
        return (
            f"{safe(name)} was bound before origins were tracked, or by something that is no "
            "cell, so where it comes from is not known. Run the cell that makes it again."
        )
    known = ledger.versions()
    deleting = [each.number for each in ledger.cell_runs() if name in each.deleted][-1:]
    if name in known and deleting:
        return f"{safe(name)} was deleted by {_places(ledger, deleting)[deleting[0]]}."
    there = sorted({*present, *(each for each, version in known.items() if version)})
    near = difflib.get_close_matches(name, there, n=_NEAREST)
    meant = f" Did you mean {', '.join(map(safe, near))}?" if near else ""
    return f"There is no variable {safe(name)}.{meant}"


def _places(ledger: OriginLedger, numbers: Collection[int]) -> dict[int, str]:
    """Return descriptions for people of the cell runs ``numbers``."""
    steps, found = Counter[str](), dict[int, str]()
    for run in ledger.cell_runs():
        steps[run.run_id] += run.actor == "agent"
        if run.number in numbers:
            turn = f"turn {run.turn}" if run.turn else "the agent"
            step = f"{turn}, step {steps[run.run_id]}"
            found[run.number] = step if run.actor == "agent" else "your cell"
    return found


def _statements_of(origin: VariableOrigin) -> str:
    """Return the statements that made and mutated the variable, as they were written."""
    found: list[str] = []
    for each in read(origin.code).statements[: origin.until or None]:
        if origin.name not in each.writes | each.mutated:
            continue
        if each.rebinds and origin.name not in each.reads | each.mutated:
            found.clear()
        found.append(each.source)
    code = "\n".join(found) or origin.code.strip()
    lines = [safe(line.expandtabs(4)[:_MOST_COLUMNS]) for line in code.split("\n")]
    left = len(lines) - _MOST_LINES
    more = [f"… {left:,} more {plural('line', left)}"] if left > 0 else []
    return "\n".join(lines[:_MOST_LINES] + more)


def safe(text: str) -> str:
    """Escape characters of ``text`` that a terminal would interpret as control sequences."""
    return "".join(
        each if each.isprintable() else " " if each.isspace() else ascii(each)[1:-1]
        for each in text
    )


def _now(used: InputRef, ledger: OriginLedger) -> str:
    if used.name.startswith(FILE):
        return f"{safe(used.name)} (written again since)"
    version = ledger.version(used.name)
    return f"{_versioned(used)} (now {f'v{version}' if version else 'gone'})"


def _details(step: VariableOrigin) -> Iterator[str]:
    yield from _statements_of(step).splitlines()
    known = [each for each in step.inputs if each.version]
    if known:
        yield f"made from {_listed([*map(_versioned, known)])}"
    unknown = [safe(each.name) for each in step.inputs if not each.version]
    if unknown:
        yield f"? made from {_listed(unknown)}, whose origin is not known"
    if step.sources:
        yield f"reads {_listed([*map(safe, step.sources)])}"


def _versioned(each: InputRef | VariableOrigin) -> str:
    return f"{safe(each.name)} v{each.version}"


def _listed(names: Collection[str]) -> str:
    told = list(names)[:_MOST_INPUTS]
    more = len(names) - len(told)
    return ", ".join(told) + (f" and {more:,} more" if more else "")
