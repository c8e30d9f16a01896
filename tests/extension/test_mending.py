"""``%agent fix`` in a real kernel, which calls its cells like files."""

from pathlib import Path

import pytest

from parsimony_kernel.testing.kernel_process import live_kernel

pytestmark = pytest.mark.kernel


def test_fix_request_has_every_cell_in_traceback(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0  # of a file\n", encoding="utf-8")
    with live_kernel(tmp_path) as kernel:
        kernel.run("x = 1\ndef halved(a):\n    return a / (x - 1)")
        assert kernel.run("y = 5\nhalved(y)").status == "error"
        shown = kernel.run("%agent fix").text
        assert "ZeroDivisionError: division by zero" in shown
        assert "which failed in line 2:" in shown
        assert "halved(y)" in shown
        assert "where line 3 raised:" in shown
        assert "return a / (x - 1)" in shown
        assert "Fixing code takes a model that reads and writes Python" in shown
        assert "%agent model openai/gpt-5" in " ".join(shown.split())

        assert kernel.run("for i in range(3)\n    print(i)").status == "error"
        shown = kernel.run("%agent fix").text
        assert "SyntaxError: expected ':'" in shown
        assert "ipykernel" not in shown
        assert "which failed in line 1:" in shown
        assert "for i in range(3)" in shown

        assert "ZeroDivisionError" in kernel.run("%run broken.py").text
        assert "of a file" not in kernel.run("%agent fix").text
