"""Code that reaches outside and was cut off by its deadline: nobody knows what it has done."""

from collections.abc import Sequence
from dataclasses import replace

from parsimony_kernel.core.kinds import Effect, FailureKind
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.gate.writes import asked
from parsimony_kernel.tools import Tool, ToolResult


def cut_off(tool: Tool, result: ToolResult, outside: Sequence[str], key: str) -> ToolResult:
    """``result``, as a question to the person where the code was late and reaches ``outside``.

    ``key`` is the action's own; the answer is recorded under it.
    """
    failure = result.failure
    if failure is None or not outside or failure.effect is Effect.committed:
        return result
    # Code that cannot be stopped in time costs the state.
    is_late = failure.type is FailureType.TIMEOUT
    if not is_late and failure.kind is not FailureKind.kernel_invalidated:
        return result
    places = " ".join(outside)
    uncertain = replace(
        failure,
        explanation=f"{failure.explanation.rstrip('.')}. The code reaches outside: {places}",
        metadata={**failure.metadata, "tool_name": tool.name, "effect": Effect.uncertain},
    )
    return asked(uncertain, tool, key)
