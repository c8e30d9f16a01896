"""The identity of the cell that runs, and where its notebook lies."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from parsimony_agent.cell import Cells, locate
from parsimony_agent.extension import asking, awaiting


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


# The rewrite to ``await``, as the shell does it.


def with_magic() -> Any:
    shell = InteractiveShell()
    shell.register_magic_function(lambda line, cell=None: None, "line_cell", "agent")
    return shell


@pytest.fixture(scope="module")
def plain() -> Iterator[Any]:
    """A shell that knows the magic and nothing else of us."""
    shell = with_magic()
    yield shell
    shell.history_manager.end_session()


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    shell = with_magic()
    shell.input_transformers_post.append(awaiting("agent"))
    shell.input_transformer_manager.token_transformers.append(asking("agent"))
    yield shell
    shell.history_manager.end_session()


CELL = "get_ipython().run_cell_magic('agent', "
LINE = "get_ipython().run_line_magic('agent', "


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("%%agent\nplot {x} for $y\n", f"await {CELL}'', 'plot {{x}} for $y\\n')\n"),
        ("%%agent", f"await {CELL}'', '\\n')\n"),
        ("%%agent\n", f"await {CELL}'', '\\n')\n"),
        ("%%agent -m é", f"await {CELL}'-m é', '\\n')\n"),
        ("\n\n%%agent\nhi", f"await {CELL}'', 'hi\\n')\n"),
        ("%agent answer 2", f"await {LINE}'answer 2')\n"),
        ("%agent answer\t2", f"await {LINE}'answer\\t2')\n"),
        ("agent answer 2", f"await {LINE}'answer 2')\n"),
        ("x = 'é'\n%agent answer é", f"x = 'é'\nawait {LINE}'answer é')\n"),
        ("%agent answer is a.b fine?", f"await {LINE}'answer is a.b fine?')\n"),
        ("%agent fix what's wrong ??", f'await {LINE}"fix what\'s wrong ??")\n'),
        ("if x:\n  %agent answer why?", f"if x:\n  await {LINE}'answer why?')\n"),
        ("%agent context why?", f"{LINE}'context why?')\n"),
        ("if x:\n    %agent answer 2", f"if x:\n    await {LINE}'answer 2')\n"),
    ],
)
def test_awaitable_magic_is_awaited(shell: Any, source: str, expected: str) -> None:
    assert shell.transform_cell(source) == expected


def test_form_feed_in_string_moves_nothing() -> None:
    """Python counts it as white space, and a splitter of lines as an end of one."""
    lines = ["y = 'a\x0cb'\n", f"{LINE}'answer 2')\n"]
    assert "".join(awaiting("agent")(lines)) == f"y = 'a\x0cb'\nawait {LINE}'answer 2')\n"


@pytest.mark.parametrize(
    "source",
    [
        "%agent",
        "%agent history",
        "%agent answering",
        "def f():\n    %agent answer 2",
        "%agent?",
        "%agent history?",
        "shell?",
        's = """\n%agent answer why?\n"""',
        f's = """\n{CELL}"", "")\n"""',
        f"task = {CELL}'', 'x')",
        f"await {CELL}'', 'x')",
        f"create_task({CELL}'', 'x'))",
        "f(run_cell_magic('agent', '', 'x'))",
        "%%other\n%agent answer 2",
        "def broken(:\n  x = run_line_magic('agent', 'answer 2')",
    ],
)
def test_other_code_is_untouched(shell: Any, plain: Any, source: str) -> None:
    assert shell.transform_cell(source) == plain.transform_cell(source)
