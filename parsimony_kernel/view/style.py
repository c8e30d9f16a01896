"""How the record looks in HTML.

Every rule is bound to the record's own class. Colours come from the front end (JupyterLab's
variables, then VS Code's) with translucent greys that read on white and on black, so a theme is
followed without being asked for. An untrusted notebook loses this sheet and keeps the markup,
which therefore reads without it.
"""

import re

_INK = "var(--jp-ui-font-color1,var(--vscode-foreground,inherit))"
_QUIET = "var(--jp-ui-font-color2,var(--vscode-descriptionForeground,#767676))"
_RULE = "var(--jp-border-color2,rgba(127,127,127,.28))"
_BRAND = "var(--jp-brand-color1,var(--vscode-textLink-foreground,#1976d2))"
_ALARM = "var(--jp-error-color1,var(--vscode-errorForeground,#d32f2f))"
_CARE = "var(--jp-warn-color1,var(--vscode-editorWarning-foreground,#f57c00))"
_GOOD = "var(--jp-success-color1,var(--vscode-testing-iconPassed,#388e3c))"
_WASH = "rgba(127,127,127,.08)"
_UI = "var(--jp-ui-font-family,var(--vscode-font-family,system-ui,sans-serif))"
_CODE = "var(--jp-code-font-family,var(--vscode-editor-font-family,monospace))"

