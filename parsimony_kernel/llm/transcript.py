"""Transcript repair for strict providers.

``repair`` is pure: it returns fresh dicts and never changes its input. It mends the breaches that
its docstring lists and nothing else. New ids depend on earlier messages only, so a repaired prefix
stays the same when messages are appended; ``Repairer`` uses that.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from operator import is_
from typing import Any, NoReturn

from parsimony_kernel.core.conversation import PICTURE, is_picture
from parsimony_kernel.core.text import encodable, utf8

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_LENGTH = 64
_QUOTED_ARGUMENTS = 2000

_UNKNOWN = "No result of this call was recorded. It is not known whether it ran."
MISSING_RESULT = json.dumps({"error": "action_error", "message": _UNKNOWN})


def repair(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mend every breach of the chat protocol in ``messages``.

    - Each tool call gets exactly one result, after its turn and in the order of the calls. A
      missing result is replaced by one saying that nothing was recorded; a result without a call
      is dropped.
    - Call ids are unique and not empty; the result of a renamed call is renamed with it.
    - Arguments are a JSON object; other text is quoted under ``_raw_args``.
    - Empty turns, and keys that providers don't know, are dropped.
    - Text can be encoded as UTF-8.
    """
    return Repairer().repair(list(messages))


@dataclass(frozen=True)
class _Settled:
    """A point where every call has its result: how much was read, repaired and named by then."""

    read: int
    written: int
    named: int


class Repairer:
    """Incremental ``repair`` for growing transcripts; it reuses the dicts of earlier repairs.

    Messages are compared by identity, so a message must not be changed after it was passed in.
    """

    def __init__(self) -> None:
        self._seen: Sequence[Mapping[str, Any]] = ()
        self._settled: list[_Settled] = []
        self._repaired: list[dict[str, Any]] = []
        self._used: dict[str, None] = {}  # in the order in which the ids were given

    def repair(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Repair ``messages``; see the function ``repair``."""
        start = self._go_back(sum(1 for _ in takewhile(bool, map(is_, self._seen, messages))))
        self._seen = tuple(messages)
        open_calls = _OpenCalls()
        for index in range(start, len(messages)):
            message = messages[index]
            role = message.get("role")
            if role == "tool":
                open_calls.take(message)
            elif role == "assistant":
                self._repaired.extend(open_calls.settle())
                self._settled.append(_Settled(index, len(self._repaired), len(self._used)))
                turn, ids = _turn(message, self._used)
                open_calls = _OpenCalls(ids)
                if turn is not None:
                    self._repaired.append(turn)
            else:
                clean = _said(message)
                if clean is not None:
                    (open_calls.behind if open_calls.owed else self._repaired).append(clean)
        return [*self._repaired, *open_calls.settle()]

    def _go_back(self, same: int) -> int:
        """Discard everything after the first ``same`` messages; return the index to resume at."""
        # A turn is settled by the turn after it, so that one must be unchanged too.
        while self._settled and self._settled[-1].read >= same:
            self._settled.pop()
        last = self._settled.pop() if self._settled else _Settled(0, 0, 0)
        del self._repaired[last.written :]
        for _ in range(len(self._used) - last.named):
            self._used.popitem()
        return last.read


class _OpenCalls:
    """The open calls of one turn, as (original id, sent id), until the next turn begins."""

    def __init__(self, owed: Sequence[tuple[str, str]] = ()) -> None:
        self.owed = owed
        self.behind: list[dict[str, Any]] = []  # messages between the calls and the next turn
        self._given: dict[str, dict[str, Any]] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        """Assign a result to its call; a result without a call is dropped."""
        written = _id(message.get("tool_call_id"))
        sent = next((s for w, s in self.owed if w == written and s not in self._given), None)
        if sent is not None:
            self._given[sent] = _result(message, sent)

    def settle(self) -> list[dict[str, Any]]:
        """Return the results in the order of the calls, then the messages behind them."""
        results = [
            self._given.get(sent)
            or {"role": "tool", "tool_call_id": sent, "content": MISSING_RESULT}
            for _, sent in self.owed
        ]
        return [*results, *self.behind]


def _said(message: Mapping[str, Any]) -> dict[str, Any] | None:
    content = _content(message.get("content"))
    if not content:
        return None
    role = message.get("role")
    clean = {"role": role if role in _ROLES else "user", "content": content, **_named(message)}
    if is_picture(message):
        clean[PICTURE] = message[PICTURE]
    return clean


def _result(message: Mapping[str, Any], sent: str) -> dict[str, Any]:
    content = _content(message.get("content")) or ""
    return {"role": "tool", "tool_call_id": sent, "content": content, **_named(message)}


def _named(message: Mapping[str, Any]) -> dict[str, str]:
    return {"name": _name(message["name"])} if message.get("name") else {}


def _turn(
    message: Mapping[str, Any], used: dict[str, None]
) -> tuple[dict[str, Any] | None, list[tuple[str, str]]]:
    content = _content(message.get("content"))
    calls: list[dict[str, Any]] = []
    ids: list[tuple[str, str]] = []
    for call in message.get("tool_calls") or ():
        if not isinstance(call, Mapping):
            continue
        function = call.get("function")
        if not isinstance(function, Mapping):
            function = {}
        written = _id(call.get("id"))
        sent = unique_id(written, used)
        ids.append((written, sent))
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = _dump({} if arguments is None else arguments)
        named = {"name": _name(function.get("name")), "arguments": _arguments(arguments)}
        calls.append({"id": sent, "type": "function", "function": named})
    if not content and not calls:
        return None, []
    turn: dict[str, Any] = {"role": "assistant", "content": content or None}
    if message.get("opaque"):
        turn["opaque"] = message["opaque"]
    if calls:
        turn["tool_calls"] = calls
    return turn, ids


def unique_id(written: str, used: dict[str, None]) -> str:
    """Return ``written``, or a numbered variant if it is in ``used``; adds it to ``used``."""
    base = written or "call"
    sent, n = base, 1
    while sent in used:
        n += 1
        sent = f"{base}_{n}"
    used[sent] = None
    return sent


def _id(value: Any) -> str:
    return "" if value is None else utf8(str(value)).strip()


def _name(value: Any) -> str:
    name = value if isinstance(value, str) else ""
    return _NOT_IN_A_NAME.sub("_", name)[:_NAME_LENGTH] or "unnamed"


def _content(value: Any) -> Any:
    """Return text or a list of parts; a falsy value if there is no content."""
    if value is None:
        return None
    if isinstance(value, str):
        return utf8(value) if value and not value.isspace() else ""
    if isinstance(value, list | tuple) and all(isinstance(part, Mapping) for part in value):
        return encodable(value)
    return _dump(value)


def _dump(value: Any) -> str:
    return json.dumps(encodable(value), ensure_ascii=False, default=str)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# Memoized: every request of a run repeats the same arguments, and parsing them is the main cost.
@lru_cache(maxsize=4096)
def _arguments(text: str) -> str:
    text = utf8(text)
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return _dump({"_raw_args": text[:_QUOTED_ARGUMENTS]})
    # Python accepts an escaped lone surrogate as JSON; most other parsers don't.
    return _dump(value) if "\\ud" in text.lower() else text
