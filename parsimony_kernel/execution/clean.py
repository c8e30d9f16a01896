"""A clean environment to run code in: a fresh kernel, ended afterwards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsimony_kernel.execution.remote_client import RemoteExecutor


@asynccontextmanager
async def clean_executor() -> AsyncIterator["RemoteExecutor"]:
    """Start a fresh kernel of this environment for the body, and end it afterwards."""
    from parsimony_kernel.execution.remote_client import (
        RemoteExecutor,  # deferred: it brings a client
    )

    async with RemoteExecutor() as executor:
        yield executor
