"""The table of the recovery benchmark is sound, and a few of its rows come out as published."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.recovery.__main__ import CHANGES, PINS, WARM_UP, Worker, load, run_case
from parsimony_kernel.testing.provider import Wire

CASES, NEEDS = load()
ROWS = {case["name"]: case for case in CASES}
STEPS = re.compile(
    r"ask|go on|undo|answer( in two processes| a hundred times)?|SIG(KILL|INT) at .+"
)


def test_every_row_states_known_expectation() -> None:
    assert len(ROWS) == len(CASES)
    for case in CASES:
        assert case["want"] in ("recover", "stop")
        assert case.get("needs", "limits") in NEEDS
        for step in case.get("then", ()):
            assert step in CHANGES or STEPS.fullmatch(step), step
        for reply in case.get("replies", ()):
            assert reply.get("wire", "cut") in set(Wire)
        re.compile(case.get("says", ""))
    assert {system for lacks in NEEDS.values() for system in lacks} <= PINS.keys()
    threads = [thread for case in CASES for thread in case.get("threads", ())]
    assert len([case for case in CASES if "threads" in case]) > 20
    assert all(re.fullmatch(r"https://github\.com/[^/]+/[^/]+/\w+/\d+", each) for each in threads)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("parsimony", Path(sys.executable), tmp_path_factory.mktemp("home"))
    run_case(worker, WARM_UP, "parsimony", "as shipped")
    yield worker
    worker.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ("raises once with a secret in its message", "recovered"),
        ("two calls at one index of a stream", "recovered"),
        ("insufficient_quota", "stopped well"),
        ("commits, then loses its connection", "stopped well"),
        ("record forged", "stopped well"),
    ],
)
def test_own_column_matches_published_results(worker: Worker, row: str, verdict: str) -> None:
    case: dict[str, Any] = ROWS[row]
    outcome = run_case(worker, case, "parsimony", "as shipped")
    assert (outcome.verdict, outcome.why) == (verdict, "")
