"""The drawn pictures stand alone, are told in words, and are readable on light and dark."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = sorted((DOCS / "pictures").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "desc", "style", "defs", "marker", "path", "rect", "text"}
LEAST_CONTRAST = 4.5


def colours(text: str) -> tuple[str, list[str]]:
    """The colour of texts, and those that they stand on."""
    ink = re.search(r"text \{[^}]*fill: (#\w{6})", text)
    assert ink is not None
    grounds = re.findall(r"\.(?:paper|box|good|bad|wait) \{ fill: (#\w{6})", text)
    assert len(grounds) == 5
    return ink[1], grounds


def luminance(colour: str) -> float:
    """As WCAG reckons it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_picture_describes_itself_and_loads_nothing(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title")
    assert len(root.findtext(f"{SVG}desc") or "") > 80
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= ELEMENTS
    text = picture.read_text(encoding="utf-8")
    assert not re.search(r"href|url\((?!#)|@import|https?:(?!//www\.w3\.org/2000/svg)", text)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_picture_text_has_contrast_in_light_and_dark(picture: Path) -> None:
    light, query, dark = picture.read_text(encoding="utf-8").partition(
        "@media (prefers-color-scheme: dark)"
    )
    assert query
    for part in (light, dark):
        ink, grounds = colours(part)
        assert min(contrast(ink, ground) for ground in grounds) >= LEAST_CONTRAST


def test_every_picture_is_used_with_alt_text() -> None:
    shown = {}
    for page in DOCS.rglob("*.md"):
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text("utf-8")):
            shown[(page.parent / target).resolve()] = words
    assert all(len(words) > 20 for words in shown.values())
    assert set(PICTURES) <= set(shown)
