"""The identity of the cell that runs, and where its notebook lies."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_agent.cell import Cells, locate


def kernel_shell(msg_id: str, **metadata: object) -> Any:
    parent = {"header": {"msg_id": msg_id}, "metadata": metadata}
    return SimpleNamespace(execution_count=1, get_parent=lambda: parent, user_ns={})


def test_frontend_cell_id_is_the_key() -> None:
    cells = Cells(kernel_shell("m1", cellId="abc"))
    assert cells.id()
    assert cells.next_turn("plot") == "abc"


def test_source_is_the_key_without_id() -> None:
    cell = Cells(kernel_shell("m1")).next_turn("plot")
    assert not Cells(kernel_shell("m1")).id()
    assert cell == Cells(kernel_shell("m2")).next_turn("plot")
    assert cell != Cells(kernel_shell("m2")).next_turn("plot it")


def test_two_turns_in_one_cell_get_stable_keys() -> None:
    shell = kernel_shell("m1", cellId="abc")
    cells = Cells(shell)
    assert [cells.next_turn(text) for text in ("a", "b")] == ["abc", "abc#2"]
    shell.get_parent()["header"]["msg_id"] = "m2"
    assert cells.next_turn("a") == "abc"


def test_terminal_has_no_parent_message() -> None:
    shell = SimpleNamespace(execution_count=1, user_ns={})
    assert not Cells(shell).id()


def test_notebook_path_comes_from_jupyter_then_vscode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    vs_code = SimpleNamespace(user_ns={"__vsc_ipynb_file__": str(tmp_path / "b.ipynb")})
    plain = SimpleNamespace(user_ns={})
    named = {"JPY_SESSION_NAME": str(tmp_path / "a.ipynb")}
    assert locate(vs_code, named) == tmp_path / "a.ipynb"
    assert locate(vs_code, {}) == tmp_path / "b.ipynb"
    assert locate(plain, {}) == Path("/untitled")


@pytest.mark.parametrize(
    ("name", "notebook"),
    [("sub/a.ipynb", "a.ipynb"), ("/nowhere/at/all/a.ipynb", "a.ipynb"), ("console-1", "untitled")],
)
def test_missing_path_keeps_working_folder(
    name: str, notebook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = SimpleNamespace(user_ns={})
    assert locate(shell, {"JPY_SESSION_NAME": name}) == tmp_path / notebook
