"""How long Stop takes, from the press to the end of the cell, in each phase of a run.

Medians of several presses in a real kernel, beside the same for a plain cell that awaits (which
ends only when its own wait does) as the floor: an endless loop in a plain cell.

    python benchmarks/stop.py [ROUNDS]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from parsimony_kernel.testing.kernel_process import LiveKernel, live_kernel

SETUP = """
from parsimony_agent import extension
from parsimony_agent.cell import open_in
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.testing.scripted import HangingModel

def use(model):
    def opened(shell):
        session = open_in(shell)
        session._model = model
        return session
    extension.uninstall(get_ipython())
    extension.install(get_ipython(), session_factory=opened)
"""


def _code(source: str) -> str:
    return f"ScriptedModel([call('run_code', code={source!r})])"


PHASES = {
    "waiting for the first token": ("HangingModel('first token')", "What the run used"),
    "mid-stream": ("HangingModel('mid-stream')", "Thinking"),
    "back-off": ("HangingModel('back-off')", "attempt 3"),
    "running Python": (_code("while True: pass"), "while True"),
    "time.sleep": (_code("import time; time.sleep(100)"), "time.sleep"),
    "asyncio.sleep": (_code("import asyncio; await asyncio.sleep(100)"), "asyncio.sleep"),
    "subprocess": (_code("import subprocess; subprocess.run(['sleep', '100'])"), "subprocess.run"),
}
SETTLE_S = 0.3


def _press(kernel: LiveKernel, running: str, sign: str) -> float:
    kernel.until(running, sign)
    time.sleep(SETTLE_S)
    pressed = time.perf_counter()
    kernel.interrupt()
    kernel.end(running)
    return time.perf_counter() - pressed


def main(rounds: int = 5) -> None:
    """Print a line a phase: median and slowest, in milliseconds, and the ratio to the floor."""
    with live_kernel(Path(tempfile.mkdtemp())) as kernel:
        kernel.run(SETUP)
        plain = "import sys\nprint('begun', flush=True)\nwhile True: pass"
        floor = statistics.median(
            _press(kernel, kernel.begin(plain), "begun") for _ in range(rounds)
        )
        print(f"{'plain cell, endless loop (floor)':34}{floor * 1000:8.1f} ms")
        for phase, (model, sign) in PHASES.items():
            took = []
            for number in range(rounds):
                kernel.run(f"use({model})")
                running = kernel.begin(
                    f"%%agent --approve auto\n{phase}", cell_id=f"{phase}{number}"
                )
                took.append(_press(kernel, running, sign))
            median = statistics.median(took)
            print(
                f"{phase:34}{median * 1000:8.1f} ms   slowest {max(took) * 1000:6.1f} ms   "
                f"{median / floor:5.1f} of the floor"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
