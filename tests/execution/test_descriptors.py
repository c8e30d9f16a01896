"""Descriptors 1 and 2 lead into pipes that are emptied, and back where they led before a cell."""

import os
import selectors
import subprocess
import sys
from pathlib import Path

import pytest

from parsimony_kernel.execution import CodeExecutor
from parsimony_kernel.execution.capture import Capture
from parsimony_kernel.execution.descriptors import Descriptors
from parsimony_kernel.execution.factory import OutputFactory


def test_pipes_are_emptied_where_select_knows_sockets_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuses(*_: object) -> None:
        raise OSError("not a socket")

    monkeypatch.setattr(selectors.DefaultSelector, "register", refuses)
    descriptors, capture = Descriptors(), Capture(OutputFactory())
    more_than_a_pipe_holds = 200_000
    with descriptors.redirected():
        child = f"import sys; print('x' * {more_than_a_pipe_holds}); print('no', file=sys.stderr)"
        subprocess.run([sys.executable, "-c", child], check=True, timeout=60)
        os.write(1, b"end\n")
    descriptors.drain(capture)
    assert capture.stdout.text().endswith("x\nend\n")
    assert capture.stderr.text() == "no\n"


def leading() -> list[tuple[int, int]]:
    return [(told.st_dev, told.st_ino) for told in map(os.fstat, (0, 1, 2))]


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("import os\nos.close(1)", 1),
        (
            "import os\nos.dup2(os.open('file', os.O_WRONLY | os.O_CREAT), 2)",
            2,
        ),
    ],
)
@pytest.mark.parametrize("end", ["", "\n1 / 0", "\nwhile True: pass"])
async def test_what_a_cell_does_to_them_is_put_back_and_that_is_said(
    tmp_path: Path, code: str, number: int, end: str
) -> None:
    before = leading()
    output = await CodeExecutor(cwd=tmp_path).execute(code + end, timeout_seconds=0.3)
    assert leading() == before
    assert (output.error is None) == (end == "")
    assert f"Restored file descriptor {number} after the cell." in output.stderr
