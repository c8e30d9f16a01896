"""Identify the running cell and its notebook, and open the one session of the kernel process.

A cell is identified by the front end's cell id if it sends one, else by the hash of its source, so
the same source is the same turn. If a program starts several turns in one cell, each gets its own
key.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from parsimony_agent.pending import TurnError

if TYPE_CHECKING:
    from parsimony_kernel.session.session import NotebookSession

Session: TypeAlias = "NotebookSession"
SessionFactory = Callable[[Any], Session]


class Cells:
    """Cell ids and turn keys; counts the turns that one execution of a cell starts."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._execution: object = None
        self._keys: dict[str, int] = {}

    def parent(self) -> Mapping[str, Any]:
        """Return the front end's message that started this execution; empty if there is none."""
        parent: object = getattr(self._shell, "get_parent", dict)()
        return parent if isinstance(parent, Mapping) else {}

    def id(self) -> str:
        """Return the front end's id of the running cell; empty if it sends none."""
        cell_id = (self.parent().get("metadata") or {}).get("cellId")
        return cell_id if isinstance(cell_id, str) else ""

    def key(self, source: str) -> str:
        """Return the key of the running cell, whose text is ``source``: its id, else a hash."""
        raw = source.encode("utf-8", "surrogatepass")
        return self.id() or hashlib.sha256(raw).hexdigest()[:16]

    def next_turn(self, source: str) -> str:
        """Return the key for the next turn of the running cell; later ones get ``#2``, ``#3``, …"""
        header = self.parent().get("header") or {}
        execution = header.get("msg_id") or self._shell.execution_count
        if execution != self._execution:
            self._execution, self._keys = execution, {}
        key = self.key(source)
        count = self._keys[key] = self._keys.get(key, 0) + 1
        return key if count == 1 else f"{key}#{count}"


def working_folder() -> Path:
    """Return the folder that code runs in.

    Raises:
        TurnError: it no longer exists.
    """
    try:
        return Path.cwd()
    except OSError:
        raise TurnError(
            "The working folder of this kernel does not exist any more. Change to one that does, "
            "for example with %cd ~, and run the cell again."
        ) from None


def notebook_path(shell: Any, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the notebook's path as Jupyter names it, else as VS Code does, else ``untitled``."""
    for named in (environ.get("JPY_SESSION_NAME"), shell.user_ns.get("__vsc_ipynb_file__")):
        if type(named) is str and named.endswith(".ipynb"):
            return Path(named)
    return Path("untitled")


def locate(shell: Any, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the notebook's path, in the working folder unless it is named in another.

    Raises:
        TurnError: the working folder is needed and no longer exists.
    """
    path = notebook_path(shell, environ)
    # A server with a remote file system names a path that does not exist here.
    is_there = path.is_absolute() and path.parent.is_dir()
    return (path.parent if is_there else working_folder()) / path.name


def open_in(shell: Any) -> Session:
    """Open the session of ``shell``'s notebook, with ``shell`` as its executor."""
    from parsimony_kernel.execution.executor import NotebookExecutor
    from parsimony_kernel.session.session import NotebookSession

    where = locate(shell)
    # The kernel's parent is its application, which has the kernel's connection file.
    application = getattr(getattr(shell, "kernel", None), "parent", None)
    return NotebookSession(
        executor=NotebookExecutor(shell),
        notebook=where.name,
        folder=where.parent,
        connection_file=getattr(application, "abs_connection_file", ""),
    )
