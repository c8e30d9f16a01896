"""Any value as JSON that a model can read: capped, without secrets, in whole characters.

Whatever a foreign object does in its own methods ends here: it is described instead.
"""

import json
import math
import os
from collections.abc import Collection
from functools import lru_cache
from itertools import islice
from typing import Any

from parsimony_kernel.core.redaction import REDACTED, Scrub, scrubber
from parsimony_kernel.core.text import utf8
from parsimony_kernel.execution.inspection import attempt, type_name
from parsimony_kernel.llm.secrets import is_secret, name_of

# In characters and items; ``MAX_TOTAL`` is of all texts and items together.
MAX_TEXT = 4_000
MAX_ITEMS = 1_000
MAX_DEPTH = 20
MAX_TOTAL = 200_000

_MAX_KEY = 200
_MAX_BITS = 4_000
# How much of either end of a long text is looked through for secrets, many times what is kept.
_WINDOW = 50_000


@lru_cache(maxsize=1)
def _scrubber(environ: frozenset[tuple[str, str]]) -> Scrub:
    """Takes out the secrets of an environment; that one seldom changes between two results."""
    return scrubber(environ=dict(environ))


class Renderer:
    """Renders the values of one envelope.

    ``is_whole`` says whether every object so far could be shown.
    """

    def __init__(self) -> None:
        self.is_whole = True
        self._max_text = MAX_TEXT
        self._max_items = MAX_ITEMS
        self._left = MAX_TOTAL
        self._clean = _scrubber(frozenset((each, os.environ.get(each, "")) for each in os.environ))

    def of(self, value: Any, *, max_text: int = MAX_TEXT, max_items: int = MAX_ITEMS) -> Any:
        """Render any value as JSON. Never raises, but for ``KeyboardInterrupt``.

        Args:
            value: of any kind; an object is asked for ``for_model``, ``model_dump`` or ``str``.
            max_text: characters of one text; its middle is left out.
            max_items: items of one collection; the rest is counted.

        Returns:
            Dicts, lists, texts, finite numbers, truth values and ``None``, without secrets.
        """
        self._max_text, self._max_items = max_text, max_items
        return self._any(value, 0)

    def _any(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is None or type(value) is bool:
            return value
        return attempt(lambda: self._by_kind(value, depth), lambda exc: self._unseen(value, exc))

    def _unseen(self, value: Any, exc: BaseException) -> str:
        self.is_whole = False
        return self._text(f"a {type_name(value)} that cannot be shown ({type_name(exc)})")

    def _text(self, text: str) -> str:
        """``text``, its middle left out when it is long."""
        left_out = max(0, len(text) - 2 * _WINDOW)
        if left_out:
            text = text[:_WINDOW] + text[-_WINDOW:]
        shown = self._clean(utf8(text))
        if left_out or len(shown) > self._max_text:
            shown = short(shown, self._max_text, left_out)
        self._left -= len(shown)
        return shown

    def _by_kind(self, value: Any, depth: int) -> Any:
        # The methods of the base classes: a subclass may have put anything in their place.
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, int):
            number = int.__int__(value)
            bits = number.bit_length()
            return number if bits <= _MAX_BITS else self._text(f"an integer of {bits:,} bits")
        if isinstance(value, float):
            real = float.__float__(value)
            return real if math.isfinite(real) else json.dumps(real)
        if isinstance(value, bytes | bytearray):
            return self._text(f"{len(value):,} bytes: {bytes(value[: self._max_text])!r}")
        if depth >= MAX_DEPTH:
            return self._text(f"… deeper than {MAX_DEPTH} levels, left out")
        if isinstance(value, dict):
            return self._pairs(value, depth)
        if isinstance(value, list | tuple):
            return self._items(value, depth)
        if isinstance(value, set | frozenset):
            return self._items(value, depth, in_order=False)
        for method, how in (("for_model", {}), ("model_dump", {"mode": "json"})):
            # Asked of the class: a stand-in for anything has every attribute itself.
            if getattr(type(value), method, None) is not None:
                return self._any(getattr(value, method)(**how), depth + 1)
        return self._text(str.__str__(str(value)))

    def _items(self, values: Collection[Any], depth: int, *, in_order: bool = True) -> list[Any]:
        shown: list[Any] = []
        for item in islice(values, self._max_items):
            if self._left <= 0:
                break
            shown.append(self._any(item, depth + 1))
        left_out = len(values) - len(shown)
        if not in_order:
            shown.sort(key=json.dumps)
        return [*shown, _more(left_out)] if left_out > 0 else shown

    def _pairs(self, values: dict[Any, Any], depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key, item in islice(values.items(), self._max_items):
            if self._left <= 0:
                break
            name = short(str(self._any(key, MAX_DEPTH - 1)), _MAX_KEY)
            place = name if name not in shown else f"{name} ({len(shown)})"
            hides = is_secret(str(name_of(name, values)), item)
            shown[place] = REDACTED if hides else self._any(item, depth + 1)
        left_out = len(values) - len(shown)
        return {**shown, "…": _more(left_out)} if left_out > 0 else shown


def plain(value: Any) -> Any:
    """``value`` as it stands in an envelope: JSON, capped, without secrets. Never raises."""
    return Renderer().of(value)


def short(text: str, limit: int, left_out: int = 0) -> str:
    """Head and tail of ``text`` when it is longer than ``limit`` characters.

    ``left_out`` characters of its middle are gone already.
    """
    if not left_out and len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    missing = len(text) + left_out - limit
    return f"{text[:head]}\n… {missing} characters left out …\n{text[-tail:]}"


def _more(count: int) -> str:
    return f"… {count:,} more left out"
