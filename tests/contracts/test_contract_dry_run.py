"""A dry run tells what code would do, and leaves nothing of it, wherever the executor runs it."""

import tomllib
from pathlib import Path

import pytest

from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.base import BaseCodeExecutor

DRY = tomllib.loads(Path(__file__).with_name("cells.toml").read_text(encoding="utf-8"))["dry"]
SETUP = """
import pandas as pd
number, items, nested, tags = 1, [1, 2], {"a": [1]}, {"x"}
df = pd.DataFrame({"a": [1, 2]}, index=["r", "s"])
alias = df
class Account:
    rate = 1
    def __init__(self): self.total = 0
    def add(self, n): self.total += n
account = Account()
def grow():
    global number
    number += 1
    items.append(number)
    return number
"""
STATE = (
    "(number, items, nested, sorted(tags), df.to_dict(), list(df.columns), df.index.name,"
    " account.total, Account.rate, alias is df, sorted(n for n in globals() if n[0] != '_'))"
)


def shown(output: KernelOutput) -> list[str]:
    assert output.error is None, output.error
    return [each.for_model()["text"] for each in output.outputs]


@pytest.mark.parametrize("row", DRY["whole"], ids=lambda row: row["shown"])
async def test_code_runs_and_everything_is_restored(
    executor: BaseCodeExecutor, row: dict[str, str]
) -> None:
    await executor.execute(SETUP)
    before = shown(await executor.execute(STATE))
    assert shown(await executor.execute(row["code"], dry_run=True))[-1] == row["shown"]
    assert shown(await executor.execute(STATE)) == before


async def test_state_is_restored_after_error_and_deadline(executor: BaseCodeExecutor) -> None:
    await executor.execute(SETUP)
    before = shown(await executor.execute(STATE))
    failed = await executor.execute(
        "items.clear(); fresh = 1\nprint('so far')\n1 / 0", dry_run=True
    )
    stopped = await executor.execute(
        "items.append(3)\nwhile True: number += 1", dry_run=True, timeout_seconds=0.3
    )
    assert failed.error is not None
    assert (failed.error.name, failed.stdout) == ("ZeroDivisionError", "so far\n")
    assert stopped.error is not None
    assert stopped.error.past_deadline
    assert shown(await executor.execute(STATE)) == before


async def test_changing_expression_is_undone(executor: BaseCodeExecutor) -> None:
    await executor.execute(SETUP)
    assert shown(await executor.eval("items.pop()", dry_run=True)) == ["2"]
    assert shown(await executor.eval("[kept := 7, grow()]", dry_run=True)) == ["[7, 2]"]
    assert shown(await executor.eval("items, number, 'kept' in globals()")) == [
        "([1, 2], 1, False)"
    ]


async def test_no_origin_and_no_version_is_made(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = [1]", producer_notebook_path="nb.ipynb")
    runs = executor.origin_ledger.cell_runs()
    output = await executor.execute(
        "x.append(2)\ny = x", dry_run=True, producer_notebook_path="nb.ipynb"
    )
    assert output.changed == ("x", "y")
    assert executor.origin_ledger.cell_runs() == runs
    assert executor.origin_ledger.version("x") == 1
    assert executor.origin_ledger.get("y") is None


@pytest.mark.parametrize("code", [row["code"] for row in DRY["stopped"]])
async def test_it_changes_no_file_and_starts_no_program(
    executor: BaseCodeExecutor, tmp_path: Path, code: str
) -> None:
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "in.txt").write_text("in")
    await executor.set_cwd(str(tmp_path))
    output = await executor.execute(code, dry_run=True)
    assert output.error is not None
    assert output.error.message.startswith("a dry run changes nothing: it stopped before ")
    found = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*"))
    assert found == ["folder", "folder/in.txt", "old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"
    again = await executor.execute("open('new.txt', 'w').close()")
    assert again.error is None
    assert (tmp_path / "new.txt").exists()


async def test_temporary_files_are_allowed(executor: BaseCodeExecutor, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n2\n")
    await executor.set_cwd(str(tmp_path))
    output = await executor.execute(
        "import io, os, sqlite3, tempfile\nimport pandas as pd\n"
        "with tempfile.TemporaryDirectory() as place:\n"
        "    with open(os.path.join(place, 'x'), 'w') as file: file.write('1')\n"
        "    os.remove(os.path.join(place, 'x'))\n    os.mkdir(os.path.join(place, 'y'))\n"
        "with open(os.devnull, 'w') as file: file.write('1')\n"
        "sqlite3.connect(':memory:').close()\nbuffer = io.BytesIO()\n"
        "read = pd.read_csv('a.csv')\nread.to_parquet(buffer)\nint(read.n.sum())",
        dry_run=True,
    )
    assert shown(output) == ["3"]


async def test_unrestorable_code_is_refused_or_named(executor: BaseCodeExecutor) -> None:
    await executor.execute("numbers = iter([1, 2, 3])\nlines = open(__import__('os').devnull)")
    refused = await executor.execute("next(numbers)", dry_run=True)
    assert refused.error is not None
    assert refused.error.name == "DryRunError"
    assert "numbers" in refused.error.message
    named = await executor.execute("lines.readline()", dry_run=True)
    assert "may have changed" in named.stderr
    assert "lines" in named.stderr
    assert shown(await executor.execute("lines.close()\nnext(numbers)")) == ["1"]


async def test_process_state_is_restored(executor: BaseCodeExecutor, tmp_path: Path) -> None:
    await executor.set_cwd(str(tmp_path))
    look = (
        "import os, random, sys, warnings\nimport numpy as np\n"
        "(hash(random.getstate()), hash(np.random.get_state()[1].tobytes()), list(sys.path),"
        " os.environ.get('ADDED'), 'HOME' in os.environ, len(warnings.filters), os.getcwd())"
    )
    before = shown(await executor.execute(look))
    output = await executor.execute(
        "random.seed(1); np.random.seed(2); np.random.rand(); sys.path.append('/nowhere')\n"
        "os.environ['ADDED'] = '1'; os.environ.pop('HOME', None)\n"
        "warnings.simplefilter('ignore'); os.chdir('/')\nos.environ['ADDED']",
        dry_run=True,
    )
    assert shown(output) == ["'1'"]
    assert shown(await executor.execute(look)) == before
