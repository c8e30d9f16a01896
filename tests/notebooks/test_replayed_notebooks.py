"""Notebooks with agent cells under pytest, recorded in one folder and replayed in another."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "notebooks"
PLUGIN = "parsimony_kernel.testing.pytest_plugin"

# A kernel that reads this can ask the offline model for nothing.
WITHOUT_A_MODEL = 'import sys\nsys.modules["parsimony_kernel.llm.offline.model"] = None\n'


def run(
    arguments: Sequence[str], folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def check(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a user's CI runs."""
    quiet = ("-p", "no:cacheprovider", "-p", PLUGIN, "-o", "addopts=")
    return run(("pytest", *quiet, *options, "."), folder, **environment)


def executed(notebook: Path, mode: str, **environment: str) -> list[Any]:
    """The cells of ``notebook``, run from top to bottom and saved."""
    done = run(
        ("nbconvert", "--to", "notebook", "--execute", "--inplace", notebook.name),
        notebook.parent,
        PARSIMONY_CASSETTE=mode,
        PARSIMONY_DISPLAY="static",
        PARSIMONY_WORKSPACE=str(notebook.parent),
        JPY_SESSION_NAME=str(notebook),
        **environment,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    shutil.rmtree(notebook.parent / ".ockham", ignore_errors=True)
    return list(nbformat.read(notebook, as_version=4).cells)


def example(stem: str, folder: Path) -> Path:
    """The example in a folder of its own, with what it reads."""
    shutil.copytree(EXAMPLES / "data", folder / "data")
    for file in (*EXAMPLES.glob(f"{stem}.ipynb"), *EXAMPLES.glob("*.yaml")):
        shutil.copy(file, folder)
    return folder / f"{stem}.ipynb"


def without_a_model(folder: Path) -> dict[str, str]:
    site = folder / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT_A_MODEL)
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.kernel
@pytest.mark.parametrize("stem", ["01_quickstart", "02_ask_user", "04_lineage"])
def test_a_recorded_notebook_gives_its_outputs_elsewhere_without_the_model(
    stem: str, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    executed(example(stem, here), "record")
    assert [file.name for file in (here / "cassettes").iterdir()] == [f"{stem}.yaml"]
    shutil.copytree(here, there)
    replayed = check(there, "--nbval", "--parsimony-replay", **without_a_model(tmp_path))
    assert replayed.returncode == 0, replayed.stdout[-6_000:]
    assert not (there / ".ockham").exists()


@pytest.mark.kernel
def test_recoveries_are_replayed_but_for_attempts_that_failed(tmp_path: Path) -> None:
    def outcomes(cells: list[Any]) -> list[str]:
        """The block that each agent cell ends with."""
        agent = [cell for cell in cells if cell.source.startswith("%%agent") and cell.outputs]
        return [str(cell.outputs[-1].get("data", {}).get("text/plain")) for cell in agent]

    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    live = executed(example("03_recovery", here), "record")
    shutil.copytree(here, there)
    again = executed(there / "03_recovery.ipynb", "replay", **without_a_model(tmp_path))
    assert outcomes(again) == outcomes(live)
    assert len(outcomes(live)) > 5
    assert "could not be reached" in str(live)
    assert "could not be reached" not in str(again)


REQUEST = "load data/seattle-weather.csv and show the mean temp_max by weather"


@pytest.mark.kernel
def test_one_command_records_and_one_replays(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    shutil.copytree(EXAMPLES / "data", folder / "data")
    for name, before in (("one", "x = 1"), ("two", "y = 2")):
        cells = [nbformat.v4.new_code_cell(source) for source in (before, f"%%agent\n{REQUEST}")]
        notebook = nbformat.v4.new_notebook(cells=cells)
        notebook.metadata.kernelspec = {
            "name": "parsimony-agent",
            "display_name": "",
            "language": "",
        }
        nbformat.write(notebook, folder / f"{name}.ipynb")
    recorded = check(folder, "--nbval-lax", "--parsimony-record")
    assert recorded.returncode == 0, recorded.stdout[-4_000:]
    files = {file.name: file.read_bytes() for file in (folder / "cassettes").iterdir()}
    assert set(files) == {"one.yaml", "two.yaml"}
    assert b"name: y" not in files["one.yaml"]
    without = without_a_model(tmp_path)
    replayed = check(folder, "--nbval-lax", "--parsimony-replay", **without)
    assert replayed.returncode == 0, replayed.stdout[-4_000:]
    assert {file.name: file.read_bytes() for file in (folder / "cassettes").iterdir()} == files
    (folder / "cassettes" / "two.yaml").unlink()
    missing = check(folder, "--nbval-lax", "--parsimony-replay", **without)
    assert missing.returncode == pytest.ExitCode.TESTS_FAILED
    assert "cassettes/two.yaml is not beside 'two.ipynb'" in missing.stdout
    assert "1 failed, 3 passed" in missing.stdout


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--parsimony-replay",), "add --nbval"),
        (("--parsimony-record",), "add --nbval"),
        (("--nbval", "--parsimony-replay", "--parsimony-record"), "exclude one another"),
    ],
)
def test_options_that_do_not_fit_are_told(
    options: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    refused = check(tmp_path, *options)
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert told in refused.stderr


def test_a_suite_that_asks_for_nothing_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_alone.py").write_text(
        "import os, sys\n\n\n"
        "def test_alone():\n"
        "    assert 'PARSIMONY_CASSETTE' not in os.environ\n"
        "    ours = {name for name in sys.modules if name.startswith('parsimony_kernel.')}\n"
        f"    assert ours == {{'parsimony_kernel.testing', '{PLUGIN}'}}\n"
    )
    assert check(tmp_path).returncode == 0


@pytest.mark.kernel
def test_one_s_own_patterns_come_on_top_of_those_that_are_shipped(tmp_path: Path) -> None:
    sources = {"print('run 17')": "run 18\n", "print('ab' * 32)": f"{'cd' * 32}\n"}
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for cell, text in zip(cells, sources.values(), strict=True):
        cell.execution_count = 1
        cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "prints.ipynb")
    own = tmp_path / "own.cfg"
    own.write_text("[run]\nregex: run \\d+\nreplace: RUN\n")
    options = ("--nbval", "--nbval-current-env", "--parsimony-replay")
    assert check(tmp_path, *options).returncode == 1
    both = check(tmp_path, *options, f"--nbval-sanitize-with={own}")
    assert both.returncode == 0, both.stdout[-4_000:]
