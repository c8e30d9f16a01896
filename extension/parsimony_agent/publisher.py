"""Where output goes: the cell that was running when the outlet was made.

Agent code runs with the shell's display publisher and streams captured, and the record is drawn
meanwhile. So an outlet holds what it writes to and never goes through what is captured.
"""

import sys
import uuid
from collections.abc import Mapping
from typing import Any

Mime = Mapping[str, Any]


class Outlet:
    """Takes mime bundles. With ``display_id`` a display can be replaced later by ``update``."""

    def show(
        self,
        data: Mime,
        metadata: Mime | None = None,
        *,
        display_id: str | None = None,
        update: bool = False,
    ) -> None:
        transient = {"display_id": display_id} if display_id else {}
        message = {"data": dict(data), "metadata": dict(metadata or {}), "transient": transient}
        self._send(message, update)

    def _send(self, message: Mapping[str, Mime], update: bool) -> None:
        raise NotImplementedError


class KernelOutlet(Outlet):
    """Sends on the kernel's IOPub channel, as output of the cell that runs at construction.

    Its messages keep that cell as their parent, from every thread and also after the cell ended.
    """

    def __init__(self, publisher: Any) -> None:
        self._session = publisher.session
        self._socket = publisher.pub_socket
        self._topic = publisher.topic
        self._parent = dict(publisher.parent_header)

    def _send(self, message: Mapping[str, Mime], update: bool) -> None:
        # What the cell printed before stands before what is shown now.
        sys.stdout.flush()
        sys.stderr.flush()
        self._session.send(
            self._socket,
            "update_display_data" if update else "display_data",
            message,
            parent={"header": self._parent},
            ident=self._topic,
        )


class PublisherOutlet(Outlet):
    """Publishes through a shell's display publisher, for shells that capture."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher

    def _send(self, message: Mapping[str, Mime], update: bool) -> None:
        self._publisher.publish(**message, update=update)


class TextOutlet(Outlet):
    """Prints the text of what is shown, once; a terminal cannot take anything back."""

    def __init__(self) -> None:
        self._stream = sys.stdout

    def _send(self, message: Mapping[str, Mime], update: bool) -> None:
        text = message["data"].get("text/plain")
        if not update and text:
            print(text, end="\n\n", file=self._stream, flush=True)


class FirstSign:
    """An output that says at once that a turn begins. Its record takes the output over."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._id: str | None = uuid.uuid4().hex
        text = "Starting …"
        shown = {"text/plain": text, "text/html": f'<p role="status">{text}</p>'}
        outlet.show(shown, display_id=self._id)

    def take(self) -> str | None:
        """The id of the output, which is the caller's from now on; ``None`` if it was taken."""
        taken, self._id = self._id, None
        return taken

    def withdraw(self) -> None:
        """Nothing came of it: the output looks empty, unless it was taken."""
        if taken := self.take():
            nothing = {"text/plain": "", "text/html": ""}
            self._outlet.show(nothing, display_id=taken, update=True)


def outlet_of(shell: Any) -> Outlet:
    """The outlet of the cell that ``shell`` runs now."""
    publisher = shell.display_pub
    if getattr(publisher, "pub_socket", None) is not None:
        return KernelOutlet(publisher)
    # Outside a kernel the base publisher prints; anything else has been put there to capture.
    if type(publisher).__name__ == "DisplayPublisher":
        return TextOutlet()
    return PublisherOutlet(publisher)
