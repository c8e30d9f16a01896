"""The code of the page on scale, run by an agent on a Dask cluster behind a gateway."""

import ast
import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parsimony_kernel.core.chat import Completion, ModelRequest
from parsimony_kernel.core.events import AgentResult
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution import RemoteExecutor
from parsimony_kernel.execution.run_scope import Permit, permitting
from parsimony_kernel.testing.scripted import ScriptedModel, call

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "scale.md"
ASKED, CLUSTER, COMPUTED = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
FILES, ROWS_OF_A_FILE = 20, 1_000_000
MOST_BYTES = 500_000_000
CITIES = ("Rome", "Oslo", "Lima", "Kiel")


def write_events(folder: Path) -> dict[str, int]:
    """Twenty million rows in as many files as one file has links; the total of each city."""
    folder.mkdir()
    drawn = np.random.default_rng(0)
    city, amount = drawn.integers(0, 4, ROWS_OF_A_FILE), drawn.integers(1, 10_000, ROWS_OF_A_FILE)
    table = pa.table({"city": pa.array(CITIES).take(pa.array(city)), "amount": amount})
    pq.write_table(table, folder / "00.parquet")
    for number in range(1, FILES):
        os.link(folder / "00.parquet", folder / f"{number:02}.parquet")
    return {name: FILES * int(amount[city == at].sum()) for at, name in enumerate(CITIES)}


class Cluster:
    """The processes around a kernel: the most memory that it had, and a worker to kill at work."""

    def __init__(self, kernel: psutil.Process) -> None:
        self.kernel, self.killed, self.most_bytes = kernel, 0, 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._begun: dict[int, float] = {}

    def __enter__(self) -> "Cluster":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def kill_one_at_work(self, _: ModelRequest) -> Completion:
        """Have the next worker killed that computes, and answer with the code that computes."""
        self._begun = {each.pid: work_of(each) for each in self._workers()}
        assert len(self._begun) == 2
        return call("run_code", code=COMPUTED)

    def _workers(self) -> list[psutil.Process]:
        under = self.kernel.children(recursive=True)
        return [each for each in under if "--multiprocessing-fork" in each.cmdline()]

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            self.most_bytes = max(self.most_bytes, self.kernel.memory_info().rss)
            if self._begun and not self.killed:
                with suppress(psutil.Error):  # one of them has just ended
                    self._kill_one()

    def _kill_one(self) -> None:
        for each in self._workers():
            # It takes more than this to load what the task needs, and little to wait for one.
            if not self.killed and work_of(each) > self._begun[each.pid] + 0.6:
                each.kill()
                self.killed = each.pid


def work_of(process: psutil.Process) -> float:
    """Seconds of processor time."""
    used = process.cpu_times()
    return float(used.user + used.system)


class Watched(RemoteExecutor):
    """A kernel whose code may reach nothing outside: what it would have asked for is an error."""

    async def execute(self, *given: Any, **named: Any) -> KernelOutput:
        with permitting(Permit(Path(self._cwd or ""), lambda reach, lines: False)):
            return await super().execute(*given, **named)


async def ask_as_the_page_does(executor: RemoteExecutor, model: ScriptedModel) -> AgentResult:
    """Run the first block of the page with this executor and this model."""
    code = re.sub(r"RemoteExecutor\(.*\)", "executor_here", ASKED).replace(
        '"anthropic/claude-sonnet-5"', "model_here"
    )
    place = {"executor_here": executor, "model_here": model}
    await eval(compile(code, PAGE.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), place)
    result = place["result"]
    assert isinstance(result, AgentResult)
    return result


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize("allowed", [3, 0], ids=["dask heals it", "the turn heals it"])
async def test_cluster_turn_survives_killed_worker(
    allowed: int, gateway: str, token: str, tmp_path: Path
) -> None:
    """``allowed``: how many dead workers Dask allows a task before it gives up."""
    totals = write_events(tmp_path / "events")
    async with Watched(url=gateway, token=token, cwd=str(tmp_path)) as executor:
        await executor.execute(
            "import os, dask\n"
            f"dask.config.set({{'distributed.scheduler.allowed-failures': {allowed}}})\n"
            "pid = os.getpid()"
        )
        with Cluster(psutil.Process(executor.variables()["pid"])) as cluster:
            model = ScriptedModel(
                [
                    call("run_code", code=CLUSTER),
                    cluster.kill_one_at_work,
                    *([] if allowed else [call("run_code", code=COMPUTED)]),
                    call("run_code", code="totals"),
                    call("return_done", summary="The totals stand in `totals`."),
                ]
            )
            result = await ask_as_the_page_does(executor, model)
        assert result.ok, result.events
        model.assert_exhausted()
        assert cluster.killed
        seen = str(model.requests[-1].messages)
        assert ("KilledWorker" in seen) == (not allowed)
        assert executor.variables()["totals"].fetch().to_dict() == totals
        told = executor.variables()["events"].summary
        assert (told.library, told.rows, told.column_count) == ("dask", None, 2)
        sources = {
            source
            for origin in executor.origin_ledger.ancestry("totals")
            for source in origin.sources
        }
        assert sources == {"events"}
        assert 50_000_000 < cluster.most_bytes < MOST_BYTES
