"""``%agent sent`` tells what went to models."""

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_agent.extension import install, uninstall
from parsimony_agent.overview import message_words, sent
from parsimony_agent.pending import TurnError
from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.storage.journal import TurnRow
from parsimony_kernel.storage.run_log import SentRequest
from parsimony_kernel.testing.scripted import ScriptedModel, call

Said = Callable[..., str]

SYSTEM = {"role": "system", "content": "You work in a notebook."}
FIRST = {"role": "user", "content": "<request>\nplot it for $5\n</request>"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "function": {"name": "run_code", "arguments": '{"code": "x = 1"}'}}
    ],
}
ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": '{"ok": true}'}
REMINDER = {"role": "user", "content": "Finish with exactly one of them."}
TOOL = {"type": "function", "function": {"name": "run_code"}}


def went(
    number: int, *messages: dict[str, Any], model: str = "openai/gpt-5", tools: Any = (TOOL,)
) -> SentRequest:
    return SentRequest(f"2026-01-01T08:30:0{number}.5Z", model, ModelRequest(messages, tools))


def told(
    *requests: SentRequest, named: str | None = None, number: int | None = None, share: str = ""
) -> Any:
    """What is told of a turn that sent these."""
    rows = [TurnRow(f"{n}ab", "a.ipynb", "", n, "", "m", "done", "") for n in (1, 2)]
    session = SimpleNamespace(
        turns=lambda: rows,
        sent={"1ab": (), "2ab": requests}.__getitem__,
        events=lambda run_id: [RunStarted(run_id=run_id, request="b", model="m", share=share)],
    )
    magics: Any = SimpleNamespace(session=session, name="%agent")
    return sent(magics, named, request=number)


def texts(shown: Any) -> str:
    return "\n".join(each["text/plain"] for each in shown)


def test_each_request_has_a_line_and_last_is_verbatim() -> None:
    messages = (SYSTEM, {**FIRST, "content": "ünïcode …"}, CALLED, ANSWERED)
    listed, last = told(went(1, SYSTEM, FIRST), went(2, *messages))
    assert "Request 1, 2026-01-01 08:30:01 UTC, to openai/gpt-5: 2 messages, 1 tool, " in texts(
        [listed]
    )
    size = sum(len(json.dumps(each, ensure_ascii=False).encode()) for each in (*messages, TOOL))
    assert listed["text/plain"].endswith(f" to openai/gpt-5: 4 messages, 1 tool, {size} bytes")
    assert last["text/plain"].startswith("Request 2 exactly as sent")
    for part in (*(each["content"] for each in messages if each["content"]), json.dumps(TOOL)):
        assert str(part) in last["text/plain"]
    assert json.dumps(CALLED["tool_calls"]) in last["text/plain"]


def test_one_request_is_shown_in_full() -> None:
    _, first = told(went(1, SYSTEM, FIRST), went(2, SYSTEM, ANSWERED), named="2", number=1)
    assert str(FIRST["content"]) in first["text/plain"]
    assert str(ANSWERED["content"]) not in first["text/plain"]
    with pytest.raises(TurnError, match=r"Turn 2 has 1 request: there is no request 2\."):
        told(went(1, SYSTEM), number=2)


def test_picture_is_listed_by_size_and_digest() -> None:
    png = base64.b64encode(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (750).to_bytes(4) + (400).to_bytes(4) + b"..."
    )
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png.decode()}"}}
    chart = {"role": "user", "content": [{"type": "text", "text": "The chart"}, url]}
    text = texts(told(went(1, SYSTEM, chart)))
    assert "The chart\n[picture: PNG of 750 × 400 pixels, about 400 tokens, 27 bytes, " in text
    assert png.decode() not in text


def test_built_in_model_stayed_local() -> None:
    stayed = "Nothing left this machine"
    assert stayed in texts(told(went(1, SYSTEM, model="offline")))
    both = (went(1, SYSTEM, model="offline"), went(2, SYSTEM))
    assert stayed not in texts(told(*both))
    assert "to offline:" in texts(told(*both))


def test_missing_turn_or_requests_are_one_sentence() -> None:
    assert "No request of turn 1 is on record: none was sent" in told(named="1")["text/plain"]
    with pytest.raises(SessionError, match="There is no turn 7 in this notebook"):
        told(named="7")


HOSTILE: Sequence[str] = (
    "</pre></details><script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "hidden\rshown",
    "\x1b[8mhidden\x1b[0m",
    "\u202egnp.exe",
    "a\n\n# no heading\n",
    "\ud800\x00",
)


@pytest.mark.parametrize("words", HOSTILE)
def test_sent_text_is_neither_markup_nor_hidden(words: str) -> None:
    message = {"role": words, "content": words, "name": words}
    _, bundle = told(went(1, message, tools=({"name": words},)))
    markup = bundle["text/html"]
    allowed = r"</?(?:details|summary|pre)(?: style=\"[^\"<>]*\")?>"
    assert "<" not in re.sub(allowed, "", markup)
    assert "\n\n" not in markup
    for shown in (bundle["text/plain"], html.unescape(markup)):
        assert not set(shown) & set("\r\x1b\x00\u202e\ud800")
        for word in re.findall(r"\w{4,}", words, re.ASCII):
            assert shown.count(word) >= 4


def test_oversized_text_loses_middle_and_says_how_to_see_it() -> None:
    long = "x" * 20_000
    messages = [{"role": "user", "content": f"begin{number} {long}"} for number in range(20)]
    _, bundle = told(went(1, *messages))
    for shown in bundle.values():
        assert len(shown) < 300_000
        assert "begin0 " in shown
        assert "begin19 " not in shown or "begin10 " not in shown
        assert "--request 1 shows it whole" in shown
    assert "begin10 " in texts(told(went(1, *messages), number=1))


@pytest.fixture
def shell(shell: Any) -> Iterator[Any]:
    yield shell
    uninstall(shell)
    # What %config sets is set in the shell as well, and outlives the extension there.
    shell.config.pop("ParsimonyAgent", None)


@pytest.mark.parametrize("share", list(Share))
def test_every_model_request_is_listed(
    shell: Any, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PARSIMONY_MODEL", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    install(shell)
    codes = {"first": "total = sum(prices)", "fails": "total / 0", "mended": "total * 2"}
    steps = [call("run_code", code=code, purpose=purpose) for purpose, code in codes.items()]
    model = ScriptedModel([*steps, call("return_done", summary="`total` is there.")])
    shell.user_ns |= {"mine": model, "prices": [1, 2, 3]}
    said("%agent model mine")
    said(f"%%agent --share {share}\nadd them up")
    assert len(model.requests) == 4
    for number, request in enumerate(model.requests, start=1):
        shown = said(f"%agent sent --request {number}")
        for message in request.messages:
            assert message_words(message) in shown
    assert said("%agent sent").startswith(f"Turn 1, --share {share}: 4 requests.")
