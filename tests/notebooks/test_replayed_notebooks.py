"""A user's notebooks under plain ``pytest --nbval``, and recordings that are replayed elsewhere."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from parsimony_kernel.testing.pytest_plugin import VOLATILE, without
from tests.notebooks.programs import python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "notebooks"
PLUGIN = "parsimony_kernel.testing.pytest_plugin"

# A kernel that reads this can ask the offline model for nothing.
WITHOUT_A_MODEL = 'import sys\nsys.modules["parsimony_kernel.offline.model"] = None\n'


def check(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a user's CI runs."""
    given = ("pytest", "-p", "no:cacheprovider", *options, ".")
    return python("-m", *given, folder=folder, **environment)


def executed(notebook: Path, mode: str, **environment: str) -> list[Any]:
    """The cells of ``notebook``, run from top to bottom and saved."""
    done = python(
        *("-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", notebook.name),
        folder=notebook.parent,
        PARSIMONY_CASSETTE=mode,
        PARSIMONY_WORKSPACE=str(notebook.parent),
        JPY_SESSION_NAME=str(notebook),
        **{"PARSIMONY_DISPLAY": "static", **environment},
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
@pytest.mark.parametrize("stem", ["02_ask_user", "04_lineage"])
def test_recorded_notebook_replays_elsewhere(stem: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    executed(example(stem, here), "record")
    assert [file.name for file in (here / "cassettes").iterdir()] == [f"{stem}.yaml"]
    shutil.copytree(here, there)
    replayed = check(there, "--nbval", **without_a_model(tmp_path))
    assert replayed.returncode == 0, replayed.stdout[-6_000:]
    assert not (there / ".ockham").exists()


THEIRS = "openai/theirs"
RECORDED = "%%agent --record\nmean temp_min by weather"
FORGOTTEN = "%%agent\nmean wind by weather"
CELLS = (
    "%%agent\nload data/seattle-weather.csv and show the mean temp_max by weather",
    "%agent history",
    "%agent cost",
    RECORDED,
    "len(seattle_weather)",
    FORGOTTEN,
)


def attributed(text: str) -> str:
    """``text`` of what the built-in model did, as if a provider's model had done it."""
    for here, there in (
        ('"offline"', f'"{THEIRS}"'),
        ("model: offline", f"model: {THEIRS}"),
        ("to offline", f"to {THEIRS}"),
        ("Read from the notebook", "Shared with the model"),
    ):
        text = text.replace(here, there)
    return text


def users_folder(folder: Path) -> Path:
    """A notebook as JupyterLab saves it, with live records, its data and its recording.

    The first cell is the built-in model's. Two are a provider's: one recorded, the last one not.
    """
    (folder / "data").mkdir(parents=True)
    shutil.copy(EXAMPLES / "data" / "seattle-weather.csv", folder / "data")
    path = folder / "weather.ipynb"
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, CELLS)))
    spec = {"name": "parsimony-agent", "display_name": "", "language": ""}
    notebook.metadata.kernelspec = spec
    nbformat.write(notebook, path)
    notebook.cells = executed(path, "off", PARSIMONY_DISPLAY="live")
    for cell in notebook.cells:
        if cell.source in (RECORDED, FORGOTTEN):
            told = json.loads(attributed(json.dumps(cell.outputs)))
            cell.outputs = list(map(nbformat.from_dict, told))
    nbformat.write(notebook, path)
    recording = folder / "cassettes" / "weather.yaml"
    recording.write_text(attributed(recording.read_text()))
    return folder


@pytest.mark.kernel
def test_user_cells_get_recorded_answers_or_fail_in_one_line(tmp_path: Path) -> None:
    folder = users_folder(tmp_path / "mine")
    # Whatever shuffles tests, cells run in their order.
    (folder / "conftest.py").write_text(
        "def pytest_collection_modifyitems(items):\n    items.reverse()\n"
    )
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    compared = check(folder, "--nbval", "--color=no", PARSIMONY_MODEL="nobody/nothing")
    assert "1 failed, 5 passed" in compared.stdout, compared.stdout[-4_000:]
    failure = compared.stdout.partition(f"{FORGOTTEN}\n\nTraceback:\n")[2].partition("\n\n===")[0]
    assert failure.strip() == (
        "Parsimony Agent: No recording for this cell; record it with %%agent --record, or the "
        "whole notebook with PARSIMONY_CASSETTE=record."
    )
    made = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path: path.read_bytes() for path in made} == before


ARTIFACT = f".ockham/charts/{'a' * 64}/{{}}.vl.json"


@pytest.mark.parametrize(
    ("saved", "now", "is_same"),
    [
        ("busy  2026-11-22 21:17\nnext", "busy  2027-01-02 03:04\nnext", True),
        ("<td>2026-11-22 21:17</td></tr>", "<td>2027-01-02 03:04</td></tr>", True),
        ("your cell · 2026-11-22 21:17\n", "your cell · 2027-01-02 03:04\n", True),
        ("Request 2, 2026-11-22 21:29:48 UTC, to", "Request 2, 2027-01-02 03:04:05 UTC, to", True),
        ("$0.0275  12 s\nall", "$0.0275  3 s\nall", True),
        ('free</td><td class="n">2 s</td></tr>', 'free</td><td class="n">0 s</td></tr>', True),
        ("trying again after 1 s, attempt 1", "trying again after 2 s, attempt 1", True),
        (ARTIFACT.format("b" * 64), ARTIFACT.format("c" * 64), True),
        (ARTIFACT.format("b"), ARTIFACT.replace("a", "d").format("b"), False),
        ("2015-01-01 00:00:00  4.5", "2015-01-02 00:00:00  4.5", False),
        ("$0.0275  12 s", "$0.0276  12 s", False),
        ("it took 12 s.", "it took 13 s.", False),
        ("b" * 64, "c" * 64, False),
        ('<p style="margin:0">', '<p style="margin:1em">', False),
    ],
)
def test_only_volatile_output_is_removed(saved: str, now: str, is_same: bool) -> None:
    assert (without(VOLATILE, saved) == without(VOLATILE, now)) is is_same


def test_suite_without_request_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_alone.py").write_text(
        "import os, sys\n\n\n"
        "def test_alone():\n"
        "    assert 'PARSIMONY_CASSETTE' not in os.environ\n"
        "    ours = {name for name in sys.modules if name.startswith('parsimony_kernel.')}\n"
        f"    assert ours == {{'parsimony_kernel.testing', '{PLUGIN}'}}\n"
    )
    assert check(tmp_path).returncode == 0


@pytest.mark.kernel
def test_cells_without_agent_use_users_patterns(tmp_path: Path) -> None:
    sources = {
        "print('run 17')": "run 18\n",
        "print('2026-11-22 21:17')": "2026-11-22 21:18\n",
    }
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for cell, text in zip(cells, sources.values(), strict=True):
        cell.execution_count = 1
        cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "prints.ipynb")
    own = tmp_path / "own.cfg"
    own.write_text("[run]\nregex: run \\d+\nreplace: RUN\n")
    compared = check(tmp_path, "--nbval", "--nbval-current-env", f"--nbval-sanitize-with={own}")
    assert "1 failed, 1 passed" in compared.stdout, compared.stdout[-4_000:]
