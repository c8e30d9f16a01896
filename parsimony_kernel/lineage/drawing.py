"""An explanation as one self-contained SVG: sources on top, the variable at the bottom.

No script, nothing from elsewhere, every word of a name or a cell escaped. What a colour tells is
told by words or a line as well, and the text of the explanation is the picture's description.
"""

import hashlib
import html
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parsimony_kernel.lineage.why import Explanation, Input, Step

MOST_NODES = 40
_MOST_SOURCES_OF_A_STEP = 6
_WIDTH = 900
_MARGIN = 18
_BOX_WIDTH = 264
_BOX_HEIGHT = 62
_IN_A_ROW = 3
_GAP = 18
_LANE = 16  # where a line passes a row of boxes
_BETWEEN = 46
_TOP = 52

# Light and dark: paper, ink, quiet ink, box, line, the agent's border, a stale line.
_LIGHT = ("#ffffff", "#1b1f24", "#57606a", "#f6f8fa", "#6e7781", "#0860ca", "#9a4a00")
_DARK = ("#16191d", "#e8eaed", "#a4adb6", "#22272e", "#8b949e", "#6cb2ff", "#ffb05c")
_STALE = "stale"

Key = tuple[str, str, int]


@dataclass
class _Node:
    """A box. ``kind`` is user, agent, source, unknown or more; ``mark`` says it changed since."""

    key: Key
    title: str
    place: str
    code: str
    kind: str
    whole: str
    parents: list[Key] = field(default_factory=list)
    mark: str = ""
    row: int = 0
    x: float = 0
    width: float = 0


def draw(told: Explanation) -> str:
    """The explanation as an SVG document of at most 900 pixels' width.

    At most forty boxes; what does not fit is one box that counts it.
    """
    if not told.steps:
        return _document(told, [_text(_MARGIN, 34, told.text(), "pkw-name")], _TOP)
    nodes = _nodes(told)
    rows = _rows(nodes)
    lanes = _lay_out(nodes, rows)
    height = _TOP + len(rows) * (_BOX_HEIGHT + _BETWEEN) - _BETWEEN + _MARGIN
    body = [_text(_MARGIN, 32, f"Where {told.name} comes from", "pkw-head")]
    body += _lines(nodes, lanes)
    body += [_box(node, is_last=node.key == _key(told.steps[0])) for node in nodes.values()]
    return _document(told, body, height)


# What is shown


def _key(step: Step | Input) -> Key:
    return ("variable", step.name, step.version)


def _nodes(told: Explanation) -> dict[Key, _Node]:
    shown = list(told.steps)
    nodes: dict[Key, _Node] = {}
    while True:
        nodes = _nodes_of(shown, told.left_out + len(told.steps) - len(shown))
        if len(nodes) <= MOST_NODES or len(shown) == 1:
            return nodes
        del shown[max(1, len(shown) - (len(nodes) - MOST_NODES)) :]


def _nodes_of(shown: Sequence[Step], left_out: int) -> dict[Key, _Node]:
    nodes: dict[Key, _Node] = {}
    more: Key = ("more", "", 0)
    for step in shown:
        kind = "user" if step.place == "your cell" else "agent"
        nodes[_key(step)] = _Node(
            _key(step),
            f"{step.name} v{step.version}",
            step.place,
            _first_line(step.code),
            kind,
            step.code,
        )
    for step in shown:
        node = nodes[_key(step)]
        for each in step.inputs:
            key = _key(each)
            if each.is_unknown:
                nodes.setdefault(
                    key, _Node(key, each.name, "origin not known", "", "unknown", each.name)
                )
            elif key not in nodes:
                key = more
                word = "step" if left_out == 1 else "steps"
                title = f"{left_out:,} earlier {word}" if left_out else "earlier steps"
                nodes.setdefault(key, _Node(key, title, "not drawn", "", "more", title))
            if key != node.key and key not in node.parents:
                node.parents.append(key)
            if each.is_stale and key != more:
                nodes[key].mark = f"changed since: now v{each.now}" if each.now else "gone now"
        for source in step.sources[:_MOST_SOURCES_OF_A_STEP]:
            key = ("source", source.path, 0)
            digest = ""
            if source.digest is not None:
                digest = f"sha256 {source.digest[:12]}" if source.digest else "content not recorded"
            nodes.setdefault(key, _Node(key, source.path, "source", digest, "source", source.path))
            node.parents.append(key)
        if (rest := len(step.sources) - _MOST_SOURCES_OF_A_STEP) > 0:
            key = ("source", step.name, step.version)
            title = f"{rest:,} more sources"
            nodes[key] = _Node(key, title, "not drawn", "", "more", title)
            node.parents.append(key)
    return nodes


