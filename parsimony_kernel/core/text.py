"""Make text encodable as UTF-8, format counts, name enumerations, read JSON and exceptions."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self


def plural(noun: str, count: int) -> str:
    """Return the form of ``noun`` for ``count``."""
    return noun if count == 1 else f"{noun}s"


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {plural(noun, number)}"


def utf8(text: str) -> str:
    """Return ``text`` as it can be sent: a lone surrogate becomes a question mark."""
    # File names and broken streams can contain lone surrogates, which no client can send.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def encodable(value: Any) -> Any:
    """Return ``value`` with every text in it made encodable as UTF-8."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, Mapping):
        return {utf8(str(key)): encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(each) for each in value]
    return value


def from_json(text: Any, instead: Any = None) -> Any:
    """Parse JSON; return ``instead`` if ``text`` is no JSON, or is nested too deeply.

    Line breaks and other control characters within its strings are accepted: models and services
    write them.
    """
    try:
        return json.loads(text, strict=False)
    except (TypeError, ValueError, RecursionError):
        return instead


def words_of(exc: BaseException) -> str:
    """Return the text of ``exc``; empty if its class cannot make one."""
    try:
        return str(exc).strip()
    except KeyboardInterrupt:
        raise
    except BaseException:  # boundary: user object - its __str__
        return ""


class Worded(StrEnum):
    """An enumeration whose members each have words for people: ``name = value, words``."""

    words: str

    def __new__(cls, value: str, words: str = "") -> Self:
        member = str.__new__(cls, value)
        member._value_, member.words = value, words
        return member
