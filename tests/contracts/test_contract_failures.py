"""What every executor makes of code that fails."""

import re

import pytest

from parsimony_kernel.execution.base import BaseCodeExecutor
from tests.contracts.told import failure


async def test_traceback_shows_codes_frames_only(executor: BaseCodeExecutor) -> None:
    plain = failure(await executor.execute("d = {}\nd['yaer']"))
    assert (plain.line, plain.source_line) == (2, "d['yaer']")
    error = failure(await executor.execute("def f():\n    return 1 / 0\nf()"))
    assert re.search(r'File "<agent [^"]*>", line 2, in f\n    return 1 / 0', error.traceback)
    assert "parsimony_kernel" not in error.traceback
    assert error.line == 2


async def test_zero_deadline_is_refused(executor: BaseCodeExecutor) -> None:
    with pytest.raises(ValueError, match="timeout_seconds is 0"):
        await executor.execute("1", timeout_seconds=0)


async def test_exception_cause_is_reported(executor: BaseCodeExecutor) -> None:
    output = await executor.execute(
        "try:\n    {}['first']\nexcept KeyError as exc:\n    raise ValueError('second') from exc"
    )
    error = failure(output)
    assert (error.name, error.message, error.line) == ("ValueError", "second", 4)
    assert "KeyError: 'first'" in error.traceback
