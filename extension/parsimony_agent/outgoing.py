"""What goes to models: what a turn would send before it is sent, and what each request had."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from parsimony_agent.arguments import CellRequest
from parsimony_agent.pending import TurnError
from parsimony_agent.request_text import message_words, sent_words, tools_words
from parsimony_agent.tables import note, words
from parsimony_kernel.core.chat import OFFLINE, ModelRequest
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.session.turns import resolve_turn
from parsimony_kernel.view.escape import fit, html_text, plain, unbroken
from parsimony_kernel.view.tabulate import counted

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics, Told
    from parsimony_kernel.storage.sent import SentRequest

_ANY_WORDS = "(your request)"
_NOTHING_SENT = ModelRequest([])


def context(
    magics: AgentMagics,
    words: str = _ANY_WORDS,
    *,
    share: str | None = None,
    context: tuple[str, ...] | None = None,
    no_context: bool = False,
) -> Told:
    """What a turn with these words would send to the notebook's model."""
    request = CellRequest(words, share=share, context=context, no_context=no_context)
    return magics.preview(request, magic=f"{magics.name} context")


def sent(magics: AgentMagics, named: str | None = None, *, number: int | None = None) -> Told:
    """What went to models in a turn: of each request what the one before did not have.

    With ``number`` that request, whole. ``TurnError`` when there is no such turn or request.
    """
    session = magics.session
    turn = resolve_turn(session.turns(), named)
    requests = session.sent(turn.run_id)
    if not requests:
        return note(
            f"No request of turn {turn.ordinal} is on record: none was sent, as where a recording "
            "answers, or it was purged."
        )
    if number is None:
        begun = (each for each in session.events(turn.run_id) if isinstance(each, RunStarted))
        share = next((each.share for each in begun), "")
        return _told(requests, turn.ordinal, share, magics.name)
    if number > len(requests):
        raise TurnError(
            f"Turn {turn.ordinal} has {counted(len(requests), 'request')}: there is no "
            f"request {number}."
        )
    asked = requests[number - 1]
    return f"{_when(asked)}. {sent_words(asked.request, asked.model)}"


@dataclass(frozen=True)
class _Piece:
    """One request as it is shown. ``size`` and ``new`` are bytes of UTF-8."""

    title: str
    body: str
    size: int
    new: int


def _told(
    requests: Sequence[SentRequest], ordinal: int, share: str, magic: str
) -> Mapping[str, Any]:
    before = (_NOTHING_SENT, *(each.request for each in requests))
    pieces = [
        _piece(number, each, earlier)
        for number, (each, earlier) in enumerate(zip(requests, before, strict=False), start=1)
    ]
    size = sum(piece.size for piece in pieces)
    head = f"Turn {ordinal}{f', --share {share}' if share else ''}: "
    head += f"{counted(len(pieces), 'request')}, {counted(size, 'byte')} in all."
    if all(each.model == OFFLINE for each in requests):
        head += f" Nothing left this machine: {OFFLINE} is the model that is built in."

    def left_out(said: str) -> str:
        return f"({said}; {magic} sent --request N {ordinal} shows one request whole.)"

    texts = [f"{piece.title}\n\n{piece.body}" for piece in pieces]
    blocks = [
        f"<details><summary>{html_text(piece.title)}</summary>{words(piece.body)['text/html']}"
        "</details>"
        for piece in pieces
    ]
    shown = "".join(fit(blocks, lambda said: f"<p>{html_text(left_out(said))}</p>"))
    return {
        "text/plain": plain("\n\n\n".join((head, *fit(texts, left_out)))),
        "text/html": unbroken(f"<div><p>{html_text(head)}</p>{shown}</div>"),
    }


def _piece(number: int, asked: SentRequest, earlier: ModelRequest) -> _Piece:
    request = asked.request
    parts, new = [], 0
    for part, size in _new_in(request, earlier, number - 1):
        parts.append(part)
        new += size
    size = sum(map(_size, (*request.messages, *request.tools)))
    title = (
        f"Request {number}, {_when(asked)}, to {asked.model}: "
        f"{counted(len(request.messages), 'message')}, {counted(len(request.tools), 'tool')}, "
        f"{counted(size, 'byte')}" + (f", {new:,} of them new" if number > 1 else "")
    )
    return _Piece(title, "\n\n".join(parts), size, new)


def _new_in(request: ModelRequest, earlier: ModelRequest, number: int) -> Iterator[tuple[str, int]]:
    """The parts of ``request`` in order, each with how much of it is new in bytes.

    What request ``number`` had as well is named, the rest stands to the letter.
    """
    now, then = list(map(_key, request.messages)), list(map(_key, earlier.messages))
    for kind, i, j, start, end in SequenceMatcher(None, then, now, autojunk=False).get_opcodes():
        if kind == "equal":
            yield f"── {_range(start, end)} as in request {number} ──", 0
            continue
        if i < j:
            yield f"── {_range(i, j)} of request {number} left out ──", 0
        for message in request.messages[start:end]:
            yield message_words(message), _size(message)
    if request.tools and list(request.tools) == list(earlier.tools):
        yield f"── tools as in request {number} ──", 0
    else:
        yield tools_words(request), sum(map(_size, request.tools))


def _range(start: int, end: int) -> str:
    return f"message {end}" if end - start == 1 else f"messages {start + 1} to {end}"


def _key(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _size(value: Mapping[str, Any]) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _when(asked: SentRequest) -> str:
    return f"{asked.at[:19].replace('T', ' ')} UTC"
