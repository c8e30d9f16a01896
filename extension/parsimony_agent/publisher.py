"""Publish outputs to the cell that was running when the outlet was made.

While agent code runs, the shell's display publisher and streams are captured, yet the record must
be drawn. So an outlet keeps its own channel and bypasses the capture.
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
# Sends a display message; the flag says whether it replaces the display with the same id.
Send = Callable[[Mapping[str, Mime], bool], None]


@dataclass(eq=False)
class Outlet:
    """A sink for mime bundles. A display shown with a ``display_id`` can be replaced by ``update``.

    ``is_terminal`` means that text is printed once and cannot be replaced.
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
        told, transient = dict(metadata or {}), {}
        if display_id:
            # A front end forgets the id when its page is loaded again; the file keeps this one.
            told["parsimony"] = {**told.get("parsimony", {}), "display": display_id}
            transient = {"display_id": display_id}
        self.send({"data": dict(data), "metadata": told, "transient": transient}, update)


class Displays:
    """The outputs of a cell, in order.

    Each is created once; a live one (``is_live``) is replaced whenever its content changes.
    """

    def __init__(self, outlet: Outlet, *, is_live: bool = True) -> None:
        self.outlet = outlet
        self.is_live = is_live
        self._shown: list[tuple[str | None, Bundle]] = []

    def show(self, outputs: Sequence[Bundle]) -> None:
        """Show ``outputs`` in the first positions, creating or replacing those that differ."""
        for position, output in enumerate(outputs):
            if is_new := position == len(self._shown):
                self._shown.append((uuid.uuid4().hex if self.is_live else None, ({}, {})))
            display_id, before = self._shown[position]
            if is_new or (self.is_live and output != before):
                self._shown[position] = display_id, output
                self.outlet.show(*output, display_id=display_id, update=not is_new)

    def say(self, text: str) -> None:
        """Show a first sign of activity, which the next output replaces."""
        self.show([({"text/plain": text, "text/html": f'<p role="status">{text}</p>'}, {})])

    def withdraw(self) -> None:
        """Blank the first sign if nothing replaced it."""
        if len(self._shown) == 1:
            self.show([(note(""), {})])


def outlet_of(shell: Any) -> Outlet:
    """Return the outlet of the cell that ``shell`` is running."""
    publisher = shell.display_pub
    if getattr(publisher, "pub_socket", None) is not None:
        return Outlet(_to_kernel(publisher))
    # Outside a kernel the base publisher prints; any other class is there to capture.
    if type(publisher).__name__ == "DisplayPublisher":
        return Outlet(_to_stdout(), is_terminal=True)
    return Outlet(lambda message, update: publisher.publish(**message, update=update))


def _to_kernel(publisher: Any) -> Send:
    """Return a sender on the kernel's IOPub channel.

    Its messages keep the running cell as their parent, from any thread and after the cell has
    ended.
    """
    session, socket, topic = publisher.session, publisher.pub_socket, publisher.topic
    parent = {"header": dict(publisher.parent_header)}

    def send(message: Mapping[str, Mime], update: bool) -> None:
        # Earlier prints of the cell must come first.
        sys.stdout.flush()
        sys.stderr.flush()
        kind = "update_display_data" if update else "display_data"
        session.send(socket, kind, message, parent=parent, ident=topic)

    return send


def _to_stdout() -> Send:
    """Return a sender that prints the text of displays to the cell's current ``stdout``."""
    stream = sys.stdout

    def send(message: Mapping[str, Mime], update: bool) -> None:
        if not update and (text := message["data"].get("text/plain")):
            print(text, end="\n\n", file=stream, flush=True)

    return send
