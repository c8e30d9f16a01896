"""What of the process a private cell leaves as it was."""

import locale
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.execution import CodeExecutor


def state() -> dict[str, Any]:
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "umask": mask,
        "recursion": sys.getrecursionlimit(),
        "locale": locale.setlocale(locale.LC_ALL),
        "streams": [(told.st_dev, told.st_ino) for told in map(os.fstat, (0, 1, 2))],
    }


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\nos.umask(0o177)", "umask is"),
        ("import sys\nsys.setrecursionlimit(12_345)", "recursion limit is"),
        ("import sys\nsys.setrecursionlimit(sys.getrecursionlimit() - 300)", "recursion limit is"),
        ("import locale\nlocale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')", "locale is"),
        ("import os\nos.close(1)", "descriptor 1 leads"),
        ("import os\nos.dup2(os.open('file', os.O_WRONLY | os.O_CREAT), 2)", "descriptor 2 leads"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n1 / 0", "\nwhile True: pass"])
async def test_what_a_cell_changes_of_the_process_is_put_back_and_that_is_said(
    tmp_path: Path, code: str, said: str, end: str
) -> None:
    before = state()
    try:
        output = await CodeExecutor(cwd=tmp_path).execute(code + end, timeout_seconds=0.3)
        assert state() == before
    finally:
        os.umask(before["umask"])
        sys.setrecursionlimit(before["recursion"])
    assert (output.error is None) == (end == "")
    assert said in output.stderr


async def test_a_cell_that_is_left_behind_is_no_exception() -> None:
    before, executor, release = state(), CodeExecutor(), threading.Event()
    executor.locals["release"] = release
    try:
        output = await executor.execute(
            "import os\nos.umask(0o177)\nrelease.wait()", timeout_seconds=0.3
        )
        assert state() == before
    finally:
        os.umask(before["umask"])
        release.set()
    assert output.error is not None
    assert output.error.state_lost


async def test_no_descriptor_is_left_open_by_that() -> None:
    executor = CodeExecutor()
    await executor.execute("1")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        await executor.execute("1")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_a_cell_that_changes_nothing_is_told_nothing() -> None:
    output = await CodeExecutor().execute("x = 1")
    assert (output.stderr, output.error) == ("", None)
