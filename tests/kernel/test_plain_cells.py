"""Cells without the agent are plain Python."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import IPython
import jupyter_kernel_test
import pytest

import parsimony_kernel
from parsimony_kernel.testing.kernel_process import LiveKernel, live_kernel

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    folder = tmp_path_factory.mktemp("notebook")
    with live_kernel(folder) as running:
        yield running


def test_traceback_is_users_own(kernel: LiveKernel) -> None:
    cell = kernel.run("def f():\n    return 1 / 0\nf()")
    assert cell.reply["ename"] == "ZeroDivisionError"
    assert "parsimony" not in cell.text


def test_history_and_results_are_ipythons(kernel: LiveKernel) -> None:
    kernel.run("40 + 2")
    assert kernel.run("_ + 0").text == "42"


def test_agent_cell_leaves_in_out_and_underscore_alone(kernel: LiveKernel) -> None:
    kernel.run("'mine'")
    kernel.run("%%agent\ntell me a joke about {braces} and $dollars", cell_id="x")
    assert kernel.run("_").text == "'mine'"
    asked = kernel.run("[cell for cell in In if 'braces' in cell][0]").text
    assert "{braces} and $dollars" in asked


def test_kernel_without_extension_is_python(tmp_path: Path) -> None:
    """A broken agent is told about in the first cell, and the user's Python starts."""
    broken = tmp_path / "parsimony_agent.py"
    broken.write_text("raise RuntimeError('half an upgrade')\n")
    environ = {"PYTHONPATH": str(tmp_path)}
    with live_kernel(tmp_path, environ=environ) as running:
        cell = running.run("6 * 7")
        assert cell.status == "ok"
        assert "half an upgrade" in cell.text
        assert "42" in cell.text
        assert "half an upgrade" not in running.run("6 * 7").text


def test_early_stop_stops_code(kernel: LiveKernel) -> None:
    kernel.run(
        "import os, signal\nkernel = get_ipython().kernel\ndef strike(parent):\n"
        "    del kernel.init_metadata\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return kernel.init_metadata(parent)\nkernel.init_metadata = strike"
    )
    assert kernel.run("while True: pass").reply["ename"] == "KeyboardInterrupt"
    assert kernel.run("6 * 7").text == "42"


STRIKES = {
    "just after the cell": "tidy = get_ipython().payload_manager.clear_payload\n"
    "get_ipython().payload_manager.clear_payload = lambda: (stop(), tidy())",
    "while the reply is sent": "import sys\nflush = sys.stdout.flush\n"
    "def once():\n    sys.stdout.flush = flush\n    stop()\n"
    "get_ipython().payload_manager.clear_payload = (\n"
    "    lambda: setattr(sys.stdout, 'flush', once)\n)",
}


@pytest.mark.parametrize("when", STRIKES)
def test_late_stop_keeps_reply(tmp_path: Path, when: str) -> None:
    with live_kernel(tmp_path) as kernel:
        kernel.run("import os, signal\ndef stop():\n    os.kill(os.getpid(), signal.SIGINT)")
        struck = kernel.begin(STRIKES[when])
        assert kernel.end(struck, patience_s=20).status in {"ok", "error"}
        kernel.run("del get_ipython().payload_manager.clear_payload")
        assert kernel.run("6 * 7").text == "42"
        endless = kernel.begin("print(6 * 111)\nwhile True: pass")
        kernel.until(endless, "666")
        kernel.interrupt()
        ended = kernel.end(endless, patience_s=20).reply
        assert ended["ename"] == "KeyboardInterrupt"
        assert "parsimony" not in "".join(ended["traceback"])


# The Jupyter protocol, by the suite that kernels are checked with, and what is ours of it.


class TestProtocol(jupyter_kernel_test.KernelTests):
    """The installed kernel, by messages."""

    kernel_name = "parsimony-agent"
    language_name = "python"
    file_extension = ".py"

    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('oh', file=sys.stderr)"
    code_generate_error = "raise ValueError('no')"
    code_page_something = "zip?"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_inspect_sample = "zip"
    code_execute_result = [{"code": "6*7", "result": "42"}]  # noqa: RUF012
    code_display_data = [  # noqa: RUF012
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>b</b>'))",
            "mime": "text/html",
        }
    ]
    completion_samples = [  # noqa: RUF012
        {"text": "zi", "matches": {"zip"}},
        {"text": "%%age", "matches": {"%%agent"}},
        {"text": "%agent his", "matches": {"history"}},
    ]
    complete_code_samples = ["1", "print('x')", "%agent history"]  # noqa: RUF012
    incomplete_code_samples = ["for i in range(3):", "'''x"]  # noqa: RUF012
    invalid_code_samples = ["import = 7q"]  # noqa: RUF012
    # A range of the history comes back empty from the stock kernel too.
    supported_history_operations = ("tail", "search")
    code_history_pattern = "6?7*"

    def test_kernel_info_identifies_python_kernel(self) -> None:
        self.flush_channels()
        self.kc.kernel_info()
        content: dict[str, Any] = self.kc.get_shell_msg(timeout=15)["content"]
        assert content["implementation"] == "parsimony"
        version = f"{IPython.__version__}+parsimony.{parsimony_kernel.__version__}"
        assert content["implementation_version"] == version
        assert content["banner"].startswith("Parsimony Agent")
        assert content["language_info"]["name"] == "python"
        assert content["language_info"]["mimetype"] == "text/x-python"
        assert "debugger" in content.get("supported_features", ["debugger"])
        assert content.get("debugger", True)
