"""An explanation as one self-contained SVG: sources on top, the variable at the bottom.

No script, nothing from elsewhere, every word of a name or a cell escaped. What a colour tells is
told by words or a line as well, and the text of the explanation is the picture's description.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from parsimony_kernel.core.templates import rendered
from parsimony_kernel.core.text import plural
from parsimony_kernel.lineage.why import Explanation, Input, Step

MOST_NODES = 40
_MOST_SOURCES_OF_A_STEP = 6
_COLUMN = 300
_WIDEST = 800
_TOP, _BETWEEN, _BELOW = 52, 46, 18
_BOX_HEIGHT = 62
_MOST_IN_A_ROW = 3

Key = tuple[str, str, int]


@dataclass
class _Node:
    """A box. ``kind`` is user, agent, source, unknown or more; ``mark`` says it changed since.
    ``ways`` are the lines that lead to it, each with whether what it comes from has changed."""

    title: str
    place: str
    code: str = ""
    kind: str = "more"
    whole: str = ""
    parents: list[Key] = field(default_factory=list)
    mark: str = ""
    row: int = 0
    x: int = 0
    ways: list[dict[str, object]] = field(default_factory=list)
    is_stale: bool = False
    is_last: bool = False

    @property
    def top(self) -> int:
        return _TOP + self.row * (_BOX_HEIGHT + _BETWEEN)


def draw(told: Explanation) -> str:
    """The explanation as an SVG document, as wide as its widest row and at most 800 pixels.

    At most forty boxes; what does not fit is one box that counts it.
    """
    nodes = _nodes(told) if told.steps else {}
    width, height = 2 * _COLUMN, _TOP
    if nodes:
        width, rows = _lay_out(nodes)
        height += rows * (_BOX_HEIGHT + _BETWEEN) - _BETWEEN + _BELOW
        nodes[_key(told.steps[0])].is_last = True
    for node in nodes.values():
        parents = [nodes[key] for key in node.parents]
        node.is_stale = any(parent.mark for parent in parents)
        node.ways = [
            {"path": _way(parent, node), "is_stale": bool(parent.mark)}
            for parent in parents
            if parent.row < node.row
        ]
    head = f"Where {told.name} comes from"
    width = max(width, 40 + 9 * len(head))  # of 16 pixels, in bold
    # Without times: the same picture is the same document.
    drawn = f"{told.name} {told.problem} {[*nodes.values()]}"
    return rendered(
        "lineage/picture.svg.j2",
        mark=hashlib.sha256(drawn.encode("utf-8", "replace")).hexdigest()[:12],
        head=head,
        description=told.text(),
        problem="" if told.steps else told.text(),
        nodes=list(nodes.values()),
        width=width,
        height=height,
        shown=min(width, _WIDEST),
    )


def _key(step: Step | Input) -> Key:
    return ("variable", step.name, step.version)


def _nodes(told: Explanation) -> dict[Key, _Node]:
    shown, left_out = told.steps, told.left_out
    while len(nodes := _nodes_of(shown, left_out)) > MOST_NODES and len(shown) > 1:
        shown, left_out = shown[:-1], left_out + 1
    return nodes


def _nodes_of(shown: Sequence[Step], left_out: int) -> dict[Key, _Node]:
    nodes: dict[Key, _Node] = {}
    for step in shown:
        first, *more = step.code.splitlines() or [""]
        kind = "user" if step.place == "your cell" else "agent"
        nodes[_key(step)] = _Node(
            f"{step.name} v{step.version}",
            step.place,
            f"{first} …" if more else first,
            kind,
            step.code,
        )
    count = f"{left_out:,} " if left_out else ""
    earlier = _Node(f"{count}earlier {plural('step', left_out)}", "not drawn")
    for step in shown:
        node = nodes[_key(step)]
        for each in step.inputs:
            key = _key(each)
            if not each.version:
                unknown = _Node(each.name, "origin not known", kind="unknown", whole=each.name)
                nodes.setdefault(key, unknown)
            elif key not in nodes:
                key = ("more", "", 0)
                nodes[key] = earlier
            if nodes[key] is not node and key not in node.parents:
                node.parents.append(key)
            if each.is_stale and nodes[key] is not earlier:
                nodes[key].mark = f"changed since: now v{each.now}" if each.now else "gone now"
        for source in step.sources[:_MOST_SOURCES_OF_A_STEP]:
            key = ("source", source, 0)
            nodes.setdefault(key, _Node(source, "source", kind="source", whole=source))
            node.parents.append(key)
        if (rest := len(step.sources) - _MOST_SOURCES_OF_A_STEP) > 0:
            key = ("source", step.name, step.version)
            nodes[key] = _Node(f"{rest:,} more sources", "not drawn")
            node.parents.append(key)
    return nodes


def _lay_out(nodes: dict[Key, _Node]) -> tuple[int, int]:
    """Give each box its place, right above the first that uses it: the width, and how many rows."""
    above = dict.fromkeys(nodes, 0)
    for _ in nodes:  # as many times as a way can have steps; what leads to itself ends too
        for key, node in nodes.items():
            for parent in node.parents:
                above[parent] = max(above[parent], above[key] + 1)
    rows: list[list[_Node]] = []
    for level in sorted(set(above.values()), reverse=True):
        there = [node for key, node in nodes.items() if above[key] == level]
        starts = range(0, len(there), _MOST_IN_A_ROW)
        rows += [there[start : start + _MOST_IN_A_ROW] for start in starts]
    # Room for the heading above a single box.
    width = _COLUMN * max(1.5, *map(len, rows))
    for number, row in enumerate(rows):
        for node in row:  # where those that it was made of are, in the middle
            node.x = sum(nodes[key].x for key in node.parents) // max(1, len(node.parents))
        for place, node in enumerate(sorted(row, key=lambda node: node.x)):
            node.row, node.x = number, round(width * (2 * place + 1) / (2 * len(row)))
    return round(width), len(rows)


def _way(parent: _Node, node: _Node) -> str:
    """The line from a box to one below, which passes behind those between."""
    begin, end = parent.top + _BOX_HEIGHT, node.top - 7
    middle = (begin + end) / 2
    return f"M{parent.x} {begin}C{parent.x} {middle} {node.x} {middle} {node.x} {end}"
