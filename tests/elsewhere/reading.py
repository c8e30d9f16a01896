"""What is read on a page and in the journal, and what a page would load, run or offer to click."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path
from parsimony_kernel.view.blocks import lasting
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import segment_bundles
from parsimony_kernel.view.outline import segment_of

_UNREAD = {"script", "style", "title"}
_ADDRESSED = {"src", "href", "srcset", "data", "action", "poster"}


class Page(HTMLParser):
    """A page of HTML. ``words`` are those that are read, in order, with the numbers of lists;
    ``addresses`` are what its elements point to, ``handlers`` the attributes that would run
    something, ``scripts`` the texts of its scripts, ``pictures`` how many are drawn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self._unread: list[str] = []
        self._said: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.scripts: list[str] = []
        self.pictures = 0
        self._items: list[int] = []
        self.feed(html)
        self.close()

    @property
    def words(self) -> list[str]:
        return words("".join(self._said))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNREAD:
            self._unread.append(tag)
        given = {name: value or "" for name, value in attrs}
        self.addresses += [value for name, value in given.items() if name in _ADDRESSED]
        self.handlers += [name for name in given if name.startswith(("on", "data-commandlinker"))]
        if tag == "br":
            self._said.append("\n")
        elif tag == "img":
            self.pictures += 1
        elif tag == "ol":
            self._items.append(0)
        elif tag == "li" and self._items:
            self._items[-1] += 1
            self._said.append(f"{self._items[-1]} ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unread:
            self._unread.remove(tag)
        elif tag == "ol":
            self._items.pop()
        if tag not in {"span", "code", "strong", "em", "a"}:
            self._said.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self._said.append(data)
        elif self._unread[-1] == "script":
            self.scripts.append(data)


def words(text: str) -> list[str]:
    """The words and numbers of ``text``, without marks and frames around them."""
    return re.findall(r"[\w.]*\w", text)


def missing(wanted: Sequence[str], found: Sequence[str]) -> list[str]:
    """The words of ``wanted`` from the first on that does not come in its turn in ``found``."""
    rest = iter(found)
    for position, word in enumerate(wanted):
        if word not in rest:
            return list(wanted[max(0, position - 5) : position + 10])
    return []


def lines(text: str) -> list[str]:
    """What a person reads of ``text``: its lines without the empty ones."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def recorded(folder: Path) -> list[str]:
    """The newest turn as the journal on disk tells it under its own cell, to the line."""
    journal = SqliteJournal(journal_path(folder))
    try:
        newest = journal.turns()[-1]
        blocks = lasting(replay(journal.events(newest.run_id)).blocks)
        outputs = segment_bundles(segment_of(blocks))
        return lines("\n".join(data["text/plain"] for data, _ in outputs))
    finally:
        journal.close()
