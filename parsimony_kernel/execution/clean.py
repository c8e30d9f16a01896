"""A clean place to run code in: a kernel that nobody has used, gone when it is left."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsimony_kernel.execution.remote_client import RemoteExecutor


@asynccontextmanager
async def clean_executor() -> AsyncIterator["RemoteExecutor"]:
    """Start a kernel of this environment for the body."""
    from parsimony_kernel.execution.remote_client import (
        RemoteExecutor,  # deferred: it brings a client
    )

    async with RemoteExecutor() as executor:
        yield executor
