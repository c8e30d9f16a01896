"""An explanation as one self-contained SVG: a row per step, what it was made of above it.

No script, nothing from elsewhere, every word of a name or a cell escaped. What a colour tells is
told by words or a line as well, and the text of the explanation is the picture's description.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import PurePath

from parsimony_kernel.core.templates import rendered
from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.why import Explanation, Step

_LEFT, _TOP, _PITCH, _BOX_HEIGHT = 96, 50, 74, 62
# How far a line to the row below leaves the boxes, and how far any line does.
_BEND, _WIDEST_BEND = 22, 88

Key = tuple[str, int]


@dataclass(eq=False)
class _Row:
    """A box. ``mark`` says that the variable has changed since, ``parents`` are the boxes of what
    it was made of, ``besides`` names what of that has no box."""

    step: Step
    besides: str = ""
    mark: str = ""
    parents: list["_Row"] = field(default_factory=list)
    top: int = 0


def draw(told: Explanation) -> str:
    """The explanation as an SVG document."""
    rows = _rows(told)
    for number, row in enumerate(rows):
        row.top = _TOP + number * _PITCH
    left_out = f"{told.left_out:,} earlier {plural('step', told.left_out)} not drawn"
    # Without times: the same picture is the same document.
    said = [(row.step.name, row.step.place, row.step.code, row.besides, row.mark) for row in rows]
    drawn = f"{told.name} {told.problem} {told.left_out} {said}"
    return rendered(
        "lineage/picture.svg.j2",
        mark=hashlib.sha256(drawn.encode("utf-8", "replace")).hexdigest()[:12],
        head=f"Where {told.name} comes from",
        left_out=left_out if told.left_out else "",
        description=told.text(),
        problem="" if told.steps else told.text(),
        rows=rows,
        lines=[(_way(parent, row), row, parent) for row in rows for parent in row.parents],
        left=_LEFT,
        height=_TOP + len(rows) * _PITCH,
    )


def _rows(told: Explanation) -> list[_Row]:
    """The boxes, each below those that it was made of."""
    every: dict[Key, _Row] = {(step.name, step.version): _Row(step) for step in told.steps}
    rows, begun = list[_Row](), set[_Row]()

    def place(row: _Row) -> None:
        if row in begun:  # which also ends where a box leads back to itself
            return
        begun.add(row)
        besides = [f"reads {PurePath(each).name}" for each in row.step.sources]
        for each in row.step.inputs:
            parent = every.get((each.name, each.version))
            if parent is None:
                unknown = "" if each.version else ", of unknown origin"
                besides.append(f"from {each.name}{unknown}")
            elif parent is not row and parent not in row.parents:
                row.parents.append(parent)
                place(parent)
            if parent is not None and each.is_stale:
                parent.mark = f"changed since: now v{each.now}" if each.now else "gone now"
        row.besides = " · ".join(besides)
        rows.append(row)

    for row in reversed(every.values()):
        place(row)
    return rows


def _way(parent: _Row, row: _Row) -> str:
    """The line from the left of a box to that of another, the longer the further out."""
    begin, end = (each.top + _BOX_HEIGHT // 2 for each in (parent, row))
    bend = _LEFT - min(_BEND * abs(end - begin) // _PITCH, _WIDEST_BEND)
    return f"M{_LEFT} {begin}C{bend} {begin} {bend} {end} {_LEFT - 7} {end}"
