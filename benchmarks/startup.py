"""What the extension and the kernel cost before anybody asks the agent for anything.

Each figure is a median beside its baseline in the same run: loading the extension, the time until
a kernel answers, and a user's cell with tracking on, among 1,000 variables and a large frame. Last,
without a baseline, the quickstart by ``jupyter parsimony demo`` where it has run before.

    python benchmarks/startup.py [ROUNDS] [ROWS OF THE FRAME]
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parsimony_kernel.testing.kernel_process import live_kernel

LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
begun = time.process_time()
{statement}
print(time.process_time() - begun)
"""
FILL = """
import numpy, pandas
globals().update({{f"v{{n}}": [n] for n in range(1_000)}})
frame = pandas.DataFrame(numpy.ones(({rows}, 8)))
"""
CELL = "total = v1 + v2\nframe.shape"


def load_cpu(statement: str) -> float:
    """CPU seconds of ``statement`` in a fresh shell."""
    ran = subprocess.run(
        [sys.executable, "-c", LOAD.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout.split()[-1])


def ready(name: str) -> float:
    """Seconds until a new kernel has run its first cell."""
    begun = time.perf_counter()
    with live_kernel(Path(tempfile.mkdtemp()), name=name) as kernel:
        kernel.run("1")
        return time.perf_counter() - begun


def cell(name: str, rounds: int, rows: int) -> float:
    """Median seconds of a small cell, as the front end sees it."""
    with live_kernel(Path(tempfile.mkdtemp()), name=name) as kernel:
        kernel.run(FILL.format(rows=rows))
        if name != "python3":
            # From the first turn on, the origins of the user's variables are kept.
            kernel.run("%%agent\nwhat is the meaning of life")
        took = []
        for _ in range(rounds * 20):
            begun = time.perf_counter()
            kernel.run(CELL)
            took.append(time.perf_counter() - begun)
        return statistics.median(took)


def demo(rounds: int) -> tuple[float, float]:
    """Median seconds, and CPU seconds of all its processes, of each demo but the first."""
    took = list[tuple[float, float]]()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds + 1):
            begun, used = time.perf_counter(), os.times()
            command = [sys.executable, "-m", "parsimony_kernel.cli.main", "demo"]
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
            now = os.times()
            cpu = (
                now.children_user + now.children_system - used.children_user - used.children_system
            )
            took.append((time.perf_counter() - begun, cpu))
    wall, cpus = zip(*took[1:], strict=True)
    return statistics.median(wall), statistics.median(cpus)


def main(rounds: int = 5, rows: int = 16_000_000) -> None:
    """Print the table."""
    loaded = statistics.median(
        load_cpu("shell.run_line_magic('load_ext', 'parsimony_agent')") for _ in range(rounds)
    )
    print(f"%load_ext parsimony_agent              {loaded:6.3f} s CPU")
    plain = statistics.median(ready("python3") for _ in range(rounds))
    ours = statistics.median(ready("parsimony-agent") for _ in range(rounds))
    print(
        f"kernel until its first reply           {ours:6.2f} s, {ours / plain:.2f} of plain "
        f"ipykernel ({plain:.2f} s)"
    )
    bare = cell("python3", rounds, rows)
    tracked = cell("parsimony-agent", rounds, rows)
    print(
        f"a user's cell, {rows * 64 / 1e9:.1f} GB frame              "
        f"{(tracked - bare) * 1000:+6.2f} ms on {bare * 1000:.2f} ms ({tracked / bare:.2f})"
    )
    wall, cpu = demo(rounds)
    print(f"the demo, run again                    {wall:6.2f} s, {cpu:.2f} s CPU")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
