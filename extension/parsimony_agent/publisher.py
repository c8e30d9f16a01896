"""Where output goes: the cell that was running when the outlet was made.

Agent code runs with the shell's display publisher and streams captured, and the record is drawn
meanwhile. So an outlet holds what it writes to and never goes through what is captured.
"""

import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_agent.tables import note

Mime = Mapping[str, Any]
# A display's mime bundle and metadata.
Bundle = tuple[Mime, Mime]
# Takes a display message, and whether it replaces the display of the same id.
Send = Callable[[Mapping[str, Mime], bool], None]


@dataclass(eq=False)
class Outlet:
    """Takes mime bundles. With ``display_id`` a display can be replaced later by ``update``.

    ``is_terminal`` says that the text is printed, once: nothing can be taken back.
    """

    send: Send
    is_terminal: bool = False

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
        self.send(message, update)


class Displays:
    """Outputs of a cell, one below the other. Each is created once; where outputs can be redrawn
    (``is_live``) it is replaced whenever it is another than before."""

    def __init__(self, outlet: Outlet, *, is_live: bool = True) -> None:
        self.outlet = outlet
        self.is_live = is_live
        self._shown: list[tuple[str | None, Bundle]] = []

    def show(self, outputs: Sequence[Bundle]) -> None:
        """Bring the first outputs up to date, in their order."""
        for position, output in enumerate(outputs):
            if is_new := position == len(self._shown):
                self._shown.append((uuid.uuid4().hex if self.is_live else None, ({}, {})))
            display_id, before = self._shown[position]
            if is_new or (self.is_live and output != before):
                self._shown[position] = display_id, output
                self.outlet.show(*output, display_id=display_id, update=not is_new)

    def say(self, text: str) -> None:
        """Show a first sign of what is coming. What comes takes its place."""
        self.show([({"text/plain": text, "text/html": f'<p role="status">{text}</p>'}, {})])

    def withdraw(self) -> None:
        """Nothing came after the first sign: its place looks empty."""
        if len(self._shown) == 1:
            self.show([(note(""), {})])


def outlet_of(shell: Any) -> Outlet:
    """The outlet of the cell that ``shell`` runs now."""
    publisher = shell.display_pub
    if getattr(publisher, "pub_socket", None) is not None:
        return Outlet(_to_kernel(publisher))
    # Outside a kernel the base publisher prints; anything else has been put there to capture.
    if type(publisher).__name__ == "DisplayPublisher":
        return Outlet(_to_stdout(), is_terminal=True)
    return Outlet(lambda message, update: publisher.publish(**message, update=update))


def _to_kernel(publisher: Any) -> Send:
    """Sends on the kernel's IOPub channel. The messages keep the cell that runs now as their
    parent, from every thread and also after the cell ended."""
    session, socket, topic = publisher.session, publisher.pub_socket, publisher.topic
    parent = {"header": dict(publisher.parent_header)}

    def send(message: Mapping[str, Mime], update: bool) -> None:
        # What the cell printed before stands before what is shown now.
        sys.stdout.flush()
        sys.stderr.flush()
        kind = "update_display_data" if update else "display_data"
        session.send(socket, kind, message, parent=parent, ident=topic)

    return send


def _to_stdout() -> Send:
    """Prints the text of what is shown, where ``print`` of the cell goes now."""
    stream = sys.stdout

    def send(message: Mapping[str, Mime], update: bool) -> None:
        if not update and (text := message["data"].get("text/plain")):
            print(text, end="\n\n", file=stream, flush=True)

    return send
