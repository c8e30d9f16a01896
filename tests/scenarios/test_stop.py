"""Stop, pressed in every phase of a run, in a real kernel."""

import os
from pathlib import Path

import pytest

from parsimony_kernel.testing.kernel_process import LiveKernel

from .conftest import Use

pytestmark = pytest.mark.kernel


def code(source: str) -> str:
    return f"ScriptedModel([call('run_code', code={source!r})])"


PHASES = {
    "first token": ("HangingModel('first token')", "Reading the request … · "),
    "mid-stream": ("HangingModel('mid-stream')", "Thinking"),
    "back-off": ("HangingModel('back-off')", "attempt 3"),
    "python": (code("while True: pass"), "while True"),
    "swallowed": (
        code("while True:\n    try:\n        pass\n    except BaseException:\n        continue"),
        "while True",
    ),
    "sleep": (code("import time\ntime.sleep(100)"), "time.sleep"),
    "await": (code("import asyncio\nawait asyncio.sleep(100)"), "asyncio.sleep"),
    "subprocess": (code("import subprocess\nsubprocess.run(['sleep', '100'])"), "subprocess.run"),
}


@pytest.mark.parametrize("phase", PHASES)
def test_stop_ends_run_and_keeps_kernel_usable(kernel: LiveKernel, use: Use, phase: str) -> None:
    model, sign = PHASES[phase]
    use(model)
    running = kernel.begin(f"%%agent --approve auto\n{phase}", cell_id=phase)
    kernel.until(running, sign)
    kernel.interrupt()
    cell = kernel.end(running)
    assert "Stopped" in cell.text
    assert cell.status == "error"
    assert cell.of_type("error") == []
    assert kernel.run("print(6 * 7)").text.strip() == "42"
    history = kernel.run("%agent history").text
    assert "cancelled" in history


def test_plain_user_cells_are_interrupted_as_usual(kernel: LiveKernel, tmp_path: Path) -> None:
    # A pipe and not print(): an interrupt inside the flush of an output is lost on any kernel.
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    running = kernel.begin(
        f"from pathlib import Path\nPath({str(begun)!r}).write_text('now')\nwhile True: pass"
    )
    assert begun.read_text() == "now"
    kernel.interrupt()
    cell = kernel.end(running)
    assert cell.reply["ename"] == "KeyboardInterrupt"
