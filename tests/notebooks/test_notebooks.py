"""The example notebooks, run again and compared with what is saved, as a user's CI would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from parsimony_kernel.llm.cassette import path_of

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
RECORDED = [notebook for notebook in NOTEBOOKS if path_of(notebook).exists()]
SANITIZE = ROOT / "parsimony_kernel" / "testing" / "sanitize.cfg"

# A kernel with these can ask no provider.
NO_PROVIDER = {"PARSIMONY_LIVE_CALLS": "0", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}


def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".*", "executed"))
    return folder


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **NO_PROVIDER, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def code_cells(notebook: Path) -> list[Any]:
    saved = nbformat.read(notebook, as_version=4)
    return [cell for cell in saved.cells if cell.cell_type == "code"]


@pytest.mark.kernel
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_the_outputs_that_are_saved_in_it(notebook: Path, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    pytest_alone = ("-m", "pytest", "-p", "no:cacheprovider", "--nbval")
    if notebook in RECORDED:
        compared = run(*pytest_alone, "--parsimony-replay", notebook.name, folder=folder)
    else:
        sanitize = f"--nbval-sanitize-with={SANITIZE}"
        workspace = {"PARSIMONY_WORKSPACE": str(folder)}
        compared = run(*pytest_alone, sanitize, notebook.name, folder=folder, **workspace)
    assert compared.returncode == 0, compared.stdout[-6_000:]
    assert f"{len(code_cells(notebook))} passed" in compared.stdout


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_saved_with_outputs_and_without_errors(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert cells
    for cell in cells:
        assert cell.outputs, cell.source
        assert not [out for out in cell.outputs if out.output_type == "error"], cell.source
    assert nbformat.read(notebook, as_version=4).metadata.kernelspec.name == "parsimony-agent"


@pytest.mark.kernel
@pytest.mark.parametrize("notebook", RECORDED, ids=lambda path: path.stem)
def test_a_recording_made_again_is_the_one_that_is_kept(notebook: Path, tmp_path: Path) -> None:
    folder = copied(tmp_path)
    again = path_of(folder / notebook.name)
    again.unlink()
    refreshed = run("refresh.py", notebook.name, folder=folder)
    assert refreshed.returncode == 0, refreshed.stderr[-6_000:]
    assert again.read_text() == path_of(notebook).read_text()


@pytest.mark.parametrize("notebook", RECORDED, ids=lambda path: path.stem)
def test_a_notebook_with_recorded_answers_says_first_who_wrote_them(notebook: Path) -> None:
    first = nbformat.read(notebook, as_version=4).cells[0].source
    assert "written by us, not by a model" in first
    assert "openai/written-by-us" in path_of(notebook).read_text()


def test_the_recorded_model_shows_what_goes_wrong_with_real_ones() -> None:
    (notebook,) = [path for path in RECORDED if path.stem == "06_real_model"]
    said = str([cell.outputs for cell in code_cells(notebook)])
    for words in (
        "The model could not be reached · trying again after",
        "The provider limits the rate of requests (status 429).",
        "A step failed · trying again",
        "Question · waiting for your answer",
        "Published",
        "5 model calls of 50",
        "tokens · $0.0",
    ):
        assert words in said


def test_recordings_lie_beside_the_notebooks_that_they_are_of() -> None:
    kept = {path_of(notebook) for notebook in RECORDED}
    assert kept == set((ROOT / "notebooks" / "cassettes").iterdir())
    assert {path.stem for path in kept} == {"05_your_tools", "06_real_model"}
