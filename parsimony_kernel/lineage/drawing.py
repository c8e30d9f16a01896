"""An explanation as one self-contained SVG: sources on top, the variable at the bottom.

No script, nothing from elsewhere, every word of a name or a cell escaped. What a colour tells is
told by words or a line as well, and the text of the explanation is the picture's description.
"""

import hashlib
import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from parsimony_kernel.lineage.why import Explanation, Input, Step

MOST_NODES = 40
_MOST_SOURCES_OF_A_STEP = 6
_WIDTH = 900
_MARGIN = 18
_TOP, _BETWEEN = 52, 46
_BOX_WIDTH, _BOX_HEIGHT = 264, 62
# Where the boxes of a row stand, by their number, and where a line passes between them.
_COLUMNS = {1: (450,), 2: (150, 750), 3: (150, 450, 750)}
_LANES = (300, 600)

# Light, which stands in the elements themselves, and dark, which a style gives them.
_PAPER, _INK, _QUIET, _FILL, _LINE, _AGENT, _STALE = (
    "#ffffff", "#1b1f24", "#57606a", "#f6f8fa", "#6e7781", "#0860ca", "#9a4a00",
)  # fmt: skip
_STYLE = (
    "@media (prefers-color-scheme:dark){.pkw .pkw-paper{fill:#16191d}.pkw text{fill:#e8eaed}"
    ".pkw .pkw-place{fill:#a4adb6}.pkw .pkw-mark{fill:#ffb05c}.pkw .pkw-halo{stroke:#16191d}"
    ".pkw .pkw-box{fill:#22272e;stroke:#8b949e}.pkw .pkw-agent{stroke:#6cb2ff}"
    ".pkw .pkw-line{stroke:#8b949e}.pkw .pkw-tip{fill:#8b949e}"
    ".pkw .pkw-line.pkw-stale{stroke:#ffb05c}.pkw .pkw-tip.pkw-stale{fill:#ffb05c}}"
)
_FONT = "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"
_TEXTS: dict[str, dict[str, object]] = {
    "pkw-head": {"font_size": 16, "font_weight": 600, "fill": _INK},
    "pkw-name": {"font_size": 13.5, "font_weight": 600, "fill": _INK},
    "pkw-place": {"font_size": 12, "fill": _QUIET},
    "pkw-mark": {"font_size": 12, "fill": _STALE},
    "pkw-code": {"font_size": 11, "fill": _INK, "font_family": "ui-monospace,monospace"},
}

Key = tuple[str, str, int]


@dataclass
class _Node:
    """A box. ``kind`` is user, agent, source, unknown or more; ``mark`` says it changed since."""

    title: str
    place: str
    code: str = ""
    kind: str = "more"
    whole: str = ""
    parents: list[Key] = field(default_factory=list)
    mark: str = ""
    row: int = 0
    x: int = 0

    @property
    def top(self) -> int:
        return _TOP + self.row * (_BOX_HEIGHT + _BETWEEN)


def draw(told: Explanation) -> str:
    """The explanation as an SVG document of 900 pixels' width.

    At most forty boxes; what does not fit is one box that counts it.
    """
    if not told.steps:
        return _document(told, _text(_MARGIN, 34, told.text(), "pkw-name"), _TOP)
    nodes = _nodes(told)
    height = _TOP + _lay_out(nodes) * (_BOX_HEIGHT + _BETWEEN) - _BETWEEN + _MARGIN
    drawn = _text(_MARGIN, 32, f"Where {told.name} comes from", "pkw-head")
    for node in nodes.values():
        drawn += _lines(node, [nodes[key] for key in node.parents])
    for key, node in nodes.items():
        drawn += _box(node, is_last=key == _key(told.steps[0]))
    return _document(told, drawn, height)


def _key(step: Step | Input) -> Key:
    return ("variable", step.name, step.version)


def _nodes(told: Explanation) -> dict[Key, _Node]:
    shown = list(told.steps)
    while True:
        nodes = _nodes_of(shown, told.left_out + len(told.steps) - len(shown))
        if len(nodes) <= MOST_NODES or len(shown) == 1:
            return nodes
        del shown[max(1, len(shown) - (len(nodes) - MOST_NODES)) :]


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
    word = "step" if left_out == 1 else "steps"
    earlier = _Node(f"{left_out:,} earlier {word}" if left_out else "earlier steps", "not drawn")
    for step in shown:
        node = nodes[_key(step)]
        for each in step.inputs:
            key = _key(each)
            if each.is_unknown:
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
            key = ("source", source.path, 0)
            digest = f"sha256 {source.digest[:12]}" if source.digest else "content not recorded"
            digest = "" if source.digest is None else digest
            nodes.setdefault(key, _Node(source.path, "source", digest, "source", source.path))
            node.parents.append(key)
        if (rest := len(step.sources) - _MOST_SOURCES_OF_A_STEP) > 0:
            key = ("source", step.name, step.version)
            nodes[key] = _Node(f"{rest:,} more sources", "not drawn")
            node.parents.append(key)
    return nodes


def _lay_out(nodes: dict[Key, _Node]) -> int:
    """Give each box its place, right above the first that uses it; how many rows there are."""
    above = dict.fromkeys(nodes, 0)
    for _ in nodes:  # as many times as a way can have steps; what leads to itself ends too
        for key, node in nodes.items():
            for parent in node.parents:
                above[parent] = max(above[parent], above[key] + 1)
    rows: list[list[_Node]] = []
    for level in sorted(set(above.values()), reverse=True):
        there = [node for key, node in nodes.items() if above[key] == level]
        rows += [there[start : start + 3] for start in range(0, len(there), 3)]
    for number, row in enumerate(rows):

        def wish(node: _Node) -> float:
            return sum(nodes[key].x for key in node.parents) / max(1, len(node.parents))

        for node, x in zip(sorted(row, key=wish), _COLUMNS[len(row)], strict=True):
            node.row, node.x = number, x
    return len(rows)


