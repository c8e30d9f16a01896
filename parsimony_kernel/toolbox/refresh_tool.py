"""The ``refresh`` tool, which rebuilds a published artifact.

Anybody who can write to the workspace can change the recorded code. So the audit hook watches it
while it runs, as it does the code of a cell.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import (
    Clean,
    CleanExecutor,
    Refreshed,
    RefreshError,
    refresh_named,
)
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.permit import current_permit
from parsimony_kernel.identity import content_sha
from parsimony_kernel.toolbox.publish_tools import announcement
from parsimony_kernel.tools import Tools, tool

# Later than the executor's own deadline, which can stop the code and report it.
_TIMEOUT_S = 660.0


def refresh_tools(publisher: Publisher, emit: Callable[[AgentEvent], None], clean: Clean) -> Tools:
    """Build ``refresh`` for ``publisher``'s artifacts; ``clean`` opens a clean executor."""

    @tool(
        description=(
            "Make a published dataset, chart or report again from its code and sources, in a clean "
            "kernel; published if its content is another. A changed source or content is an error, "
            "unless `accept_changed_sources`: only where the person asked for the new data."
        ),
        tool_type="publish",
        effect="idempotent",
        timeout_s=_TIMEOUT_S,
        runs_code=True,
    )
    async def refresh(artifact: str, accept_changed_sources: bool = False) -> dict[str, Any]:
        place = partial(watched, clean)
        done = await refresh_named(publisher, artifact, place, accept=accept_changed_sources)
        for each in (*done.parts, done):
            if each.changed:
                emit(announcement(each.entry, page=each.page))
        return _answer(done)

    return Tools([refresh])


@asynccontextmanager
async def watched(clean: Clean) -> AsyncIterator[CleanExecutor]:
    """Open a clean executor whose code is stopped before a side effect without approval."""
    async with clean() as executor:
        yield _Watched(executor)


class _Watched:
    """Executor that ties approvals to the digest of the code, so changed code asks again."""

    def __init__(self, executor: CleanExecutor) -> None:
        self._executor = executor

    async def set_cwd(self, cwd: str) -> None:
        await self._executor.set_cwd(cwd)

    async def value(self, name: str) -> Any:
        return await self._executor.value(name)

    async def execute(self, code: str, *, timeout_seconds: float | None = None) -> KernelOutput:
        permit = current_permit()
        if permit is not None:
            digest = content_sha(code.encode("utf-8", "surrogateescape"))
            permit.of = f"The code on record ({digest[:12]}): "
        output = await self._executor.execute(code, timeout_seconds=timeout_seconds)
        if permit is None or permit.held is None:
            return output
        if permit.left:
            permit.why_not = "its code has reached outside already, and does not run from its start"
        raise RefreshError(
            f"{permit.of}{permit.held.sentence} It was stopped before that. Only if you trust the "
            "code, make it again with --allow."
        )


def _answer(done: Refreshed) -> dict[str, Any]:
    answer = done.entry.model_dump(include={"kind", "title", "content_sha", "path"})
    answer["changed"] = done.changed
    parts = [{"title": part.entry.title, "changed": part.changed} for part in done.parts]
    more = {"page": done.page, "changed_sources": list(done.sources), "parts": parts}
    return answer | {name: said for name, said in more.items() if said}
