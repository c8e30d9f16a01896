"""Three hundred turns and a thousand cells in one notebook: nothing lost, nothing slower."""

import gc
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.testing.kernel_process import live_kernel
from parsimony_kernel.testing.scripted import ScriptedModel, call
from tests.scenarios.loops import gather

pytestmark = pytest.mark.exhaustive

TURNS, CELLS = 300, 1_000


def slower(seconds: Sequence[float]) -> float:
    """How many times longer the last tenth took than the tenth after the first, in the median."""
    tenth = len(seconds) // 10
    return statistics.median(seconds[-tenth:]) / statistics.median(seconds[tenth : 2 * tenth])


async def test_turns_stay_fast_and_complete(scripted: Any, shell: Any) -> None:
    steps = [
        step
        for number in range(TURNS)
        for step in (
            # The same code each time: what is known of a code is kept, of some thousands.
            call("run_code", code="rows = list(range(9))\nlen(rows)"),
            call("return_done", summary=f"Turn {number}."),
        )
    ]
    model = ScriptedModel(steps)
    session = scripted(executor=NotebookExecutor(shell), model=model)
    options = TurnOptions(approve=Approval.auto)
    took, objects = [], []
    for number in range(TURNS):
        began = time.process_time()
        turn = session.turn(f"count {number}", cell_key=f"c{number}", options=options)
        assert isinstance((await gather(turn))[-1], RunCompleted)
        took.append(time.process_time() - began)
        if number in (TURNS // 3, TURNS - 1):
            model.requests[:] = [ModelRequest([], [])] * len(model.requests)  # of the script alone
            gc.collect()
            objects.append(len(gc.get_objects()))
    summaries = [turn.summary for turn in session.turns()]
    chain, artifacts = session.verify()
    session.close()
    kept = (objects[1] - objects[0]) / (TURNS - TURNS // 3)
    print({"turns": TURNS, "slower": round(slower(took), 2), "objects kept a turn": kept})
    assert summaries == [f"Turn {number}." for number in range(TURNS)]
    assert chain is None
    assert artifacts.ok
    assert slower(took) < 2
    assert kept < 100  # where its variables came from, and how to undo it


def test_user_cells_stay_fast(tmp_path: Path) -> None:
    spent = []
    with live_kernel(tmp_path) as kernel:
        for number in range(CELLS):
            if number % 100 == 0:
                spent.append(float(kernel.run("import time\ntime.process_time()").text))
            answer = kernel.run(f"x{number % 50} = [{number}]\nprint(sum(x{number % 50}))")
            assert answer.text.strip() == str(number)
        spent.append(float(kernel.run("time.process_time()").text))
    took = [after - before for before, after in pairwise(spent)]
    print({"cells": CELLS, "slower": round(took[-1] / took[1], 2)})
    assert took[-1] < 2 * took[1]
