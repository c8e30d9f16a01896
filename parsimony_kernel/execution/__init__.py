"""Running Python: in the user's shell, in a private namespace or in another kernel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parsimony_kernel.execution.base import BaseCodeExecutor as BaseCodeExecutor
    from parsimony_kernel.execution.factory import OutputFactory as OutputFactory
    from parsimony_kernel.execution.notebook_executor import NotebookExecutor as NotebookExecutor
    from parsimony_kernel.execution.private import CodeExecutor as CodeExecutor
    from parsimony_kernel.execution.remote_client import RemoteExecutor as RemoteExecutor

_HOME = {
    "BaseCodeExecutor": "base",
    "CodeExecutor": "private",
    "NotebookExecutor": "notebook_executor",
    "OutputFactory": "factory",
    "RemoteExecutor": "remote_client",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
