"""What a module of words holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = tuple[str, Any]
Entries = Mapping[tuple[str, ...], Entry]


@dataclass(frozen=True)
class Words:
    """Phrases with the kind of item that they are and its value.

    ``declined`` are phrases that ask for what this model does not do; ``actions`` are the kinds
    that begin a clause.
    """

    entries: Entries
    declined: Entries = field(default_factory=dict)
    actions: frozenset[str] = frozenset()


def entries(kind: str, value: Any, phrases: str) -> dict[tuple[str, ...], Entry]:
    """``phrases``, separated by bars, as items of ``kind`` with ``value``."""
    return {tuple(p.split()): (kind, value) for p in phrases.split("|")}


def declined(phrases: str) -> dict[tuple[str, ...], Entry]:
    """``phrases``, separated by bars, as words for what is not done."""
    return {tuple(p.split()): ("unsupported", p) for p in phrases.split("|")}
