"""The envelope: the gate's answer for success and refusal, and any value rendered as JSON.

An envelope is a plain dict; the model's tool result, the record and the history share this value.
It is capped in size, scrubbed of secrets, and holds sentences instead of tracebacks. A foreign
object whose methods raise is described instead of rendered.
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

# Limits in bytes for the whole envelope, and in characters for its parts.
MAX_BYTES = 24_000
MAX_SENTENCE = 2_000
_MAX_NAME = 200
_MAX_BLOCKER = 500
# Maximum number of a failure's own fields, of details in one of them, and of blockers.
_MAX_MANY = 20
_OWN = frozenset({"error", "requested", "message", "result", "state", "valid_next_actions"})
_LISTS = frozenset({"known_actions", "valid_next_actions"})

# Limits in characters and items; ``MAX_TOTAL`` covers all texts and items together.
MAX_TEXT = 4_000
MAX_ITEMS = 1_000
MAX_DEPTH = 20
MAX_TOTAL = 200_000

_MAX_BITS = 4_000
# Characters at either end of a long text that are scanned for secrets; far more than is kept.
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
    """Build the envelope of an action that succeeded.

    Args:
        requested: the name of an existing tool.
        result: its result, of any type.
        state: the state of the procedure; without one "running", "suspended", "done" …
        valid_next_actions: actions that may be requested now.
        note: a remark beside the result.
        not_found: statements of the action that no result supports.

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
    """Build the envelope of an action that was refused, or that ran and failed.

    Args:
        requested: the name of the tool.
        failure: the failure, sanitised by ``sanitised``; its ``metadata["envelope"]`` holds the
            refusal's own fields (``known_actions``, ``reason``, ``timeout_seconds`` …).
        state: as in ``succeeded``, or "over".
        valid_next_actions: actions that may be requested now.

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


def sanitised(failure: Failure) -> Failure:
    """Sanitise a failure: cap its texts and scrub secrets."""

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
    """Serialise the envelope as the JSON text that the model reads."""
    return json.dumps(envelope, ensure_ascii=False, default=str)


def bounded(envelope: Envelope) -> Envelope:
    """Shrink the envelope's largest fields, in place, until it fits ``MAX_BYTES``."""

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
    """Return the scrubber for an environment; memoised, as the environment seldom changes."""
    return scrubber(environ=dict(environ))


def plain(value: Any, *, max_text: int = MAX_TEXT, max_items: int = MAX_ITEMS) -> Any:
    """Render any value as JSON. Raises nothing except ``KeyboardInterrupt``.

    Args:
        value: any value; an object is rendered by ``for_model``, ``model_dump`` or ``str``, and
            described if that raises.
        max_text: maximum characters of one text; the middle of a longer one is omitted.
        max_items: maximum items of one collection; the rest is counted.

    Returns:
        Dicts, lists, strings, finite numbers, booleans and ``None``, without secrets.
    """
    environ = frozenset((each, os.environ.get(each, "")) for each in os.environ)
    return _Renderer(max_text, max_items, _scrubber(environ)).any(value, 0)


@dataclass
class _Renderer:
    """Renderer of one value; ``left`` is the remaining budget of characters and items."""

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
        """Scrub ``text`` and omit its middle when it is long."""
        left_out = max(0, len(text) - 2 * _WINDOW)
        if left_out:
            text = text[:_WINDOW] + text[-_WINDOW:]
        shown = short(self.clean(utf8(text)), self.max_text, left_out)
        self.left -= len(shown)
        return shown

    def _by_kind(self, value: Any, depth: int) -> Any:
        # Base-class methods: a subclass may have overridden them with anything.
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
            # Looked up on the class: a mock instance has every attribute.
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
    """Return ``text``, or its head and tail when it is longer than ``limit`` characters.

    ``left_out`` characters were already removed from its middle.
    """
    if not left_out and len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    missing = len(text) + left_out - limit
    return f"{text[:head]}\n… {missing} characters left out …\n{text[-tail:]}"


def _more(count: int) -> str:
    return f"… {count:,} more left out"
