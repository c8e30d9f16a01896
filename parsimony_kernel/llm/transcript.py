"""The transcript as a strict provider accepts it.

Pure: ``repair`` returns fresh dicts, never touches its input, and changes a message for no reason
but these. A name that it gives depends on earlier messages only, so a repaired prefix stays the
same when messages are added behind it; ``Repairer`` makes use of that.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from operator import is_
from typing import Any, NoReturn

from parsimony_kernel.core import pictures
from parsimony_kernel.core.pictures import is_picture
from parsimony_kernel.core.text import encodable, utf8

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NAME_LENGTH = 64
_QUOTED_ARGUMENTS = 2000

MISSING_RESULT = json.dumps(
    {
        "error": "action_error",
        "message": "No result of this call was recorded. It is not known whether it ran.",
    }
)


def repair(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """``messages`` with every breach of the protocol mended.

    - Each tool call has exactly one result, which follows its turn in the order of the calls; a
      missing one says that nothing was recorded, and a result without a call is dropped.
    - The ids of calls are unique and not empty; a renamed call takes its result along.
    - Arguments are a JSON object. Text that is none is quoted under ``_raw_args``.
    - A turn that says nothing is dropped, and so are keys that providers do not know.
    - Text can be encoded as UTF-8.
    """
    return Repairer().repair(list(messages))


@dataclass(frozen=True)
class _Settled:
    """A point at which every call had its result: how much was read, written and named."""

    read: int
    written: int
    named: int


class Repairer:
    """``repair`` for transcripts that grow: what was repaired before is the same dict again.

    Messages count as the same when they are the same object, so an object that was handed in
    must not be changed afterwards.
    """

    def __init__(self) -> None:
        self._seen: Sequence[Mapping[str, Any]] = ()
        self._settled: list[_Settled] = []
        self._repaired: list[dict[str, Any]] = []
        self._used: dict[str, None] = {}  # in the order in which the ids were given

    def repair(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """``messages``, repaired; see the function of this name."""
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
                said = _said(message)
                if said is not None:
                    (open_calls.behind if open_calls.owed else self._repaired).append(said)
        return [*self._repaired, *open_calls.settle()]

    def _go_back(self, same: int) -> int:
        """Forget all but what the first ``same`` messages settled; where to read on."""
        # What settles a turn is the turn that follows it, so that one has to be the same too.
        while self._settled and self._settled[-1].read >= same:
            self._settled.pop()
        last = self._settled.pop() if self._settled else _Settled(0, 0, 0)
        del self._repaired[last.written :]
        for _ in range(len(self._used) - last.named):
            self._used.popitem()
        return last.read


class _OpenCalls:
    """The calls of one turn, as (id as written, id as sent), until the next turn begins."""

    def __init__(self, owed: Sequence[tuple[str, str]] = ()) -> None:
        self.owed = owed
        self.behind: list[dict[str, Any]] = []  # what stood between the calls and the next turn
        self._given: dict[str, dict[str, Any]] = {}

    def take(self, message: Mapping[str, Any]) -> None:
        """Give a result to the call that it answers, if there is one."""
        written = _id(message.get("tool_call_id"))
        sent = next((s for w, s in self.owed if w == written and s not in self._given), None)
        if sent is not None:
            self._given[sent] = _result(message, sent)

    def settle(self) -> list[dict[str, Any]]:
        """Every call's result in the order of the calls, and what stood behind them."""
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
    said = {"role": role if role in _ROLES else "user", "content": content, **_named(message)}
    if is_picture(message):
        said[pictures.KEY] = message[pictures.KEY]
    return said


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
        calls.append(
            {
                "id": sent,
                "type": "function",
                "function": {
                    "name": _name(function.get("name")),
                    "arguments": _arguments(arguments)
                    if isinstance(arguments, str)
                    else _arguments(_dump({} if arguments is None else arguments)),
                },
            }
        )
    if not content and not calls:
        return None, []
    turn: dict[str, Any] = {"role": "assistant", "content": content or None}
    if message.get("opaque"):
        turn["opaque"] = message["opaque"]
    if calls:
        turn["tool_calls"] = calls
    return turn, ids


def unique_id(written: str, used: dict[str, None]) -> str:
    """``written``, or a name like it that is not ``used`` yet; it is from then on."""
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
    """Text, or a list of parts, or a false value when there is nothing to say."""
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


# The same arguments come by with every request of a run, and parsing them is what costs here.
@lru_cache(maxsize=4096)
def _arguments(text: str) -> str:
    text = utf8(text)
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return _dump({"_raw_args": text[:_QUOTED_ARGUMENTS]})
    # An escaped lone surrogate is JSON to Python and to few others.
    return _dump(value) if "\\ud" in text.lower() else text
