"""A real kernel in its own process, driven by Jupyter messages.

A test sees what a front end sees: replies, outputs and display updates, in order.
"""

import os
import queue
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0

Message = dict[str, Any]


@dataclass
class Cell:
    """The result of running one cell: its outputs and its reply."""

    status: str = ""
    outputs: list[Message] = field(default_factory=list)
    reply: Message = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All output as plain text; an updated display appears in its last form."""
        shown: dict[str, str] = {}
        for number, message in enumerate(self.outputs):
            content = message["content"]
            key = content.get("transient", {}).get("display_id") or str(number)
            if "text" in content:
                shown[key] = str(content["text"])
            elif "data" in content:
                shown[key] = str(content["data"].get("text/plain", ""))
            elif "traceback" in content:
                shown[key] = "\n".join(content["traceback"])
        return "\n".join(shown.values())

    def of_type(self, kind: str) -> list[Message]:
        """Return the contents of the outputs of one message type."""
        return [m["content"] for m in self.outputs if m["msg_type"] == kind]


class LiveKernel:
    """A running kernel and its client. Made by ``live_kernel``."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager = manager
        self._client = client

    def begin(self, source: str, *, cell_id: str | None = None, **options: Any) -> str:
        """Send a cell and return the request's id."""
        content = {"code": source, "silent": False, "allow_stdin": False, **options}
        message = self._client.session.msg("execute_request", content)
        if cell_id is not None:
            message["metadata"]["cellId"] = cell_id
        self._client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def until(self, request: str, text: str, *, patience_s: float = PATIENCE_S) -> None:
        """Wait until an output of ``request`` contains ``text``."""
        seen: list[str] = []
        for message in self._of(request, patience_s):
            seen.append(str(message["content"]))
            if text in seen[-1]:
                return
        raise AssertionError(f"{text!r} never came; what came was {seen[-5:]!r}")

    def end(self, request: str, *, patience_s: float = PATIENCE_S) -> Cell:
        """Wait for the end of ``request``; return its remaining outputs and its reply."""
        cell = Cell()
        for message in self._of(request, patience_s):
            if message["msg_type"] == "status":
                if message["content"]["execution_state"] == "idle":
                    break
            elif message["msg_type"] != "execute_input":
                cell.outputs.append(message)
        while True:
            reply = self._client.get_shell_msg(timeout=patience_s)
            if reply["parent_header"].get("msg_id") == request:
                break
        cell.reply = reply["content"]
        cell.status = cell.reply["status"]
        return cell

    def run(self, source: str, *, cell_id: str | None = None, **options: Any) -> Cell:
        """Run a cell to its end."""
        return self.end(self.begin(source, cell_id=cell_id, **options))

    def interrupt(self) -> None:
        """Press Stop."""
        self._manager.interrupt_kernel()

    @property
    def connection_file(self) -> str:
        """The path by which other clients connect."""
        return str(self._manager.connection_file)

    def is_alive(self) -> bool:
        """Whether the process is alive."""
        return bool(self._manager.is_alive())

    def _of(self, request: str, patience_s: float) -> Iterator[Message]:
        deadline = time.monotonic() + patience_s
        while (left := deadline - time.monotonic()) > 0:
            try:
                message: Message = self._client.get_iopub_msg(timeout=left)
            except queue.Empty:
                break
            if message["parent_header"].get("msg_id") == request:
                yield message
        raise TimeoutError(f"the kernel did not finish within {patience_s:g} s")


@contextmanager
def live_kernel(
    folder: Path, *, name: str = "parsimony-agent", environ: Mapping[str, str] | None = None
) -> Iterator[LiveKernel]:
    """Run the kernel ``name`` for ``notebook.ipynb`` in ``folder`` during the ``with`` body."""
    from jupyter_client import manager as jupyter  # deferred: tests of other things need none

    named = {"JPY_SESSION_NAME": str(folder / "notebook.ipynb")}
    environ = {**os.environ, **named, **(environ or {})}
    manager, client = jupyter.start_new_kernel(PATIENCE_S, name, cwd=str(folder), env=environ)
    try:
        yield LiveKernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
