"""The one answer of the gate, for success and refusal alike, and any value as JSON in it.

A plain dict: the model's tool result, the line in the record and the history are this same value.
It is capped in size and scrubbed of secrets, and the model reads sentences in it, not tracebacks.
Whatever a foreign object does in its own methods ends here: it is described instead.
"""

import json
import math
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any, TypeVar

from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.redaction import REDACTED, Scrub, scrubber
from parsimony_kernel.core.text import utf8
from parsimony_kernel.execution.inspection import attempt, type_name
from parsimony_kernel.llm.secrets import is_secret, name_of

Envelope = dict[str, Any]
T = TypeVar("T")

# In bytes of the whole, and in characters of its parts.
MAX_BYTES = 24_000
MAX_SENTENCE = 2_000
_MAX_NAME = 200
_MAX_BLOCKER = 500
# How many of the fields that a failure brings, of the details in one, and of blockers.
_MAX_MANY = 20
_OWN = frozenset({"error", "requested", "message", "result", "state", "valid_next_actions"})
_LISTS = frozenset({"known_actions", "valid_next_actions"})

# In characters and items; ``MAX_TOTAL`` is of all texts and items together.
MAX_TEXT = 4_000
MAX_ITEMS = 1_000
MAX_DEPTH = 20
MAX_TOTAL = 200_000

_MAX_BITS = 4_000
# How much of either end of a long text is looked through for secrets, many times what is kept.
_WINDOW = 50_000


def succeeded(
    requested: str,
    result: Any,
    state: str,
    valid_next_actions: Sequence[str],
    *,
    note: str = "",
    not_found: Sequence[str] = (),
) -> Envelope:
    """The envelope of an action that ran.

    Args:
        requested: the name of the tool, which exists.
        result: what it answered, of any kind.
        state: the state of the procedure; without one "running", "suspended", "done" …
        valid_next_actions: what may be requested now.
        note: what there is to say beside the result.
        not_found: what the action said and no result supports.

    Returns:
        At most ``MAX_BYTES`` of JSON, without secrets.
    """
    envelope: Envelope = {
        "requested": requested,
        "result": plain(result),
        "state": state,
        "valid_next_actions": list(valid_next_actions),
    }
    if note:
        envelope["note"] = plain(note, max_text=MAX_SENTENCE)
    if not_found:
        envelope["not_found"] = plain(list(not_found), max_text=_MAX_NAME)
    return bounded(envelope)


def refused(
    requested: str, failure: Failure, state: str, valid_next_actions: Sequence[str]
) -> Envelope:
    """The envelope of an action that was refused, or that ran and failed.

    Args:
        requested: the name of the tool.
        failure: why, as ``told`` gives it; its ``metadata["envelope"]`` holds the refusal's own
            fields (``known_actions``, ``reason``, ``timeout_seconds`` …).
        state: as in ``succeeded``, or "over".
        valid_next_actions: what may be requested now.

    Returns:
        At most ``MAX_BYTES`` of JSON, without secrets.
    """
    envelope: Envelope = {
        "error": str(failure.refusal or "action_error"),
        "requested": plain(requested, max_text=_MAX_NAME),
        **failure.metadata.get("envelope", {}),
        "message": failure.explanation,
    }
    if (result := plain(failure.partial_data)) not in (None, {}, []):
        envelope["result"] = result
    return bounded({**envelope, "state": state, "valid_next_actions": list(valid_next_actions)})


def told(failure: Failure) -> Failure:
    """The failure as everyone reads it: its texts capped, without secrets."""

    def cut(value: Any, most: int = MAX_SENTENCE) -> Any:
        return plain(value, max_text=most)

    metadata = {k: cut(v) if type(v) is str else v for k, v in failure.metadata.items()}
    if "envelope" in metadata:
        given = islice(metadata["envelope"].items(), _MAX_MANY)
        fields = {cut(name, _MAX_NAME): cut(value) for name, value in given}
        fields = {name: value for name, value in fields.items() if name not in _OWN}
        if details := fields.get("details"):
            fields["details"] = plain(details, max_text=_MAX_NAME, max_items=_MAX_MANY)
        metadata["envelope"] = fields
    return replace(
        failure,
        explanation=cut(failure.explanation),
        blockers=tuple(cut(each, _MAX_BLOCKER) for each in failure.blockers[:_MAX_MANY]),
        metadata=metadata,
    )


