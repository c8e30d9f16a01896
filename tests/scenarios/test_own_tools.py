"""A typed function of the notebook as a tool, in a real kernel."""

import json

import pytest

from .kernels import Desk

pytestmark = pytest.mark.kernel

DEFINE = '''
def area(width: float, height: float = 1.0) -> float:
    """The area of a rectangle."""
    return width * height
half = 0.5
'''


def test_agent_code_cannot_change_tools_or_model(shared: Desk) -> None:
    kernel = shared.kernel
    kernel.run(DEFINE)
    kernel.run("def more(x: int) -> int:\n    return x")
    settings = {"mcpServers": {"raw": {"command": "touch", "args": ["started"]}}}
    kernel.run(f"open('.mcp.json', 'w').write({json.dumps(settings)!r})")
    adds = "tools --yes add mcp:raw"
    changes = ("tools add more", "tools remove area", "model offline", adds)
    steps = [f"call('run_code', code='%agent {change}')" for change in changes]
    shared.use(f"ScriptedModel([{', '.join(steps)}, call('return_done', summary='done')])")
    kernel.run("%agent tools add area")
    turn = kernel.run("%%agent --approve auto\nchange it", cell_id="change").text
    assert "still running" in turn
    assert "more" not in kernel.run("%agent tools").text
    assert "area" in kernel.run("%agent tools").text
    assert "offline" not in kernel.run("%agent model").text
    assert "False" in kernel.run("import os; os.path.exists('started')").text
