"""The past of a notebook's variables, asked for by magics in a shell with real turns."""

from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult
from jupyter_core.paths import jupyter_data_dir

from parsimony_agent.extension import install
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.testing.scripted import call

Start = Callable[..., NotebookSession]
Said = Callable[..., str]

LOAD = "import pandas as pd\nsales = pd.read_csv('sales.csv')"
GROUP = "by_town = sales.groupby('town', as_index=False)['eur'].sum()"
PUBLISHES = (
    call("run_code", code=GROUP),
    call("return_dataset", variable="by_town", title="By town"),
    call("return_done", summary="It is published."),
)
SPOIL = "sales['eur'] = 0\nspoiled = True"


def turn(code: str) -> list[Any]:
    return [call("run_code", code=code), call("return_done", summary="It is done.")]


@pytest.fixture
def shell(bare_shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("town,eur\nGraz,1\nWien,2\nGraz,3\n")
    (tmp_path / "analysis.ipynb").write_text("{}")
    return bare_shell


@pytest.fixture
def notebook(shell: Any, scripted: Start, said: Said) -> Callable[..., Said]:
    """Begins a notebook whose model plays ``steps``; gives what a cell in it prints."""

    def begin(*steps: Any) -> Said:
        session = scripted(*steps, executor=NotebookExecutor(shell))
        install(shell, session_factory=lambda _: session)
        shell.run_line_magic("agent", "model")
        return said

    return begin


def test_chain_crosses_user_and_agent_cells(notebook: Callable[..., Said]) -> None:
    said = notebook(*turn(GROUP))
    said(LOAD)
    said("%%agent\nsum by town")
    said("top = by_town.nlargest(1, 'eur')")
    told = said("%agent why top")
    first, _, steps = told.partition("The steps and their code")
    assert first.split("\n")[1] == "Made from: by_town, sales, sales.csv."
    assert "nlargest" not in first
    for part in ("by_town.nlargest", "turn 1", "groupby", "sales.csv", "your cell"):
        assert part.casefold() in steps.casefold()


def test_unknown_maker_is_stated(notebook: Callable[..., Said], shell: Any) -> None:
    said = notebook()
    shell.user_ns["given"] = [1]
    assert "given" in said("%agent why given")
    assert "nothing is known" in said("%agent slice given", fails=True).casefold()


def test_turn_is_shown_undone_and_redone(notebook: Callable[..., Said], shell: Any) -> None:
    said = notebook(*turn(SPOIL))
    said(LOAD)
    said("%%agent\nset all to nothing")
    differs = said("%agent diff")
    assert "+ spoiled" in differs
    assert "changed in place" in differs
    assert "undone" not in said("%agent history 1")
    undone = said("%agent undo")
    assert "undone" in said("%agent history 1")
    assert "Restored: sales" in undone
    assert "Removed: spoiled" in undone
    assert shell.user_ns["sales"]["eur"].tolist() == [1, 2, 3]
    assert "spoiled" not in shell.user_ns
    redone = said("%agent redo")
    assert "is re-applied" in redone
    assert shell.user_ns["sales"]["eur"].tolist() == [0, 0, 0]
    said("%agent undo 1")
    assert shell.user_ns["sales"]["eur"].tolist() == [1, 2, 3]
    assert "spoiled" not in shell.user_ns


def test_undo_names_new_files_and_publications_that_stay(notebook: Callable[..., Said]) -> None:
    gone = "import os\nopen('gone.txt', 'w').close()\nos.remove('gone.txt')\n"
    write = call("run_code", code=f"{gone}sales.to_csv('copy.csv')\nspoiled = True")
    publish = call("return_dataset", variable="sales", title="All sales")
    said = notebook(write, publish, call("return_done", summary="It is done."))
    said(LOAD)
    said("%%agent\nwrite and publish")
    undone = " ".join(said("%agent undo").split())
    assert "except copy.csv, dataset All sales. %agent redo" in undone


def test_undo_counts_new_files_beyond_twelve(notebook: Callable[..., Said]) -> None:
    said = notebook(*turn("for n in range(14):\n    open(f'{n:02}.txt', 'w').close()"))
    said("%%agent\nwrite")
    assert "10.txt, 11.txt and 2 more." in " ".join(said("%agent undo").split())


def test_undo_says_that_effects_outside_stay(notebook: Callable[..., Said]) -> None:
    said = notebook(*turn("import subprocess\ndone = subprocess.run(['true'])"), *turn("x = 1"))
    said("%%agent --approve auto\nrun it")
    said("%%agent\nset x")
    assert "is undone. %agent redo" in " ".join(said("%agent undo").split())
    assert "is undone, except effects outside. %agent redo" in " ".join(said("%agent undo").split())


def test_undo_says_which_newer_turn_it_passes_over(notebook: Callable[..., Said]) -> None:
    said = notebook(*turn("x = 1"), *turn("print(x)"))
    said("%%agent\nset x")
    said("%%agent\nprint it")
    passed = "Turn 2 changed no variables, and stays."
    undone = said("%agent undo")
    assert undone.startswith("Turn 1 (set x) is undone")
    assert passed in undone
    assert passed not in said("%agent redo")
    assert passed not in said("%agent undo 1")


def test_undo_is_not_attributed_to_its_cell(notebook: Callable[..., Said]) -> None:
    said = notebook(*turn(SPOIL))
    said(LOAD)
    said("%%agent\nset all to nothing")
    said("%agent undo")
    said("extra = 1\n%agent redo\nmore = extra + 1")
    assert "turn 1" in said("%agent why spoiled")
    assert "your cell" in said("%agent why more")


def test_changes_before_own_undo_are_users(notebook: Callable[..., Said], shell: Any) -> None:
    said = notebook(*turn("x = 1\ny = [1, 2]"))
    said("x, y = 0, [1]")
    said("%%agent\nset them")
    assert "Kept, as changed or used since: x" in said("x = 'mine'\n%agent undo")
    assert (shell.user_ns["x"], shell.user_ns["y"]) == ("mine", [1])
    assert "x = 'mine'" in said("%agent slice x")


def test_interrupted_cell_is_recorded(notebook: Callable[..., Said], shell: Any) -> None:
    said = notebook(*turn("things = [1]"))
    said("%%agent\nmake things")
    # As the kernel does with a cell that awaits when Stop is pressed: it ends without a result.
    cell = "things.append('mine')\nawait asyncio.sleep(60)"
    info = ExecutionInfo(cell, False, False, True, "c9")
    shell.events.trigger("pre_run_cell", info)
    shell.user_ns["things"].append("mine")
    shell.events.trigger("post_run_cell", ExecutionResult(None))
    assert "Kept, as changed or used since: things" in said("%agent undo")
    assert shell.user_ns["things"] == [1, "mine"]


def test_capturing_cell_body_counts_once(notebook: Callable[..., Said], shell: Any) -> None:
    said = notebook()
    said("rows = []")
    said("%%capture\nrows.append(1)")
    assert said("%agent slice rows").count("rows.append(1)") == 1
    assert shell.user_ns["rows"] == [1]


def test_published_work_is_verified(notebook: Callable[..., Said], tmp_path: Path) -> None:
    said = notebook(*PUBLISHES)
    said(LOAD)
    said("%%agent\nsum by town and publish it")
    assert "Published files intact: snapshots 2" in said("%agent verify")
    (snapshot,) = tmp_path.glob(".ockham/datasets/*/*.parquet")
    snapshot.write_bytes(b"")
    assert "is damaged" in said("%agent verify")
    assert snapshot.exists()


@pytest.mark.kernel
def test_refresh_reports_changed_source(notebook: Callable[..., Said], tmp_path: Path) -> None:
    said = notebook(*PUBLISHES)
    said(LOAD)
    said("%%agent\nsum by town and publish it")
    assert "is unchanged" in said('%agent refresh "By town"')
    (tmp_path / "sales.csv").write_text("town,eur\nGraz,7\n")
    assert "'sales.csv': changed since" in said("%agent refresh By town", fails=True)
    assert "changed ('sales.csv' changed)" in said("%agent refresh --accept By town")
    rmtree(Path(jupyter_data_dir(), "parsimony", "trusted"))
    assert "for one run with --trust" in said("%agent refresh By town", fails=True)
    assert "is unchanged" in said("%agent refresh --trust By town")


def test_allowed_code_whose_table_was_deleted_is_not_run_and_still_waits(
    notebook: Callable[..., Said], shell: Any
) -> None:
    said = notebook()
    said("%agent model offline")
    said(LOAD)
    said("%%agent --approve ask\nsum eur by town")
    table = next(each for each in ("sales", "df") if each in shell.user_ns)
    kept = shell.user_ns.pop(table)
    told = said("%agent answer 1", fails=True)
    missing = (
        f"The code needs {table!r}, which is no longer in the notebook. Run the cell that makes"
    )
    assert f"Not run. {missing}" in told
    assert f"{missing} it again, then answer." in said("%agent show")
    shell.user_ns[table] = kept
    assert "eur" in said("%agent answer 1")


def test_taken_title_is_told_in_words_with_a_remedy(
    notebook: Callable[..., Said], tmp_path: Path
) -> None:
    (tmp_path / "b.ipynb").write_text("{}")
    others = Publisher(ArtifactStore(tmp_path), notebook_path="b.ipynb")
    others.publish("report", "Theirs.", title="Sales", run_id="r")
    said = notebook()
    said("%agent model offline")
    said(LOAD)
    said("%%agent\nsum eur by town")
    told = " ".join(said('%%agent\npublish it as a report "Sales"').split())
    assert "belongs to 'b.ipynb'. Publish under another name" in told
    assert "Error:" not in told.replace(" Error: ", " ")
