"""The benchmark of many kernels sees what is lost."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.kernels import Waited, lost, started, table, work


@pytest.mark.kernel
def test_round_is_complete_and_missing_table_named(tmp_path: Path) -> None:
    now = time.monotonic()
    with ExitStack() as stack:
        notebook, kernel = started(tmp_path, 1, stack)
        waited = work(notebook, kernel, now, time.monotonic() + 0.1, 0, 0)
    assert lost(tmp_path, waited) == []
    rounds = len(waited) // 4
    assert lost(tmp_path, [*waited, Waited(notebook, "publish", 1, 1)]) == [
        f"n01.ipynb: it said {3 * rounds + 1} turns and {rounds + 1} tables; there are "
        f"{3 * rounds} and {rounds}"
    ]
    assert len(list(table(waited))) >= 3
