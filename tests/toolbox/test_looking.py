"""Looking at a variable."""

from typing import Any

import pytest

from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.toolbox.run_code import code_tools
from parsimony_kernel.toolbox.variables import inspection_tools

SCOPE = RunScope("r1", "a.ipynb", "c1", 1)


@pytest.fixture
async def executor() -> CodeExecutor:
    executor = CodeExecutor()
    code = "df = pd.DataFrame({'x': [1, 2, 3]})\ntotal = int(df.x.sum())"
    await code_tools(executor, timeout_s=60, scope=lambda: SCOPE)["run_code"].function(code=code)
    return executor


async def step(executor: CodeExecutor, tool: str, /, **arguments: Any) -> StepOutcome:
    tools = inspection_tools(executor) + code_tools(executor, timeout_s=60)
    return await Gate(tools, timeout_s=60).step(tool, arguments)


class TestInspecting:
    async def test_table_comes_with_first_rows_and_origin(self, executor: CodeExecutor) -> None:
        outcome = await step(executor, "inspect_variable", name="df")
        assert outcome.result is not None
        told = outcome.result.data
        assert (told["rows"], told["text"]) == (3, "x\n1\n2\n3")
        assert "pd.DataFrame" in told["code"]

    async def test_value_comes_with_its_inputs(self, executor: CodeExecutor) -> None:
        outcome = await step(executor, "inspect_variable", name="total")
        assert outcome.result is not None
        assert outcome.result.data["text"] == "6"

    @pytest.mark.parametrize("name", ["df.x", "df; 1", "", "lambda", "total + 1"])
    async def test_inspection_runs_no_code(self, executor: CodeExecutor, name: str) -> None:
        outcome = await step(executor, "inspect_variable", name=name)
        assert outcome.failure is not None
        assert "one name" in outcome.failure.explanation

    async def test_unknown_name_suggests_the_nearest(self, executor: CodeExecutor) -> None:
        outcome = await step(executor, "inspect_variable", name="totl")
        assert outcome.failure is not None
        assert "did you mean 'total'" in outcome.failure.explanation
