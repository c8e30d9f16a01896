"""What the messages of a request say: the words, the notebook, and what was done so far.

The one memory that the model has. Reading never fails: whatever is odd or shortened is simply not
known.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.analysis.read import read as read_code
from parsimony_kernel.offline.schema import Table, read_table

_CONTEXT, _CHANGES, _REQUEST = "<notebook_context>", "<notebook_changes>", "<request>"
_ASIDE = ("<context_addendum>", _CHANGES, _CONTEXT)


@dataclass(frozen=True)
class Call:
    """A tool call of this turn with its answer; ``void`` when its variables have gone since."""

    name: str
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any]
    message: int
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
    working_folder: str = ""
    kept_back: bool = False
    files: tuple[str, ...] = ()
    variables: tuple[Mapping[str, Any], ...] = ()
    replaceable: frozenset[str] = frozenset()
    calls: list[Call] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    gone: frozenset[str] = frozenset()
    changed: dict[str, int] = field(default_factory=dict)
    earlier: list[tuple[str, str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The variables of the notebook as the context had them, less those that have gone."""
        return [str(v["name"]) for v in self.variables if v.get("name") not in {None, *self.gone}]

    def tables(self) -> dict[str, Table]:
        """What is known of the tables that exist; later answers win."""
        known: dict[str, Table] = {}
        told = [(-1, each) for each in self.variables if each.get("name") not in self.gone]
        for call in self.calls:
            listed = call.result.get("variables") if not call.void else ()
            told += [(call.message, v) for v in _list(listed) if isinstance(v, dict)]
        for at, summary in told:
            table = read_table(summary)
            is_told = table is not None and table.name and table.columns
            if table is not None and is_told and at >= self.changed.get(table.name, -1):
                known[table.name] = table
        return known

    def figures(self) -> list[str]:
        """The names of the charts in the notebook, and of those that this turn has made."""
        made = [v for c in self.calls if not c.void for v in _list(c.result.get("variables"))]
        listed = [v for v in (*self.variables, *made) if isinstance(v, dict)]
        names = [str(v["name"]) for v in listed if v.get("type") == "figure" and v.get("name")]
        return [each for each in dict.fromkeys(names) if each not in self.gone]


def bound_names(code: str) -> tuple[str, ...]:
    """The names that ``code`` assigns at its top level; none when it is no Python."""
    return tuple(
        name
        for statement in read_code(code).statements
        if statement.rebinds and not statement.defines
        for name in sorted(statement.writes - statement.imports)
    )


def read(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Read what ``messages`` say."""
    turn = Transcript()
    start = _turn_start(messages)
    if start is None:
        return turn
    told = [i for i, m in enumerate(messages) if _is_user(m) and _text(m).startswith(_CONTEXT)]
    inventory = told[-1] if told else start
    if told:
        _read_inventory(turn, _parsed(_text(messages[inventory])))
    turn.request = _words(_text(messages[start]))
    request = ""
    for message in messages[:start]:
        text = _text(message)
        if _is_user(message) and not text.startswith(_ASIDE):
            request = _words(text)
        elif message.get("role") == "assistant" and text and request:
            turn.earlier.append((request, text))
            request = ""
    _read_steps(turn, messages, start)
    turn.changed = {name: at for name, at in turn.changed.items() if at > inventory}
    return turn


def _is_user(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "user"


def _turn_start(messages: Sequence[Mapping[str, Any]]) -> int | None:
    users = [i for i, m in enumerate(messages) if _is_user(m)]
    opened = [
        i
        for i in users
        if _text(messages[i]).startswith((_CONTEXT, _REQUEST))
        and f"{_REQUEST}\n" in _text(messages[i])
    ]
    if opened:
        return opened[-1]
    # Without a notebook, the request is the last plain message that answers no question.
    plain = [i for i in users if not _text(messages[i]).startswith(_ASIDE)]
    acted = [i for i, m in enumerate(messages) if m.get("tool_calls")]
    before = [i for i in plain if not acted or i < acted[0]] or plain
    return before[-1] if before else None


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return content if isinstance(content, str) else ""


def _words(text: str) -> str:
    """The words of a request, between its tags or without."""
    _, opened, rest = text.partition(f"{_REQUEST}\n")
    return (rest.rpartition("</request>")[0] or rest if opened else text).strip()


def _read_inventory(turn: Transcript, context: Mapping[str, Any]) -> None:
    turn.working_folder = str(context.get("working_folder") or "")
    turn.kept_back = bool(context.get("kept_back"))
    turn.files = tuple(map(str, _list(context.get("files"))))
    turn.variables = tuple(v for v in _list(context.get("variables")) if isinstance(v, dict))
    turn.replaceable = frozenset(map(str, _list(context.get("replaceable"))))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_steps(turn: Transcript, messages: Sequence[Mapping[str, Any]], start: int) -> None:
    answers = {
        str(m.get("tool_call_id")): _parsed(_text(m))
        for m in messages[start:]
        if m.get("role") == "tool"
    }
    gone: list[tuple[int, set[str]]] = []
    for at, message in enumerate(messages[start + 1 :], start + 1):
        text = _text(message)
        for raw in _list(message.get("tool_calls")):
            function = raw.get("function") if isinstance(raw, dict) else None
            if not isinstance(function, dict):
                continue
            name, arguments = str(function.get("name")), _parsed(str(function.get("arguments")))
            turn.calls.append(Call(name, arguments, answers.get(str(raw.get("id")), {}), at))
            if name == "ask_user":
                turn.asked.append(str(arguments.get("question", "")))
        if _is_user(message) and text.startswith(_CHANGES):
            changes = _parsed(text)
            gone.append((at, set(map(str, _list(changes.get("gone"))))))
            turn.changed.update(dict.fromkeys(map(str, _list(changes.get("changed"))), at))
        elif _is_user(message) and not text.startswith(_ASIDE):
            if turn.asked and turn.asked[-1] not in turn.answers:
                turn.answers[turn.asked[-1]] = text.strip()
            else:
                turn.remarks.append(text.strip())
    turn.calls = [
        replace(
            c, void=any(c.message < at and names & {*bound_names(c.code)} for at, names in gone)
        )
        for c in turn.calls
    ]
    bound = {n for c in turn.calls if c.ok and not c.void for n in bound_names(c.code)}
    turn.gone = frozenset({name for _, names in gone for name in names} - bound)


def _parsed(text: str) -> dict[str, Any]:
    """The JSON that ``text`` begins with, behind its tag."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
