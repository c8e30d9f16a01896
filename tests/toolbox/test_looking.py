"""Looking at a variable, trying code, and starting afresh."""

from typing import Any

import pytest

from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.approval import Approval, Approving
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.toolbox.run_code import code_tools
from parsimony_kernel.toolbox.variables import inspection_tools, restart_tools

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


class TestTrying:
    async def test_dry_run_shows_result_and_leaves_nothing(self, executor: CodeExecutor) -> None:
        outcome = await step(executor, "dry_execute_code", code="total = 7\nnew = 1\ntotal")
        assert outcome.result is not None
        assert outcome.result.data.outputs[0].text == "7"
        assert executor.variables()["total"] == 6
        assert "new" not in executor.variables()

    async def test_dry_run_asks_like_any_code(self, executor: CodeExecutor) -> None:
        asked = Approving(
            Approval.guarded, lambda code: (Reach(ReachKind.shell, "ls", 1, code),)
        ).stage
        gate = Gate(code_tools(executor, timeout_s=60), stages=(asked,), timeout_s=60)
        outcome = await gate.step("dry_execute_code", {"code": "!ls"})
        assert outcome.failure is not None
        assert outcome.failure.metadata["question"] == "May this code run?"


class TestStartingAfresh:
    @pytest.mark.parametrize("mode", list(Approval))
    async def test_question_is_asked_in_every_mode(
        self, executor: CodeExecutor, mode: Approval
    ) -> None:
        asked = Approving(mode, lambda code: ()).stage
        gate = Gate(restart_tools(executor), stages=(asked,), timeout_s=60)
        outcome = await gate.step("restart_kernel", {"reason": "memory is full"})
        assert outcome.failure is not None
        assert "May restart_kernel run?" in str(outcome.failure.metadata["question"])
        assert executor.variables()["total"] == 6

    async def test_lost_names_are_reported(self, executor: CodeExecutor) -> None:
        said = await restart_tools(executor)["restart_kernel"].function(reason="memory is full")
        assert "df, total" in said
        assert not executor.variables()

    async def test_reason_is_required(self, executor: CodeExecutor) -> None:
        with pytest.raises(ValueError, match="non-empty reason"):
            await restart_tools(executor)["restart_kernel"].function(reason=" ")
        assert executor.variables()["total"] == 6
