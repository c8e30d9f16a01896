"""The code of a turn that worked, to be read, kept and run again."""

from collections.abc import Sequence
from dataclasses import dataclass

from parsimony_kernel.core.events import AgentEvent, ToolEvent
from parsimony_kernel.view.blocks import StepBlock
from parsimony_kernel.view.escape import inline
from parsimony_kernel.view.fold import replay


@dataclass(frozen=True)
class CodeStep:
    """One step of a turn: its number in the record, what it was for, and its code as it ran."""

    number: int
    purpose: str
    source: str

    def with_heading(self) -> str:
        """The code under a comment that editors take for the beginning of a cell."""
        return f"# %% {inline(self.purpose) or f'step {self.number}'}\n{self.source.rstrip()}"


def code_that_worked(events: Sequence[AgentEvent]) -> tuple[CodeStep, ...]:
    """The steps that the record calls done, in order, each with its code exactly as it ran."""
    begun: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, ToolEvent) and event.tool_type == "code" and not event.completed:
            begun.setdefault(event.tool_call_id, []).append(str(event.arguments.get("code", "")))
    steps = []
    for block in replay(events).blocks:
        if isinstance(block, StepBlock) and block.tool_type == "code":
            whole = begun.get(block.call_id)
            code = whole.pop(0) if whole else block.code.head
            if block.state == "done":
                steps.append(CodeStep(block.number, block.purpose, code))
    return tuple(steps)
