"""Where the kernelspec goes, and how it is taken away."""

import json
import sys
from pathlib import Path

import jupyter_core.paths
import pytest
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpecManager

from parsimony_kernel.cli import main as cli
from parsimony_kernel.kernel.install import InstallError, install


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prefix that Jupyter looks into, in a world where this environment's specs are not seen."""
    for variable, folder in {
        "JUPYTER_PATH": "share/jupyter",
        "JUPYTER_DATA_DIR": "user",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
    }.items():
        monkeypatch.setenv(variable, str(tmp_path / folder))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    monkeypatch.setattr(jupyter_core.paths, "ENV_JUPYTER_PATH", [])
    monkeypatch.setattr(jupyter_core.paths, "SYSTEM_JUPYTER_PATH", [])
    manager = KernelSpecManager(ensure_native_kernel=False)
    assert all(Path(folder).is_relative_to(tmp_path) for folder in manager.kernel_dirs)
    assert manager.find_kernel_specs() == {}
    return tmp_path


def test_kernelspec_starts_this_interpreter_with_logos(prefix: Path) -> None:
    placed = install(user=True)
    spec = json.loads((placed / "kernel.json").read_text())
    assert spec["argv"] == [sys.executable, "-m", "parsimony_kernel", "-f", "{connection_file}"]
    assert spec["display_name"] == "Parsimony Agent"
    assert spec["metadata"] == get_kernel_dict()["metadata"]
    assert {path.name for path in placed.glob("logo-*")} == {
        "logo-32x32.png",
        "logo-64x64.png",
        "logo-svg.svg",
    }


def test_it_goes_to_the_environment_or_the_user_and_jupyter_takes_it_away(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(prefix / "environment"))
    for words, place in (([], "environment"), (["--user"], "user")):
        assert cli.main(["install", *words]) == 0
        assert str(prefix / place) in capsys.readouterr().out
    manager = KernelSpecManager(ensure_native_kernel=False)
    assert str(prefix / "user") in manager.remove_kernel_spec("parsimony-agent")


def test_unwritable_place_names_remedy(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(prefix))
    (prefix / "share").write_text("in the way")
    with pytest.raises(InstallError, match="Use --user"):
        install()
