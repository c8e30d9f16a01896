"""What every executor runs, and what it leaves as it was."""

import sys
from pathlib import Path

import pytest

from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import abandoned_cells_end, failure, text


async def test_working_folder_is_set_and_restored(
    executor: BaseCodeExecutor, tmp_path: Path
) -> None:
    before = Path.cwd()
    (tmp_path / "sub").mkdir()
    await executor.set_cwd(str(tmp_path))
    output = await executor.execute("import os\nprint(os.getcwd())\nos.chdir('sub')")
    assert output.stdout == f"{tmp_path}\n"
    assert "working folder" in output.stderr
    assert (await executor.execute("print(os.getcwd())")).stdout == f"{tmp_path}\n"
    assert Path.cwd() == before


async def test_missing_folder_is_refused(executor: BaseCodeExecutor) -> None:
    with pytest.raises(NotADirectoryError, match="no/such"):
        await executor.set_cwd("no/such")


async def test_replaced_streams_are_restored(executor: BaseCodeExecutor) -> None:
    await abandoned_cells_end()
    before = sys.stdout, sys.stderr, sys.displayhook
    await executor.execute("import io, sys\nsys.stdout = sys.stderr = io.StringIO()")
    assert (sys.stdout, sys.stderr, sys.displayhook) == before
    assert (await executor.execute("print(1)")).stdout == "1\n"


async def test_clearing_removes_variables_and_origins(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = [1]", producer_notebook_path="nb.ipynb")
    await executor.clear_namespace()
    assert executor.variables() == {}
    assert executor.origin_ledger.get("x") is None
    assert failure(await executor.execute("x")).name == "NameError"


async def test_eval_takes_one_expression(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = 20")
    assert text((await executor.eval(" x + 1 ")).outputs[0]) == "21"
    assert failure(await executor.eval("x = 1")).name == "SyntaxError"
    assert failure(await executor.eval("")).name == "SyntaxError"
