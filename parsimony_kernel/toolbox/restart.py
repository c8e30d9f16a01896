"""The tool that starts afresh. It waits for the person's word, whatever the notebook allows."""

from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.tools import Tools, tool

_SHOWN = 10


def restart_tools(executor: BaseCodeExecutor) -> Tools:
    """``restart_kernel`` on ``executor``."""

    @tool(
        description=(
            "Forget every variable, the person's too, who is asked first. Only where the state "
            "cannot be trusted any more."
        ),
        effect="write",
        asks=True,
    )
    async def restart_kernel(reason: str) -> str:
        if not reason.strip():
            raise ValueError("restart_kernel needs a non-empty reason: the person reads it")
        gone = sorted(executor.variables())
        await executor.clear_namespace()
        more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
        names = ", ".join(gone[:_SHOWN]) or "none"
        return f"The namespace is empty; gone are: {names}{more}."

    return Tools([restart_kernel])
