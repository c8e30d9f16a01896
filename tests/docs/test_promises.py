"""Every sentence that promises never, always, only or exactly is on one page, with its test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explain" / "promises.md"
SOURCES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path != PAGE),
]
# "Append-only" is the name of a thing and promises nothing.
PROMISE = re.compile(r"(?<![-\w])(never|always|only|exactly)\b", re.IGNORECASE)
FENCE_OR_HEADING = re.compile(r"^```.*?^```$|^#.*?$", re.MULTILINE | re.DOTALL)
# A table's cell, an item of a list, a paragraph.
BLOCK = re.compile(r"\n\s*\n|^\s*(?:[-*]|\d+\.) |\|", re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")


def sentences(text: str) -> list[str]:
    """The sentences of a page outside of its code and headings, on one line, links as words."""
    prose = LINK.sub(r"\1", FENCE_OR_HEADING.sub("\n\n", text))
    blocks = [" ".join(block.split()) for block in BLOCK.split(prose)]
    return [each for block in blocks for each in re.split(r"(?<=[.!?]) (?=[A-Z`*])", block)]


def promises(text: str) -> set[str]:
    """The sentences that hold a word of promise outside of inline code."""
    return {each for each in sentences(text) if PROMISE.search(CODE.sub("", each))}


MADE = set().union(*(promises(path.read_text("utf-8")) for path in SOURCES))
ROWS = dict(re.findall(r"^\| (.+?) \| (`tests/.+`) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
NAMED = sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE.read_text("utf-8"))))


def test_each_promise_has_a_row() -> None:
    """When this fails: add a row with the test that keeps the sentence, or reword it."""
    assert sorted(MADE - set(ROWS)) == []


def test_each_row_quotes_an_existing_sentence() -> None:
    assert sorted(set(ROWS) - MADE) == []


@pytest.mark.parametrize("named", NAMED)
def test_each_named_test_exists(named: str) -> None:
    path, *inside = named.split("::")
    text = (ROOT / path).read_text("utf-8")
    for name in inside:
        assert re.search(rf"^\s*(?:class|(?:async )?def) {name}\b", text, re.MULTILINE), name
    assert inside, f"{named} names no test"
