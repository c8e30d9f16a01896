"""Running the quickstart from a shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from parsimony_kernel.cli import demo
from parsimony_kernel.cli import main as cli

pytestmark = pytest.mark.kernel


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cell(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook in the quickstart's place."""
    place = tmp_path_factory.mktemp("place")
    for path in demo._DATA:
        (place / path).parent.mkdir(exist_ok=True)
        (place / path).write_text("a\n1\n")
    monkeypatch.setattr(demo, "_PLACES", (place,))
    return place / demo._NAME


def write(path: Path, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(notebook, path)


def test_the_quickstart_runs_where_nothing_of_the_project_is_and_twice_alike(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)
    made = Path("parsimony-demo") / "01_quickstart.ipynb"
    said, works = [], []
    for _ in range(2):
        assert cli.main(["demo"]) == 0
        said.append(capsys.readouterr().out)
        cells = nbformat.read(made, as_version=4).cells
        of_agent = [each for each in cells if each.source.startswith("%%agent")]
        works.append([each.outputs[-1]["data"]["text/plain"] for each in of_agent])
    # The second cell knows the first, and none the run before.
    assert ["\n".join(each).count("earlier request") for each in works] == [1, 1]
    # The answer and the figure are printed, the work is in the notebook.
    assert "Highest total net generation: Fossil Fuels, 620,129." in said[0]
    assert "Step 1" in works[0][0]
    assert "Step 1" not in said[0]
    last = said[0].splitlines()[-4:]
    assert [line.partition(":")[0] for line in last] == [
        *("Ran", "Published", "Executed notebook", "Open it")
    ]
    assert last[2] == f"Executed notebook: {made}"
    # The tests' environment is not activated.
    own = os.path.relpath(Path(sys.executable).with_name("jupyter"))
    lab = "lab --allow-root" if hasattr(os, "geteuid") and os.geteuid() == 0 else "lab"
    assert last[3] == f"Open it: {own} {lab} {made}, or in VS Code"
    assert last[1] == "Published: chart 'Iowa electricity by source'"
    assert len([*(made.parent / ".ockham" / "charts").rglob("*.vl.json")]) == 1
    cells = [cell for cell in nbformat.read(made, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells)
    assert {path.name for path in folder.iterdir()} == {"parsimony-demo"}


def test_existing_data_file_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "KERNEL_NAME", "no-such-kernel")
    data = folder / "parsimony-demo" / "data" / "iowa-electricity.csv"
    data.parent.mkdir(parents=True)
    data.write_text("mine")
    assert cli.main(["demo"]) == 1
    assert "does not know the kernel" in capsys.readouterr().err
    assert data.read_text() == "mine"


@pytest.mark.parametrize(
    ("source", "says"), [("1 / 0", "ZeroDivisionError"), ("while True: pass", "longer than 2 s")]
)
def test_a_notebook_that_does_not_end_well_is_one_sentence_and_is_written(
    cell: Path,
    source: str,
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "TIMEOUT_S", 2)
    write(cell, source)
    assert cli.main(["demo"]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert (Path("parsimony-demo") / cell.name).is_file()


@pytest.mark.parametrize("what", ["the quickstart", "a place"])
def test_what_is_missing_is_one_sentence(
    folder: Path, cell: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if what == "a place":
        write(cell, "1")
        (folder / "parsimony-demo").write_text("in the way")
    assert cli.main(["demo"]) == 1
    says = "reinstall it" if what == "the quickstart" else "cannot be written"
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("starts", [[sys.executable, "-c", "raise SystemExit(1)"], ["/no/python"]])
def test_unstartable_kernel_is_one_sentence(folder: Path, starts: list[str]) -> None:
    kernel = folder / "jupyter" / "kernels" / "parsimony-agent"
    kernel.mkdir(parents=True)
    spec = {"argv": starts, "display_name": "broken", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    ended = subprocess.run(
        [sys.executable, "-m", "parsimony_kernel.cli.main", "demo"],
        env={**os.environ, "JUPYTER_PATH": str(folder / "jupyter")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "did not start" in ended.stderr
    assert "jupyter parsimony doctor" in ended.stderr
    assert "Traceback" not in ended.stderr
