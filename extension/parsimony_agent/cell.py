"""Which cell of which notebook is running, and the one session of its kernel process.

The front end's cell id where it sends one, else the hash of the source, so that the same source
is the same turn. A program that starts several turns in one cell gets one key for each.
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
    """Names cells; counts the turns that one execution starts."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._execution: object = None
        self._keys: dict[str, int] = {}

    def parent(self) -> Mapping[str, Any]:
        """The message of the front end that had the cell run; empty where there is none."""
        parent: object = getattr(self._shell, "get_parent", dict)()
        return parent if isinstance(parent, Mapping) else {}

    def id(self) -> str:
        """The front end's id of the cell that runs now; empty where it sends none."""
        cell_id = (self.parent().get("metadata") or {}).get("cellId")
        return cell_id if isinstance(cell_id, str) else ""

    def key(self, source: str) -> str:
        """The key of the cell that runs now and holds ``source``."""
        raw = source.encode("utf-8", "surrogatepass")
        return self.id() or hashlib.sha256(raw).hexdigest()[:16]

    def next_turn(self, source: str) -> str:
        """The key of the cell that runs now, for one turn more of it."""
        header = self.parent().get("header") or {}
        execution = header.get("msg_id") or self._shell.execution_count
        if execution != self._execution:
            self._execution, self._keys = execution, {}
        key = self.key(source)
        count = self._keys[key] = self._keys.get(key, 0) + 1
        return key if count == 1 else f"{key}#{count}"


def working_folder() -> Path:
    """The folder that code runs in. ``TurnError`` when it is gone."""
    try:
        return Path.cwd()
    except OSError:
        raise TurnError(
            "The working folder of this kernel does not exist any more. Change to one that does, "
            "for example with %cd ~, and run the cell again."
        ) from None


def locate(shell: Any, environ: Mapping[str, str] = os.environ) -> Path:
    """The notebook's file: what Jupyter, then VS Code says, else the working folder.

    ``TurnError`` when that is needed and gone.
    """
    for named in (environ.get("JPY_SESSION_NAME"), shell.user_ns.get("__vsc_ipynb_file__")):
        if type(named) is str and named.endswith(".ipynb"):
            path = Path(named)
            # A server with a remote file system names a path that does not exist here.
            folder = (
                path.parent if path.is_absolute() and path.parent.is_dir() else working_folder()
            )
            return folder / path.name
    return working_folder() / "untitled"


def open_in(shell: Any) -> Session:
    """The session of ``shell``'s notebook, running code in ``shell``."""
    from parsimony_kernel.execution.notebook import NotebookExecutor
    from parsimony_kernel.session.session import NotebookSession

    where = locate(shell)
    # The kernel's parent is its application, which knows how others can reach the kernel.
    application = getattr(getattr(shell, "kernel", None), "parent", None)
    return NotebookSession(
        executor=NotebookExecutor(shell),
        notebook=where.name,
        folder=where.parent,
        connection_file=getattr(application, "abs_connection_file", ""),
    )
