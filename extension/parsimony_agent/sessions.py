"""The one session of a kernel process, opened when it is first needed.

What the magics ask of it is the protocol here, so that they can be driven by anything that keeps
it. The real one is imported on first use: loading the extension costs nothing of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from parsimony_kernel.agent.events import AgentEvent
    from parsimony_kernel.execution.executor import BaseCodeExecutor
    from parsimony_kernel.notebook.turns import (
        PendingQuestion,
        PublishedArtifact,
        TurnOptions,
        TurnSummary,
    )
    from parsimony_kernel.tools import Tool, Tools


class Session(Protocol):
    """What the extension uses of ``parsimony_kernel.session.NotebookSession``."""

    @property
    def executor(self) -> BaseCodeExecutor: ...

    @property
    def model_name(self) -> str: ...

    def set_model(self, name: str) -> None: ...

    def turn(
        self, request: str, *, cell_key: str, options: TurnOptions | None = ...
    ) -> AsyncIterator[AgentEvent]: ...

    def resume(
        self, reply: str, *, turn_id: str | None = None, nonce: str | None = None
    ) -> AsyncIterator[AgentEvent]: ...

    def pending(self) -> tuple[PendingQuestion, ...]: ...

    def turns(self) -> tuple[TurnSummary, ...]: ...

    def events(self, turn_id: str) -> tuple[AgentEvent, ...]: ...

    @property
    def tools(self) -> Tools: ...

    def add_tool(self, name: str) -> Tool: ...

    def artifacts(self) -> tuple[PublishedArtifact, ...]: ...

    def stop(self, reason: str = ...) -> bool: ...

    def close(self) -> None: ...


SessionFactory = Callable[[Any], Session]


def open_in(shell: Any) -> Session:
    """The session of ``shell``'s notebook, running code in ``shell``."""
    from parsimony_agent.cell import locate
    from parsimony_kernel.execution.notebook import NotebookExecutor
    from parsimony_kernel.session import open_session

    where = locate(shell)
    # The kernel's parent is its application, which knows how others can reach the kernel.
    application = getattr(getattr(shell, "kernel", None), "parent", None)
    return open_session(
        executor=NotebookExecutor(shell),
        notebook=where.notebook,
        folder=where.folder,
        connection_file=getattr(application, "abs_connection_file", ""),
    )
