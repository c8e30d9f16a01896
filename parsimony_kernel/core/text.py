"""Text that can be sent and told: encodable as UTF-8, and from any exception."""

from collections.abc import Mapping
from typing import Any


def plural(noun: str, count: int) -> str:
    """The word for so many."""
    return noun if count == 1 else f"{noun}s"


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} {plural(noun, number)}"


def utf8(text: str) -> str:
    """``text`` as it can be sent: a lone surrogate becomes a question mark."""
    # A file name or a broken stream can bring lone surrogates, which no client can send.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def encodable(value: Any) -> Any:
    """``value`` with every text in it such that it can be sent as UTF-8."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, Mapping):
        return {utf8(str(key)): encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(each) for each in value]
    return value


def words_of(exc: BaseException) -> str:
    """The text of ``exc``; empty when its class cannot make one."""
    try:
        return str(exc).strip()
    except KeyboardInterrupt:
        raise
    except BaseException:  # boundary: user object - its __str__
        return ""
