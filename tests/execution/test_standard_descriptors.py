"""A private cell leaves the descriptors 0, 1 and 2 as they were."""

import os
import threading
from pathlib import Path

import pytest

from parsimony_kernel.execution import CodeExecutor


def leading() -> list[tuple[int, int]]:
    return [(told.st_dev, told.st_ino) for told in map(os.fstat, (0, 1, 2))]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os\nos.close(1)", "Descriptor 1 leads"),
        ("import os\nos.dup2(os.open('file', os.O_WRONLY | os.O_CREAT), 2)", "Descriptor 2 leads"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n1 / 0", "\nwhile True: pass"])
async def test_what_a_cell_does_to_them_is_put_back_and_that_is_said(
    tmp_path: Path, code: str, said: str, end: str
) -> None:
    before = leading()
    output = await CodeExecutor(cwd=tmp_path).execute(code + end, timeout_seconds=0.3)
    assert leading() == before
    assert (output.error is None) == (end == "")
    assert said in output.stderr


async def test_a_cell_that_is_left_behind_is_no_exception() -> None:
    before, executor, release = leading(), CodeExecutor(), threading.Event()
    executor.locals["release"] = release
    try:
        output = await executor.execute(
            "import os\nos.close(1)\nrelease.wait()", timeout_seconds=0.3
        )
        assert leading() == before
    finally:
        release.set()
    assert output.error is not None
    assert output.error.state_lost
