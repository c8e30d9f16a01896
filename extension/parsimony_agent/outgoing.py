"""What goes to models, to the letter: what a turn would send, and what each request had."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from parsimony_agent.arguments import CellRequest
from parsimony_agent.options import in_notebook, options_of
from parsimony_agent.pending import TurnError
from parsimony_agent.tables import note, words
from parsimony_kernel.core.chat import OFFLINE, ModelRequest
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.core.pictures import pictures_in, size_of, tokens_of
from parsimony_kernel.core.text import counted
from parsimony_kernel.session.turns import resolve_turn
from parsimony_kernel.view.escape import fit, html_text, plain, unbroken

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics, Told
    from parsimony_kernel.storage.sent import SentRequest

_ANY_WORDS = "(your request)"


def preview(
    magics: AgentMagics, request: CellRequest, cell_key: str = "", *, magic: str = ""
) -> str:
    """What the turn of ``request`` would send first. ``magic`` is what errors call it."""
    magics.follow_settings()
    session = magics.session
    chosen = options_of(request, magics.settings)
    options = in_notebook(chosen, session, magics.shell, magic or f"%{magics.name}")
    sent = session.preview(request.text, cell_key=cell_key, options=options)
    return sent_words(sent, request.model or session.model_name)


def context(magics: AgentMagics, words: str = _ANY_WORDS, **told: Any) -> Told:
    """What a turn with these words would send, under the flags of a cell that say what is told."""
    return preview(magics, CellRequest(words, **told), magic=f"{magics.name} context")


def sent(magics: AgentMagics, turn: str | None = None, *, request: int | None = None) -> Told:
    """What went to models in a turn: of each request what the one before did not have.

    With the number of a ``request`` that one, whole. ``TurnError`` when there is no such turn or
    request.
    """
    session = magics.session
    found = resolve_turn(session.turns(), turn)
    requests = session.sent(found.run_id)
    if not requests:
        return note(
            f"No request of turn {found.ordinal} is on record: none was sent, as where a recording "
            "answers, or it was purged."
        )
    if request is None:
        begun = (each for each in session.events(found.run_id) if isinstance(each, RunStarted))
        share = next((each.share for each in begun), "")
        return _told(requests, found.ordinal, share, magics.name)
    if request > len(requests):
        raise TurnError(
            f"Turn {found.ordinal} has {counted(len(requests), 'request')}: there is no "
            f"request {request}."
        )
    asked = requests[request - 1]
    return f"{_when(asked)}. {sent_words(asked.request, asked.model)}"


def _told(
    requests: Sequence[SentRequest], ordinal: int, share: str, magic: str
) -> Mapping[str, Any]:
    before = (ModelRequest([]), *(each.request for each in requests))
    pieces, size = [], 0
    for number, (asked, earlier) in enumerate(zip(requests, before, strict=False), start=1):
        request = asked.request
        parts, new = zip(*_new_in(request, earlier, number - 1), strict=True)
        whole = sum(map(_size, (*request.messages, *request.tools)))
        size += whole
        title = (
            f"Request {number}, {_when(asked)}, to {asked.model}: "
            f"{counted(len(request.messages), 'message')}, {counted(len(request.tools), 'tool')}, "
            f"{counted(whole, 'byte')}" + (f", {sum(new):,} of them new" if number > 1 else "")
        )
        pieces.append((title, "\n\n".join(parts)))
    head = f"Turn {ordinal}{f', --share {share}' if share else ''}: "
    head += f"{counted(len(pieces), 'request')}, {counted(size, 'byte')} in all."
    if all(each.model == OFFLINE for each in requests):
        head += f" Nothing left this machine: {OFFLINE} is the model that is built in."

    def left_out(said: str) -> str:
        return f"({said}; {magic} sent --request N {ordinal} shows one request whole.)"

    texts = [f"{title}\n\n{body}" for title, body in pieces]
    blocks = [
        f"<details><summary>{html_text(title)}</summary>{words(body)['text/html']}</details>"
        for title, body in pieces
    ]
    shown = "".join(fit(blocks, lambda said: f"<p>{html_text(left_out(said))}</p>"))
    return {
        "text/plain": plain("\n\n\n".join((head, *fit(texts, left_out)))),
        "text/html": unbroken(f"<div><p>{html_text(head)}</p>{shown}</div>"),
    }


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
        yield _tools_words(request), sum(map(_size, request.tools))


def _range(start: int, end: int) -> str:
    return f"message {end}" if end - start == 1 else f"messages {start + 1} to {end}"


def _key(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _size(value: Mapping[str, Any]) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _when(asked: SentRequest) -> str:
    return f"{asked.at[:19].replace('T', ' ')} UTC"


# -- one request as text


def sent_words(request: ModelRequest, model: str) -> str:
    """A request to the letter: each message with its role, then the tools that it offers.

    What stands around it on the wire is the provider's own.
    """
    head = f"To {model}, {len(request.messages)} messages and {len(request.tools)} tools:"
    return "\n\n".join([head, *map(message_words, request.messages), _tools_words(request)])


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


def _tools_words(request: ModelRequest) -> str:
    tools = [json.dumps(tool, ensure_ascii=False) for tool in request.tools]
    return literal("── tools ──\n" + "\n".join(tools))


def literal(text: str) -> str:
    """``text`` with what cannot be seen, or changes how the rest looks, as Python escapes it."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
