"""An explanation as one self-contained SVG: a row per step, what it was made of above it.

No script, nothing from elsewhere, every word of a name or a cell escaped. What a colour tells is
told by words or a line as well, and the text of the explanation is the picture's description.
"""

import hashlib
from dataclasses import dataclass, field

from parsimony_kernel.core.templates import rendered
from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.why import Explanation, Input, Step

MOST_NODES = 40
_MOST_SOURCES_OF_A_STEP = 6
_LEFT, _TOP, _PITCH, _BOX_HEIGHT = 96, 50, 58, 46
# How far a line to the row below leaves the boxes, and how far any line does.
_BEND, _WIDEST_BEND = 22, 88

Key = tuple[str, str, int]


@dataclass(eq=False)
class _Node:
    """A box. ``kind`` is user, agent, source, unknown or more; ``mark`` says it changed since."""

    title: str
    place: str
    code: str = ""
    kind: str = "more"
    whole: str = ""
    parents: list["_Node"] = field(default_factory=list)
    mark: str = ""
    top: int = 0


def draw(told: Explanation) -> str:
    """The explanation as an SVG document; at most forty boxes, one of which counts the rest."""
    nodes = _nodes(told) if told.steps else {}
    for row, node in enumerate(nodes.values()):
        node.top = _TOP + row * _PITCH
    lines = [
        {"path": _way(parent, node), "at": node, "is_stale": bool(parent.mark)}
        for node in nodes.values()
        for parent in node.parents
    ]
    # Without times: the same picture is the same document.
    said = [(each.title, each.place, each.code, each.mark) for each in nodes.values()]
    drawn = f"{told.name} {told.problem} {said}"
    return rendered(
        "lineage/picture.svg.j2",
        mark=hashlib.sha256(drawn.encode("utf-8", "replace")).hexdigest()[:12],
        head=f"Where {told.name} comes from",
        description=told.text(),
        problem="" if told.steps else told.text(),
        nodes=list(nodes.values()),
        lines=lines,
        left=_LEFT,
        height=_TOP + len(nodes) * _PITCH,
    )


def _nodes(told: Explanation) -> dict[Key, _Node]:
    """The boxes from top to bottom."""
    count = len(told.steps)
    while len(nodes := _rows(told, count)) > MOST_NODES and count > 1:
        count -= 1
    return nodes


def _key(step: Step | Input) -> Key:
    return ("variable", step.name, step.version)


def _rows(told: Explanation, count: int) -> dict[Key, _Node]:
    """The boxes of the newest ``count`` steps, each below those that it was made of."""
    steps = {_key(step): (step, _step_node(step)) for step in told.steps[:count]}
    left_out = told.left_out + len(told.steps) - count
    earlier = f"{left_out:,} " * bool(left_out) + f"earlier {plural('step', left_out)}"
    rows, begun = dict[Key, _Node](), set[Key]()

    def place(step: Step, node: _Node) -> None:
        begun.add(_key(step))
        for each in step.inputs:
            key = _key(each)
            if key in steps:
                parent = steps[key][1]
                if key not in begun:  # else these lead back to it
                    place(*steps[key])
            elif each.version:
                parent = rows.setdefault(("more", "", 0), _Node(earlier, "not drawn"))
            else:
                parent = rows.setdefault(key, _Node(each.name, "origin not known", kind="unknown"))
            if parent is not node and parent not in node.parents:
                node.parents.append(parent)
            if each.is_stale and parent.kind != "more":
                parent.mark = f"changed since: now v{each.now}" if each.now else "gone now"
        for source in step.sources[:_MOST_SOURCES_OF_A_STEP]:
            made = _Node(source, "source", kind="source")
            node.parents.append(rows.setdefault(("source", source, 0), made))
        if (rest := len(step.sources) - _MOST_SOURCES_OF_A_STEP) > 0:
            more = _Node(f"{rest:,} more sources", "not drawn")
            rows["source", step.name, step.version] = more
            node.parents.append(more)
        rows[_key(step)] = node

    for step, node in reversed(steps.values()):
        if _key(step) not in begun:
            place(step, node)
    return rows


def _step_node(step: Step) -> _Node:
    first, *more = step.code.splitlines() or [""]
    return _Node(
        f"{step.name} v{step.version}",
        step.place,
        f"{first} …" if more else first,
        "user" if step.place == "your cell" else "agent",
        step.code,
    )


def _way(parent: _Node, node: _Node) -> str:
    """The line from the left of a box to that of another, the longer the further out."""
    begin, end = (each.top + _BOX_HEIGHT // 2 for each in (parent, node))
    bend = _LEFT - min(_BEND * abs(end - begin) // _PITCH, _WIDEST_BEND)
    return f"M{_LEFT} {begin}C{bend} {begin} {bend} {end} {_LEFT - 7} {end}"
