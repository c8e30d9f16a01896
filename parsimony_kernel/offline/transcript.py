"""What the messages of a request say: the words, the notebook, and what was done so far.

The one memory that the model has. Reading never fails: whatever is odd or shortened is simply not
known.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.offline.schema import Table, read_table

_CONTEXT, _CHANGES, _REQUEST = "<notebook_context>", "<notebook_changes>", "<request>"
_ASIDE = ("<context_addendum>", _CHANGES, _CONTEXT)


@dataclass
class Call:
    """A tool call of this turn with its answer; ``void`` when its variables have gone since."""

    name: str
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any]
    void: bool = False

    @property
    def ok(self) -> bool:
        """Whether it was answered, and worked."""
        return bool(self.answer) and "error" not in self.answer

    @property
    def code(self) -> str:
        """The code that it ran."""
        return str(self.arguments.get("code", ""))

    @property
    def result(self) -> Mapping[str, Any]:
        """What the answer holds."""
        result = self.answer.get("result")
        return result if isinstance(result, dict) else {}

    @property
    def variables(self) -> list[Mapping[str, Any]]:
        """The variables that it tells of, as far as they still exist."""
        return [] if self.void else _mappings(self.result.get("variables"))

    @property
    def error(self) -> str:
        """The kind of the error and its text; empty when there was none."""
        if "error" not in self.answer:
            return ""
        found = (self.answer.get(k) for k in ("error_message", "message", "reason"))
        text = next((str(each) for each in found if each), "")
        kind = str(self.answer.get("error_type") or "")
        return text if text.startswith(kind) else f"{kind}: {text}"

    @property
    def printed(self) -> str:
        """What the code printed, as far as it is still there."""
        return str(self.result.get("stdout") or "")


@dataclass
class Transcript:
    """The turn, read. ``answers`` are replies by their question; ``earlier`` are the requests that
    were done, each with its summary."""

    request: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    earlier: list[tuple[str, str]] = field(default_factory=list)

    @property
    def files(self) -> list[str]:
        """The files of the workspace."""
        return list(map(str, _list(self.context.get("files"))))

    @property
    def variables(self) -> dict[str, Mapping[str, Any]]:
        """The notebook's variables by name, less those that have gone."""
        listed = _mappings(self.context.get("variables"))
        return {str(v["name"]): v for v in listed if v.get("name") not in {None, *self.gone}}

    @property
    def told(self) -> str:
        """What earlier requests came to."""
        return " ".join(summary for _, summary in self.earlier)

    @property
    def taken(self) -> set[str]:
        """The names that are not to be bound."""
        return set(self.variables) - set(map(str, _list(self.context.get("replaceable"))))

    def tables(self) -> dict[str, Table]:
        """What is known of the tables that exist; later answers win."""
        told = [*self.variables.values(), *(v for call in self.calls for v in call.variables)]
        known = [table for table in map(read_table, told) if table and table.name and table.columns]
        return {table.name: table for table in known}

    def figures(self) -> list[str]:
        """The names of the charts in the notebook, and of those that this turn has made."""
        told = [*self.variables.values(), *(v for call in self.calls for v in call.variables)]
        return list(dict.fromkeys(str(v["name"]) for v in told if v.get("type") == "figure"))


def read(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Read what ``messages`` say."""
    turn = Transcript()
    users = {i: _text(m) for i, m in enumerate(messages) if m.get("role") == "user"}
    contexts = [i for i, text in users.items() if text.startswith(_CONTEXT)]
    start = _turn_start(messages, users)
    if contexts:
        turn.context = _parsed(users[contexts[-1]])
    turn.request = _words(users.get(start, ""))
    request = ""
    for at, message in enumerate(messages[: max(start, 0)]):
        text = _text(message)
        if at in users and not text.startswith(_ASIDE):
            request = _words(text)
        elif message.get("role") == "assistant" and text and request:
            turn.earlier.append((request, text))
            request = ""
    _read_steps(turn, messages[start + 1 :])
    return turn


def _turn_start(messages: Sequence[Mapping[str, Any]], users: Mapping[int, str]) -> int:
    begins = (_CONTEXT, _REQUEST)
    opened = [i for i, t in users.items() if t.startswith(begins) and f"{_REQUEST}\n" in t]
    # Without a notebook, the request is the last plain message that answers no question.
    plain = [i for i, text in users.items() if not text.startswith(_ASIDE)]
    acted = next((i for i, m in enumerate(messages) if m.get("tool_calls")), len(messages))
    return (opened or [i for i in plain if i < acted] or plain or [-1])[-1]


def _read_steps(turn: Transcript, messages: Sequence[Mapping[str, Any]]) -> None:
    answers = {m.get("tool_call_id"): m for m in messages if m.get("role") == "tool"}
    asked = ""
    for message in messages:
        text = _text(message)
        for raw in _mappings(message.get("tool_calls")):
            function = raw.get("function")
            function = function if isinstance(function, dict) else {}
            arguments = _parsed(str(function.get("arguments")))
            answer = _parsed(_text(answers.get(raw.get("id"), {})))
            turn.calls.append(Call(str(function.get("name")), arguments, answer))
            asked = str(arguments.get("question", asked))
        if message.get("role") != "user":
            continue
        if text.startswith(_CHANGES):
            turn.gone |= set(map(str, _list(_parsed(text).get("gone"))))
            for call in turn.calls:
                call.void = call.void or any(v.get("name") in turn.gone for v in call.variables)
        elif asked and asked not in turn.answers and not text.startswith(_ASIDE):
            turn.answers[asked] = text.strip()
        elif not text.startswith(_ASIDE):
            turn.remarks.append(text.strip())
    turn.gone -= {str(v.get("name")) for call in turn.calls for v in call.variables}


def _words(text: str) -> str:
    """The words of a request, between its tags or without."""
    _, opened, rest = text.partition(f"{_REQUEST}\n")
    return (rest.rpartition("</request>")[0] or rest if opened else text).strip()


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else "".join(
        str(part.get("text", "")) for part in _mappings(content)
    )  # fmt: skip


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _parsed(text: str) -> dict[str, Any]:
    """The JSON that ``text`` begins with, behind its tag."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
