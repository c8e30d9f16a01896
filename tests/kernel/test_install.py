"""Where the kernelspec goes, and how it is taken away."""

import json
import sys
from pathlib import Path

import pytest

from parsimony_kernel import cli
from parsimony_kernel.kernel.install import InstallError, install, uninstall


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    return tmp_path


def test_a_spec_starts_this_interpreter_and_shows_its_logos(prefix: Path) -> None:
    placed = install(prefix=str(prefix), name="mine", display_name="My Agent")
    spec = json.loads((placed / "kernel.json").read_text())
    assert spec["argv"] == [sys.executable, "-m", "parsimony_kernel", "-f", "{connection_file}"]
    assert spec["display_name"] == "My Agent"
    assert spec["metadata"] == {"debugger": True}
    assert {path.name for path in placed.glob("logo-*")} == {
        "logo-32x32.png",
        "logo-64x64.png",
        "logo-svg.svg",
    }


def test_installing_twice_and_removing_leaves_nothing(prefix: Path) -> None:
    install(prefix=str(prefix), name="mine")
    placed = install(prefix=str(prefix), name="mine")
    assert uninstall("mine") == placed
    assert not placed.exists()
    with pytest.raises(InstallError, match="No kernel is named 'mine'"):
        uninstall("mine")


def test_a_name_that_is_no_kernels_is_refused(prefix: Path) -> None:
    with pytest.raises(InstallError, match="cannot name a kernel"):
        install(prefix=str(prefix), name="../up")


def test_a_place_that_cannot_be_written_names_the_remedy(prefix: Path) -> None:
    (prefix / "share").write_text("in the way")
    with pytest.raises(InstallError, match="--user or --sys-prefix"):
        install(prefix=str(prefix))


def test_the_command_says_where(prefix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install", "--prefix", str(prefix), "--name", "mine"]) == 0
    assert str(prefix) in capsys.readouterr().out
    assert cli.main(["uninstall", "--name", "mine"]) == 0
    assert cli.main(["uninstall", "--name", "mine"]) == 1
    assert "No kernel is named" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["demo", "resume", "install", "uninstall", "doctor"])
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert f"jupyter parsimony {command}" in capsys.readouterr().out.partition("example:")[2]


def test_misuse_is_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["dome"])
    assert ended.value.code == 2
    assert "demo" in capsys.readouterr().err
