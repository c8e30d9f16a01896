"""MCP server settings: the servers in settings files, and the person's permissions to start them.

Nothing is started here. A permission covers one exact command line or address: it is stored outside
the workspace under the hash of the entry, so a changed settings file needs a new permission.
"""

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.storage import durable

PREFIX = "mcp:"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
SETTINGS = ".mcp.json"


class ServerError(SessionError, ConnectionError):
    """A server can't be used; the message is one sentence with the remedy."""


class Server(BaseModel):
    """One entry of a settings file.

    ``command`` with ``args`` runs in ``folder``, or ``url`` is the address. The server's
    environment is ``env`` plus the few variables for home and program paths. In all of these,
    ``${NAME}`` and ``${NAME:-default}`` stand for an environment variable of the kernel.
    ``timeout`` is the deadline of a call in seconds.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    source: Path
    folder: Path
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float | None = Field(None, gt=0)

    @property
    def program(self) -> str:
        """The program to run; ``python`` is the kernel's own, as in a Jupyter kernelspec."""
        return sys.executable if self.command == "python" else self.command

    @property
    def line(self) -> str:
        """Command line or address for a person, without the values of variables and headers."""
        what = self.url or shlex.join((self.command, *self.args))
        names = ", ".join((*self.env, *self.headers))
        return f"{what} (with {names})" if names else what

    @property
    def permission(self) -> Path:
        """Permission file, named by the hash of every setting that decides what is started."""
        from jupyter_core.paths import jupyter_data_dir  # deferred: few notebooks have a server

        decides = self.model_dump_json(exclude={"name", "source", "timeout"})
        sha = hashlib.sha256(decides.encode()).hexdigest()
        return Path(jupyter_data_dir()) / "parsimony" / "mcp" / sha

    @property
    def is_allowed(self) -> bool:
        """Whether this user allowed exactly this entry."""
        return self.permission.is_file()

    def allow(self) -> None:
        """Store the person's permission. ``ServerError`` if it can't be written."""
        try:
            durable.make_folder(self.permission.parent, mode=0o700)
            durable.create(self.permission, f"{self.line}\n".encode(), mode=0o600)
        except durable.StorageError as exc:
            raise ServerError(str(exc)) from exc

    def filled(self, environ: Mapping[str, str]) -> "Server":
        """Substitute environment variables. ``ServerError`` names one that is not set."""

        def value(found: re.Match[str]) -> str:
            name, default = found.groups()
            if environ.get(name, default) is None:
                raise ServerError(
                    f"The MCP server {self.name!r} needs the environment variable {name}, which is "
                    "not set. Set it, and restart the kernel."
                )
            return json.dumps(environ.get(name) or default or "")[1:-1]

        return Server.model_validate_json(_VARIABLE.sub(value, self.model_dump_json()))


def servers_of(folder: Path, workspace: Path) -> dict[str, Server]:
    """Read the servers of each ``.mcp.json`` from ``folder`` up to ``workspace``, by name.

    Of two with one name the nearer wins.

    Raises:
        ServerError: a file can't be read.
    """
    root, here = workspace.resolve(), folder.resolve()
    found: dict[str, Server] = {}
    for each in (here, *here.parents):
        if each.is_relative_to(root) and (each / SETTINGS).is_file():
            # The nearer comes first, and wins.
            found = found | _read(each / SETTINGS) | found
    return found


def _read(path: Path) -> dict[str, Server]:
    try:
        entries = json.loads(path.read_bytes()).get("mcpServers", {}).items()
        of_file = {"source": path, "folder": path.parent}
        return {name: Server(**{**entry, **of_file, "name": name}) for name, entry in entries}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as exc:
        why = " ".join(str(exc).split())[:200]
        raise ServerError(
            f"{path} cannot be read ({why}). It is JSON like "
            '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}.'
        ) from exc
