"""What the messages of a request say: the words, the notebook, and what was done so far.

The one memory that the model has. Reading never fails: whatever is odd or shortened is simply not
known.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.offline.code import Table, read_table
from parsimony_kernel.offline.words import table

_CONTEXT, _CHANGES, _REQUEST = "<notebook_context>", "<notebook_changes>", "<request>"
_MOST = 4  # choices of a question
_ASIDE = ("<context_addendum>", _CHANGES, _CONTEXT)


@dataclass(eq=False)
class Unclear(Exception):
    """A person must say which of ``choices``; without any, ``text`` says why it cannot be done."""

    text: str
    choices: Sequence[str] = ()


def no_if(is_so: object, why: str, *about: object) -> None:
    """Refuse with the sentence ``why`` of the table of patterns, where something is so."""
    if is_so:
        raise Unclear(table()["no"][why].format(*about))


@dataclass(frozen=True)
class Answer:
    """What came of a tool call: its error, and what it told.

    Args:
        error: the kind of the error and its text; empty when there was none.
        result: what code printed as ``stdout``.
        variables: those that it tells of, by name.
    """

    error: str
    result: Mapping[str, Any]
    variables: Mapping[str, Mapping[str, Any]]


def _key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Name a call: its answer stands under this."""
    return json.dumps([tool, arguments], sort_keys=True)


@dataclass
class Transcript:
    """The turn, read.

    Args:
        calls: the answers of tools, by ``_key``; without those whose variables have gone.
        replies: what the person said, by the question.
        changed: the variables that were changed while a question waited.
        told: what the earlier requests came to.
        last: what the request before came to.
    """

    request: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    calls: dict[str, Answer] = field(default_factory=dict)
    replies: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    changed: list[str] = field(default_factory=list)
    told: str = ""
    last: str = ""

    @property
    def variables(self) -> dict[str, Mapping[str, Any]]:
        """The notebook's variables by name, less those that have gone."""
        listed = self.context.get("variables") or ()
        return {str(v["name"]): v for v in listed if v["name"] not in self.gone}

    @property
    def made(self) -> dict[str, Mapping[str, Any]]:
        """The variables that this turn has made."""
        return {name: v for call in self.calls.values() for name, v in call.variables.items()}

    def answer(self, tool: str, arguments: Mapping[str, Any]) -> Answer | None:
        """What came of a call; ``None`` until it was made."""
        return self.calls.get(_key(tool, arguments))

    def choose(self, question: str, choices: Sequence[str], *, holds: bool = False) -> str:
        """Return the choice that the person made in this turn or, where it ``holds``, before.

        A choice holds only for a question with the words and the table that it is about.

        Raises:
            Unclear: until there is a reply that is one of the choices.
        """
        reply = self.replies.get(question)
        before = (self.context.get("answers") or {}).get(question, "") if holds else ""
        said = (before if reply is None else reply).strip()
        found = [each for each in choices if each == said]
        if len(found) == 1:
            return found[0]
        if reply is None:
            raise Unclear(question, choices[:_MOST])
        no_if(said.casefold() in ("stop", "no", "cancel"), "stopped")
        return self.choose(f"{reply[:80]!r} is none of the choices. {question}", choices)

    def tables(self) -> dict[str, Table]:
        """What is known of the tables that exist; later answers win."""
        told = map(read_table, (self.variables | self.made).values())
        return {each.name: each for each in told if each and each.name and each.columns}


def read(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Read what ``messages`` say."""
    turn = Transcript()
    users = {i: _text(m) for i, m in enumerate(messages) if m.get("role") == "user"}
    contexts = [_parsed(text) for text in users.values() if text.startswith(_CONTEXT)]
    turn.context = contexts[-1] if contexts else {}
    begins = (_CONTEXT, _REQUEST)
    opened = [i for i, t in users.items() if t.startswith(begins) and f"{_REQUEST}\n" in t]
    # Without a notebook, the request is the first message.
    start = (opened or [*users] or [-1])[-1 if opened else 0]
    asked = users.get(start, "")
    turn.request = (request_in([{"role": "user", "content": asked}]) or asked).strip()
    said = [_text(m) for m in messages[: max(start, 0)] if m.get("role") == "assistant"]
    # Nothing is left of a turn that was undone, refused or handed back.
    turn.told = " ".join(t for t in said if not t.startswith(("Undone ", "Not done; ")))
    turn.last = "".join(said[-1:])
    _read_steps(turn, messages[start + 1 :])
    return turn


def _read_steps(turn: Transcript, messages: Sequence[Mapping[str, Any]]) -> None:
    answers = {
        m.get("tool_call_id"): _parsed(_text(m)) for m in messages if m.get("role") == "tool"
    }
    asked = ""
    for message in messages:
        text = _text(message)
        for call in message.get("tool_calls") or ():
            arguments = _parsed(call["function"]["arguments"])
            asked = str(arguments.get("question", asked))
            if told := answers.get(call["id"]):
                answer = _answer(told)
                if turn.gone & {*answer.variables}:  # what failed without them is tried again
                    turn.calls = {k: c for k, c in turn.calls.items() if "NameError" not in c.error}
                turn.calls[_key(call["function"]["name"], arguments)] = answer
        if message.get("role") == "user" and text.startswith(_CHANGES):
            turn.gone |= {*(_parsed(text).get("gone") or ())}
            turn.changed += _parsed(text).get("changed") or () if turn.calls else ()
            turn.calls = {k: c for k, c in turn.calls.items() if not turn.gone & {*c.variables}}
        elif message.get("role") == "user" and asked and not text.startswith(_ASIDE):
            turn.replies.setdefault(asked, text.strip())
    turn.gone -= {*turn.made}


def _answer(told: Mapping[str, Any]) -> Answer:
    kind, result = str(told.get("error_type") or ""), told.get("result")
    # An error without a text is one all the same.
    keys = ("error_message", "message", "reason")
    text = next((str(told[key]) for key in keys if told.get(key)), "It failed.")
    # A sentence needs no name of a class before it.
    error = text if text.startswith(kind) or text.endswith(".") else f"{kind}: {text}"
    result = result if isinstance(result, dict) else {}
    variables = {str(v.get("name")): v for v in result.get("variables") or ()}
    return Answer(error if "error" in told else "", result, variables)


def _text(message: Mapping[str, Any]) -> str:
    return str(message.get("content") or "")


def _parsed(text: str) -> dict[str, Any]:
    """The JSON that ``text`` begins with, behind its tag; empty where it is odd or cut."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
