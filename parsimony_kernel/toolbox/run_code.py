"""The tool that runs code."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from parsimony_kernel.core.causes import LATE, RAISED, STATE_LOST
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.tools import ToolResult, Tools, tool

# The gate's deadline is later than the executor's, which can stop code and report it.
_MARGIN_S = 10.0


def code_tools(
    executor: BaseCodeExecutor,
    *,
    timeout_s: float,
    scope: Callable[[], RunScope | None] = lambda: None,
    seen: set[tuple[str, str]] | None = None,
) -> Tools:
    """Build ``run_code``.

    Args:
        executor: runs the code.
        timeout_s: seconds that the code may take.
        scope: returns the scope that ``run_code`` stamps on its bindings.
        seen: kinds and live names that the run has read; the code's reads are added.
    """

    @tool(
        description=(
            "Run Python in the notebook's namespace. You and the person see what it prints and the "
            "value of its last expression; you are told which variables it bound. `purpose` is a "
            "short phrase that heads the step in the record. "
            "`parsimony_kernel.execution.csv_dialect.sniff(path)` gives the keyword arguments of "
            "read_csv for a text file (lines above the header, separator, decimal mark, dates, "
            f"encoding), as text to paste. A step may take {timeout_s:,.0f} s."
        ),
        tool_type="code",
        timeout_s=timeout_s + _MARGIN_S,
    )
    async def run_code(code: str, purpose: str | None = None) -> ToolResult:
        if not code.strip():
            raise ValueError("code is empty: give the statements to run")
        of = scope()
        with nullcontext() if of is None else run_scope(of):
            output = await executor.execute(
                code,
                timeout_seconds=timeout_s,
                producer_notebook_path=None if of is None else of.notebook_path,
                seen_live_names=seen,
            )
        error = output.error
        if error is None:
            return ToolResult.from_data(output)
        return ToolResult.from_failure(_failure(error, output, timeout_s))

    return Tools([run_code])


def _failure(error: ExceptionObject, output: KernelOutput, timeout_s: float) -> Failure:
    where = f" at line {error.line}: {error.source_line}" if error.line is not None else ""
    fields: dict[str, Any] = {"error_type": error.name, "error_message": error.message}
    cause = RAISED
    if error.state_lost:
        cause = STATE_LOST
    elif error.past_deadline:
        cause, fields["timeout_seconds"] = LATE, timeout_s
    return cause.failure(
        f"{error.name}: {error.message}{where}" if error.message else f"{error.name}{where}",
        partial_data=output,
        envelope=fields,
    )