def _first_line(code: str) -> str:
    first, *more = code.splitlines() or [""]
    return f"{first} …" if more else first


# Where it stands


def _rows(nodes: dict[Key, _Node]) -> list[list[Key]]:
    """The boxes row by row from the top, each below all that went into it."""
    depth: dict[Key, int] = {}

    def below(key: Key, path: frozenset[Key]) -> int:
        if key not in depth:
            above = [each for each in nodes[key].parents if each not in path]
            depth[key] = max((below(each, path | {key}) + 1 for each in above), default=0)
        return depth[key]

    for key in nodes:
        below(key, frozenset())
    # What begins a line stands right above what uses it, not at the very top.
    for key, node in nodes.items():
        users = [depth[each.key] for each in nodes.values() if key in each.parents]
        if not node.parents and users:
            depth[key] = max(0, min(users) - 1)
    rows: list[list[Key]] = []
    for level in sorted(set(depth.values())):
        there = [key for key in nodes if depth[key] == level]
        for start in range(0, len(there), _IN_A_ROW):
            rows.append(there[start : start + _IN_A_ROW])
    for number, row in enumerate(rows):
        for key in row:
            nodes[key].row = number
    return rows


def _lay_out(nodes: dict[Key, _Node], rows: list[list[Key]]) -> dict[tuple[Key, int], float]:
    """Give each box its place; where the line from a box passes each row below it."""
    last_user = {
        key: max((each.row for each in nodes.values() if key in each.parents), default=0)
        for key in nodes
    }
    lanes: dict[tuple[Key, int], float] = {}
    for number, row in enumerate(rows):
        passing = [key for key, node in nodes.items() if node.row < number < last_user[key]]

        def wish(key: Key, number: int = number) -> float:
            above = nodes[key].parents if nodes[key].row == number else [key]
            found = [
                lanes.get((each, number - 1), nodes[each].x)
                for each in above
                if nodes[each].row < number
            ]
            return sum(found) / len(found) if found else _WIDTH / 2

        order = sorted([*row, *passing], key=wish)
        gap = min(_GAP, _WIDTH / 4 / len(order))
        free = _WIDTH - 2 * _MARGIN - gap * (len(order) - 1)
        lane = min(_LANE, free / 4 / max(1, len(passing)))
        box = min(_BOX_WIDTH, (free - lane * len(passing)) / len(row))
        widths = [box if nodes[key].row == number else lane for key in order]
        x = (_WIDTH - sum(widths) - gap * (len(order) - 1)) / 2
        for key, width in zip(order, widths, strict=True):
            if nodes[key].row == number:
                nodes[key].x, nodes[key].width = x + width / 2, width
            else:
                lanes[key, number] = x + width / 2
            x += width + gap
    return lanes


def _top(row: int) -> float:
    return _TOP + row * (_BOX_HEIGHT + _BETWEEN)


# The text of the picture


def _lines(nodes: dict[Key, _Node], lanes: dict[tuple[Key, int], float]) -> Iterable[str]:
    for node in nodes.values():
        for key in node.parents:
            parent = nodes[key]
            if parent.row >= node.row:
                continue
            x, y = parent.x, _top(parent.row) + _BOX_HEIGHT
            path = [f"M{x:.0f} {y:.0f}"]
            for row in range(parent.row + 1, node.row):
                lane = lanes[key, row]
                path.append(_curve(x, y, lane, _top(row)))
                x, y = lane, _top(row) + _BOX_HEIGHT
                path.append(f"L{x:.0f} {y:.0f}")
            path.append(_curve(x, y, node.x, _top(node.row) - 7))
            stale = " pkw-stale" if parent.mark else ""
            dashes = ' stroke-dasharray="6 4"' if parent.mark else ""
            yield (
                f'<path class="pkw-line{stale}" d="{" ".join(path)}" fill="none" '
                f'stroke="{_LIGHT[4]}" stroke-width="1.5"{dashes}/>'
                f'<path class="pkw-tip{stale}" fill="{_LIGHT[4]}" d="M{node.x - 4.5:.1f} '
                f'{_top(node.row) - 8:.0f}h9l-4.5 7z"/>'
            )
    for node in nodes.values():
        if any(nodes[key].mark for key in node.parents):
            yield _text(node.x + 9, _top(node.row) - 5, _STALE, "pkw-mark")


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (y + to_y) / 2
    return f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"


