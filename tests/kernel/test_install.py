"""Where the kernelspec goes, and how it is taken away."""

import json
import sys
from pathlib import Path

import jupyter_core.paths
import pytest
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpecManager

from parsimony_kernel.cli import main as cli
from parsimony_kernel.kernel.install import InstallError, install, uninstall

OWN = Path(sys.prefix) / "share" / "jupyter" / "kernels"


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
    assert not (OWN / "mine").exists()
    return tmp_path


def foreign(folder: Path, content: str) -> Path:
    """The kernelspec of somebody else in ``folder``."""
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(content)
    return folder


def test_a_spec_starts_this_interpreter_and_shows_its_logos(prefix: Path) -> None:
    placed = install(prefix=str(prefix), name="mine", display_name="My Agent")
    spec = json.loads((placed / "kernel.json").read_text())
    assert spec["argv"] == [sys.executable, "-m", "parsimony_kernel", "-f", "{connection_file}"]
    assert spec["display_name"] == "My Agent"
    assert spec["metadata"] == get_kernel_dict()["metadata"]
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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"argv": ["R", "-m", "xr", "parsimony_kernel"]}', "starts 'R -m xr parsimony_kernel'"),
        ('{"argv": ["/bin/parsimony_kernel", "-m"]}', "is not Parsimony Agent"),
        ('{"language": "R"}', "is not Parsimony Agent"),
        ("{", "cannot be read as a kernelspec"),
    ],
)
def test_a_kernelspec_of_somebody_else_stays(prefix: Path, content: str, says: str) -> None:
    theirs = foreign(prefix / "share" / "jupyter" / "kernels" / "mine", content)
    with pytest.raises(InstallError, match=says):
        uninstall("mine")
    with pytest.raises(InstallError, match=says):
        uninstall("mine", prefix=str(prefix))
    assert (theirs / "kernel.json").read_text() == content


def test_it_is_removed_in_the_place_that_is_named_and_in_no_other(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "prefix", str(prefix / "environment"))
    places = {
        "--user": install(user=True, name="mine"),
        "--sys-prefix": install(prefix=sys.prefix, name="mine"),
        "--prefix": install(prefix=str(prefix / "other"), name="mine"),
    }
    assert len(set(places.values())) == 3
    assert all(place.is_relative_to(prefix) for place in places.values())
    for option, place in dict(places).items():
        named = ["--prefix", str(prefix / "other")] if option == "--prefix" else [option]
        assert cli.main(["uninstall", "--name", "mine", *named]) == 0
        del places[option]
        assert not place.exists()
        assert all(other.is_dir() for other in places.values())
        assert cli.main(["uninstall", "--name", "mine", *named]) == 1
        assert str(place.parent) in capsys.readouterr().err


def test_a_link_is_taken_away_and_not_what_it_leads_to(prefix: Path) -> None:
    kept = install(prefix=str(prefix / "elsewhere"), name="mine")
    kernels = prefix / "share" / "jupyter" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "mine").symlink_to(kept)
    assert uninstall("mine") == kernels / "mine"
    assert (kept / "kernel.json").is_file()


def test_a_name_cannot_lead_out_of_the_kernels(prefix: Path) -> None:
    placed = install(prefix=str(prefix), name="mine")
    with pytest.raises(InstallError, match="No kernel is named"):
        uninstall("../kernels/mine", prefix=str(prefix))
    assert placed.is_dir()


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
