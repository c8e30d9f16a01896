"""Notebooks with agent cells as pages: what a reader of an export is told.

A run with everything in it is saved twice, by a batch and by a front end that applies updates.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from markdown_it import MarkdownIt
from nbconvert import HTMLExporter, MarkdownExporter

from parsimony_kernel.testing.kernel_process import live_kernel

from .conftest import execute, furnish, notebook_of
from .front_end import saved_live
from .reading import Page, missing, words

pytestmark = pytest.mark.kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
SOURCES = [
    "from actors import analyst\n%agent model analyst",
    "%%agent\nhow much rain is there?",
    "%agent answer 1",
    "rain['total'].sum()",
]
TOLD = {
    "what was shared": "Read from your notebook",
    "a recovery": "The model's provider failed · trying again after 1 s, attempt 1 of 3",
    "prose": "I look at the rain first.",
    "a step": "Step 1 · Rain by month",
    "its code": "rain = pd.DataFrame({'month': [1, 2, 3], 'total': [4.5, 6.25, 1.75]})",
    "what it printed": "Months: 3",
    "a table": "6.25",
    "a step that was refused": "Step 2 · The wettest · refused",
    "why": "`rain` has no column 'totals' (did you mean 'total'?)",
    "a chart in words": "bar chart of total by month",
    "a publication": "Published: dataset",
    "the question": "Shall the chart be published?",
    "its context": "It has three bars.",
    "the answer": "Yes, publish it",
    "the result": "The most rain was 6.25, in month 2.",
    "its artifacts": "chart Rain by month",
    "its variables": "rain, wettest, drawing",
}


def batch(folder: Path) -> Any:
    """The notebook as a program runs and saves it."""
    notebook = notebook_of(*SOURCES)
    execute(notebook, folder)
    return notebook


def live(folder: Path, sources: Sequence[str] = SOURCES) -> Any:
    """The notebook as it is saved from a front end, whose kernel is gone when it is read."""
    with live_kernel(folder, environ={"IPYTHONDIR": str(folder / ".ipython")}) as kernel:
        return saved_live(kernel, sources)


@pytest.fixture(scope="module", params=[batch, live], ids=lambda save: str(save.__name__))
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook as it stands in its file."""
    folder = furnish(tmp_path_factory.mktemp("exports") / "place")
    file = folder / "notebook.ipynb"
    nbformat.write(request.param(folder), file)
    return nbformat.read(file, as_version=4)


def as_html(notebook: Any) -> Page:
    return Page(HTMLExporter().from_notebook_node(notebook)[0])


def as_markdown(notebook: Any) -> Page:
    """The Markdown export, as a reader's Markdown viewer draws it."""
    text, _ = MarkdownExporter().from_notebook_node(notebook)
    return Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.outputs]


def text_of(*shown: Any) -> str:
    """Outputs as plain text, in order."""
    return "\n".join(
        each.get("text") or each.get("data", {}).get("text/plain", "") for each in shown
    )


def is_picture(output: Any) -> bool:
    return "image/png" in output.get("data", {})


EXPORTS = pytest.mark.parametrize("export", [as_html, as_markdown])


def test_run_is_saved_as_text(saved: Any) -> None:
    text = " ".join(text_of(*outputs(saved)).split())
    assert [what for what, words in TOLD.items() if words not in text] == []


@EXPORTS
def test_export_equals_saved_text(saved: Any, export: Any) -> None:
    page = export(saved)
    drawn = [each for each in outputs(saved) if is_picture(each)]
    said = [each for each in outputs(saved) if not is_picture(each)]
    assert missing(words(text_of(*said)), page.words) == []
    assert page.pictures == len(drawn) == 1


@EXPORTS
def test_export_runs_loads_and_links_nothing(saved: Any, export: Any) -> None:
    plain = notebook_of("1 + 1")
    without, page = export(plain), export(saved)
    assert page.scripts == without.scripts
    assert page.handlers == without.handlers
    beyond = [each for each in page.addresses if each not in without.addresses]
    assert [each for each in beyond if not each.startswith(("data:image/png", "output_"))] == []


def test_no_widget_state_is_saved(saved: Any) -> None:
    assert "widgets" not in saved.metadata
    kinds = {kind for each in outputs(saved) for kind in each.get("data", {})}
    assert kinds <= {
        "text/plain",
        "text/html",
        "text/markdown",
        "image/png",
        "application/vnd.vegalite.v5+json",
    }


def test_export_says_how_to_answer(place: Path) -> None:
    notebook = live(place, SOURCES[:2])
    assert any(WIDGET in each.get("data", {}) for each in outputs(notebook))
    asked = "Shall the chart be published? It has three bars."
    instead = "Yes, publish it No, leave it To answer, run %agent answer --turn 1 NUMBER in a cell."
    instead += " Kernel restarted? Run the cells above and this one again. Already answered?"
    instead += " %agent show 1 draws the answer."
    how = "To draw this again and keep it, run %agent show 1 in a cell."
    for export in (as_html, as_markdown):
        page = export(notebook)
        assert missing(words(f"{asked} {instead} {how}"), page.words) == []
        assert page.scripts == export(notebook_of("1 + 1")).scripts
