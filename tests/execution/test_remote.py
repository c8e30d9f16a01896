"""A kernel of one's own: how it dies, and what is left, said and started again."""

import asyncio
import gc
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from parsimony_kernel.core.outputs import (
    DataFrameObject,
    ExceptionObject,
    KernelOutput,
)
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.execution import RemoteExecutor, remote_bootstrap
from parsimony_kernel.execution.remote_bootstrap import encode, encode_plain
from parsimony_kernel.execution.remote_client import FETCH_BYTES, RemoteValue
from parsimony_kernel.execution.remote_kernel import RemoteKernelError
from parsimony_kernel.execution.run_scope import Permit, permitting
from tests.contracts.told import failure, text
from tests.execution.processes import lives

DEADLINE_S = 0.3
GRACE_S = 1.0
ENDLESS = "sum(range(10**13))"


@pytest.fixture
async def executor() -> AsyncIterator[RemoteExecutor]:
    """An executor with a kernel process of its own."""
    async with RemoteExecutor(grace_s=GRACE_S) as opened:
        yield opened


def lost(output: KernelOutput) -> ExceptionObject:
    error = failure(output)
    assert error.state_lost, error
    return error


async def pid_of(executor: RemoteExecutor) -> int:
    await executor.execute("import os\npid = os.getpid()\ndel os")
    pid = executor.variables()["pid"]
    assert isinstance(pid, int)
    return pid


async def killed(executor: RemoteExecutor) -> None:
    """Kill its kernel, which had a variable ``pid``."""
    pid = await pid_of(executor)
    os.kill(pid, signal.SIGKILL)
    assert not lives(pid, 30)


async def begun(executor: RemoteExecutor, folder: Path) -> asyncio.Task[KernelOutput]:
    """A cell that can't be interrupted, once it runs."""
    sign = folder / "begun"
    code = f"open({str(sign)!r}, 'w').close()\n{ENDLESS}"
    task = asyncio.create_task(executor.execute(code))
    while not sign.exists():
        await asyncio.sleep(0)
    return task


async def text_of(executor: RemoteExecutor, code: str) -> str:
    return text((await executor.execute(code)).outputs[-1])


@pytest.mark.kernel
class TestDeath:
    async def test_code_ending_its_kernel_is_told_what_is_lost(
        self, executor: RemoteExecutor
    ) -> None:
        await executor.execute("x = 1\ndf = [object()]", producer_notebook_path="nb.ipynb")
        output = await executor.execute("print('before')\nimport os\nos._exit(3)")
        error = lost(output)
        assert "exit status 3" in error.message
        assert "gone with it: x, df; what this code had printed is gone too." in error.message
        assert executor.variables() == {}
        assert await text_of(executor, "1 + 1") == "2"

    @pytest.mark.parametrize(
        "broken",
        [
            "for name in dir(side):\n"
            "    if callable(getattr(side, name)) and not name.startswith('__'):\n"
            "        setattr(side, name, lambda *a, **k: 1 / 0)",
            "side.answer = lambda *a: side.Answer('[]')",
        ],
    )
    async def test_broken_bootstrap_costs_kernel_and_says_so(
        self, executor: RemoteExecutor, broken: str
    ) -> None:
        await executor.execute("x = 1\nimport parsimony_kernel.execution.remote_bootstrap as side")
        first = (await executor.execute(broken)).error
        second = (await executor.execute("print('not run')")).error
        error = first if first is not None and first.state_lost else second
        assert error is not None
        assert (error.name, error.state_lost) == ("KernelDied", True)
        assert "code broke the executor's side" in error.message
        assert "gone with it: x" in error.message
        after = await executor.execute("print('x' in globals())")
        assert (after.stdout, after.error) == ("False\n", None)

    async def test_ledger_drops_lost_names_and_keeps_their_code(
        self, executor: RemoteExecutor
    ) -> None:
        await executor.execute("x = [1]", producer_notebook_path="nb.ipynb")
        await executor.execute("import os\nos._exit(1)")
        ledger = executor.origin_ledger
        assert ledger.get("x") is None
        await executor.execute("x = [2]\ny = [3]", producer_notebook_path="nb.ipynb")
        await executor.execute("z = x + y", producer_notebook_path="nb.ipynb")
        origin = ledger.get("z")
        assert origin is not None
        assert {(ref.name, ref.version) for ref in origin.inputs} == {("x", 2), ("y", 1)}
        first, *_, last = ledger.cell_runs()
        assert [run.number for run in ledger.cell_runs()] == list(range(1, last.number + 1))
        assert first.code == "x = [1]\n"

    async def test_code_does_not_run_in_lost_kernel(
        self, executor: RemoteExecutor, tmp_path: Path
    ) -> None:
        await killed(executor)
        output = await executor.execute(f"open({str(tmp_path / 'ran')!r}, 'w')")
        message = lost(output).message
        assert "was not run" in message
        assert "SIGKILL" in message
        assert "pid" in message
        assert not (tmp_path / "ran").exists()
        assert (await executor.execute("print(1)")).stdout == "1\n"
        # A request that is no code leaves the loss to the next code.
        await killed(executor)
        await executor.set_cwd(str(tmp_path))
        assert "pid" in lost(await executor.execute("1")).message
        assert await text_of(executor, "import os\nos.getcwd()") == repr(str(tmp_path))


