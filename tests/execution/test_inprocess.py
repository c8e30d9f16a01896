"""What is looked at after a cell of code, and what becomes of the cell when that goes wrong."""

import logging
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

from parsimony_kernel.core.outputs import PrimitiveObject
from parsimony_kernel.execution import base
from parsimony_kernel.execution.base import InProcessExecutor
from parsimony_kernel.execution.executor import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from tests.contracts.told import failure

ENDLESS = "def endless(*_):\n    while True: pass\n"


@pytest.mark.parametrize(
    "raised",
    [
        "class E(Exception):\n    __str__ = endless\nraise E",
        "class E(Exception):\n    __repr__ = endless\nraise Exception(E())",
        "class E(Exception):\n    __traceback__ = property(endless, endless)\nraise E",
        "class E(SyntaxError):\n    msg = property(endless)\n    filename = msg\nraise E",
        "class E(SystemExit):\n    code = property(endless)\nraise E",
        "class C:\n    __repr__ = endless\nraise SystemExit(C())",
        "class E(Exception):\n    def __str__(self): raise KeyboardInterrupt\nraise E",
        "class E(Exception):\n    __str__ = endless\nimport asyncio\n"
        "await asyncio.sleep(0)\nraise E",
    ],
)
async def test_hostile_exception_class_is_reported(
    executor: InProcessExecutor, monkeypatch: pytest.MonkeyPatch, raised: str
) -> None:
    monkeypatch.setattr(base, "_ERROR_S", 0.05)
    output = await executor.execute(f"{ENDLESS}print('kept')\n{raised}", timeout_seconds=60)
    error = output.error
    assert error is not None
    assert error.name in ("E", "Exception", "SystemExit")
    assert error.source_line.startswith("raise ")
    assert (error.past_deadline, error.state_lost, output.stdout) == (False, False, "kept\n")
    again = await executor.execute("print('on')", timeout_seconds=60)
    assert (again.stdout, again.error) == ("on\n", None)


async def test_error_keeps_its_line_where_code_has_cleared_the_cache_of_lines() -> None:
    output = await CodeExecutor().execute("import linecache\nlinecache.clearcache()\n1 / 0")
    assert (failure(output).line, failure(output).source_line) == (3, "1 / 0")


async def test_hostile_deadline_exception_is_reported(
    executor: InProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_ERROR_S", 0.05)
    output = await executor.execute(
        f"{ENDLESS}class E(Exception):\n    __str__ = endless\n"
        "try:\n    endless()\nexcept BaseException as exc:\n    raise E from exc",
        timeout_seconds=0.3,
    )
    assert failure(output).message.startswith("timeout: the code was stopped after 0.3 s")


async def test_blocking_text_in_c_is_abandoned_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, release = CodeExecutor(), threading.Event()
    executor.locals["release"] = release
    monkeypatch.setattr(base, "_ERROR_S", 0.05)
    monkeypatch.setattr("parsimony_kernel.execution.executor.LOOK_S", 0.1)
    output = await executor.execute(
        "x = 1\nclass E(Exception):\n    def __str__(self): release.wait()\nraise E"
    )
    release.set()
    assert output.error is not None
    assert (output.error.name, output.error.line) == ("E", 4)
    assert (output.error.state_lost, output.truncated) == (False, True)
    assert set(output.changed) == {"x", "E"}


@pytest.mark.parametrize("step", ["before_cell", "observe_cell", "stamp_effect"])
async def test_failing_lineage_keeps_output_and_says_so(
    executor: InProcessExecutor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
) -> None:
    def fails(*_: Any, **__: Any) -> NoReturn:
        raise LookupError("of the lineage")

    await executor.execute("x = 1", producer_notebook_path="nb.ipynb")
    assert executor.origin_ledger.get("x") is not None
    with monkeypatch.context() as broken:
        broken.setattr(base, step, fails)
        with caplog.at_level(logging.ERROR):
            output = await executor.execute(
                "x = 2\nprint('printed')\nx + 1", producer_notebook_path="nb.ipynb"
            )
    assert output.error is None
    assert (output.stdout, output.changed) == ("printed\n", ("x",))
    assert output.stderr == "The lineage of this cell was not recorded.\n"
    shown = output.shown[0]
    assert isinstance(shown, PrimitiveObject)
    assert shown.text == "3"
    assert "LookupError: of the lineage" in caplog.text
    assert executor.origin_ledger.get("x") is None
    after = await executor.execute("x = 3", producer_notebook_path="nb.ipynb")
    assert after.stderr == ""
    assert executor.origin_ledger.get("x") is not None


async def test_raising_input_transformer_is_reported(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_ERROR_S", 0.05)
    executor = NotebookExecutor(shell)
    await executor.execute(
        f"{ENDLESS}class E(SyntaxError):\n    __str__ = endless\n    msg = property(endless)\n"
        "def refuse(lines): raise E"
    )
    shell.input_transformers_post.append(shell.user_ns["refuse"])
    try:
        output = await executor.execute("1")
    finally:
        shell.input_transformers_post.pop()
    assert failure(output).name == "E"


async def test_import_that_is_loaded_anew_is_no_deleted_variable(
    executor: InProcessExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loaded_anew.py").write_text("def f():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    await executor.execute("import importlib, loaded_anew\nfrom loaded_anew import f")
    output = await executor.execute("importlib.reload(loaded_anew)\nfrom loaded_anew import f")
    assert (output.error, output.deleted) == (None, ())


async def test_cell_whose_recording_failed_replaces_nobodys_variables(
    executor: InProcessExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("no lineage today")

    monkeypatch.setattr(base, "before_cell", broken)
    with run_scope(RunScope(run_id="r", notebook_path="n.ipynb", cell_id="c")):
        for value in (1, 2):
            output = await executor.execute(f"a = {value}")
            assert (output.error, output.overwritten) == (None, ())
