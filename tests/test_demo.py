"""Running a notebook from a shell."""

from pathlib import Path

import nbformat
import pytest

from parsimony_kernel import cli

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
    assert "chart: Sales" in said
    (published,) = (out / ".ockham" / "charts").rglob("*.vl.json")
    assert str(published) in said
    executed = nbformat.read(out / "a.ipynb", as_version=4)
    assert executed.cells[1].outputs[0]["data"]["text/plain"] == "3"


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