_RULES = (
    (
        "",
        f"color:{_INK};font-family:{_UI};font-size:14px;line-height:1.5;max-width:60rem;"
        "overflow-wrap:anywhere",
    ),
    (" section", "margin:0 0 .75em;padding:0 0 0 .9em;border-left:2px solid transparent"),
    (" p", "margin:0 0 .35em"),
    (" section>:last-child", "margin-bottom:0"),
    (" .pk-title", "display:flex;flex-wrap:wrap;align-items:baseline;gap:0 .6em"),
    (" .pk-title strong", "font-weight:600"),
    (" .pk-detail", "flex:0 1 auto"),
    (" .pk-state", f"font-style:normal;font-size:.86em;color:{_QUIET}"),
    (" .pk-words", "font-size:1.08em"),
    (" .pk-note", f"font-size:.9em;color:{_QUIET}"),
    (" ul", "margin:0 0 .35em;padding-left:1.4em"),
    (" ol", "margin:0 0 .35em;padding-left:1.6em"),
    (" li", "margin:.1em 0"),
    (
        " code",
        f"font-family:{_CODE};font-size:.92em;color:inherit;background:{_WASH};"
        "padding:.08em .32em;border-radius:3px",
    ),
    (
        " pre",
        f"font-family:{_CODE};font-size:13px;line-height:1.45;color:inherit;margin:.35em 0 .5em;"
        "padding:.55em .8em;border:0;border-radius:4px;white-space:pre;overflow-x:auto;"
        "tab-size:4",
    ),
    (" pre.pk-code", f"background:{_WASH}"),
    (
        " pre.pk-out",
        f"background:none;border-left:2px solid {_RULE};border-radius:0;"
        "padding:.1em .8em;max-height:26em;overflow:auto",
    ),
    (" pre code", "font-size:inherit;background:none;padding:0;overflow-wrap:normal"),
    (" .pk-label", f"font-size:.82em;color:{_QUIET};margin:.5em 0 0"),
    (" details", "margin:.25em 0 .4em"),
    (" summary", f"cursor:pointer;font-size:.86em;color:{_QUIET}"),
    (" summary:hover", f"color:{_INK}"),
    (" .pk-scroll", "overflow-x:auto;margin:.3em 0 .5em"),
    (
        " table",
        "border-collapse:collapse;margin:0;font-size:12.5px;line-height:1.4;"
        "font-variant-numeric:tabular-nums;border:0",
    ),
    (
        " caption",
        f"caption-side:top;text-align:left;color:{_QUIET};font-size:12px;padding:0 0 .3em;"
        "white-space:nowrap",
    ),
    (
        " th",
        f"text-align:left;font-weight:600;padding:.25em .9em .25em .5em;"
        f"border-bottom:1px solid {_RULE};white-space:nowrap",
    ),
    (" td", "text-align:left;padding:.18em .9em .18em .5em;white-space:nowrap;border:0"),
    (" tbody tr:nth-child(even)", f"background:{_WASH}"),
    (" .pk-number", "text-align:right"),
    (" figure", "margin:.4em 0"),
    (" img", "max-width:100%;height:auto;background:#fff;border-radius:4px"),
    (" .pk-request", f"border-left-color:{_BRAND};padding-top:.1em;padding-bottom:.1em"),
    (" .pk-request .pk-title,.pk-reply .pk-title", f"font-size:.86em;color:{_QUIET}"),
    (" .pk-request .pk-title strong,.pk-reply .pk-title strong", f"color:{_BRAND}"),
    (" .pk-reply", f"border-left-color:{_BRAND}"),
    (" .pk-step", f"border-left-color:{_RULE}"),
    (" .pk-step.pk-running", f"border-left-color:{_BRAND}"),
    (" .pk-step.pk-failed", f"border-left-color:{_ALARM}"),
    (" .pk-step.pk-stopped,.pk-cancelled,.pk-partial", f"border-left-color:{_CARE}"),
    (" .pk-failed>.pk-title .pk-state", f"color:{_INK};font-weight:600"),
    (" .pk-recovery,.pk-budget,.pk-step.pk-refused", f"border-left-color:{_CARE}"),
    (
        " .pk-question,.pk-result,.pk-handoff",
        f"border:1px solid {_RULE};border-left-width:3px;border-radius:4px;"
        "padding:.7em 1em;margin-top:.9em",
    ),
    (" .pk-question", f"border-left-color:{_BRAND}"),
    (" .pk-result", f"border-left-color:{_GOOD}"),
    (" .pk-handoff", f"border-left-color:{_CARE}"),
    (" .pk-question.pk-answered", f"border-left-color:{_RULE}"),
    (" .pk-chosen", "font-weight:600"),
    (" .pk-footer", f"font-size:.82em;color:{_QUIET};margin-bottom:0"),
    (" .pk-progress", f"font-size:.9em;color:{_QUIET};margin-bottom:0"),
    (" .pk-fact+.pk-fact:before", "content:'·';margin:0 .5em"),
    (" .k,.kn,.kd,.kr,.ow", "color:var(--jp-mirror-editor-keyword-color,#2a7f3a);font-weight:600"),
    (" .kc,.mi,.mf,.mh,.mb,.mo", "color:var(--jp-mirror-editor-number-color,#2a7f3a)"),
    (
        " .s,.s1,.s2,.sa,.sd,.se,.si,.sr,.sh,.sb",
        "color:var(--jp-mirror-editor-string-color,#c0504d)",
    ),
    (" .c,.c1,.cm,.ch", "color:var(--jp-mirror-editor-comment-color,#408080);font-style:italic"),
    (" .nf,.nc,.fm", "color:var(--jp-mirror-editor-def-color,#3f7fd0)"),
    (" .nb,.bp", "color:var(--jp-mirror-editor-builtin-color,#2a7f3a)"),
    (" .o", "color:var(--jp-mirror-editor-operator-color,#9a4fd0)"),
    (" .nd", "color:var(--jp-mirror-editor-meta-color,#9a4fd0)"),
)

ROOT = "parsimony-record"


_CLASS = re.compile(r"\.([a-z][\w-]*)")
_TAG = re.compile(r"(?:^|[\s>+])([a-z]+)")


def _scoped(selector: str) -> str:
    return f".{ROOT} {selector}" if selector else f".{ROOT}"


# Each rule, with the classes and elements that each of its selectors needs.
_SHEET = tuple(
    (
        _scoped(selector.strip()),
        frozenset(_CLASS.findall(selector)),
        frozenset(_TAG.findall(selector.strip())),
        declarations,
    )
    for selectors, declarations in _RULES
    for selector in selectors.split(",")
)


def sheet_for(body: str) -> str:
    """The rules that apply to ``body``: every display carries its own sheet, so a short one must
    not carry the whole."""
    classes = {name for value in re.findall(r'class="([^"]*)"', body) for name in value.split()}
    elements = set(re.findall(r"<([a-z]+)", body))
    return "".join(
        f"{selector}{{{declarations}}}"
        for selector, needed, tags, declarations in _SHEET
        if needed <= classes and tags <= elements
    )
