"""The example notebooks: what is saved in them, and what `make notebooks` makes of that."""

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

from parsimony_kernel.llm.cassette import path_of
from tests.notebooks.programs import python

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "notebooks"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
RECORDED = [notebook for notebook in NOTEBOOKS if path_of(notebook).exists()]


def code_cells(notebook: Path) -> list[Any]:
    saved = nbformat.read(notebook, as_version=4)
    return [cell for cell in saved.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_saved_with_outputs_and_no_errors(notebook: Path) -> None:
    cells = code_cells(notebook)
    assert cells
    for cell in cells:
        assert cell.outputs, cell.source
        assert not [out for out in cell.outputs if out.output_type == "error"], cell.source
    assert nbformat.read(notebook, as_version=4).metadata.kernelspec.name == "parsimony-agent"


@pytest.mark.kernel
def test_make_notebooks_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    shutil.copytree(EXAMPLES, folder, ignore=shutil.ignore_patterns(".*", "executed"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    refreshed = python("-B", "refresh.py", folder=folder, OPENAI_API_KEY="")
    assert (refreshed.returncode, refreshed.stdout) == (0, "Nothing changed.\n"), refreshed.stderr
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def cell(text: str, html: str = "", **facts: Any) -> Any:
    data = {"text/plain": text, "text/html": html}
    shown = nbformat.v4.new_output("display_data", data, metadata={"parsimony": facts})
    return nbformat.v4.new_code_cell("%agent history", outputs=[shown], execution_count=1)


@pytest.mark.parametrize(
    ("saved", "now", "told"),
    [
        (cell("a", elapsed_s=1.5, run_id="a"), cell("a", elapsed_s=2.5, run_id="b"), None),
        (cell("a", display="a"), cell("a", display="b"), None),
        (cell("busy  2026-11-22 21:17\n"), cell("busy  2027-01-02 03:04\n"), None),
        (
            cell("trying again after 1 s, attempt 2"),
            cell("trying again after 3 s, attempt 2"),
            None,
        ),
        (cell("3 steps · 2.5 s"), cell("3 steps · 1.4 s"), None),
        (
            cell("a", "<p style='margin:0'>"),
            cell("a", "<p style='margin:1'>"),
            "-<p style='margin:0'>",
        ),
        (cell("a", "<p>"), cell("a\nb", "<p>b"), "Differs in text/html, text/plain.\n"),
        (cell("a", model="offline"), cell("a", model="busy"), "Differs in metadata.\n"),
        (cell("f" * 64), cell("e" * 64), f"-{'f' * 64}"),
    ],
)
def test_only_time_and_randomness_stay_as_saved(
    saved: Any, now: Any, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    from refresh import settle

    before, after = (nbformat.v4.new_notebook(cells=[each]) for each in (saved, now))
    changes = settle(before, after)
    assert (after.cells[0].outputs == before.cells[0].outputs) is (told is None)
    assert bool(changes) is (told is not None)
    if told is not None:
        assert told in changes["cell 1: %agent history"]


@pytest.mark.parametrize("notebook", RECORDED, ids=lambda path: path.stem)
def test_replayed_notebook_names_its_model_first(notebook: Path) -> None:
    first = nbformat.read(notebook, as_version=4).cells[0].source
    assert "written by us, not by a model" in first
    assert "openai/written-by-us" in path_of(notebook).read_text()


def test_recorded_model_shows_real_faults() -> None:
    (notebook,) = [path for path in RECORDED if path.stem == "06_real_model"]
    said = str([cell.outputs for cell in code_cells(notebook)])
    for words in (
        "provider failed · trying again after",
        "The provider asks to wait (HTTP 429).",
        "A step failed · trying again",
        "Retried once",
        "pk-question-pending",
        "Published",
        "tokens in",
        "$0.0",
    ):
        assert words in said


def test_recordings_are_beside_their_notebooks() -> None:
    kept = {path_of(notebook) for notebook in RECORDED}
    assert kept == set((EXAMPLES / "cassettes").iterdir())
    assert {path.stem for path in kept} == {"05_your_tools", "06_real_model"}
