"""The origins of what the user's own cells bind."""

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parsimony_agent import user_cells
from parsimony_agent.extension import install
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.lineage.ledger import InputRef, OriginLedger
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.testing.scripted import call

DONE = call("return_done", summary="Finished.")


@pytest.fixture
def session(bare_shell: Any, scripted: Callable[..., NotebookSession]) -> NotebookSession:
    return scripted(DONE, DONE, DONE, executor=NotebookExecutor(bare_shell))


@pytest.fixture
def shell(bare_shell: Any, session: NotebookSession) -> Any:
    install(bare_shell, session_factory=lambda _: session)
    return bare_shell


@pytest.fixture
def ledger(session: NotebookSession) -> OriginLedger:
    return session.executor.origin_ledger


CELLS = ("a = [1]", "b = a\nc = 3", "d = [*a, c]", "b.append(2)", "del c")


@pytest.mark.parametrize("turn_at", range(len(CELLS) + 1))
def test_cells_before_and_after_first_turn_are_tracked(
    shell: Any, ledger: OriginLedger, turn_at: int
) -> None:
    """Whether a session was there when a cell ran makes no difference to what is known of it."""
    for cell in CELLS[:turn_at]:
        shell.run_cell(cell)
    assert ledger.get("a") is None
    shell.run_cell("%%agent\nplot it")
    for cell in CELLS[turn_at:]:
        shell.run_cell(cell)
    origin = ledger.get("d")
    assert origin is not None
    assert origin.actor == "user"
    assert origin.code.strip() == "d = [*a, c]"
    assert origin.inputs == (InputRef(name="a", version=1), InputRef(name="c", version=1))
    # The list was changed under one name and bears two.
    assert ledger.version("a") == ledger.version("b") == 2
    changed = ledger.get("a")
    assert changed is not None
    assert changed.code.strip() == "b.append(2)"


def test_agent_cell_is_not_users(bare_shell: Any, scripted: Callable[..., NotebookSession]) -> None:
    made = call("run_code", code="made = 1")
    session = scripted(made, DONE, executor=NotebookExecutor(bare_shell))
    install(bare_shell, session_factory=lambda _: session)
    bare_shell.run_cell("%%agent\nplot it")
    bare_shell.run_cell("x = made")
    origins = [session.executor.origin_ledger.get(name) for name in ("made", "x")]
    assert [origin and origin.actor for origin in origins] == ["agent", "user"]


def test_failing_and_nested_cells_are_tracked(shell: Any, ledger: OriginLedger) -> None:
    shell.run_cell("%%agent\nplot it")
    shell.run_cell("x = 1\n1 / 0")
    shell.run_cell("get_ipython().run_cell('inner = 2')\nouter = 3")
    for name in ("x", "inner", "outer"):
        assert ledger.get(name) is not None, name


def test_tracking_keeps_nothing_alive(shell: Any) -> None:
    class Data:
        pass

    shell.user_ns["Data"] = Data
    shell.run_cell("data = Data()\nmore = [data]")
    watched = weakref.ref(shell.user_ns["data"])
    shell.run_cell("del data, more")
    gc.collect()
    assert watched() is None


