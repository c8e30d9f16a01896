"""Running Python: in the user's shell, in a private namespace or in another kernel.

Lazily exports the names of document 002. Inside the package, import from the module that defines a
name.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "BaseCodeExecutor": "base",
    "CodeExecutor": "private",
    "NotebookExecutor": "notebook_executor",
    "OutputFactory": "factory",
    "RemoteExecutor": "remote_client",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
