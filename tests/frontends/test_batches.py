"""Notebooks with agent cells that nobody watches: nbclient and papermill."""

import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests.notebooks.programs import python

from .conftest import execute, notebook_of

pytestmark = pytest.mark.kernel

ASKING = ("from actors import asking\n%agent model asking", "%%agent\ntogether", "went_on = True")
REFUSED = (
    "Parsimony Agent: The agent asks, and nobody answers; the question is in the record above."
)


def text_of(cell: Any) -> str:
    """What is shown in ``cell``, as plain text."""
    texts = [output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "\n".join(texts)


def errors_of(cell: Any) -> list[str]:
    return [output.ename for output in cell.outputs if output.output_type == "error"]


def is_marked(cell: Any) -> bool:
    """Whether the record says what was done, what is asked, and how it can be answered."""
    text = text_of(cell)
    asked = "Sum or product?\n1. the sum"
    return asked in text and "%agent answer NUMBER" in text and "Step 1 · Two numbers" in text


def test_question_is_marked_and_notebook_continues(place: Path) -> None:
    notebook = notebook_of(*ASKING, "went_on, numbers", "%agent answer the sum", "together")
    execute(notebook, place)
    asked, went_on, answer, together = (notebook.cells[number] for number in (1, 3, 4, 5))
    assert is_marked(asked)
    assert errors_of(asked) == []
    assert asked.outputs[-1].metadata["parsimony"]["status"] == "suspended"
    assert text_of(went_on) == "(True, [3, 4])"
    assert "Your answer: the sum" in text_of(answer)
    assert text_of(together) == "7"


def test_question_fails_notebook_when_requested(place: Path) -> None:
    notebook = notebook_of("%config ParsimonyAgent.on_question = 'raise'", *ASKING)
    with pytest.raises(CellExecutionError, match=REFUSED):
        execute(notebook, place)
    asked, behind = notebook.cells[-2:]
    assert is_marked(asked)
    (error,) = (output for output in asked.outputs if output.output_type == "error")
    assert (error.ename, len(error.traceback)) == ("QuestionUnanswered", 1)
    assert behind.execution_count is None


def papermill(
    notebook: Any, folder: Path, *options: str
) -> tuple[subprocess.CompletedProcess[str], Any]:
    """What ``papermill`` said and made of ``notebook`` in ``folder``."""
    nbformat.write(notebook, folder / "given.ipynb")
    given = ("papermill", "given.ipynb", "made.ipynb", *options)
    done = python("-m", *given, folder=folder, IPYTHONDIR=str(folder / ".ipython"))
    return done, nbformat.read(folder / "made.ipynb", as_version=4)


@pytest.mark.parametrize("on_question", ["mark", "raise"])
def test_papermill_parameters_reach_agent_cells(
    place: Path, monkeypatch: pytest.MonkeyPatch, on_question: str
) -> None:
    monkeypatch.setenv("PARSIMONY_ON_QUESTION", on_question)
    notebook = notebook_of(
        "months = 12",
        "from actors import doubling\n%agent model doubling",
        "%%agent\ndouble it",
        *ASKING,
    )
    notebook.cells[0].metadata.tags = ["parameters"]
    done, made = papermill(notebook, place, "-p", "months", "3")
    assert (done.returncode == 0) is (on_question == "mark"), done.stderr[-4_000:]
    injected = [cell.source for cell in made.cells if "injected-parameters" in cell.metadata.tags]
    assert [source.splitlines()[-1] for source in injected] == ["months = 3"]
    doubled, asked = (cell for cell in made.cells if cell.source.startswith("%%agent"))
    assert "Output:\n    | 6" in text_of(doubled)
    assert is_marked(asked)
    assert (made.cells[-1].execution_count is not None) is (on_question == "mark")
