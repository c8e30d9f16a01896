"""What the doctor says of models and their endpoints; with ``ask`` a server on loopback answers."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.doctor import Check, run_checks

KEY = "value-of-a-key"
Answer = Callable[[str, str | None], tuple[int, Any]]


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """A server that answers a GET with what ``answer`` gives for its path and authorization."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, told = answer(self.path, self.headers.get("Authorization"))
            body = told.encode() if isinstance(told, str) else json.dumps(told).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", told)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def silence() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def look(
    folder: Path, model: str, environ: dict[str, str], name: str = "endpoint", **given: Any
) -> Check:
    (found,) = (f for f in run_checks(folder, environ, model, **given) if f.name == name)
    return found


def vllm(base: str, key: str = KEY) -> dict[str, str]:
    return {"HOSTED_VLLM_API_BASE": f"{base}/v1", "HOSTED_VLLM_API_KEY": key}


def models(path: str, authorization: str | None) -> tuple[int, Any]:
    if authorization != f"Bearer {KEY}":
        return 401, {"error": f"{authorization} is wrong"}
    return (200, {"data": [{"id": "small"}]}) if path == "/v1/models" else (404, {})


def test_a_model_that_its_endpoint_has_is_well(tmp_path: Path) -> None:
    with server(models) as base:
        found = look(tmp_path, "hosted_vllm/small", vllm(base), ask=True)
    assert found.ok
    assert "'small'" in found.says


@pytest.mark.parametrize(
    ("environ", "is_set"),
    [
        ({}, False),
        ({"PARSIMONY_MODEL_PARAMETERS": "temperature=0"}, False),
        ({"PARSIMONY_MODEL_PARAMETERS": "temperature=0, num_ctx=16384"}, True),
        ({"OLLAMA_CONTEXT_LENGTH": "32768"}, True),
    ],
)
def test_a_length_of_prompts_that_ollama_was_not_told_is_doubtful(
    tmp_path: Path, environ: dict[str, str], is_set: bool
) -> None:
    found = look(tmp_path, "ollama/llama3", environ, name="context")
    assert found.ok is is_set
    assert is_set or "num_ctx=16384" in found.remedy


def test_a_model_that_its_endpoint_lacks_is_told_with_what_it_has(tmp_path: Path) -> None:
    with server(models) as base:
        found = look(tmp_path, "hosted_vllm/large", vllm(base), ask=True)
    assert (found.ok, found.level) == (False, "error")
    assert "'large'; it has 'small'" in found.says


def test_a_wrong_key_is_told_by_its_variable_and_never_shown(tmp_path: Path) -> None:
    with server(models) as base:
        found = look(tmp_path, "hosted_vllm/small", vllm(base, "other-secret"), ask=True)
    assert not found.ok
    assert "HOSTED_VLLM_API_KEY" in found.remedy
    assert "other-secret" not in repr(found)


def test_ollama_is_asked_in_its_own_way(tmp_path: Path) -> None:
    def tags(path: str, _: str | None) -> tuple[int, Any]:
        return (200, {"models": [{"name": "llama3:latest"}]}) if path == "/api/tags" else (404, {})

    with server(tags) as base:
        found = look(tmp_path, "ollama/llama3", {"OLLAMA_API_BASE": base}, ask=True)
    assert found.ok, found


@pytest.mark.parametrize("body", ["<html>Welcome</html>", [], {"data": 3}, {"data": [1]}])
def test_what_is_no_list_of_models_is_told_with_the_address_s_form(
    tmp_path: Path, body: Any
) -> None:
    with server(lambda *_: (200, body)) as base:
        found = look(tmp_path, "hosted_vllm/small", vllm(base), ask=True)
    assert not found.ok
    assert "/v1" in found.remedy


def test_a_key_follows_no_redirection(tmp_path: Path) -> None:
    asked: list[str | None] = []

    def elsewhere(_: str, authorization: str | None) -> tuple[int, Any]:
        asked.append(authorization)
        return 200, {"data": [{"id": "small"}]}

    with server(elsewhere) as other, server(lambda *_: (302, f"{other}/v1/models")) as base:
        found = look(tmp_path, "hosted_vllm/small", vllm(base), ask=True)
    assert not found.ok
    assert asked == []


def test_an_endpoint_that_does_not_answer_in_time_is_told(tmp_path: Path) -> None:
    with silence() as base:
        found = look(tmp_path, "hosted_vllm/x", vllm(base), ask=True, timeout_s=0.05)
    assert not found.ok
    assert "no answer in 0.05 s" in found.says


@pytest.mark.parametrize("ask", [False, True])
def test_where_nothing_listens_the_start_of_a_server_is_advised(tmp_path: Path, ask: bool) -> None:
    with silence() as base:
        pass
    found = look(tmp_path, "ollama/llama3", {"OLLAMA_API_BASE": base}, ask=ask)
    assert (found.ok, found.level) == (False, "error")
    assert "OLLAMA_API_BASE" in found.remedy


@pytest.mark.parametrize("base", ["localhost:11434", "file:///etc/hosts"])
def test_an_address_that_is_not_of_the_web_is_told_and_not_opened(
    tmp_path: Path, base: str
) -> None:
    found = look(tmp_path, "ollama/llama3", {"OLLAMA_API_BASE": base}, ask=True)
    assert (found.ok, found.level) == (False, "error")
    assert "http://" in found.remedy


def test_unless_it_is_asked_for_an_endpoint_gets_no_request(tmp_path: Path) -> None:
    asked: list[str] = []

    def note(path: str, _: str | None) -> tuple[int, Any]:
        asked.append(path)
        return 200, {}

    with server(note) as base:
        assert look(tmp_path, "hosted_vllm/x", vllm(base)).ok
    assert asked == []


def test_with_live_calls_off_another_machine_is_not_asked(tmp_path: Path) -> None:
    environ = {"HOSTED_VLLM_API_BASE": "http://me:pw@gpu.example/v1", "PARSIMONY_LIVE_CALLS": "off"}
    found = look(tmp_path, "hosted_vllm/x", environ, ask=True)
    assert (found.ok, found.level) == (False, "warn")
    assert "live calls" in found.says
    assert "pw" not in repr(found)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("opnai/gpt-5", "'openai'"),
        ("nonsense-of-mine/x", "OPENAI_BASE_URL"),
        ("hosted_vllm/x", "HOSTED_VLLM_API_BASE"),
        ("lm_studio/x", "LM_STUDIO_API_BASE"),
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("mine", "provider/model"),
    ],
)
def test_a_model_that_cannot_work_is_told_with_what_to_do(
    tmp_path: Path, model: str, told: str
) -> None:
    found = look(tmp_path, model, {}, "model")
    assert (found.ok, found.level) == (False, "error")
    assert told in found.remedy
    assert found.remedy not in found.says
