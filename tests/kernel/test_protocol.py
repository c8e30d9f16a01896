"""The Jupyter protocol, by the suite that kernels are checked with, and what is ours of it."""

from typing import Any

import IPython
import jupyter_kernel_test
import pytest

import parsimony_kernel

pytestmark = pytest.mark.kernel


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
