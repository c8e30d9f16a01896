"""A clean place to run code in: a kernel that nobody has used, gone when it is left."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.remote_values import RemoteValue

if TYPE_CHECKING:
    from parsimony_kernel.execution.remote import RemoteExecutor

# A table of this many bytes in Arrow's form can be brought back from it.
FETCH_BYTES = 2**31


class CleanExecutor:
    """A kernel of this environment as ``artifacts.refresh`` uses it."""

    def __init__(self, executor: "RemoteExecutor") -> None:
        self._executor = executor

    async def execute(self, code: str, *, timeout_seconds: float | None = None) -> KernelOutput:
        return await self._executor.execute(code, timeout_seconds=timeout_seconds)

    async def set_cwd(self, cwd: str) -> None:
        await self._executor.set_cwd(cwd)

    async def value(self, name: str) -> Any:
        """The value of a variable, brought here. ``KeyError`` without it."""
        value = self._executor.variables()[name]
        if isinstance(value, RemoteValue):
            return await self._executor.fetch(name, FETCH_BYTES)
        return value


@asynccontextmanager
async def clean_executor() -> AsyncIterator[CleanExecutor]:
    """Start a kernel of this environment for the body."""
    from parsimony_kernel.execution.remote import RemoteExecutor  # deferred: it brings a client

    async with RemoteExecutor() as executor:
        yield CleanExecutor(executor)
