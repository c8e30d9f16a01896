"""Descriptors 1 and 2 lead into pipes that are emptied."""

import os
import selectors
import subprocess
import sys

import pytest

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