def test_missing_working_folder_is_survived(
    shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert shell.run_cell("x = 1").success
    assert capsys.readouterr() == ("", "")
    assert not shell.run_cell("%%agent\nplot it").success
    printed = capsys.readouterr().out.strip()
    assert printed.startswith("Parsimony Agent: The working folder of this kernel does not exist")
    assert len(printed.splitlines()) == 1


HOSTILE = """
class Hostile:
    @property
    def __class__(self):
        raise RuntimeError("not yours")
    def __getattr__(self, name):
        raise RuntimeError("not yours")
class Meta(type):
    @property
    def __module__(cls):
        raise RuntimeError("not yours")
class Strange(metaclass=Meta):
    pass
value = Hostile()
held = [value]
"""


@pytest.mark.parametrize("turn_first", [True, False])
def test_raising_values_show_nothing(
    shell: Any, capsys: pytest.CaptureFixture[str], turn_first: bool
) -> None:
    if turn_first:
        shell.run_cell("%%agent\nplot it")
        capsys.readouterr()
    assert shell.run_cell(HOSTILE).success
    assert shell.run_cell("other = value\nheld.append(1)").success
    assert capsys.readouterr() == ("", "")
    assert shell.run_cell("%%agent\nplot it").success


def test_raising_listener_shows_nothing(
    shell: Any,
    ledger: OriginLedger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell.run_cell("%%agent\nplot it")
    capsys.readouterr()

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "get", broken)
        patched.setattr(user_cells, "notebook_path", broken)
        assert shell.run_cell("x = 1").success
    assert capsys.readouterr() == ("", "")
    shell.run_cell("y = 2")
    assert ledger.get("y") is not None


EXITS = (
    "class M(type):\n    def __getattribute__(cls, name): raise SystemExit\n"
    "class A(metaclass=M):\n    __class__ = property(lambda self: exit_())\n"
    "def exit_(): raise SystemExit\n"
    "a = A()"
)


@pytest.mark.parametrize("with_turn", [False, True])
def test_exiting_class_is_an_ordinary_variable(
    shell: Any, ledger: OriginLedger, with_turn: bool
) -> None:
    if with_turn:
        shell.run_cell("%%agent\nplot it")
    assert shell.run_cell(EXITS).success
    assert shell.run_cell("b = [a, A]\na.x = 1").success
    if not with_turn:
        shell.run_cell("%%agent\nplot it")
    assert [ledger.version(name) for name in ("A", "a", "b")] == [1, 2, 1]


def test_exiting_name_ends_no_cell(shell: Any, ledger: OriginLedger) -> None:
    shell.run_cell("%%agent\nplot it")
    assert shell.run_cell(f"{EXITS}\n__vsc_ipynb_file__ = a").success
    assert shell.run_cell("__vsc_ipynb_file__ = 'nb.ipynb'\nafter = 1").success
    assert ledger.version("after") == 1


@pytest.mark.parametrize("turn_first", [True, False])
def test_function_changes_and_opened_files_are_tracked(
    shell: Any,
    ledger: OriginLedger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    turn_first: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("1")
    turn = "%%agent\nplot it"
    if turn_first:
        shell.run_cell(turn)
    shell.run_cell("import json\nfrom pathlib import Path\nrows = []\ndef put(v): rows.append(v)")
    shell.run_cell("for name in 'ab':\n    put(Path(name + '.txt').read_text())\n\ndone = 1")
    if not turn_first:
        shell.run_cell(turn)
    changed = ledger.get("rows")
    assert changed is not None
    assert (changed.version, changed.sources) == (2, ("a.txt",))
    run = ledger.cell_runs()[-1]
    assert (run.failed, run.stopped_at) == (True, 2)
    assert {ref.name for ref in run.reads} >= {"put", "rows"}
    assert ledger.get("done") is None


def test_uncompilable_cell_did_not_run(shell: Any, ledger: OriginLedger) -> None:
    shell.run_cell("%%agent\nplot it")
    shell.run_cell("x = (")
    assert ledger.cell_runs() == ()


@pytest.mark.parametrize(
    "resize",
    ["arr.resize(8)", "grow()", "def again(): arr.resize(8)\nagain()", "exec('arr.resize(8)')"],
)
def test_array_can_be_resized_as_usual(shell: Any, resize: str) -> None:
    shell.run_cell("import numpy as np\narr = np.arange(5.0)\ndef grow(): arr.resize(8)\n")
    shell.run_cell(resize).raise_error()
    assert shell.user_ns["arr"].shape == (8,)


@pytest.mark.parametrize("kind", ["np.ones(1000)", "pd.DataFrame({'a': np.ones(1000)})"])
def test_released_objects_are_freed_during_cell(shell: Any, kind: str) -> None:
    shell.run_cell(f"import weakref, numpy as np, pandas as pd\nbig = {kind}")
    shell.run_cell("seen = weakref.ref(big)\ndel big\nis_gone = seen() is None")
    assert shell.user_ns["is_gone"]


@pytest.mark.parametrize("kind", ["list(range(20_000))", "'ab' * 20_000", "dict.fromkeys('ab', 1)"])
def test_rebinding_is_tracked_and_same_object_is_not(
    shell: Any, ledger: OriginLedger, kind: str
) -> None:
    shell.run_cell("%%agent\nplot it")
    shell.run_cell(f"big = {kind}\nother = 1")
    shell.run_cell("big = big or []")
    assert ledger.version("big") == 1
    shell.run_cell("del big\nbig = [2]")
    assert ledger.version("big") == 2
