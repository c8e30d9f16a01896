"""What goes to models: what a turn would send before it is sent, and what each request had.

The magics import this, so that it knows of them by use alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from parsimony_agent.arguments import CellRequest
from parsimony_agent.options import in_notebook, options_of
from parsimony_agent.pending import TurnError
from parsimony_agent.tables import note, words
from parsimony_kernel.core.chat import OFFLINE, ModelRequest
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.core.pictures import pictures_in, size_of, tokens_of
from parsimony_kernel.session.turns import resolve_turn
from parsimony_kernel.view.escape import fit, html_text, plain, unbroken
from parsimony_kernel.view.tabulate import counted

if TYPE_CHECKING:
    from parsimony_kernel.storage.sent import SentRequest

_ANY_WORDS = "(your request)"
_NOTHING_SENT = ModelRequest([])


def context(
    magics: Any,
    words: str = _ANY_WORDS,
    *,
    share: str | None = None,
    context: tuple[str, ...] | None = None,
    no_context: bool = False,
) -> Any:
    """What a turn with these words would send to the notebook's model."""
    request = CellRequest(words, share=share, context=context, no_context=no_context)
    return previewed(magics, request, magic=f"{magics.name} context")


def previewed(magics: Any, request: CellRequest, cell_key: str = "", *, magic: str) -> Any:
    """What the turn of ``request`` would send first. ``magic`` is what was written, for errors."""
    magics.follow_settings()
    session = magics.session
    options = in_notebook(options_of(request, magics.settings), session, magics.shell, magic)
    asked = session.preview(request.text, cell_key=cell_key, options=options)
    return sent_words(asked, request.model or session.model_name)


def sent(magics: Any, named: str | None = None, *, number: int | None = None) -> Any:
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


def sent_words(request: ModelRequest, model: str) -> str:
    """A request to the letter: each message with its role, then the tools that it offers.

    What stands around it on the wire is the provider's own.
    """
    head = f"To {model}, {len(request.messages)} messages and {len(request.tools)} tools:"
    return "\n\n".join([head, *map(message_words, request.messages), tools_words(request)])


def message_words(message: Mapping[str, Any]) -> str:
    """One message to the letter, under its role."""
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    content: Any = message.get("content") or ""
    if pictures := list(map(_picture_words, pictures_in(message))):
        content = "\n".join([*(part["text"] for part in content if "text" in part), *pictures])
    said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    rest_said = json.dumps(rest, ensure_ascii=False) if rest else ""
    return literal("\n".join(filter(None, (f"── {message.get('role')} ──", said, rest_said))))


def _picture_words(png_base64: str) -> str:
    """A picture by its size in pixels, tokens and bytes, and its digest."""
    png = base64.b64decode(png_base64)
    width, height = size_of(png)
    return (
        f"[picture: PNG of {width} × {height} pixels, about {tokens_of(png_base64):,} tokens, "
        f"{len(png):,} bytes, sha256 {hashlib.sha256(png).hexdigest()}]"
    )


def tools_words(request: ModelRequest) -> str:
    """The tools that a request offers, to the letter."""
    tools = [json.dumps(tool, ensure_ascii=False) for tool in request.tools]
    return literal("── tools ──\n" + "\n".join(tools))


def literal(text: str) -> str:
    """``text`` with what cannot be seen, or changes how the rest looks, as Python escapes it."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
