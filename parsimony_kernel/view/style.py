"""How the record looks in HTML.

Looks are style attributes and no style sheet: who does not take styles, such as a renderer of
Markdown, drops an attribute, but shows a sheet as text. Colours come from the front end
(JupyterLab's variables, then VS Code's), so a theme is followed without being asked for; where
neither names one, a colour for light and one for dark grounds is given. Sizes are relative to the
font, so that the record flows anew when it is enlarged. The markup reads without any of this.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = "parsimony-record"


@dataclass(frozen=True)
class Colour:
    """The first of ``variables`` that the front end defines, else one for each kind of ground."""

    variables: tuple[str, ...]
    light: str
    dark: str

    @property
    def css(self) -> str:
        value = f"light-dark({self.light},{self.dark})"
        for name in reversed(self.variables):
            value = f"var(--{name},{value})"
        return value


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
COLOURS = {
    name: Colour(variables=tuple(variables), light=light, dark=dark)
    for name, (*variables, light, dark) in _TABLE["colours"].items()
}

_INK = "var(--jp-ui-font-color1,var(--vscode-foreground,currentcolor))"
_UI = "var(--jp-ui-font-family,var(--vscode-font-family,system-ui,sans-serif))"
_CODE = "var(--jp-code-font-family,var(--vscode-editor-font-family,monospace))"
_FAINT = "rgba(127,127,127,.28)"
_RULE = f"var(--jp-border-color2,{_FAINT})"
# The ground of code and of every other row, translucent so that it suits any theme.
WASH = (127, 127, 127, 0.08)


# JupyterLab takes the definition of our variables out of what it does not trust.
_EDGES = {
    name: f"border-left-color:var(--pk-{name},var(--{colour.variables[0]},rgb(127,127,127)))"
    for name, colour in COLOURS.items()
}
_VALUES = {
    "cell": "padding:.2em .5em",
    "code": _CODE,
    "edge": _EDGES,
    "faint": _FAINT,
    "frame": f"border:1px solid {_FAINT};border-color:{_RULE};border-left-width:.2em;"
    "border-radius:.25em;padding:.7em 1em;margin-top:.9em",
    "ink": _INK,
    "plain_edge": f"border-left-color:{_RULE}",
    "rule": _RULE,
    "ui": _UI,
    "wash": f"rgba({','.join(f'{part:g}' for part in WASH)})",
}
LOOKS = {name: look.format_map(_VALUES) for name, look in _TABLE["looks"].items()}

# Themes choose the colours of code for the ground of their editor, and some too faint.
_OF_CODE = frozenset({"keyword", "number", "string", "comment", "name"})
_OURS = re.compile(r"var\(--pk-([a-z]+)[,)]")


def style(*names: str) -> str:
    """The style attribute of an element that looks like ``names``, the last one strongest."""
    looks = [LOOKS[name] for name in names if name in LOOKS]
    return f' style="{";".join(looks)}"' if looks else ""


def root_style(body: str) -> str:
    """The style attribute of the root, with the colours that ``body`` uses."""
    used = dict.fromkeys(_OURS.findall(body))
    colours = "".join(f"--pk-{name}:{_value(name)};" for name in COLOURS if name in used)
    return f' style="{colours}{LOOKS["root"]}"'


def _value(name: str) -> str:
    css = COLOURS[name].css
    return f"color-mix(in srgb,{css} 75%,{_INK})" if name in _OF_CODE else css
