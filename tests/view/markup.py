"""Markup read back, and what of it is allowed in a record."""

import html.parser
import re

from parsimony_kernel.view.html import style_sheet

_NAMES = """
    div section p strong span em code pre details summary ul ol li table caption thead tbody
    tr th td figure img br style
"""
TAGS = frozenset(_NAMES.split())
ATTRIBUTES = {
    "class", "aria-label", "role", "aria-level", "aria-live", "scope", "tabindex", "src",
    "alt", "open", "style", "start",
}  # fmt: skip
# What a front end leaves of a record's looks where it takes no style sheet.
WRAPS, SCROLLS = "overflow-wrap:break-word", "overflow-x:auto"
_PICTURE = re.compile(r"data:image/(png|svg\+xml);base64,[A-Za-z0-9+/=]*\Z")


class Parsed(html.parser.HTMLParser):
    """The tags with their attributes, and the words between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] and self.tags[-1][0] == "style" and data.startswith("<!--"):
            assert data == style_sheet().removeprefix("<style>").removesuffix("</style>")
        else:
            self.words += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each ``tag``."""
        return [attributes for name, attributes in self.tags if name == tag]


def assert_harmless(text: str) -> Parsed:
    """``text`` parsed; it holds nothing but what the record itself is made of."""
    parsed = Parsed(text)
    for tag, attributes in parsed.tags:
        assert tag in TAGS, tag
        assert set(attributes) <= ATTRIBUTES, attributes
        assert attributes.get("style", WRAPS) in (WRAPS, SCROLLS), attributes
        if "src" in attributes:
            assert _PICTURE.match(attributes["src"] or ""), attributes
    return parsed
