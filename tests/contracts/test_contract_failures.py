"""What every executor makes of code that fails."""

import re

import pytest

from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import failure, text


async def test_exception_is_a_value_with_line_and_prints(
    executor: BaseCodeExecutor,
) -> None:
    output = await executor.execute("print('before')\nd = {}\nd['yaer']\nprint('after')")
    error = failure(output)
    assert (error.name, error.message) == ("KeyError", "'yaer'")
    assert (error.line, error.source_line) == (3, "d['yaer']")
    assert output.stdout == "before\n"
    assert "d" in output.changed


async def test_traceback_shows_codes_frames_only(executor: BaseCodeExecutor) -> None:
    error = failure(await executor.execute("def f():\n    return 1 / 0\nf()"))
    assert re.search(r'File "<agent [^"]*>", line 2, in f\n    return 1 / 0', error.traceback)
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
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "E", 3),
        ("import asyncio\nawait asyncio.sleep(0)\nraise KeyError", "KeyError", 3),
        ("import asyncio\nawait asyncio.sleep(0)\nraise SystemExit(3)", "SystemExit", 3),
        ("async def f():\n    raise StopIteration\nawait f()", "RuntimeError", 3),
        ("def g():\n    yield 1\n    raise StopIteration\nlist(g())", "RuntimeError", 4),
        ("sorted([2, 1], key=lambda x: x / 0)", "ZeroDivisionError", 1),
        ("import asyncio\nawait asyncio.gather(asyncio.to_thread(int, 'x'))", "ValueError", 2),
    ],
)
async def test_any_exception_leaving_cell_is_captured(
    executor: BaseCodeExecutor, code: str, name: str, line: int
) -> None:
    error = failure(await executor.execute(code))
    assert (error.name, error.line) == (name, line)
    assert text((await executor.execute("1 + 1")).outputs[0]) == "2"


@pytest.mark.parametrize("code", ["input('?')", "exit()", "quit()"])
async def test_exit_and_input_are_neutralized(executor: BaseCodeExecutor, code: str) -> None:
    assert failure(await executor.execute(code)).name == "RuntimeError"


async def test_zero_deadline_is_refused(executor: BaseCodeExecutor) -> None:
    with pytest.raises(ValueError, match="timeout_seconds is 0"):
        await executor.execute("1", timeout_seconds=0)


async def test_exit_keeps_code_and_prints(executor: BaseCodeExecutor) -> None:
    output = await executor.execute("import sys\nprint('kept')\nx = 5\nsys.exit(3)")
    assert failure(output).message == "sys.exit ended this cell with 3; the kernel goes on"
    assert output.stdout == "kept\n"
    assert executor.variables()["x"] == 5


async def test_exception_cause_is_reported(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "try:\n    {}['first']\nexcept KeyError as exc:\n    raise ValueError('second') from exc"
    )
    error = failure(output)
    assert (error.name, error.message, error.line) == ("ValueError", "second", 4)
    assert "KeyError: 'first'" in error.traceback
