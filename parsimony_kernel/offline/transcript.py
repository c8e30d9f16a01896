"""What the messages of a request say: the words, the notebook, and what was done so far.

The one memory that the model has. Reading never fails: whatever is odd or shortened is simply not
known.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.analysis.read import read as read_code
from parsimony_kernel.offline.schema import Table, read_table

_CONTEXT, _CHANGES, _REQUEST = "<notebook_context>", "<notebook_changes>", "<request>"
_ADDENDUM = "<context_addendum>"
# What stands between the words of a person.
_ASIDE = (_ADDENDUM, _CHANGES, _CONTEXT)


@dataclass(frozen=True)
class Call:
    """A tool call of this turn with its answer, ``None`` when there is none.

    ``void`` marks a call whose variables have gone since.
    """

    name: str
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any] | None
    message: int
    void: bool = False

    @property
    def ok(self) -> bool:
        """Whether it worked."""
        return self.answer is not None and "error" not in self.answer

    @property
    def failed(self) -> bool:
        """Whether it was answered by an error."""
        return self.answer is not None and "error" in self.answer

    @property
    def code(self) -> str:
        """The code that it ran."""
        return str(self.arguments.get("code", ""))

    @property
    def purpose(self) -> str:
        """Its heading."""
        return str(self.arguments.get("purpose") or "")

    @property
    def result(self) -> Mapping[str, Any]:
        """What the answer holds."""
        result = (self.answer or {}).get("result")
        return result if isinstance(result, dict) else {}

    @property
    def error_type(self) -> str:
        """The kind of the error."""
        return str((self.answer or {}).get("error_type") or (self.answer or {}).get("error") or "")

    @property
    def error_text(self) -> str:
        """The text of the error."""
        answer = self.answer or {}
        for key in ("error_message", "message", "reason"):
            if answer.get(key):
                return str(answer[key])
        return ""

    @property
    def printed(self) -> list[str]:
        """The lines that the code printed, as far as they are still there."""
        text = self.result.get("stdout")
        return text.splitlines() if isinstance(text, str) else []

    @property
    def bound(self) -> tuple[str, ...]:
        """The names that the code binds at its top level, in order."""
        return bound_names(self.code)

    def summaries(self) -> list[Mapping[str, Any]]:
        """What the answer says about variables."""
        listed = self.result.get("variables")
        return [v for v in listed if isinstance(v, dict)] if isinstance(listed, list) else []


@dataclass(frozen=True)
class Asked:
    """A question of this turn; ``reply`` is ``None`` while it waits."""

    question: str
    choices: tuple[str, ...]
    reply: str | None = None


@dataclass(frozen=True)
class Earlier:
    """A request of the notebook before this one, and what it came to."""

    request: str
    summary: str


@dataclass
class Transcript:
    """The turn, read. ``earlier_requests`` run from the oldest to the newest that is remembered;
    ``is_kept_back`` says that not all of the notebook is told.
    """

    request: str = ""
    working_folder: str = ""
    is_kept_back: bool = False
    files: tuple[str, ...] = ()
    variables: tuple[Mapping[str, Any], ...] = ()
    artifacts: tuple[Mapping[str, Any], ...] = ()
    replaceable: frozenset[str] = frozenset()
    calls: list[Call] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    gone: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    changed: dict[str, int] = field(default_factory=dict)
    earlier: tuple[str, ...] = ()
    earlier_requests: tuple[Earlier, ...] = ()

    @property
    def code_calls(self) -> list[Call]:
        """The cells that still count."""
        return [c for c in self.calls if c.name == "run_code" and not c.void]

    @property
    def failed_code(self) -> set[str]:
        """The code that has failed."""
        return {c.code for c in self.calls if c.name == "run_code" and c.failed}

    @property
    def names(self) -> list[str]:
        """The variables of the notebook as the context had them, less those that have gone."""
        return [str(v["name"]) for v in self.variables if v.get("name") not in self.gone]

    @property
    def all_names(self) -> list[str]:
        """The variables of the context, also those that have gone."""
        return [str(v["name"]) for v in self.variables if v.get("name")]

    @property
    def mine(self) -> tuple[str, ...]:
        """The names that earlier turns of this model speak of, newest last."""
        told = [
            re.sub(r"I used `\w+`|`\w+` is in the notebook already", "", t) for t in self.earlier
        ]
        found = [n for text in told for n in re.findall(r"`([^\W\d]\w{0,80})`", text)]
        return tuple(dict.fromkeys(reversed(found)))[::-1]

    def tables(self) -> dict[str, Table]:
        """What is known of the tables that exist; later answers win."""
        known: dict[str, Table] = {}
        for summary in self.variables:
            table = read_table(summary)
            if table is None or not table.name or table.name in {*self.gone, *self.changed}:
                continue
            known[table.name] = table
        for call in self.code_calls:
            for summary in call.summaries():
                table = read_table(summary)
                if table is None or call.message < self.changed.get(table.name, 0):
                    continue
                if not table.columns and table.rows:
                    # Shortened so far that not even the names are left.
                    continue
                seen = known.get(table.name)
                known[table.name] = table.seen_through(seen.columns) if seen else table
            shown = _inspected(call)
            if shown is not None and call.message >= self.changed.get(shown.name, 0):
                seen = known.get(shown.name, shown).seen_through(shown.columns)
                known[shown.name] = seen if seen.whole else seen.with_columns(shown.columns)
        return known

    def figures(self) -> list[str]:
        """The names of the charts in the notebook."""
        return [
            str(v["name"])
            for v in self.variables
            if v.get("type") == "figure" and v.get("name") and v["name"] not in self.gone
        ]


def _inspected(call: Call) -> Table | None:
    """What a cell that shows a table, or columns of it, tells of it."""
    found = re.fullmatch(r"(\w+)(\[\[.*\]\])?", call.code.strip(), re.DOTALL)
    outputs = call.result.get("outputs")
    if found is None or not isinstance(outputs, list):
        return None
    for output in outputs:
        if isinstance(output, dict):
            table = read_table(output, found.group(1))
            return table if table is None else replace(table, whole=not found.group(2))
    return None


def missing_name(call: Call) -> str | None:
    """The variable that the code of ``call`` found missing, if that is how it failed."""
    if call.error_type != "NameError":
        return None
    found = re.search(r"name '(\w{1,100})' is not defined", call.error_text)
    return found.group(1) if found else None


def told_table(summary: str) -> str | None:
    """The table that a request worked on, where its summary tells it."""
    for pattern in (
        r"(?:Add the column|Join the tables) .*?: `(\w+)` \(",
        r"Loaded `(\w+)` from ",
        r"I used `(\w+)`, the table that has",
        r"`(\w+)` is in the notebook already",
    ):
        found = re.findall(pattern, summary)
        if found:
            return str(found[-1])
    return None


def bound_names(code: str) -> tuple[str, ...]:
    """The names that ``code`` assigns at its top level; none when it is no Python."""
    return tuple(
        name
        for statement in read_code(code).statements
        if statement.rebinds and not statement.defines
        for name in sorted(statement.writes - statement.imports)
    )


def read(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """What ``messages`` say."""
    start = _turn_start(messages)
    transcript = Transcript()
    if start is None:
        return transcript
    inventory = _inventory_of(messages, start)
    _read_inventory(transcript, _text(messages[inventory]))
    transcript.request = _without_context(_text(messages[start]))
    transcript.earlier = tuple(
        _text(m) for m in messages[:start] if m.get("role") == "assistant" and _text(m)
    )
    transcript.earlier_requests = tuple(_earlier(messages[:start]))
    _read_steps(transcript, messages, start)
    # What is told of a variable after it changed is told of what it is now.
    transcript.changed = {n: at for n, at in transcript.changed.items() if at > inventory}
    return transcript


def _inventory_of(messages: Sequence[Mapping[str, Any]], start: int) -> int:
    """The newest message that tells what the notebook holds; ``start`` where there is none."""
    told = (i for i in range(len(messages) - 1, -1, -1) if _is_inventory(messages[i]))
    return next(told, start)


def _is_inventory(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "user" and _text(message).startswith(_CONTEXT)


def _earlier(messages: Sequence[Mapping[str, Any]]) -> Iterator[Earlier]:
    """The requests that were done, each with its summary; one without is left out."""
    request = ""
    for message in messages:
        text = _text(message)
        if message.get("role") == "user" and not text.startswith(_ASIDE):
            request = _without_context(text)
        elif message.get("role") == "assistant" and text and request:
            yield Earlier(request, text)
            request = ""


def _without_context(text: str) -> str:
    """The words of a request that was sent with or without what the notebook holds."""
    text = _read_inventory(Transcript(), text)
    at = text.find(_REQUEST)
    if at >= 0:
        text = text[at + len(_REQUEST) :]
        text = text[: text.rfind("</request>")] if "</request>" in text else text
    return text.strip()


def _opens(text: str) -> bool:
    return text.startswith((_CONTEXT, _REQUEST)) and f"{_REQUEST}\n" in text


def _turn_start(messages: Sequence[Mapping[str, Any]]) -> int | None:
    users = [i for i, m in enumerate(messages) if m.get("role") == "user"]
    opened = [i for i in users if _opens(_text(messages[i]))]
    if opened:
        return opened[-1]
    # Without a notebook, the request is the last plain message that answers no question.
    plain = [i for i in users if not _text(messages[i]).startswith(_ASIDE)]
    acted = [i for i, m in enumerate(messages) if m.get("tool_calls")]
    before = [i for i in plain if not acted or i < acted[0]]
    listed = before or plain
    return listed[-1] if listed else None


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = [p.get("text", "") for p in content if isinstance(p, dict)]
        return "".join(str(p) for p in parts)
    return content if isinstance(content, str) else ""


def _read_inventory(transcript: Transcript, text: str) -> str:
    """Take in what ``text`` tells of the notebook; what stands behind that."""
    if text.startswith(_CONTEXT):
        begin = text.find("{")
        try:
            context, end = json.JSONDecoder().raw_decode(text, max(begin, 0))
        except (ValueError, RecursionError):
            context, end = {}, 0
        if isinstance(context, dict):
            transcript.working_folder = str(context.get("working_folder") or "")
            transcript.is_kept_back = bool(context.get("kept_back"))
            transcript.files = tuple(str(f) for f in _list(context.get("files")))
            transcript.variables = tuple(
                v for v in _list(context.get("variables")) if isinstance(v, dict)
            )
            transcript.artifacts = tuple(
                a for a in _list(context.get("artifacts")) if isinstance(a, dict)
            )
            transcript.replaceable = frozenset(map(str, _list(context.get("replaceable"))))
        text = text[end:]
    return text


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_steps(transcript: Transcript, messages: Sequence[Mapping[str, Any]], start: int) -> None:
    answers = {
        str(m.get("tool_call_id")): _parsed(_text(m))
        for m in messages[start:]
        if m.get("role") == "tool"
    }
    gone: list[tuple[int, frozenset[str]]] = []
    for index in range(start + 1, len(messages)):
        message = messages[index]
        if message.get("role") == "assistant":
            transcript.said.append(_text(message))
            _read_calls(transcript, message, index, answers)
        elif message.get("role") == "user":
            text = _text(message)
            if text.startswith(_CHANGES):
                gone.append((index, _names_in(text, "gone")))
                transcript.changed.update(dict.fromkeys(_names_in(text, "changed"), index))
            elif not text.startswith(_ASIDE):
                _read_reply(transcript, text)
    for call in transcript.calls:
        name = missing_name(call)
        if name is not None:
            gone.append((call.message, frozenset({name})))
    for index, names in gone:
        transcript.calls = [
            Call(c.name, c.arguments, c.answer, c.message, void=True)
            if c.message < index and names & set(c.bound)
            else c
            for c in transcript.calls
        ]
    bound_again = {n for c in transcript.code_calls if c.ok for n in c.bound}
    transcript.lost = frozenset(name for _, names in gone for name in names)
    transcript.gone = transcript.lost - bound_again


def _read_calls(
    transcript: Transcript,
    message: Mapping[str, Any],
    index: int,
    answers: Mapping[str, Mapping[str, Any] | None],
) -> None:
    for raw in _list(message.get("tool_calls")):
        function = raw.get("function") if isinstance(raw, dict) else None
        if not isinstance(function, dict):
            continue
        arguments = _parsed(str(function.get("arguments") or "")) or {}
        name = str(function.get("name") or "")
        transcript.calls.append(
            Call(name, arguments, answers.get(str(raw.get("id"))), message=index)
        )
        if name == "ask_user":
            choices = tuple(str(c) for c in _list(arguments.get("choices")))
            transcript.asked.append(Asked(str(arguments.get("question", "")), choices))


def _read_reply(transcript: Transcript, text: str) -> None:
    waiting = [i for i, asked in enumerate(transcript.asked) if asked.reply is None]
    if waiting:
        asked = transcript.asked[waiting[-1]]
        transcript.asked[waiting[-1]] = Asked(asked.question, asked.choices, text.strip())
    else:
        transcript.remarks.append(text.strip())


def _names_in(text: str, key: str) -> frozenset[str]:
    changes = _parsed(text[text.find("{") : text.rfind("}") + 1]) or {}
    return frozenset(str(name) for name in _list(changes.get(key)))


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