def _lines(node: _Node, parents: Sequence[_Node]) -> str:
    drawn = ""
    for place, parent in enumerate(parents):
        if parent.row >= node.row:
            continue
        x, y = parent.x, parent.top + _BOX_HEIGHT
        way = f"M{x} {y}"
        if parent.row < node.row - 1:
            middle = (parent.x + node.x) / 2
            lane = min(_LANES, key=lambda x: abs(x - middle)) + 6 * (place % 5 - 2)
            way += _curve(x, y, lane, y + _BETWEEN)
            x, y = lane, node.top - _BETWEEN
            way += f"L{x} {y}"
        way += _curve(x, y, node.x, node.top - 7)
        stale, colour = (" pkw-stale", _STALE) if parent.mark else ("", _LINE)
        line = {
            "fill": "none",
            "stroke": colour,
            "stroke_width": 1.5,
            **_dashes("6 4", parent.mark),
        }
        drawn += _tag("path", f"pkw-line{stale}", d=way, **line)
        tip = f"M{node.x - 4.5} {node.top - 8}h9l-4.5 7z"
        drawn += _tag("path", f"pkw-tip{stale}", d=tip, fill=colour)
    if any(parent.mark for parent in parents):
        halo = {"stroke": _PAPER, "stroke_width": 4, "paint_order": "stroke"}
        drawn += _text(node.x + 9, node.top - 5, "stale", "pkw-mark", **halo)
    return drawn


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (y + to_y) / 2
    return f"C{x} {middle} {to_x} {middle} {to_x} {to_y}"


def _dashes(pattern: str, has_any: object) -> dict[str, object]:
    return {"stroke_dasharray": pattern} if has_any else {}


def _box(node: _Node, *, is_last: bool) -> str:
    left, columns = node.x - _BOX_WIDTH // 2, _BOX_WIDTH - 24
    border = {
        "stroke": _AGENT if node.kind == "agent" else _LINE,
        "stroke_width": 3 if is_last else 1.25,
        **_dashes("3 3", node.kind in ("unknown", "more")),
    }
    place = f"! {node.mark} ({node.place})" if node.mark else node.place
    kind = "pkw-mark" if node.mark else "pkw-place"
    size = {"x": left, "y": node.top, "width": _BOX_WIDTH, "height": _BOX_HEIGHT}
    radius = 20 if node.kind in ("source", "more") else 5
    return _tag(
        "g",
        "",
        _tag("title", "", _escaped(f"{node.title}: {node.whole or node.title}"))
        + _tag("rect", f"pkw-box pkw-{node.kind}", **size, rx=radius, fill=_FILL, **border)
        + _text(left + 12, node.top + 20, _cut(node.title, columns // 8), "pkw-name")
        + _text(left + 12, node.top + 37, _cut(place, int(columns / 6.6)), kind)
        + _text(left + 12, node.top + 53, _cut(node.code, int(columns / 6.7)), "pkw-code"),
    )


def _text(x: int, y: int, text: str, kind: str, **halo: object) -> str:
    name = f"{kind} pkw-halo" if halo else kind
    look = {**_TEXTS[kind], **halo}
    return _tag("text", name, _escaped(text), x=x, y=y, **look) if text else ""


def _tag(tag: str, kind: str = "", body: str = "", /, **attributes: object) -> str:
    """An element with ``body``, which is escaped already."""
    given = {"class": kind, **attributes} if kind else attributes
    words = "".join(f' {name.replace("_", "-")}="{each}"' for name, each in given.items())
    return f"<{tag}{words}>{body}</{tag}>"


def _document(told: Explanation, drawn: str, height: int) -> str:
    # Of what is drawn, which holds no times: the same picture is the same document.
    mark = hashlib.sha256(f"{told.name} {drawn}".encode("utf-8", "replace")).hexdigest()[:12]
    about = {"role": "img", "aria_labelledby": f"pkw-t-{mark} pkw-d-{mark}"}
    size = {"viewBox": f"0 0 {_WIDTH} {height}", "width": _WIDTH, "height": height}
    body = (
        _tag("title", "", _escaped(f"Where {told.name} comes from"), id=f"pkw-t-{mark}")
        + _tag("desc", "", _escaped(told.text()), id=f"pkw-d-{mark}")
        + _tag("style", "", _STYLE)
        + _tag("rect", "pkw-paper", width="100%", height="100%", rx=6, fill=_PAPER)
    )
    look = {"style": "max-width:100%;height:auto", "font_family": _FONT}
    address = "http://www.w3.org/2000/svg"
    return _tag("svg", f"pkw pkw-{mark}", body + drawn, xmlns=address, **about, **size, **look)


def _cut(text: str, most: int) -> str:
    """``text`` in ``most`` columns; a wide character takes two."""
    taken = 0
    for place, each in enumerate(text):
        taken += 2 if unicodedata.east_asian_width(each) in "WF" else 1
        if taken > most:
            return text[: max(0, place - 1)] + "…"
    return text


def _escaped(text: str) -> str:
    """``text`` for XML, without what XML cannot hold or what turns the direction of writing."""
    kept = "".join(
        each if each in "\n " or (each.isprintable() and each not in "\ufffe\uffff") else "\ufffd"
        for each in text
    )
    return html.escape(kept)