@pytest.mark.kernel
class TestEnding:
    async def test_uninterruptible_code_ends_its_kernel(self, executor: RemoteExecutor) -> None:
        await executor.execute("x = 1\ny = 2", producer_notebook_path="nb.ipynb")
        output = await executor.execute(f"print('a')\n{ENDLESS}", timeout_seconds=DEADLINE_S)
        error = lost(output)
        assert (error.name, error.past_deadline) == ("TimeoutError", True)
        assert error.message.startswith("timeout: the code was stopped after 0.3 s; ")
        assert "gone with it: x, y; what this code had printed is gone too." in error.message
        assert executor.origin_ledger.get("x") is None
        assert await text_of(executor, "'x' in globals()") == "False"

    async def test_cancel_ends_kernel_of_uninterruptible_code(
        self, executor: RemoteExecutor, tmp_path: Path
    ) -> None:
        await executor.execute("x = 1")
        task = await begun(executor, tmp_path)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "gone with it" in lost(await executor.execute("x")).message
        assert (await executor.execute("print(1)")).stdout == "1\n"

    async def test_ending_kernel_ends_its_code(
        self, executor: RemoteExecutor, tmp_path: Path
    ) -> None:
        task = await begun(executor, tmp_path)
        await executor.shutdown()
        assert lost(await task).name == "KeyboardInterrupt"

    async def test_nothing_runs_after_shutdown(self) -> None:
        executor = RemoteExecutor()
        pid = await pid_of(executor)
        await executor.shutdown()
        assert not lives(pid, 30)
        error = failure(await executor.execute("1"))
        assert error.message == "The executor was shut down; make another one."


@pytest.mark.kernel
class TestNoOrphans:
    async def test_kernel_ends_with_forgotten_executor(self) -> None:
        executor = RemoteExecutor()
        pid = await pid_of(executor)
        del executor
        gc.collect()
        assert not await asyncio.to_thread(lives, pid, 30)

    @pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), 9)"], ids=["leaves", "is-killed"])
    def test_kernel_ends_with_starting_process(self, end: str) -> None:
        program = (
            "import asyncio, os\nfrom parsimony_kernel.execution import RemoteExecutor\n"
            "executor = RemoteExecutor()\n"
            "asyncio.run(executor.execute('import os\\npid = os.getpid()'))\n"
            f"print(executor.variables()['pid'], flush=True)\n{end}"
        )
        ran = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=60
        )
        assert not lives(int(ran.stdout), 30)


@pytest.mark.kernel
class TestVariables:
    async def test_small_values_are_copied_and_others_described(
        self, executor: RemoteExecutor
    ) -> None:
        await executor.execute(
            "import pandas as pd, math\nn = 2**80\nf = math.inf\nt = 'ä\\n'\n"
            "d = {'a': [1, None, True]}\nlong = 'x' * 20_000\npair = (1, 2)\n"
            "df = pd.DataFrame({'a': range(3)})"
        )
        present = executor.variables()
        assert {name: present[name] for name in "nft"} == {"n": 2**80, "f": math.inf, "t": "ä\n"}
        told = {name: each.type for name, each in present.items() if isinstance(each, RemoteValue)}
        assert told == {"d": "dict", "long": "str", "pair": "tuple", "df": "DataFrame"}
        assert await executor.value("d") == {"a": [1, None, True]}
        summary = present["df"].summary
        assert isinstance(summary, DataFrameObject)
        assert summary.rows == 3

    async def test_tables_charts_and_plain_values_are_fetched(
        self, executor: RemoteExecutor
    ) -> None:
        await executor.execute(
            "import pandas as pd, polars as pl, pyarrow as pa, altair as alt\n"
            "df = pd.DataFrame({'a': [1, 2], 'b': ['x', None]}, index=['r', 's'])\n"
            "column = df['a']\npolar = pl.DataFrame({'a': [1, 2]})\narrow = pa.table({'a': [1]})\n"
            "chart = alt.Chart(df).mark_bar().encode(x='a:Q')\nlong = 'x' * 20_000"
        )
        present = executor.variables()
        expected = pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["r", "s"])
        pd.testing.assert_frame_equal(present["df"].fetch(), expected)
        pd.testing.assert_series_equal(present["column"].fetch(), expected["a"])
        assert present["polar"].fetch().to_pydict() == {"a": [1, 2]}
        assert present["arrow"].fetch().to_pydict() == {"a": [1]}
        assert present["chart"].fetch()["mark"] == {"type": "bar"}
        assert await executor.value("long") == "x" * 20_000

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("df", "holds 8 MB and at most 0 MB are brought over"),
            ("thing", "of the type Thing, which does not leave its kernel"),
            ("nothing", "no variable of the kernel is named 'nothing' now"),
        ],
    )
    async def test_unfetchable_value_names_alternative(
        self, executor: RemoteExecutor, name: str, said: str
    ) -> None:
        await executor.execute(
            "import pandas as pd\ndf = pd.DataFrame({'a': range(1_000_000)})\n"
            "class Thing: pass\nthing = Thing()\nnothing = (1, 2)"
        )
        value = executor.variables()[name]
        await executor.execute("del nothing")
        with pytest.raises(RemoteKernelError, match=said):
            await asyncio.to_thread(value.fetch, 100_000)

    async def test_value_of_lost_kernel_says_so(self, executor: RemoteExecutor) -> None:
        await executor.execute("x = (1, 2)")
        value = executor.variables()["x"]
        await killed(executor)
        with pytest.raises(RemoteKernelError, match="no variable of the kernel is named 'x' now"):
            await asyncio.to_thread(value.fetch)
        lost(await executor.execute("x"))