def to_text(envelope: Envelope) -> str:
    """The envelope as the model reads it."""
    return json.dumps(envelope, ensure_ascii=False, default=str)


def bounded(envelope: Envelope) -> Envelope:
    """The envelope within ``MAX_BYTES``, at the cost of its largest fields."""

    def size(value: Any) -> int:
        return len(to_text(value).encode())

    while size(envelope) > MAX_BYTES:
        largest = max(envelope, key=lambda name: size(envelope[name]))
        match envelope[largest]:
            case [_, _, *_] as names if largest in _LISTS:
                smaller: Any = [*names[: (len(names) - 1) // 2], "…"]
            case str() as text:
                smaller = short(text, len(text) // 2)
            case {"truncated": True, "text": str(text)}:
                smaller = {"truncated": True, "text": short(text, len(text) // 2)}
            case value:
                smaller = {"truncated": True, "text": short(to_text(value), MAX_BYTES // 2)}
        envelope[largest] = smaller
    return envelope


# -- any value as JSON


@lru_cache(maxsize=1)
def _scrubber(environ: frozenset[tuple[str, str]]) -> Scrub:
    """Takes out the secrets of an environment; that one seldom changes between two results."""
    return scrubber(environ=dict(environ))


def plain(value: Any, *, max_text: int = MAX_TEXT, max_items: int = MAX_ITEMS) -> Any:
    """Render any value as JSON. Never raises, but for ``KeyboardInterrupt``.

    Args:
        value: of any kind; an object is asked for ``for_model``, ``model_dump`` or ``str``, and
            described where that breaks.
        max_text: characters of one text; its middle is left out.
        max_items: items of one collection; the rest is counted.

    Returns:
        Dicts, lists, texts, finite numbers, truth values and ``None``, without secrets.
    """
    environ = frozenset((each, os.environ.get(each, "")) for each in os.environ)
    return _Renderer(max_text, max_items, _scrubber(environ)).any(value, 0)


@dataclass
class _Renderer:
    """Renders one value; ``left`` is how much more of it may be shown."""

    max_text: int
    max_items: int
    clean: Scrub
    left: int = MAX_TOTAL

    def any(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if value is None or type(value) is bool:
            return value
        return attempt(lambda: self._by_kind(value, depth), lambda exc: self._unseen(value, exc))

    def _unseen(self, value: Any, exc: BaseException) -> str:
        return self._text(f"a {type_name(value)} that cannot be shown ({type_name(exc)})")

    def _text(self, text: str) -> str:
        """``text``, its middle left out when it is long."""
        left_out = max(0, len(text) - 2 * _WINDOW)
        if left_out:
            text = text[:_WINDOW] + text[-_WINDOW:]
        shown = short(self.clean(utf8(text)), self.max_text, left_out)
        self.left -= len(shown)
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
            return self._text(f"{len(value):,} bytes: {bytes(value[: self.max_text])!r}")
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
                return self.any(getattr(value, method)(**how), depth + 1)
        return self._text(str.__str__(str(value)))

    def _few(self, values: Iterable[T]) -> Iterable[T]:
        return takewhile(lambda _: self.left > 0, islice(values, self.max_items))

    def _items(self, values: Collection[Any], depth: int, *, in_order: bool = True) -> list[Any]:
        shown = [self.any(item, depth + 1) for item in self._few(values)]
        left_out = len(values) - len(shown)
        if not in_order:
            shown.sort(key=json.dumps)
        return [*shown, _more(left_out)] if left_out > 0 else shown

    def _pairs(self, values: dict[Any, Any], depth: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key, item in self._few(values.items()):
            name = short(str(self.any(key, MAX_DEPTH - 1)), _MAX_NAME)
            place = name if name not in shown else f"{name} ({len(shown)})"
            hides = is_secret(str(name_of(name, values)), item)
            shown[place] = REDACTED if hides else self.any(item, depth + 1)
        left_out = len(values) - len(shown)
        return {**shown, "…": _more(left_out)} if left_out > 0 else shown


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