def _box(node: _Node, *, is_last: bool) -> str:
    left, top = node.x - node.width / 2, _top(node.row)
    columns = int(node.width - 24)
    radius = {"source": 20, "more": 20}.get(node.kind, 5)
    dashes = ' stroke-dasharray="3 3"' if node.kind in ("unknown", "more") else ""
    place = f"! {node.mark} ({node.place})" if node.mark else node.place
    shown = [
        _text(left + 12, top + 20, _cut(node.title, columns // 8), "pkw-name"),
        _text(
            left + 12,
            top + 37,
            _cut(place, int(columns / 6.6)),
            "pkw-mark" if node.mark else "pkw-place",
        ),
    ]
    if node.code:
        shown.append(_text(left + 12, top + 53, _cut(node.code, int(columns / 6.7)), "pkw-code"))
    return (
        f"<g><title>{_escaped(f'{node.title}: {node.whole}')}</title>"
        f'<rect class="pkw-box pkw-{node.kind}" x="{left:.0f}" y="{top:.0f}" '
        f'width="{node.width:.0f}" height="{_BOX_HEIGHT}" rx="{radius}" fill="{_LIGHT[3]}" '
        f'stroke="{_LIGHT[5 if node.kind == "agent" else 4]}" '
        f'stroke-width="{3 if is_last else 1.25}"{dashes}/>' + "".join(shown) + "</g>"
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    size = {"pkw-head": 16, "pkw-name": 13.5, "pkw-code": 11}.get(kind, 12)
    weight = ' font-weight="600"' if kind in ("pkw-head", "pkw-name") else ""
    family = ' font-family="ui-monospace,monospace"' if kind == "pkw-code" else ""
    colour = {"pkw-place": _LIGHT[2], "pkw-mark": _LIGHT[6]}.get(kind, _LIGHT[1])
    halo = ""
    if text == _STALE:
        halo = f' stroke="{_LIGHT[0]}" stroke-width="4" paint-order="stroke"'
    return (
        f'<text class="{kind}{" pkw-halo" if halo else ""}"{halo} x="{x:.0f}" y="{y:.0f}" '
        f'font-size="{size}"{weight}{family} fill="{colour}">{_escaped(text)}</text>'
    )


def _document(told: Explanation, body: Iterable[str], height: float) -> str:
    text, drawn = told.text(), "".join(body)
    # Of what is drawn, which holds no times: the same picture is the same document.
    mark = hashlib.sha256(f"{told.name} {drawn}".encode("utf-8", "replace")).hexdigest()[:12]
    heading = f"Where {told.name} comes from"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pkw pkw-{mark}" role="img" '
        f'aria-labelledby="pkw-t-{mark} pkw-d-{mark}" viewBox="0 0 {_WIDTH} {height:.0f}" '
        f'width="{_WIDTH}" height="{height:.0f}" style="max-width:100%;height:auto" '
        'font-family="system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif">'
        f'<title id="pkw-t-{mark}">{_escaped(heading)}</title>'
        f'<desc id="pkw-d-{mark}">{_escaped(text)}</desc>'
        f"<style>{_style()}</style>"
        f'<rect class="pkw-paper" width="100%" height="100%" rx="6" fill="{_LIGHT[0]}"/>'
        + drawn
        + "</svg>"
    )


def _style() -> str:
    """The colours for dark surroundings; the light ones stand in the elements themselves."""
    paper, ink, quiet, box, line, agent, stale = _DARK
    light = (
        f".pkw .pkw-line.pkw-stale{{stroke:{_LIGHT[6]}}}.pkw .pkw-tip.pkw-stale{{fill:{_LIGHT[6]}}}"
    )
    dark = (
        f".pkw .pkw-paper{{fill:{paper}}}.pkw text{{fill:{ink}}}"
        f".pkw .pkw-place{{fill:{quiet}}}.pkw .pkw-mark{{fill:{stale}}}"
        f".pkw .pkw-box{{fill:{box};stroke:{line}}}.pkw .pkw-agent{{stroke:{agent}}}"
        f".pkw .pkw-halo{{stroke:{paper}}}"
        f".pkw .pkw-line{{stroke:{line}}}.pkw .pkw-tip{{fill:{line}}}"
        f".pkw .pkw-line.pkw-stale{{stroke:{stale}}}.pkw .pkw-tip.pkw-stale{{fill:{stale}}}"
    )
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


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
