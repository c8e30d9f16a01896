"""A clean place to run code in: a kernel that nobody has used, gone when it is left."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsimony_kernel.execution.remote_client import RemoteExecutor


def clean_executor() -> "RemoteExecutor":
    """An executor with a kernel of this environment, to be entered and left."""
    from parsimony_kernel.execution.remote_client import RemoteExecutor  # deferred: its client

    return RemoteExecutor()