def test_deep_or_foreign_value_is_not_plain() -> None:
    itself: list[object] = []
    itself.append(itself)
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    for value in (itself, deep, 10**5_000, (1,), {1: 2}, b"x", [object()]):
        assert encode_plain(value) is None


def test_too_large_value_is_refused_before_it_is_encoded() -> None:
    """Encoded, these two would take ten gigabytes."""
    text = "x" * 10**6
    for value in ([text] * 10_000, {str(n): [text] for n in range(10_000)}):
        with pytest.raises(ValueError, match=r"holds 10,0\d\d MB and at most 64 MB"):
            encode({"texts": value}, "texts", FETCH_BYTES)


@pytest.mark.kernel
class TestStarting:
    async def test_missing_kernel_is_one_clear_sentence(self) -> None:
        async with RemoteExecutor("no-such") as executor:
            error = failure(await executor.execute("1"))
            assert error.message == (
                "The kernel 'no-such' did not start (No such kernel named no-such): `jupyter "
                "kernelspec list` tells the names, `jupyter console --kernel no-such` shows why."
            )
            with pytest.raises(RemoteKernelError, match="no-such"):
                await executor.set_cwd(".")

    @pytest.mark.parametrize(
        ("module", "said"),
        [
            (
                "raise ModuleNotFoundError('it is not there')",
                "pip install --upgrade parsimony-kernel",
            ),
            (None, "`jupyter console --kernel odd` shows why"),
        ],
    )
    async def test_incomplete_environment_names_remedy(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str | None, said: str
    ) -> None:
        package = tmp_path / ("parsimony_kernel" if module else "ipykernel")
        package.mkdir()
        (package / "__init__.py").write_text(module or "raise ImportError")
        name_a_kernel(tmp_path, monkeypatch)
        async with RemoteExecutor("odd") as executor:
            error = failure(await executor.execute("1"))
            assert error.name == "RemoteKernelError"
            assert said in error.message

    async def test_rule_13_unwatchable_kernel_runs_nothing_unasked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever had the first hook of its process refuses others."""
        (tmp_path / "sitecustomize.py").write_text(
            "import sys\ndef alone(event, arguments):\n    if event == 'sys.addaudithook':\n"
            "        raise RuntimeError\nsys.addaudithook(alone)"
        )
        name_a_kernel(tmp_path, monkeypatch)
        async with RemoteExecutor("odd") as executor:
            with permitting(Permit(tmp_path, lambda reach, lines: True)):
                output = await executor.execute(f"open({str(tmp_path / 'ran')!r}, 'w')")
            assert "can't be watched" in failure(output).message
            assert not (tmp_path / "ran").exists()
            assert not executor.is_watched
            assert (await executor.execute("print(1)")).stdout == "1\n"


def test_rule_13_event_waits_for_commit_then_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_bootstrap, "_WAIT_S", 0.01)
    deaf = SimpleNamespace(poll=lambda milliseconds: False)
    kernel = SimpleNamespace(
        session=SimpleNamespace(send=lambda *_, **__: None),
        stdin_socket=deaf,
        get_parent=lambda channel: {},
        _parent_ident={"shell": b""},
    )
    permit = remote_bootstrap.permit_here(
        (None, None, set()), Path(), remote_bootstrap.Asking(kernel)
    )
    reach = Reach(ReachKind.network, "data.example.invalid", 1, "")
    with pytest.raises(PermissionError, match="does not answer"):
        permit.leaving(reach, "fetch()", True)


def name_a_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernelspec named ``odd``, whose modules are found in ``folder`` first."""
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "odd",
        "language": "python",
        "env": {"PYTHONPATH": str(folder)},
    }
    place = folder / "kernels" / "odd"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
