"""What the looks of the record promise: colours that can be read, sizes that follow the reader."""

import re

import pytest

from parsimony_kernel.view.html import style_sheet

Rgb = tuple[float, float, float]
# Paper, and the dark grounds of JupyterLab and VS Code.
LIGHT = ("#ffffff", "#f7f7f7")
DARK = ("#000000", "#111111", "#1e1e1e")
READABLE = 4.5


def rgb(colour: str) -> Rgb:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def washed(ground: Rgb) -> Rgb:
    """``ground`` under the translucent grey of code."""
    *grey, alpha = WASH
    red, green, blue = (
        alpha * over + (1 - alpha) * under for over, under in zip(grey, ground, strict=True)
    )
    return red, green, blue


def luminance(colour: Rgb) -> float:
    """Relative luminance, WCAG 2.2."""
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (each / 255 for each in colour)
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Rgb, other: Rgb) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


_SHEET = style_sheet()
RULES = dict(re.findall(r"([^{}<>]+?)\{([^{}]*)\}", _SHEET.replace("<!--", "").replace("-->", "")))
COLOURS = {
    name: (css, light, dark)
    for name, css, light, dark in re.findall(
        r"--pk-([a-z]+):(var\(--jp-[\w-]+,var\(--vscode-[\w-]+,"
        r"light-dark\((#\w{6}),(#\w{6})\)\)\))",
        _SHEET,
    )
}
# The ground of code, translucent so that it suits any theme.
_FOUND = re.search(r"--pk-wash:rgba\(([\d.,]+)\)", _SHEET)
assert _FOUND is not None
WASH = tuple(map(float, _FOUND[1].split(",")))


@pytest.mark.parametrize("name", COLOURS)
def test_colours_are_readable_on_light_and_dark(name: str) -> None:
    _, light, dark = COLOURS[name]
    for text, grounds in ((light, LIGHT), (dark, DARK)):
        for ground in map(rgb, grounds):
            assert contrast(rgb(text), ground) >= READABLE
            assert contrast(rgb(text), washed(ground)) >= READABLE


def test_every_colour_prefers_frontend_theme() -> None:
    told = re.findall(r"--pk-([a-z]+):", _SHEET)
    assert set(told) - set(COLOURS) == {"ink", "rule", "wash", "mono"}


def declarations(look: str) -> list[tuple[str, str]]:
    pairs = [each.partition(":") for each in look.split(";")]
    return [(name, value) for name, _, value in pairs]


@pytest.mark.parametrize("name", RULES)
def test_sizes_are_relative(name: str) -> None:
    for prop, value in declarations(RULES[name]):
        assert prop != "height" or value == "auto"
        assert prop not in ("width", "min-width", "position")
        assert not re.search(r"\d(px|pt|cm|mm|in|vw|vh)\b", value), (prop, value)


@pytest.mark.parametrize("name", RULES)
def test_text_uses_theme_ink_or_measured_colour(name: str) -> None:
    for prop, value in declarations(RULES[name]):
        if prop == "color":
            mixed = re.fullmatch(
                r"color-mix\(in srgb,var\(--pk-([a-z]+)\) 75%,var\(--pk-ink\)\)", value
            )
            ours = mixed or re.fullmatch(r"var\(--pk-([a-z]+)\)", value)
            assert value == "inherit" or (ours and ours[1] in {*COLOURS, "ink"}), value


def test_stylesheet_affects_only_record() -> None:
    selectors = [each for rule in RULES for each in rule.split(",")]
    assert all(each.strip().startswith(".parsimony-record") for each in selectors)
    assert not re.search(r"url\(|@import|expression\(", _SHEET)
    assert len(_SHEET) < 5_000
