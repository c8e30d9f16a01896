"""The agent as a guest in the user's shell."""

import asyncio
import linecache
import sys
from typing import Any

import pytest

from parsimony_kernel.core.outputs import PrimitiveObject
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope

LOUD = """
import os, subprocess, sys
from IPython.display import HTML, clear_output, display
print("printed")
print("error", file=sys.stderr)
display(HTML("<b>shown</b>"))
clear_output()
os.system("echo from-a-child")
sys.__stdout__.write("")
!echo from-the-shell
%timeit -n1 -r1 None
get_ipython().set_next_input("x = 1")
len?
"value"
"""


def state(shell: Any) -> dict[str, Any]:
    """What of a shell belongs to the user."""
    history = shell.history_manager
    return {
        "underscores": [shell.user_ns.get(name) for name in ("_", "__", "___", "_i", "_ii")],
        "In": list(shell.user_ns["In"]),
        "Out": dict(shell.user_ns["Out"]),
        "count": shell.execution_count,
        "result": shell.last_execution_result,
        "history": list(history.get_range(raw=True)),
        "payload": list(shell.payload_manager.read_payload()),
        "flags": shell.compile.flags,
        "hook": sys.displayhook,
        "own": {name for name in vars(shell) if callable(vars(shell)[name])},
        "publisher": {name for name in vars(shell.display_pub) if name != "_trait_values"},
    }


@pytest.fixture
def executor(shell: Any) -> NotebookExecutor:
    return NotebookExecutor(shell)


async def test_users_own_state_is_untouched(shell: Any, executor: NotebookExecutor) -> None:
    shell.run_cell("'first'", store_history=True)
    before = state(shell)
    for code in (LOUD, "from __future__ import annotations\n1", "1 / 0", "await nothing"):
        await executor.execute(code)
    after = state(shell)
    assert after == before
    assert shell.run_cell("_", store_history=True).result == "first"


