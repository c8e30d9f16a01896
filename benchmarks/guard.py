"""What watching code costs: an ``open``, and a cell, with and without somebody who listens; and
what a cell in a kernel of its own takes.

Usage: python -m benchmarks.guard

The fastest round in microseconds, since what else runs on the machine only adds, and its ratio to
the same without the hook, in one run. A hook cannot be
taken out again, so what is without it is measured first.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parsimony_kernel.core import audit
from parsimony_kernel.core.reach import Reach
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.remote_client import RemoteExecutor
from parsimony_kernel.execution.run_scope import Permit, permitting
from parsimony_kernel.lineage.file_access import Watch

ROUNDS = 41
CODE = "a = 1\nb = [a, 2]\nc = sum(b)\nd = {'c': c}\nsorted(d)"


def best_us(what: Callable[[], Any], times: int) -> float:
    """The time of one call in the fastest round, in microseconds."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(times):
            what()
        taken.append((time.perf_counter() - started) / times * 1e6)
    return min(taken)


def opening(path: Path) -> None:
    with path.open("rb"):
        pass


async def cells(executor: BaseCodeExecutor, permit: Permit | None) -> float:
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        with permitting(permit):
            await executor.execute(CODE)
        taken.append((time.perf_counter() - started) * 1e6)
    return min(taken)


async def remote_cells(folder: Path) -> tuple[float, float]:
    """The same in a kernel of its own, without and with somebody who judges."""
    async with RemoteExecutor(cwd=str(folder)) as executor:
        await executor.execute("import json")
        return await cells(executor, None), await cells(executor, Permit(folder, allows))


def allows(reach: Reach, lines: frozenset[int]) -> bool:
    return False


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_text("x\n1\n")
        without = best_us(lambda: opening(path), 200)
        watch = Watch()
        audit.listen(watch.hear)
        heard = best_us(lambda: opening(path), 200)
        audit.leave(watch.hear)
        idle = best_us(lambda: opening(path), 200)
        executor = CodeExecutor(cwd=folder)
        plain = asyncio.run(cells(executor, None))
        judged = asyncio.run(cells(executor, Permit(Path(folder), allows)))
        far, far_judged = asyncio.run(remote_cells(Path(folder)))
    print(f"open: {without:.1f} without the hook, {idle:.1f} with it idle ({idle / without:.2f}),")
    print(f"      {heard:.1f} while a cell is recorded ({heard / without:.2f})")
    print(f"cell of five statements: {plain:.0f}, {judged:.0f} where it is judged", end=" ")
    print(f"({judged / plain:.2f})")
    print(f"the same in a kernel of its own: {far:.0f}, {far_judged:.0f} where it is judged")


if __name__ == "__main__":
    main()
