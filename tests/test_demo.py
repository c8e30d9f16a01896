"""Running a notebook from a shell."""

import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest

from parsimony_kernel.cli import demo
from parsimony_kernel.cli import main as cli

pytestmark = pytest.mark.kernel


def write(path: Path, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(notebook, path)
    return path


def test_it_says_what_the_agent_did_what_was_published_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sales.csv").write_text("region,amount\nnorth,1\nsouth,2\nnorth,3\n")
    notebook = write(
        tmp_path / "a.ipynb",
        "%%agent\nload sales.csv and plot the total amount by region "
        'and publish the chart as "Sales"',
        "len(sales)",
    )
    out = tmp_path / "out"
    assert cli.main(["demo", str(notebook), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "pd.read_csv" in said
    assert "Published: chart 'Sales' (" in said
    (published,) = (out / ".ockham" / "charts").rglob("*.vl.json")
    assert str(published) in said
    executed = nbformat.read(out / "a.ipynb", as_version=4)
    assert executed.cells[1].outputs[0]["data"]["text/plain"] == "3"


def test_without_a_name_the_quickstart_runs_where_nothing_of_the_project_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo"]) == 0
    made = Path("parsimony-demo") / "01_quickstart.ipynb"
    said = capsys.readouterr().out
    last = said.splitlines()[-4:]
    assert [line.partition(":")[0] for line in last] == [
        *("Ran", "Published", "Executed notebook", "Open it")
    ]
    assert last[2:] == [f"Executed notebook: {made}", f"Open it: jupyter lab {made}, or in VS Code"]
    data = made.parent / "data" / "iowa-electricity.csv"
    assert data.read_bytes() == (demo.quickstart().parent / "data" / data.name).read_bytes()
    cells = [cell for cell in nbformat.read(made, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.outputs for cell in cells)
    assert "Iowa electricity by source" in said
    assert {path.name for path in tmp_path.iterdir()} == {"parsimony-demo"}


@pytest.mark.parametrize("out", ["mine.ipynb", "some where/mine.ipynb"])
def test_an_out_that_ends_in_ipynb_is_the_file_and_is_named_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = write(tmp_path / "a.ipynb", "6 * 7")
    assert cli.main(["demo", str(notebook), "--out", out]) == 0
    executed = nbformat.read(out, as_version=4)
    assert executed.cells[0].outputs[0]["data"]["text/plain"] == "42"
    assert (
        capsys.readouterr().out.rstrip().endswith(f"jupyter lab {shlex.quote(out)}, or in VS Code")
    )
    assert not (tmp_path / "executed").exists()


def test_data_of_the_same_name_that_is_there_already_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "KERNEL_NAME", "no-such-kernel")
    data = tmp_path / "data" / "iowa-electricity.csv"
    data.parent.mkdir()
    data.write_text("mine")
    with pytest.raises(demo.DemoError, match="does not know the kernel"):
        demo.run_demo(None, tmp_path)
    assert data.read_text() == "mine"


def test_an_installation_without_the_quickstart_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_PLACES", (tmp_path,))
    assert cli.main(["demo", "--out", str(tmp_path / "out")]) == 1
    assert "reinstall it, or name a notebook" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_wheel_is_told_to_carry_the_quickstart_and_all_that_it_reads() -> None:
    root = Path(__file__).parents[1]
    told = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    carried = told["targets"]["wheel"]["force-include"]
    package = "parsimony_kernel/quickstart/"
    inside = {to.removeprefix(package): root / source for source, to in carried.items()}
    notebook = nbformat.read(inside["01_quickstart.ipynb"], as_version=4)
    words = " ".join(cell.source for cell in notebook.cells if cell.cell_type == "code").split()
    read = {word for word in words if word.startswith("data/")}
    assert read
    assert read <= set(inside)
    for source in carried:
        assert (root / source).is_file()
        assert any(source.startswith(each) for each in told["targets"]["sdist"]["include"])


def test_a_notebook_that_fails_is_one_sentence_and_exit_code_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = write(tmp_path / "a.ipynb", "1 / 0")
    assert cli.main(["demo", str(notebook)]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "says"), [(None, "There is no notebook"), ("{", "cannot be")])
def test_a_notebook_that_is_none_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, says: str
) -> None:
    path = tmp_path / "a.ipynb"
    if content is not None:
        path.write_text(content)
    assert cli.main(["demo", str(path)]) == 1
    assert says in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_one_sentence_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = write(tmp_path / "a.ipynb", "open('ran', 'w').close()")
    (tmp_path / "file").write_text("in the way")
    assert cli.main(["demo", str(notebook), "--out", str(tmp_path / "file" / "out")]) == 1
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert "--out" in said
    assert not (tmp_path / "ran").exists()


def test_a_notebook_that_cannot_be_written_in_the_end_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = write(tmp_path / "a.ipynb", "1")
    (tmp_path / "out" / "a.ipynb").mkdir(parents=True)
    assert cli.main(["demo", str(notebook), "--out", str(tmp_path / "out")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_a_cell_that_takes_too_long_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "TIMEOUT_S", 2)
    notebook = write(tmp_path / "a.ipynb", "while True: pass")
    assert cli.main(["demo", str(notebook)]) == 1
    assert "longer than 2 s" in capsys.readouterr().err


@pytest.mark.parametrize("starts", [[sys.executable, "-c", "raise SystemExit(1)"], ["/no/python"]])
def test_a_kernel_that_does_not_start_is_one_sentence_up_to_the_end_of_the_process(
    tmp_path: Path, starts: list[str]
) -> None:
    kernel = tmp_path / "jupyter" / "kernels" / "parsimony-agent"
    kernel.mkdir(parents=True)
    spec = {"argv": starts, "display_name": "broken", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    notebook = write(tmp_path / "a.ipynb", "1")
    ended = subprocess.run(
        [sys.executable, "-m", "parsimony_kernel.cli.main", "demo", str(notebook)],
        env={**os.environ, "JUPYTER_PATH": str(tmp_path / "jupyter")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert "did not start" in ended.stderr
    assert "jupyter parsimony doctor" in ended.stderr
    assert "Traceback" not in ended.stderr