async def test_nothing_reaches_users_output(
    executor: NotebookExecutor, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    output = await executor.execute(LOUD)
    await executor.execute("1 / 0")
    assert capfd.readouterr() == ("", "")
    for told in ("printed", "from-a-child", "from-the-shell", "loop", "Return the number of items"):
        assert told in output.stdout
    assert output.stderr == "error\n"
    shown = [each.text for each in output.shown if isinstance(each, PrimitiveObject)]
    assert shown == ["shown", "'value'"]


async def test_concurrent_prints_are_theirs(
    shell: Any, executor: NotebookExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record is updated by another task while agent code awaits."""
    gate = asyncio.Event()
    shell.user_ns["gate"] = gate

    async def record() -> None:
        print("the record goes on")
        shell.display_pub.publish({"text/plain": "shown in the record"})
        gate.set()

    task = asyncio.create_task(record())
    output = await executor.execute("print('a')\nawait gate.wait()\nprint('b')")
    await task
    assert output.stdout == "a\nb\n"
    assert capsys.readouterr().out == "the record goes on\nshown in the record\n"


async def test_user_variables_are_visible_and_nothing_is_seeded(
    shell: Any, executor: NotebookExecutor
) -> None:
    before = set(shell.user_ns)
    await executor.execute("pass")
    assert set(shell.user_ns) == before
    shell.run_cell("mine = [1]")
    await executor.execute("mine.append(2)")
    assert shell.user_ns["mine"] == [1, 2]
    assert executor.variables() == {"mine": [1, 2]}


async def test_code_file_name_tells_its_owner(shell: Any, executor: NotebookExecutor) -> None:
    with run_scope(RunScope("r", "nb", "c", turn=7)):
        await executor.execute("def f(x):\n    return x / 0")
        output = await executor.execute("f(21)")
    assert output.error is not None
    assert '"<agent turn 7 step 2>", line 1' in output.error.traceback
    assert '"<agent turn 7 step 1>", line 2, in f' in output.error.traceback
    assert output.error.line == 1
    assert linecache.getline("<agent turn 7 step 1>", 2) == "    return x / 0\n"
    assert shell.user_ns["f"].__code__.co_filename == "<agent turn 7 step 1>"


async def test_rerun_turn_keeps_sources_apart(executor: NotebookExecutor) -> None:
    names = []
    for number, code in enumerate(("def g():\n    return 1", "def g():\n    return 22")):
        with run_scope(RunScope(f"again-{number}", "nb", "c", turn=77)):
            await executor.execute(code)
        names.append(executor.variables()["g"].__code__.co_filename)
    assert names == ["<agent turn 77 step 1>", "<agent turn 77 step 1 run 2>"]
    assert linecache.getline(names[0], 2) == "    return 1\n"


async def test_debugger_finds_agent_frame(shell: Any, executor: NotebookExecutor) -> None:
    await executor.execute("def f(x):\n    return x / 0\nf(21)")
    traceback = sys.last_traceback
    assert isinstance(sys.last_value, ZeroDivisionError)
    assert traceback is not None
    assert traceback.tb_frame.f_code.co_filename.startswith("<agent ")
    innermost = traceback
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    assert innermost.tb_frame.f_locals["x"] == 21
    assert shell.InteractiveTB.tb is traceback


async def test_execution_events_fire_but_not_user_cell_events(
    shell: Any, executor: NotebookExecutor
) -> None:
    """``post_execute`` is where figures are drawn; what it displays belongs to the agent."""
    seen: list[str] = []

    def drawn() -> None:
        seen.append("post_execute")
        shell.display_pub.publish({"text/plain": "figure"})

    shell.events.register("post_execute", drawn)

    def begun(_: Any) -> None:
        seen.append("pre_run_cell")

    shell.events.register("pre_run_cell", begun)
    output = await executor.execute("1 / 0")
    shell.events.unregister("post_execute", drawn)
    shell.events.unregister("pre_run_cell", begun)
    assert seen == ["post_execute"]
    assert isinstance(output.outputs[0], PrimitiveObject)
    assert output.outputs[0].text == "figure"
    assert output.error is not None


async def test_magic_output_and_bindings_belong_to_cell(executor: NotebookExecutor) -> None:
    timed = await executor.execute("%time x = 6 * 7")
    assert "Wall time" in timed.stdout
    assert timed.changed == ("x",)
    body = await executor.execute("%%time\ny = x + 1\nprint('printed', y)")
    assert body.stdout.startswith("printed 43\n")
    script = await executor.execute("%%bash\necho from bash\necho wrong >&2")
    assert (script.stdout, script.stderr) == ("from bash\n", "wrong\n")
    listed = await executor.execute("!echo a b\nlines = !printf '1\\n2\\n'\nlines")
    assert (listed.stdout.split(), listed.shown[0].for_model()["text"]) == (
        ["a", "b"],
        "['1', '2']",
    )


async def test_capture_body_is_no_user_cell(shell: Any, executor: NotebookExecutor) -> None:
    seen: list[Any] = []
    shell.run_cell("'mine'", store_history=True)
    shell.events.register("pre_run_cell", seen.append)
    before = state(shell)
    output = await executor.execute("%%capture caught\nprint('inside')\ndisplay(7)\n8")
    after = state(shell)
    shell.events.unregister("pre_run_cell", seen.append)
    assert after == before
    assert seen == []
    assert (output.stdout, output.outputs, output.changed) == ("", (), ("caught",))
    caught = executor.variables()["caught"]
    assert (caught.stdout.split("\n")[0], len(caught.outputs)) == ("inside", 2)


async def test_concurrently_run_cell_is_users(shell: Any, executor: NotebookExecutor) -> None:
    """A front end may run one in a subshell while agent code awaits."""
    gate = asyncio.Event()
    shell.user_ns["gate"] = gate

    async def user() -> Any:
        result = shell.run_cell("'theirs'", store_history=True).result
        gate.set()
        return result

    task = asyncio.create_task(user())
    await executor.execute("await gate.wait()")
    assert await task == "theirs"
    assert shell.user_ns["_"] == "theirs"
