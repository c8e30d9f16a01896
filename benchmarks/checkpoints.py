"""What it costs that a run can go back: a checkpoint, the copies before a cell, and going back.

Each figure is a median of many, beside what it stands against in the same run: a shallow copy of
the namespace, and a deep copy of what the cell changes.

    python benchmarks/checkpoints.py [ROUNDS] [ROWS OF THE FRAME]
"""

import copy
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.ledger import OriginLedger

CODE = "frame['new'] = 1\nrows.append(2)"


def namespace(names: int, rows: int) -> dict[str, Any]:
    """A namespace of ``names`` variables, a list and a frame of 8 columns."""
    bound: dict[str, Any] = {f"v{n}": [n] for n in range(names)}
    return bound | {"frame": pd.DataFrame(np.ones((rows, 8))), "rows": list(range(1_000))}


def median_ms(work: Callable[[], Any], rounds: int) -> float:
    """Median milliseconds of ``work``."""
    took = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        took.append(time.perf_counter() - begun)
    return 1_000 * statistics.median(took)


def measure(names: int, rows: int, rounds: int) -> str:
    """One line of the table."""
    bound = namespace(names, rows)
    checkpoints = Checkpoints(lambda: bound, lambda: bound, OriginLedger())
    shallow = median_ms(lambda: dict(bound), rounds)

    def take() -> None:
        checkpoints.take()
        checkpoints.close()

    def protect() -> None:
        checkpoints.take()
        checkpoints.protect(CODE)
        checkpoints.close()

    taken, protected = median_ms(take, rounds), median_ms(protect, rounds)
    back, deep = [], []
    for _ in range(max(3, rounds // 20)):
        number = checkpoints.take()
        checkpoints.protect(CODE)
        begun = time.perf_counter()
        exec(CODE, bound)
        ran = time.perf_counter()
        checkpoints.put_back(number)
        back.append(time.perf_counter() - ran)
        checkpoints.close()
        assert "new" not in bound["frame"].columns
        begun = time.perf_counter()
        copy.deepcopy((bound["frame"], bound["rows"]))
        deep.append(time.perf_counter() - begun)
    return (
        f"| {names:,} names, frame of {rows * 64 / 1e6:,.0f} MB | {taken:.3f} ms | {shallow:.3f} ms"
        f" | {protected:.3f} ms | {1_000 * statistics.median(back):.3f} ms"
        f" | {1_000 * statistics.median(deep):.3f} ms |"
    )


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 16_000_000
    print("| namespace | checkpoint | dict(…) | with copies | going back | deepcopy |")
    print("| --- | --- | --- | --- | --- | --- |")
    for names in (10, 100, 1_000):
        print(measure(names, 1_000, rounds))
        print(measure(names, rows, rounds))


if __name__ == "__main__":
    main()
