"""What the doctor says, and that looking at what a run needs changes nothing."""

import json
import socket
import sys
from pathlib import Path

import pytest

from parsimony_kernel.cli import main as cli
from parsimony_kernel.doctor.checks import Check, run_checks
from parsimony_kernel.storage.keyring import Keyring


def look(folder: Path, environ: dict[str, str], name: str, model: str | None = None) -> Check:
    (found,) = (f for f in run_checks(folder, environ, model) if f.name == name)
    return found


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


class TestTheSigningKey:
    def test_one_that_is_not_there_yet_is_announced_and_not_created(
        self, tmp_path: Path, data: Path
    ) -> None:
        found = look(tmp_path, {}, "signing key")
        assert found.ok
        assert "will be created on first use" in found.says
        assert list(tmp_path.rglob("*")) == []

    def test_one_that_is_there_is_named(self, tmp_path: Path, data: Path) -> None:
        key = Keyring.open(None, {}).current()
        assert look(tmp_path, {}, "signing key") == Check("signing key", True, key.key_id)

    def test_one_that_is_damaged_says_so(self, tmp_path: Path, data: Path) -> None:
        Keyring.open(None, {}).current()
        (data / "parsimony" / "keys" / "keys.json").write_text("other")
        found = look(tmp_path, {}, "signing key")
        assert not found.ok
        assert "damaged" in found.says

    def test_a_place_where_none_can_be_created_is_a_finding(
        self, tmp_path: Path, data: Path
    ) -> None:
        data.write_text("in the way")
        found = look(tmp_path, {}, "signing key")
        assert not found.ok
        assert "PARSIMONY_SUSPENSION_SECRET" in found.remedy

    def test_a_secret_of_the_environment_is_the_key(self, tmp_path: Path, data: Path) -> None:
        assert look(tmp_path, {"PARSIMONY_SUSPENSION_SECRET": "s"}, "signing key").says == "env"
        assert not data.exists()


class TestModels:
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
    def test_one_that_cannot_work_is_told_with_what_to_do(
        self, tmp_path: Path, model: str, told: str
    ) -> None:
        found = look(tmp_path, {}, "model", model)
        assert (found.ok, found.level) == (False, "error")
        assert told in found.remedy
        assert found.remedy not in found.says

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
        self, tmp_path: Path, environ: dict[str, str], is_set: bool
    ) -> None:
        found = look(tmp_path, environ, "context", "ollama/llama3")
        assert found.ok is is_set
        assert is_set or "num_ctx=16384" in found.remedy

    def test_where_nothing_listens_the_start_of_a_server_is_advised(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            base = f"http://127.0.0.1:{listening.getsockname()[1]}"
            assert look(tmp_path, {"OLLAMA_API_BASE": base}, "endpoint", "ollama/llama3").ok
        found = look(tmp_path, {"OLLAMA_API_BASE": base}, "endpoint", "ollama/llama3")
        assert (found.ok, found.level) == (False, "error")
        assert "OLLAMA_API_BASE" in found.remedy

    @pytest.mark.parametrize("base", ["localhost:11434", "file:///etc/hosts"])
    def test_an_address_that_is_not_of_the_web_is_told(self, tmp_path: Path, base: str) -> None:
        found = look(tmp_path, {"OLLAMA_API_BASE": base}, "endpoint", "ollama/llama3")
        assert (found.ok, found.level) == (False, "error")
        assert "http://" in found.remedy

    def test_the_password_of_an_address_is_not_shown(self, tmp_path: Path) -> None:
        environ = {"HOSTED_VLLM_API_BASE": "http://me:secret@gpu.example/v1?mail=a@b&key=secret"}
        found = look(tmp_path, environ, "endpoint", "hosted_vllm/x")
        assert found.ok
        assert "gpu.example/v1" in found.says
        assert "secret" not in repr(found)


def test_a_kernel_whose_interpreter_is_gone_or_another_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    spec = tmp_path / "kernels/parsimony-agent/kernel.json"
    spec.parent.mkdir(parents=True)
    other = tmp_path / "other-python"
    other.write_text("")
    other.chmod(0o755)
    for first, ok in ((str(tmp_path / "gone"), False), (str(other), False), (sys.executable, True)):
        spec.write_text(json.dumps({"argv": [first], "display_name": "x", "language": "python"}))
        found = look(tmp_path, {}, "kernel")
        assert found.ok is ok
        assert ok or "jupyter parsimony install" in found.remedy


def test_a_warning_does_not_fail_the_command_and_an_error_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setenv("OLLAMA_API_BASE", base)
        where = ["doctor", "--folder", str(tmp_path), "--model"]
        assert cli.main([*where, "ollama/x"]) == 0
        assert "look context" in capsys.readouterr().out
    assert cli.main([*where, "opnai/x"]) == 1
    assert "-> Did you mean 'openai'?" in capsys.readouterr().out
