"""The server keeps to the protocol where it should, and breaks it where it was told to."""

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from parsimony_kernel.testing.provider import (
    Faulty,
    HttpError,
    LoopbackProvider,
    Wire,
    transcript_breach,
)
from parsimony_kernel.testing.scripted import call, say

ASK = [{"role": "user", "content": "go"}]


@contextlib.contextmanager
def posted(
    provider: LoopbackProvider, path: str = "/chat/completions", **body: Any
) -> Iterator[http.client.HTTPResponse]:
    address = urlsplit(provider.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    payload = json.dumps({"model": "m", "messages": ASK, **body})
    try:
        connection.request(
            "POST", address.path + path, payload, {"Authorization": "Bearer sk-mine"}
        )
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


def events(raw: bytes) -> list[Any]:
    lines = [line for line in raw.decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"]


def test_whole_answer() -> None:
    with LoopbackProvider([call("run_code", code="1")]) as provider, posted(provider) as response:
        body = json.loads(response.read())
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    made = body["choices"][0]["message"]["tool_calls"][0]
    assert made["function"] == {"name": "run_code", "arguments": '{"code": "1"}'}
    assert body["usage"]["total_tokens"] == 18
    provider.assert_exhausted()


@pytest.mark.parametrize("wire", [Wire.comments, Wire.crlf, Wire.split_bytes, Wire.doubled_done])
def test_wire_oddity_yields_same_events(wire: Wire) -> None:
    with (
        LoopbackProvider([Faulty(wire, say("hällo"))]) as provider,
        posted(provider, stream=True) as response,
    ):
        raw = response.read()
    assert [chunk["choices"][0]["finish_reason"] for chunk in events(raw)] == [None, None, "stop"]
    assert raw.startswith(b": wait\n\n") is (wire is Wire.comments)
    assert (b"\r\n\r\n" in raw) is (wire is Wire.crlf)
    assert (raw.count(b"[DONE]") == 2) is (wire is Wire.doubled_done)


def connected(provider: LoopbackProvider) -> socket.socket:
    """A client that has asked and reads the answer itself."""
    address = urlsplit(provider.url)
    body = json.dumps({"messages": ASK}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    client = socket.create_connection((address.hostname or "", address.port or 0), timeout=60)
    client.sendall(head + body)
    return client


@pytest.mark.parametrize("stream", [True, False])
def test_model_refusal_is_beside_content(stream: bool) -> None:
    with (
        LoopbackProvider([Faulty(Wire.refusal, say("I will not do that."))]) as provider,
        posted(provider, stream=stream) as response,
    ):
        raw = response.read()
    told = (
        [choice["delta"] for chunk in events(raw) for choice in chunk["choices"]]
        if stream
        else [json.loads(raw)["choices"][0]["message"]]
    )
    assert "".join(each.get("refusal", "") for each in told) == "I will not do that."
    assert not any(each.get("content") for each in told)


def test_silence_ends_when_server_stops() -> None:
    with LoopbackProvider([Faulty(Wire.silence)]) as provider:
        client = connected(provider)
        while not provider.requests:
            time.sleep(0.01)
    with client:
        assert client.recv(1) == b""


def test_strict_server_names_breach_and_keeps_step() -> None:
    with LoopbackProvider([say("fine")]) as provider:
        with posted(provider, messages=[{"role": "robot", "content": "go"}]) as response:
            assert response.status == 400
            assert "unknown role 'robot'" in json.loads(response.read())["error"]["message"]
        with posted(provider) as response:
            assert response.status == 200
    provider.assert_exhausted()


def test_lenient_server_accepts_anything() -> None:
    with (
        LoopbackProvider([say("fine")], strict=False) as provider,
        posted(provider, messages=[]) as response,
    ):
        assert response.status == 200


def test_script_is_consumed_exactly() -> None:
    with LoopbackProvider([say("one")]) as provider:
        with pytest.raises(AssertionError, match="nobody asked"):
            LoopbackProvider([say("one")]).assert_exhausted()
        for status in (200, 400):
            with posted(provider) as response:
                assert response.status == status
    with pytest.raises(AssertionError, match="1 requests came after"):
        provider.assert_exhausted()


def test_server_fault_is_raised_at_end() -> None:
    def step(body: dict[str, Any]) -> HttpError:
        raise LookupError("a bug in the test")

    def run() -> None:
        with (
            LoopbackProvider([step]) as provider,
            contextlib.suppress(http.client.HTTPException),
            posted(provider),
        ):
            pass

    with pytest.raises(LookupError, match="a bug in the test"):
        run()


def made(id_: Any = "a", name: Any = "f", arguments: Any = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": id_, "type": "function", "function": function}


def turn(*each: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(each)}


def result(id_: str = "a") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": "ok"}


BREACHES: list[tuple[Any, str]] = [
    (None, "must be a list"),
    ([], "must be a list"),
    (["hi"], "unknown role None"),
    ([{"role": "robot", "content": "x"}], "unknown role 'robot'"),
    ([{"role": "user", "content": " "}], "says nothing"),
    ([{"role": "assistant", "content": None}], "says nothing"),
    ([{"role": "user", "content": "x", "mode": "full"}], r"unknown keys \['mode'\]"),
    ([{"role": "user", "content": "x", "name": "a b"}], "name 'a b'"),
    ([turn()], "tool_calls"),
    ([turn(made())], r"\['a'\] have no results"),
    ([turn(made()), *ASK], "before the results"),
    ([turn(made()), turn(made("b"))], "before the results"),
    ([result()], "no call before it"),
    ([turn(made()), result(), result()], "no call before it"),
    ([turn(made(), made()), result(), result()], "used twice"),
    ([turn(made()), result(), turn(made()), result()], "used twice"),
    ([turn(made("")), result("")], "id ''"),
    ([turn(made(name="a b")), result()], "name 'a b'"),
    ([turn(made(arguments='{"a": ')), result()], "not a JSON object"),
    ([turn(made(arguments="[1]")), result()], "not a JSON object"),
    ([turn(made(arguments='{"a": NaN}')), result()], "not a JSON object"),
    ([turn(made(arguments={"a": 1})), result()], "not a JSON object"),
    ([turn("a")], "no function call"),
]


@pytest.mark.parametrize(("messages", "told"), BREACHES)
def test_breach_is_named(messages: Any, told: str) -> None:
    assert re.search(told, transcript_breach(messages) or "")
