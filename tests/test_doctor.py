"""What the doctor says of what a run needs."""

import json
import sys
from pathlib import Path

import pytest

from parsimony_kernel.cli import main as cli
from parsimony_kernel.doctor.checks import Check, run_checks


def look(environ: dict[str, str], name: str, model: str | None = None) -> Check:
    (found,) = (f for f in run_checks(environ, model) if f.name == name)
    return found


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
def test_unusable_model_names_remedy(model: str, told: str) -> None:
    found = look({}, "model", model)
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
def test_default_ollama_context_length_is_a_warning(environ: dict[str, str], is_set: bool) -> None:
    found = look(environ, "context", "ollama/llama3")
    assert found.ok is is_set
    assert is_set or "num_ctx=16384" in found.remedy


def test_foreign_kernelspec_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    spec = tmp_path / "kernels/parsimony-agent/kernel.json"
    spec.parent.mkdir(parents=True)
    other = tmp_path / "other-python"
    other.write_text("")
    other.chmod(0o755)
    for first, ok in ((str(tmp_path / "gone"), False), (str(other), False), (sys.executable, True)):
        spec.write_text(json.dumps({"argv": [first], "display_name": "x", "language": "python"}))
        found = look({}, "kernel")
        assert found.ok is ok
        assert ok or "jupyter parsimony install" in found.remedy


def test_warning_passes_and_error_fails(capsys: pytest.CaptureFixture[str]) -> None:
    where = ["doctor", "--model"]
    assert cli.main([*where, "ollama/x"]) == 0
    assert "look context" in capsys.readouterr().out
    assert cli.main([*where, "opnai/x"]) == 1
    assert "-> Did you mean 'openai'?" in capsys.readouterr().out
