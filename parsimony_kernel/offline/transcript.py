"""What the messages of a request say: the words, the notebook, and what was done so far.

The one memory that the model has. Reading never fails: whatever is odd or shortened is simply not
known.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core import choices as choice
from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.offline.schema import Table, read_table
from parsimony_kernel.offline.words import table

_CONTEXT, _CHANGES, _REQUEST = "<notebook_context>", "<notebook_changes>", "<request>"
_MOST = 4  # choices of a question
_ASIDE = ("<context_addendum>", _CHANGES, _CONTEXT)


@dataclass(eq=False)
class Ask(Exception):
    """A person must say which."""

    question: str
    choices: Sequence[str]


class No(Exception):
    """It cannot be done; the text says why, in one line."""


def no_if(is_so: object, why: str, *about: object) -> None:
    """Refuse with the sentence ``why`` of the table of patterns, where something is so."""
    if is_so:
        raise No(table()["no"][why].format(*about))


@dataclass
class Call:
    """A tool call of this turn; it counts as unanswered once its variables have gone.

    Args:
        error: the kind of the error and its text; empty when there was none.
        result: what the answer holds: what code printed as ``stdout``, its ``variables``.
    """

    name: str
    arguments: Mapping[str, Any]
    is_answered: bool
    error: str
    result: Mapping[str, Any]

    @property
    def variables(self) -> list[Mapping[str, Any]]:
        """The variables that it tells of."""
        return list(self.result.get("variables") or ())


@dataclass
class Transcript:
    """The turn, read. ``answers`` are replies by their question; ``earlier`` are the requests that
    were done, ``told`` is what they came to."""

    request: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    earlier: list[str] = field(default_factory=list)
    told: str = ""

    @property
    def variables(self) -> dict[str, Mapping[str, Any]]:
        """The notebook's variables by name, less those that have gone."""
        listed = self.context.get("variables") or ()
        return {str(v["name"]): v for v in listed if v["name"] not in self.gone}

    @property
    def known(self) -> list[Mapping[str, Any]]:
        """What is told of variables that exist, the newest last."""
        return [*self.variables.values(), *(v for call in self.calls for v in call.variables)]

    def holds(self, question: str) -> bool:
        """Whether ``question`` was answered by a turn before, and not by this one."""
        asked, before = self.answers, self.context.get("answers") or ()
        return any(question in each for each in before) and not any(question in e for e in asked)

    def choose(self, question: str, choices: Sequence[str]) -> str:
        """Return the choice that the person made, in this turn or, while it is one, before.

        Raises:
            Ask: until there is a reply that is one of the choices.
            No: when the reply is to stop.
        """
        if len(choices) > _MOST:
            question = f"{question} (of {len(choices)})"
        reply = self.answers.get(question)
        if reply is None:
            found = _named((self.context.get("answers") or {}).get(question, ""), choices)
            if len(found) == 1:
                return found[0]
            raise Ask(question, choices[:_MOST])
        found = _named(reply, choices)
        no_if(not found and choice.read(reply, choice.MORE) is choice.Choice.stop, "stopped")
        if len(found) == 1:
            return found[0]
        return self.choose(f"{reply[:80]!r} is none of the choices. {question}", choices)

    def tables(self) -> dict[str, Table]:
        """What is known of the tables that exist; later answers win."""
        told = [each for each in map(read_table, self.known) if each]
        return {each.name: each for each in told if each.name and each.columns}

    def figures(self) -> list[str]:
        """The names of the charts in the notebook, and of those that this turn has made."""
        return list(dict.fromkeys(str(v["name"]) for v in self.known if v.get("type") == "figure"))


def _named(reply: str, choices: Sequence[str]) -> list[str]:
    """Those of ``choices`` that ``reply`` can mean."""
    low = reply.strip().casefold().rstrip(".!")
    whole = [c for c in choices if c.casefold() == low]
    return whole or [c for c in choices if low and low in c.casefold()]


def read(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Read what ``messages`` say."""
    turn = Transcript()
    users = {i: _text(m) for i, m in enumerate(messages) if m.get("role") == "user"}
    contexts = [text for text in users.values() if text.startswith(_CONTEXT)]
    turn.context = _parsed(contexts[-1]) if contexts else {}
    begins = (_CONTEXT, _REQUEST)
    opened = [i for i, t in users.items() if t.startswith(begins) and f"{_REQUEST}\n" in t]
    # Without a notebook, the request is the last plain message that answers no question.
    plain = [i for i, text in users.items() if not text.startswith(_ASIDE)]
    acted = next((i for i, m in enumerate(messages) if m.get("tool_calls")), len(messages))
    start = (opened or [i for i in plain if i < acted] or plain or [-1])[-1]
    turn.request = _words(users.get(start, ""))
    request = ""
    for at, message in enumerate(messages[: max(start, 0)]):
        text = _text(message)
        if at in plain:
            request = _words(text)
        elif message.get("role") == "assistant" and text and request:
            turn.earlier.append(request)
            turn.told += f" {text}"
            request = ""
    _read_steps(turn, messages[start + 1 :])
    return turn


def _read_steps(turn: Transcript, messages: Sequence[Mapping[str, Any]]) -> None:
    answers = {m.get("tool_call_id"): m for m in messages if m.get("role") == "tool"}
    asked = ""
    for message in messages:
        text = _text(message)
        for raw in message.get("tool_calls") or ():
            turn.calls.append(_call(raw, _parsed(_text(answers.get(raw["id"], {})))))
            asked = str(turn.calls[-1].arguments.get("question", asked))
        if message.get("role") == "user" and text.startswith(_CHANGES):
            turn.gone |= {*(_parsed(text).get("gone") or ())}
            for call in turn.calls:
                if any(each.get("name") in turn.gone for each in call.variables):
                    call.is_answered, call.result = False, {}
        elif message.get("role") == "user" and asked and not text.startswith(_ASIDE):
            turn.answers.setdefault(asked, text.strip())
    turn.gone -= {str(v.get("name")) for call in turn.calls for v in call.variables}


def _call(raw: Mapping[str, Any], answer: Mapping[str, Any]) -> Call:
    function, result = raw["function"], answer.get("result")
    kind = str(answer.get("error_type") or "")
    keys = ("error_message", "message", "reason") if "error" in answer else ()
    # An error without a text is one all the same.
    text = next((str(answer[key]) for key in keys if answer.get(key)), "It failed." if keys else "")
    error = text if text.startswith(kind) else f"{kind}: {text}"
    result = result if isinstance(result, dict) else {}
    return Call(function["name"], _parsed(function["arguments"]), bool(answer), error, result)


def _words(text: str) -> str:
    """The words of a request, between its tags or without."""
    return (request_in([{"role": "user", "content": text}]) or text).strip()


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    parts = [{"text": content}] if isinstance(content, str) else content
    return "".join(str(part.get("text", "")) for part in parts)


def _parsed(text: str) -> dict[str, Any]:
    """The JSON that ``text`` begins with, behind its tag; empty where it is odd or cut."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
