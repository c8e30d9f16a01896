"""What is read on a page and in the journal, and what a page would load, run or offer to click."""

import re
from collections.abc import Sequence
from pathlib import Path

from bs4 import BeautifulSoup

from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path
from parsimony_kernel.view.blocks import lasting
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import segment_bundles
from parsimony_kernel.view.outline import segment_of

_UNREAD = ("script", "style", "title")
_ADDRESSED = {"src", "href", "srcset", "data", "action", "poster"}
_RUNNING = ("on", "data-commandlinker")
_INLINE = {"span", "code", "strong", "em", "a"}


class Page:
    """A page of HTML. ``words`` are those that are read, in order, with the numbers of lists;
    ``addresses`` are what its elements point to, ``handlers`` the attributes that would run
    something, ``scripts`` the texts of its scripts, ``pictures`` how many are drawn."""

    def __init__(self, html: str) -> None:
        page = BeautifulSoup(html, "html.parser")
        given = [pair for each in page.find_all(True) for pair in each.attrs.items()]
        self.addresses = [str(value) for name, value in given if name in _ADDRESSED]
        self.handlers = [name for name, _ in given if name.startswith(_RUNNING)]
        self.scripts = [each.get_text() for each in page.find_all("script")]
        self.pictures = len(page.find_all("img"))
        for each in page.find_all(_UNREAD):
            each.decompose()
        for listed in page.find_all("ol"):
            for number, each in enumerate(listed.find_all("li", recursive=False), start=1):
                each.insert(0, f"{number} ")
        for each in page.find_all(True):
            if each.name not in _INLINE:
                each.insert_after("\n")
        self.words = words(page.get_text())


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
