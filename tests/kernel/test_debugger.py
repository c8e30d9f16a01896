"""A debugger at the kernel, attached by messages as JupyterLab does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.testing.kernel_process import PATIENCE_S, LiveKernel, live_kernel

pytestmark = pytest.mark.kernel

CODE = {
    "loop": "while True: pass",
    "swallowing": (
        "while True:\n    try:\n        sum(range(9))\n    except BaseException:\n        pass"
    ),
    "blocked": "import threading\nthreading.Event().wait(60)",
}


def debug(kernel: LiveKernel, number: int, command: str, **arguments: Any) -> None:
    client = kernel._client
    request = {"type": "request", "seq": number, "command": command, "arguments": arguments}
    message = client.session.msg("debug_request", request)
    client.control_channel.send(message)
    reply = client.get_control_msg(timeout=PATIENCE_S)
    assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"]
    assert reply["content"]["success"], reply["content"]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    """A kernel whose threads are traced from here on."""
    folder: Path = tmp_path_factory.mktemp("notebook")
    with live_kernel(folder) as running:
        debug(running, 1, "initialize", clientID="jupyterlab", adapterID="")
        debug(running, 2, "attach")
        debug(running, 3, "configurationDone")
        setup = (
            "from parsimony_kernel.execution import CodeExecutor, NotebookExecutor\n"
            "private, notebook = CodeExecutor(), NotebookExecutor(get_ipython())"
        )
        assert running.run(setup).status == "ok"
        yield running


@pytest.mark.parametrize("executor", ["private", "notebook"])
@pytest.mark.parametrize("code", CODE)
def test_deadline_fires_under_debugger(kernel: LiveKernel, executor: str, code: str) -> None:
    run = f"await {executor}.execute({CODE[code]!r}, timeout_seconds=0.3)"
    ended = kernel.run(f"ended = {run}\nprint(ended.error.name, repr(ended.stderr))")
    assert ended.text == "TimeoutError ''\n"
    again = kernel.run(f"print((await {executor}.execute('print(6 * 7)')).stdout)")
    assert again.text.strip() == "42"
