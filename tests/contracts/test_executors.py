"""What every executor does, whatever it runs in."""

import asyncio
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.execution import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.executor import BaseCodeExecutor
from parsimony_kernel.execution.outputs import (
    DataFrameObject,
    ExceptionObject,
    FigureObject,
    PrimitiveObject,
)
from parsimony_kernel.execution.run_scope import RunScope, run_scope

DEADLINE_S = 0.3


@pytest.fixture(params=["private", "notebook"])
def executor(request: pytest.FixtureRequest) -> BaseCodeExecutor:
    if request.param == "private":
        return CodeExecutor()
    return NotebookExecutor(request.getfixturevalue("shell"))


def text(output: Any) -> str:
    assert isinstance(output, PrimitiveObject)
    return output.text


def failure(output: Any) -> ExceptionObject:
    last = output.outputs[-1]
    assert isinstance(last, ExceptionObject)
    assert output.error == last
    return last


class TestWhatIsShown:
    async def test_a_trailing_expression(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute("x = 20\nx * 2 + 2")
        assert [text(each) for each in output.outputs] == ["42"]

    async def test_nothing_of_a_statement_or_after_a_semicolon(
        self, executor: BaseCodeExecutor
    ) -> None:
        for code in ("x = 1", "5;", "(5) ; # quiet", "None", "", "# only words"):
            assert (await executor.execute(code)).outputs == ()

    async def test_a_hash_with_a_semicolon_is_no_semicolon(
        self, executor: BaseCodeExecutor
    ) -> None:
        assert len((await executor.execute("5 # a;")).outputs) == 1

    async def test_a_frame_and_what_display_is_given(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndisplay(df, 7)\ndf.head(1)"
        )
        first, second, third = output.outputs
        assert isinstance(first, DataFrameObject)
        assert isinstance(third, DataFrameObject)
        assert (first.rows, text(second), third.rows) == (2, "7", 1)

    async def test_an_altair_chart(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "import altair as alt, pandas as pd\n"
            "alt.Chart(pd.DataFrame({'x': [1], 'y': [2]})).mark_line().encode(x='x', y='y')"
        )
        (figure,) = output.outputs
        assert isinstance(figure, FigureObject)
        assert figure.description == "line chart of y by x"
        assert figure.spec is not None

    async def test_prints_of_either_stream(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "import sys\nprint('out ä∑😀')\nprint('err', file=sys.stderr)\n"
            "sys.stdout.buffer.write(b'bytes')"
        )
        assert (output.stdout, output.stderr) == ("out ä∑😀\nbytes", "err\n")

    async def test_what_a_thread_of_the_cell_prints(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "import threading\nt = threading.Thread(target=print, args=('there',))\n"
            "t.start()\nt.join()"
        )
        assert output.stdout == "there\n"

    async def test_info_of_a_frame(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute("import pandas as pd\npd.DataFrame({'a': [1]}).info()")
        assert "Non-Null Count" in output.stdout

    async def test_twenty_thousand_prints_keep_head_and_tail(
        self, executor: BaseCodeExecutor
    ) -> None:
        output = await executor.execute("for i in range(20_000):\n    print(i)")
        assert output.truncated
        assert output.stdout.startswith("0\n1\n")
        assert output.stdout.endswith("19999\n")
        assert "88,890 characters cut" in output.stdout
        assert len(output.stdout) < 20_100

    async def test_of_many_displays_the_first_and_last(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute("for i in range(50):\n    display(i)")
        shown = [text(each) for each in output.outputs]
        assert shown == [str(i) for i in (*range(10), *range(40, 50))]
        assert output.truncated

    async def test_a_progress_bar_is_its_last_state(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute("print('1%\\r50%\\r\\x1b[32m100%\\x1b[0m\\r\\ndone')")
        assert output.stdout == "100%\r\ndone\n"


class TestWhatRuns:
    async def test_the_namespace_lasts(self, executor: BaseCodeExecutor) -> None:
        await executor.execute("x = [1]\ndef f(): return x")
        await executor.execute("x = [2]")
        assert text((await executor.execute("f()")).outputs[0]) == "[2]"
        assert set(executor.variables()) == {"x", "f"}

    async def test_awaits_at_the_top(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\n"
            "async with asyncio.timeout(5):\n    x = await f()\nawait asyncio.gather(f(), f())"
        )
        assert [text(each) for each in output.outputs] == ["[7, 7]"]
        assert executor.variables()["x"] == 7

    async def test_classes_dataclasses_decorators_and_super(
        self, executor: BaseCodeExecutor
    ) -> None:
        output = await executor.execute(
            "from __future__ import annotations\n"
            "import functools\nfrom dataclasses import dataclass\n"
            "def twice(f):\n    @functools.wraps(f)\n    def g(*a): return f(f(*a))\n    return g\n"
            "@dataclass(order=True)\nclass P:\n    x: int\n    y: str = 'é'\n"
            "class Q(P):\n    def __post_init__(self): super().__init__\n"
            "@twice\ndef inc(n): return n + 1\n"
            "if __name__ == '__main__':\n    print(inc(1))\nQ(1) < Q(2), P(3)"
        )
        assert output.error is None
        assert (output.stdout, text(output.outputs[0])) == ("3\n", "(True, P(x=3, y='é'))")

    async def test_the_folder_is_the_one_that_was_set_and_is_put_back(
        self, executor: BaseCodeExecutor, tmp_path: Path
    ) -> None:
        before = Path.cwd()
        (tmp_path / "sub").mkdir()
        await executor.set_cwd(str(tmp_path))
        output = await executor.execute("import os\nprint(os.getcwd())\nos.chdir('sub')")
        assert output.stdout == f"{tmp_path}\n"
        assert "working folder" in output.stderr
        assert (await executor.execute("print(os.getcwd())")).stdout == f"{tmp_path}\n"
        assert Path.cwd() == before

    async def test_a_folder_that_does_not_exist_is_refused(
        self, executor: BaseCodeExecutor
    ) -> None:
        with pytest.raises(NotADirectoryError, match="no/such"):
            await executor.set_cwd("no/such")

    async def test_streams_that_the_code_replaces_are_put_back(
        self, executor: BaseCodeExecutor
    ) -> None:
        before = sys.stdout, sys.stderr, sys.displayhook
        await executor.execute("import io, sys\nsys.stdout = sys.stderr = io.StringIO()")
        assert (sys.stdout, sys.stderr, sys.displayhook) == before
        assert (await executor.execute("print(1)")).stdout == "1\n"

    async def test_clearing_forgets_variables_and_origins(self, executor: BaseCodeExecutor) -> None:
        await executor.execute("x = [1]", producer_notebook_path="nb.ipynb")
        await executor.clear_namespace()
        assert executor.variables() == {}
        assert executor.origin_ledger.get("x") is None
        assert failure(await executor.execute("x")).name == "NameError"

    async def test_a_dry_run_leaves_no_binding_and_no_origin(
        self, executor: BaseCodeExecutor
    ) -> None:
        await executor.execute("x = 1", producer_notebook_path="nb.ipynb")
        output = await executor.execute(
            "x = 2\ny = 3\ndef f(): return x + y\nf()", dry_run=True, producer_notebook_path="nb"
        )
        assert text(output.outputs[0]) == "5"
        assert executor.variables() == {"x": 1}
        assert executor.origin_ledger.version("x") == 1

    async def test_eval_takes_one_expression(self, executor: BaseCodeExecutor) -> None:
        await executor.execute("x = 20")
        assert text((await executor.eval(" x + 1 ")).outputs[0]) == "21"
        assert failure(await executor.eval("x = 1")).name == "SyntaxError"
        assert failure(await executor.eval("")).name == "SyntaxError"


class TestWhatGoesWrong:
    async def test_an_exception_is_a_value_with_its_line_and_the_prints_stay(
        self, executor: BaseCodeExecutor
    ) -> None:
        output = await executor.execute("print('before')\nd = {}\nd['yaer']\nprint('after')")
        error = failure(output)
        assert (error.name, error.message) == ("KeyError", "'yaer'")
        assert (error.line, error.source_line) == (3, "d['yaer']")
        assert output.stdout == "before\n"
        assert "d" in output.changed

    async def test_the_traceback_is_the_codes_own(self, executor: BaseCodeExecutor) -> None:
        error = failure(await executor.execute("def f():\n    return 1 / 0\nf()"))
        assert re.search(
            r'File "<agent step 1[^"]*>", line 2, in f\n    return 1 / 0', error.traceback
        )
        assert "parsimony_kernel" not in error.traceback
        assert error.line == 2

    @pytest.mark.parametrize(
        ("code", "name", "line"),
        [
            ("x = 1\ndef (", "SyntaxError", 2),
            ("if x:\npass", "IndentationError", 2),
            ("import sys\nsys.exit()", "SystemExit", 2),
            ("raise StopIteration", "StopIteration", 1),
            ("raise GeneratorExit", "GeneratorExit", 1),
            ("raise KeyboardInterrupt", "KeyboardInterrupt", 1),
            ("import asyncio\nraise asyncio.CancelledError", "CancelledError", 2),
            ("def f(n): return f(n + 1)\nf(0)", "RecursionError", 1),
            ("'\\ud800'.encode()", "UnicodeEncodeError", 1),
            ("raise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", 1),
        ],
    )
    async def test_whatever_leaves_the_cell(
        self, executor: BaseCodeExecutor, code: str, name: str, line: int
    ) -> None:
        error = failure(await executor.execute(code))
        assert (error.name, error.line) == (name, line)
        assert text((await executor.execute("1 + 1")).outputs[0]) == "2"

    @pytest.mark.parametrize("code", ["raise KeyError", "raise SystemExit(3)", "1 / 0"])
    async def test_the_same_in_a_cell_that_awaits(
        self, executor: BaseCodeExecutor, code: str
    ) -> None:
        output = await executor.execute(f"import asyncio\nawait asyncio.sleep(0)\n{code}")
        assert failure(output).line == 3

    @pytest.mark.parametrize("code", ["input('?')", "exit()", "quit()"])
    async def test_nobody_is_asked_and_nothing_exits(
        self, executor: BaseCodeExecutor, code: str
    ) -> None:
        assert failure(await executor.execute(code)).name == "RuntimeError"

    async def test_a_message_that_raises(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "class E(Exception):\n    def __str__(self): raise ValueError\nraise E"
        )
        assert failure(output).name == "E"

    async def test_a_variable_that_cannot_be_looked_at(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "class V:\n    def __repr__(self): raise ValueError\nv = V()\nv"
        )
        assert output.error is None
        assert "repr raises ValueError" in text(output.outputs[0])

    async def test_a_deadline_of_nothing_is_refused(self, executor: BaseCodeExecutor) -> None:
        with pytest.raises(ValueError, match="timeout_seconds is 0"):
            await executor.execute("1", timeout_seconds=0)


class TestDeadlinesAndStops:
    @pytest.mark.parametrize(
        "code",
        [
            "while True: pass",
            "import asyncio\nawait asyncio.sleep(60)",
            "import time\nfor _ in range(600): time.sleep(0.01)",
            "import asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
            "while True:\n    try:\n        sum(range(9))\n    except BaseException:\n        pass",
            "import asyncio\nwhile True:\n    try:\n        await asyncio.sleep(60)\n"
            "    except BaseException:\n        pass",
        ],
        ids=["loop", "await", "sleeps", "await-then-loop", "swallowing", "swallowing-await"],
    )
    async def test_code_ends_at_its_deadline(self, executor: BaseCodeExecutor, code: str) -> None:
        output = await executor.execute(f"print('begun')\n{code}", timeout_seconds=DEADLINE_S)
        error = failure(output)
        assert error.name == "TimeoutError"
        assert error.message == "timeout: the code was stopped after 0.3 s"
        assert error.line is not None
        assert output.stdout == "begun\n"
        assert output.duration_s < DEADLINE_S + 0.6

    async def test_a_call_that_blocks_does_not_hold_the_caller(
        self, executor: BaseCodeExecutor
    ) -> None:
        output = await executor.execute(
            "import time\ntime.sleep(3)\nlate = True", timeout_seconds=DEADLINE_S
        )
        assert "timeout" in failure(output).message
        assert output.duration_s < DEADLINE_S + 0.6
        assert "late" not in executor.variables()

    async def test_code_that_is_quick_enough_knows_nothing_of_its_deadline(
        self, executor: BaseCodeExecutor
    ) -> None:
        for _ in range(20):
            assert (await executor.execute("x = 1", timeout_seconds=5)).error is None

    async def test_a_timeout_of_the_codes_own_is_its_own(self, executor: BaseCodeExecutor) -> None:
        output = await executor.execute(
            "import asyncio\ntry:\n    async with asyncio.timeout(0.01):\n"
            "        await asyncio.sleep(60)\nexcept TimeoutError:\n    print('mine')",
            timeout_seconds=5,
        )
        assert (output.stdout, output.error) == ("mine\n", None)

    async def test_cancelling_ends_an_await_and_lets_it_clean_up(
        self, executor: BaseCodeExecutor
    ) -> None:
        task = asyncio.create_task(
            executor.execute(
                "import asyncio\nbegun = True\ntry:\n    await asyncio.sleep(60)\n"
                "finally:\n    cleaned = True"
            )
        )
        while "begun" not in executor.variables():
            await asyncio.sleep(0.001)
        started = asyncio.get_running_loop().time()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.get_running_loop().time() - started < 0.4
        assert executor.variables()["cleaned"]

    async def test_after_a_stop_the_executor_works_on(self, executor: BaseCodeExecutor) -> None:
        await executor.execute("while True: pass", timeout_seconds=DEADLINE_S)
        await executor.execute("import asyncio\nawait asyncio.sleep(9)", timeout_seconds=DEADLINE_S)
        output = await executor.execute("import asyncio\nawait asyncio.sleep(0)\nprint(1)")
        assert (output.stdout, output.error) == ("1\n", None)


class TestLineage:
    async def test_variables_are_stamped_for_the_notebook(self, executor: BaseCodeExecutor) -> None:
        await executor.execute("x = [1]", producer_notebook_path="notebooks/a.ipynb")
        await executor.execute("y = x * 2", producer_notebook_path="notebooks/a.ipynb")
        origin = executor.origin_ledger.get("y")
        assert origin is not None
        assert (origin.notebook_path, origin.actor, origin.version) == (
            "notebooks/a.ipynb",
            "agent",
            1,
        )
        assert [(each.name, each.version) for each in origin.inputs] == [("x", 1)]
        assert origin.at

    async def test_a_run_scope_gives_the_ids(self, executor: BaseCodeExecutor) -> None:
        with run_scope(RunScope("run-1", "nb.ipynb", "cell-1", turn=3)):
            await executor.execute("x = [1]")
        origin = executor.origin_ledger.get("x")
        assert origin is not None
        assert (origin.run_id, origin.cell_id, origin.notebook_path) == (
            "run-1",
            "cell-1",
            "nb.ipynb",
        )

    async def test_without_a_producer_nothing_is_stamped(self, executor: BaseCodeExecutor) -> None:
        await executor.execute("x = [1]")
        assert executor.origin_ledger.get("x") is None

    async def test_the_output_tells_what_became_of_the_names(
        self, executor: BaseCodeExecutor, tmp_path: Path
    ) -> None:
        (tmp_path / "a.csv").write_text("n\n1\n2\n")
        await executor.set_cwd(str(tmp_path))
        await executor.execute("import pandas as pd\nold = {}\ngone = 1")
        output = await executor.execute(
            "df = pd.read_csv('a.csv')\nold['k'] = 1\n_private = 1\ndel gone"
        )
        assert (output.changed, output.deleted) == (("df", "old"), ("gone",))
        assert [each.name for each in output.variables] == ["df", "old"]
        assert [(each.source, each.size_bytes) for each in output.fetched] == [("a.csv", 6)]

    async def test_what_was_bound_before_an_error_is_stamped_too(
        self, executor: BaseCodeExecutor
    ) -> None:
        await executor.execute("x = [1]\n1 / 0", producer_notebook_path="nb.ipynb")
        assert executor.origin_ledger.version("x") == 1


async def test_two_executors_in_two_threads_never_see_each_other(tmp_path: Path) -> None:
    """Each prints its folder many times; all of it arrives, and only in its own output."""
    wrong: list[str] = []

    def work(folder: Path) -> None:
        folder.mkdir()
        executor = CodeExecutor(cwd=str(folder))

        async def cells() -> None:
            for _ in range(15):
                output = await executor.execute("import os\nfor _ in range(20): print(os.getcwd())")
                if output.stdout != f"{folder}\n" * 20:
                    wrong.append(output.stdout)

        asyncio.run(cells())

    def thread(name: str) -> threading.Thread:
        return threading.Thread(target=work, args=(tmp_path / name,))

    threads = [thread(name) for name in ("a", "b")]
    for each in threads:
        each.start()
    for each in threads:
        await asyncio.to_thread(each.join)
    assert wrong == []


class TestPrivateNamespace:
    async def test_the_seed_is_there_when_it_is_named(self) -> None:
        executor = CodeExecutor()
        output = await executor.execute(
            "pd.DataFrame({'a': np.arange(2)}), datetime(2024, 5, 1, tzinfo=timezone.utc)"
            " + timedelta(1), alt.Chart"
        )
        assert output.error is None
        assert executor.variables() == {}

    @pytest.mark.parametrize("name", ["exec", "eval", "compile"])
    async def test_text_cannot_be_run(self, name: str) -> None:
        assert failure(await CodeExecutor().execute(f"{name}('1')")).name == "NameError"

    async def test_a_blocked_call_is_reported_and_its_late_writes_reach_nothing(self) -> None:
        executor = CodeExecutor()
        release = threading.Event()
        executor.locals["release"] = release
        output = await executor.execute(
            "release.wait()\nlate = True\nprint('late')", timeout_seconds=DEADLINE_S
        )
        assert "cannot be interrupted" in failure(output).message
        release.set()
        again = await executor.execute("'late' in globals()")
        assert (text(again.outputs[0]), again.stdout) == ("False", "")

    async def test_what_is_late_prints_to_nowhere(self, capsys: pytest.CaptureFixture[str]) -> None:
        executor = CodeExecutor()
        done: list[Callable[[], None]] = []
        executor.locals["keep"] = done.append
        await executor.execute("import threading\nkeep(lambda: print('leaked'))")
        await executor.execute("import time\ntime.sleep(0.8)\nprint('late')", timeout_seconds=0.1)
        for each in threading.enumerate():
            if each.name == "parsimony-cell":
                await asyncio.to_thread(each.join)
        assert "late" not in capsys.readouterr().out
