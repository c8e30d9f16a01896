"""The explanation of a variable's provenance for people: the chain of steps that led to it.

Pure: the ledger in, an ``Explanation`` out. Unknown origins are reported as unknown, never guessed.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.ledger import CellRun, InputRef, OriginLedger, VariableOrigin

MOST_STEPS = 20
_MOST_CODE = 200
_MOST_STATEMENTS = 3
_MOST_INPUTS = 8
_NEAREST = 3


@dataclass(frozen=True)
class Input:
    """An input of a step.

    Args:
        name: the variable.
        version: the version used, 0 if its origin is unknown.
        now: its current version, 0 if it is gone.
        is_stale: whether it has changed since, so that the variables made from it are stale.
    """

    name: str
    version: int
    now: int
    is_stale: bool = False


@dataclass(frozen=True)
class Step:
    """One binding or mutation of a variable.

    Args:
        name: the variable.
        version: the version that the step made.
        place: the cell, in words for people.
        code: the statements that made and mutated the variable, one per line, at most three.
        inputs: the variables that it was made from.
        sources: the files and addresses that the cell read.
        at: the time in ISO 8601, or ``""``.
    """

    name: str
    version: int
    place: str
    code: str
    inputs: tuple[Input, ...] = ()
    sources: tuple[str, ...] = ()
    at: str = ""


@dataclass(frozen=True)
class Explanation:
    """The provenance of a variable.

    Args:
        name: the variable.
        steps: the newest steps, newest first, and older ones with an input that changed since.
        left_out: the number of older steps left out.
        problem: why there are no steps.
        nearest: similar names, if the variable doesn't exist.
    """

    name: str
    steps: tuple[Step, ...] = ()
    left_out: int = 0
    problem: str = ""
    nearest: tuple[str, ...] = ()

    @property
    def stale(self) -> tuple[Input, ...]:
        """The inputs that have changed since, each once."""
        return tuple(
            dict.fromkeys(each for step in self.steps for each in step.inputs if each.is_stale)
        )

    def text(self) -> str:
        """Render the chain, one step below the other."""
        if self.problem:
            near = ", ".join(_safe(each) for each in self.nearest)
            return self.problem + (f" Did you mean {near}?" if near else "")
        names = [f"{_safe(step.name)} v{step.version}" for step in self.steps]
        beside = max(map(len, names)) + 2
        lines = [_heading(self), ""]
        for name, step in zip(names, self.steps, strict=True):
            lines.append(f"{name:<{beside}}{step.place}{_time(step.at)}")
            lines += [" " * beside + detail for detail in _details(step)]
        if self.left_out:
            lines.append(f"and {self.left_out:,} earlier {plural('step', self.left_out)}")
        return "\n".join(lines)


def why(
    ledger: OriginLedger,
    name: str,
    *,
    present: Collection[str] = (),
    turns: Mapping[str, int] | None = None,
) -> Explanation:
    """Explain which steps led to the current value of ``name``.

    Args:
        ledger: the provenance of the variables.
        name: the variable.
        present: the variables that are bound now.
        turns: the turn number of each run id.
    """
    chain = list(ledger.ancestry(name))
    if not chain:
        return _unexplained(ledger, name, present)
    chain.sort(key=lambda each: (-each.cell_run, each.name != name, each.name, -each.version))
    stale = frozenset(ledger.stale(name, chain))
    places = _places(ledger, turns or {})
    shown = [
        each
        for at, each in enumerate(chain)
        if at < MOST_STEPS or not stale.isdisjoint(each.inputs)
    ][: 2 * MOST_STEPS]
    steps = tuple(
        Step(
            name=each.name,
            version=each.version,
            place=places.get(each.cell_run) or _place(each, turns or {}, 0),
            code=_statements_of(each),
            inputs=_inputs(ledger, each, stale),
            sources=each.sources,
            at=each.at,
        )
        for each in shown
    )
    return Explanation(name, steps, len(chain) - len(steps))


def _inputs(
    ledger: OriginLedger, origin: VariableOrigin, stale: frozenset[InputRef]
) -> tuple[Input, ...]:
    return tuple(
        Input(ref.name, ref.version, ledger.version(ref.name), ref in stale)
        for ref in origin.inputs
    )


def _unexplained(ledger: OriginLedger, name: str, present: Collection[str]) -> Explanation:
    if name in present:
        return Explanation(
            name,
            problem=f"{_safe(name)} was bound before origins were tracked, or by something that "
            "is no cell, so where it comes from is not known. Run the cell that makes it again.",
        )
    known = ledger.versions()
    deleting = [each for each in ledger.cell_runs() if name in each.deleted]
    if name in known and deleting:
        place = _places(ledger, {})[deleting[-1].number]
        return Explanation(name, problem=f"{_safe(name)} was deleted by {place}.")
    there = sorted({*present, *(each for each, version in known.items() if version)})
    folded = {each.casefold(): each for each in there}
    near = difflib.get_close_matches(name.casefold(), folded, n=_NEAREST, cutoff=0.6)
    return Explanation(
        name,
        problem=f"There is no variable {_safe(name)}.",
        nearest=tuple(folded[each] for each in near),
    )


def _places(ledger: OriginLedger, turns: Mapping[str, int]) -> dict[int, str]:
    """Return a description of each cell run for people, by number."""
    steps: dict[str, int] = {}
    found = {}
    for run in ledger.cell_runs():
        if run.actor == "agent":
            steps[run.run_id] = steps.get(run.run_id, 0) + 1
        found[run.number] = _place(run, turns, steps.get(run.run_id, 0))
    return found


def _place(ran: CellRun | VariableOrigin, turns: Mapping[str, int], step: int) -> str:
    if ran.actor == "user":
        return "your cell"
    turn = f"turn {turns[ran.run_id]}" if ran.run_id in turns else "the agent"
    return f"{turn}, step {step}" if step else turn


def _statements_of(origin: VariableOrigin) -> str:
    """Return the statements that made and mutated the variable, one per line.

    If there are more than three, only the first and the last.
    """
    found: list[str] = []
    for each in read(origin.code).statements:
        if origin.name not in each.writes | each.mutated:
            continue
        if each.rebinds and origin.name not in each.reads | each.mutated:
            found.clear()
        found.append(_on_one_line(each.source))
    if len(found) > _MOST_STATEMENTS:
        found = [found[0], "…", found[-1]]
    return "\n".join(found) or _on_one_line(origin.code)


def _on_one_line(text: str) -> str:
    line = " ".join(_safe(text[: 4 * _MOST_CODE]).split())
    return line if len(line) <= _MOST_CODE else line[: _MOST_CODE - 1] + "…"


def _safe(text: str) -> str:
    """Escape characters of ``text`` that a terminal would interpret as control sequences."""
    return "".join(
        each if each.isprintable() else " " if each.isspace() else ascii(each)[1:-1]
        for each in text
    )


# The text


def _heading(told: Explanation) -> str:
    steps = len(told.steps) + told.left_out
    line = f"{_safe(told.name)} comes from {steps:,} {plural('step', steps)}"
    line += ", newest first." if steps > 1 else "."
    if told.stale:
        line += f" Changed since: {_listed(dict.fromkeys(_safe(ref.name) for ref in told.stale))}."
    return line


def _details(step: Step) -> Iterable[str]:
    yield from step.code.splitlines()
    inputs = [f"{_safe(each.name)} v{each.version}" for each in step.inputs if each.version]
    if inputs:
        yield f"made from {_listed(inputs)}"
    for each in step.inputs:
        if each.is_stale and each.version:
            name = _safe(each.name)
            now = f"at version {each.now} now" if each.now else "gone now"
            yield f"! made from {name} version {each.version}; {name} is {now}"
    unknown = [_safe(each.name) for each in step.inputs if not each.version]
    if unknown:
        yield f"? made from {_listed(unknown)}, whose origin is not known"
    for source in step.sources[:_MOST_INPUTS]:
        yield f"reads {_safe(source)}"
    if len(step.sources) > _MOST_INPUTS:
        more = len(step.sources) - _MOST_INPUTS
        yield f"reads {more:,} more {plural('source', more)}"


def _listed(names: Collection[str]) -> str:
    told = list(names)[:_MOST_INPUTS]
    more = len(names) - len(told)
    return ", ".join(told) + (f" and {more:,} more" if more else "")


def _time(at: str) -> str:
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        return ""
    return f" · {moment:%Y-%m-%d %H:%M}"
