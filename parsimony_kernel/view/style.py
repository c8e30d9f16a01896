"""How the record looks in HTML.

Looks are style attributes and no style sheet: who does not take styles, such as a renderer of
Markdown, drops an attribute, but shows a sheet as text. Colours come from the front end
(JupyterLab's variables, then VS Code's), so a theme is followed without being asked for; where
neither names one, a colour for light and one for dark grounds is given. Sizes are relative to the
font, so that the record flows anew when it is enlarged. The markup reads without any of this.
"""

import re
from dataclasses import dataclass

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


COLOURS = {
    "quiet": Colour(
        ("jp-ui-font-color2", "vscode-descriptionForeground"), light="#595959", dark="#b8b8b8"
    ),
    "brand": Colour(
        ("jp-brand-color1", "vscode-textLink-foreground"), light="#1259a8", dark="#90caf9"
    ),
    "alarm": Colour(("jp-error-color1", "vscode-errorForeground"), light="#b3261e", dark="#ffb4ab"),
    "care": Colour(
        ("jp-warn-color1", "vscode-editorWarning-foreground"), light="#8a4b00", dark="#ffcc80"
    ),
    "good": Colour(
        ("jp-success-color1", "vscode-testing-iconPassed"), light="#1b6e2b", dark="#9ad7a3"
    ),
    "keyword": Colour(
        ("jp-mirror-editor-keyword-color", "vscode-debugTokenExpression-name"),
        light="#1b6e2b",
        dark="#9ad7a3",
    ),
    "number": Colour(
        ("jp-mirror-editor-number-color", "vscode-debugTokenExpression-number"),
        light="#1b6e2b",
        dark="#b5cea8",
    ),
    "string": Colour(
        ("jp-mirror-editor-string-color", "vscode-debugTokenExpression-string"),
        light="#a3312b",
        dark="#f0a89a",
    ),
    "comment": Colour(
        ("jp-mirror-editor-comment-color", "vscode-descriptionForeground"),
        light="#3f6464",
        dark="#9fb8b8",
    ),
    "name": Colour(
        ("jp-mirror-editor-def-color", "vscode-symbolIcon-functionForeground"),
        light="#1259a8",
        dark="#90caf9",
    ),
}

_INK = "var(--jp-ui-font-color1,var(--vscode-foreground,currentcolor))"
_UI = "var(--jp-ui-font-family,var(--vscode-font-family,system-ui,sans-serif))"
_CODE = "var(--jp-code-font-family,var(--vscode-editor-font-family,monospace))"
_FAINT = "rgba(127,127,127,.28)"
_RULE = f"var(--jp-border-color2,{_FAINT})"
# The ground of code and of every other row, translucent so that it suits any theme.
WASH = (127, 127, 127, 0.08)
_WASH = f"rgba({','.join(f'{part:g}' for part in WASH)})"


def _quiet(size: str) -> str:
    return f"font-size:{size};color:var(--pk-quiet)"


def _edge(name: str) -> str:
    # JupyterLab takes the definition of our variables out of what it does not trust.
    fallback = f"var(--{COLOURS[name].variables[0]},rgb(127,127,127))"
    return f"border-left-color:var(--pk-{name},{fallback})"


_PLAIN_EDGE = f"border-left-color:{_RULE}"
_FRAME = (
    f"border:1px solid {_FAINT};border-color:{_RULE};border-left-width:.2em;border-radius:.25em;"
    "padding:.7em 1em;margin-top:.9em"
)
_CELL = "padding:.2em .5em"

LOOKS = {
    "root": f"color:{_INK};font-family:{_UI};line-height:1.5;max-width:60em;"
    "overflow-wrap:break-word;overflow-wrap:anywhere",
    "section": "margin:0 0 .75em;padding:0 0 0 .9em;border-left:.15em solid transparent",
    "title": "display:flex;flex-wrap:wrap;align-items:baseline;gap:0 .6em;margin:0 0 .35em",
    "title-quiet": _quiet(".86em"),
    "name": "font-weight:600",
    "name-brand": "font-weight:600;color:var(--pk-brand)",
    "state": f"font-style:normal;{_quiet('.86em')}",
    "state-failed": "font-style:normal;font-size:.86em;font-weight:600",
    "body": "margin:0 0 .35em",
    "words": "margin:0 0 .35em;font-size:1.08em",
    "note": f"margin:0 0 .35em;{_quiet('.9em')}",
    "label": f"margin:.5em 0 0;{_quiet('.82em')}",
    "list": "margin:0 0 .35em;padding-left:1.6em",
    "chosen": "font-weight:600",
    "details": "margin:.25em 0 .4em",
    "summary": f"cursor:pointer;{_quiet('.86em')}",
    "code": f"font-family:{_CODE};font-size:.92em;line-height:1.45;color:inherit;"
    f"background:{_WASH};margin:.35em 0 .5em;padding:.55em .8em;border:0;border-radius:.25em;"
    "white-space:pre;overflow-x:auto;tab-size:4",
    "out": f"font-family:{_CODE};font-size:.92em;line-height:1.45;color:inherit;background:none;"
    f"margin:.35em 0 .5em;padding:.1em .8em;border:0;border-left:.15em solid {_FAINT};"
    f"{_PLAIN_EDGE};"
    "white-space:pre;max-height:26em;overflow:auto;tab-size:4",
    "bare": "font:inherit;color:inherit;background:none;padding:0;overflow-wrap:normal;"
    "white-space:pre",
    "scroll": "overflow-x:auto;margin:.3em 0 .5em",
    "table": "border-collapse:collapse;margin:0;font-size:.9em;line-height:1.4;"
    "font-variant-numeric:tabular-nums;border:0;overflow-wrap:normal;white-space:nowrap",
    "caption": f"caption-side:top;text-align:left;padding:0 0 .3em;{_quiet('.95em')}",
    "head": f"text-align:left;font-weight:600;border-bottom:1px solid {_RULE};{_CELL}",
    "head-number": f"text-align:right;font-weight:600;border-bottom:1px solid {_RULE};{_CELL}",
    "cell": f"text-align:left;{_CELL}",
    "cell-number": f"text-align:right;{_CELL}",
    "row-even": f"background:{_WASH}",
    "figure": "margin:.4em 0",
    "image": "max-width:100%;height:auto;background:#fff;border-radius:.25em",
    "request": _edge("brand"),
    "reply": _edge("brand"),
    "step": _PLAIN_EDGE,
    "step-running": _edge("brand"),
    "step-waiting": _edge("brand"),
    "step-failed": _edge("alarm"),
    "step-refused": _edge("care"),
    "step-stopped": _edge("care"),
    "recovery": _edge("care"),
    "budget": _edge("care"),
    "cancelled": _edge("care"),
    "partial": _edge("care"),
    "question": f"{_FRAME};{_edge('brand')}",
    "question-answered": _PLAIN_EDGE,
    "result": f"{_FRAME};{_edge('good')}",
    "handoff": f"{_FRAME};{_edge('care')}",
    "footer": f"margin-bottom:0;{_quiet('.82em')}",
    "progress": f"margin-bottom:0;{_quiet('.9em')}",
    "token-keyword": "color:var(--pk-keyword);font-weight:600",
    "token-number": "color:var(--pk-number)",
    "token-string": "color:var(--pk-string)",
    "token-comment": "color:var(--pk-comment);font-style:italic",
    "token-name": "color:var(--pk-name)",
}

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
