"""What VS Code sends, by messages: its own kernel and ipykernels, cells named by URIs, no aborting.

It starts the plain Python kernel without a server, so nothing but a variable tells where the
notebook lies; it names a cell by a URI, lets the kernel run on after an error, stops *Run All* by
itself, and sends a click when the cell has long ended.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path
from parsimony_kernel.testing.kernel_process import PATIENCE_S, Cell, LiveKernel

from .conftest import kernel_under

pytestmark = pytest.mark.kernel


class VSCode:
    """VS Code with one notebook open."""

    def __init__(self, kernel: LiveKernel, folder: Path) -> None:
        self.kernel = kernel
        self.file = folder / "sales.ipynb"
        kernel.run(f"__vsc_ipynb_file__ = {str(self.file)!r}", silent=True, store_history=False)

    def begin(self, number: int, source: str) -> str:
        """Run the cell of that number, whose text may be another each time."""
        name = f"vscode-notebook-cell:{self.file}#W{number}sZmlsZQ%3D%3D"
        return self.kernel.begin(source, cell_id=name, stop_on_error=False, allow_stdin=True)

    def run(self, number: int, source: str) -> Cell:
        return self.kernel.end(self.begin(number, source))

    def click(self, cell: Cell, description: str) -> None:
        """What ipywidgets sends for a button of ``cell``."""
        (comm,) = (
            each["comm_id"]
            for each in cell.of_type("comm_open")
            if each["data"]["state"].get("description") == description
        )
        client = self.kernel._client
        data = {"method": "custom", "content": {"event": "click"}}
        client.shell_channel.send(client.session.msg("comm_msg", {"comm_id": comm, "data": data}))

    def shown_later(self, text: str) -> str:
        """The display that comes to show ``text`` while no cell runs."""
        while True:
            message = self.kernel._client.get_iopub_msg(timeout=PATIENCE_S)
            content = message["content"]
            if message["msg_type"] == "update_display_data" and text in content["data"].get(
                "text/plain", ""
            ):
                return str(content["transient"]["display_id"])


@pytest.fixture(scope="module", params=["6.29.5", "6.31.0"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp(f"vscode-{request.param}") / "place"
    for kernel in kernel_under("python3", request.param, folder, JPY_SESSION_NAME=""):
        yield VSCode(kernel, folder)


@pytest.fixture
def vscode(place: VSCode) -> Iterator[VSCode]:
    yield place
    place.run(99, "%agent model offline")


def turns(vscode: VSCode) -> list[tuple[str, str]]:
    """The notebook and the state of every turn, oldest first."""
    with closing(SqliteJournal(journal_path(vscode.file.parent))) as journal:
        return [(turn.notebook, turn.status) for turn in journal.turns()]


def test_edited_cell_is_same_turn_of_open_notebook(vscode: VSCode) -> None:
    vscode.run(1, "%%agent\nload data/iowa-electricity.csv")
    vscode.run(1, "%%agent\nload data/iowa-electricity.csv and show 5 rows")
    assert turns(vscode)[-2:] == [("sales.ipynb", "replaced"), ("sales.ipynb", "done")]


def test_question_stops_run_all_and_click_continues(vscode: VSCode) -> None:
    vscode.run(3, "%agent model asking")
    asking = vscode.begin(4, "%%agent\ntogether")
    behind = vscode.begin(5, "waited = 'no'")
    asked = vscode.kernel.end(asking)
    assert asked.status == "error"
    assert asked.reply["ename"] == "QuestionPending"
    # What was sent already runs, since VS Code asked for that.
    assert vscode.kernel.end(behind).status == "ok"
    there = {each["transient"]["display_id"] for each in asked.of_type("display_data")}
    vscode.click(asked, "the sum")
    assert vscode.shown_later("Together they are 7.") in there
    assert vscode.run(6, "together").text.strip() == "7"
