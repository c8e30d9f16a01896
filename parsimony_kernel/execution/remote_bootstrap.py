"""What a ``RemoteExecutor`` has in its kernel: an executor that does what it is asked.

A request and its answer are JSON. The answer leaves with the reply to the request, which no
server thins out as it may thin out what is displayed. What is printed is sent ahead as it comes,
for the case that no answer ever does.
"""

import asyncio
import json
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.core.reach import Reach
from parsimony_kernel.execution.base import CellRequest
from parsimony_kernel.execution.capture import BoundedText
from parsimony_kernel.execution.guard import is_watching
from parsimony_kernel.execution.inprocess import CellExecution
from parsimony_kernel.execution.inspection import attempt, plain, type_name
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.execution.notebook import NotebookExecutor
from parsimony_kernel.execution.permit import Permit, permitting
from parsimony_kernel.execution.remote_values import encode, encode_plain, type_in_words
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.observe import CellEffect

# Both sides must speak the same; it changes with what a request or an answer holds.
WORDS = 8
ANSWER_MIME = "application/vnd.parsimony.answer+json"

# Of all variables together; they travel with each answer.
_ALL_PLAIN_BYTES = 200_000

_FORWARD_S = 0.05
# So many sends may follow one another at once before they are spaced out.
_BURST = 20
# How long the socket below a stream may need, before the code holds the GIL or ends the process.
_SOCKET_S = 0.002
# How long code waits for leave, in seconds; then it does without.
_WAIT_S = 2.0


@dataclass
class PermitState:
    """What of a ``Permit`` travels; ``workspace`` only between kernels that see the same files."""

    workspace: str | None = None
    approved: str | None = None
    made: set[str] = field(default_factory=set)
    held: Reach | None = None
    why_not: str = ""
    open_end: str = ""
    left: list[Reach] = field(default_factory=list)
    # Of the code that waits: its hash, and what it has done outside already.
    paused: tuple[str, tuple[str, ...]] | None = None


@dataclass
class Request:
    """What is asked of the side of the kernel, to be done in the folder ``cwd``."""

    do: Literal["run", "fetch", "clear", "set_cwd"]
    cwd: str | None = None
    cell: CellRequest = field(default_factory=lambda: CellRequest(""))
    scope: RunScope | None = None
    permit: PermitState | None = None
    name: str = ""
    limit: int = 0


@dataclass
class Answer:
    """What came of a request: nothing, where it was interrupted.

    ``names`` has for each variable its type, and its value as JSON where that is plain and small;
    ``stamps`` are the arguments of ``stamp_effect``; ``error`` is a name and a message.
    """

    output: KernelOutput | None = None
    error: tuple[str, str] | None = None
    names: dict[str, tuple[str, str | None]] | None = None
    stamps: list[tuple[CellEffect, str, RunScope, str, dict[str, Any]]] = field(
        default_factory=list
    )
    read: set[tuple[str, str]] = field(default_factory=set)
    permit: PermitState | None = None
    cwd: str = ""
    form: str = ""
    data: str = ""


_REQUEST = TypeAdapter(Request)
_side: "Side"


def open_side(words: int) -> None:
    """Be the kernel of an executor, with nothing told yet.

    Raises ``RuntimeError`` where the other side has another version of these words.
    """
    global _side
    if words != WORDS:
        raise RuntimeError(f"the executor speaks version {words}, this environment {WORDS}")
    from IPython import get_ipython

    _side = Side(get_ipython())


async def call(number: int, request: str) -> None:
    """Do what ``request`` asks, though it may come twice; ``answer`` tells what came of it."""
    if number != _side.answered[0]:
        _side.answered = (number, "{}")
        told = await _side.answer(_REQUEST.validate_python(json.loads(request)))
        _side.answered = (number, json.dumps(to_jsonable_python(told, by_alias=False)))


def answer(number: int) -> "Packed":
    """The answer to request ``number``, the last one; ``KeyError`` when it is another."""
    kept, text = _side.answered
    if kept != number:
        raise KeyError(number)
    return Packed(text)


class Packed:
    """An answer that travels as the value of an expression."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {ANSWER_MIME: self._text}


class _Forwarded(BoundedText):
    """A stream of a cell whose text the kernel's own stream sends ahead as well.

    Whole lines leave at once, on average at most twenty times a second, since the code may hold
    the GIL from its next line on. What comes faster leaves with the next of them, or a little
    later by itself. Written to from any thread.
    """

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream
        self._burst, self._refilled_at = float(_BURST), time.monotonic()

    def write(self, text: str) -> None:
        super().write(text)
        self._stream.write(plain(text))
        now = time.monotonic()
        self._burst = min(_BURST, self._burst + (now - self._refilled_at) / _FORWARD_S)
        self._refilled_at = now
        if self._burst >= 1 and text.endswith("\n"):
            self._burst -= 1
            self._stream.flush()
            self._stream.flush()  # what the first one sends stands in line behind its end
            time.sleep(_SOCKET_S)


class Side(NotebookExecutor):
    """The executor of this kernel's shell, and what it answers to the other side."""

    # The number of the last request and its answer.
    answered = (0, "")

    def stamp(self, effect: CellEffect, code: str, scope: RunScope, at: str, **how: Any) -> None:
        super().stamp(effect, code, scope, at, **how)
        self._answer.stamps.append((effect, code, scope, at, how))

    async def _run(self, run: CellExecution) -> None:
        run.capture.stdout = _Forwarded(sys.stdout)
        run.capture.stderr = _Forwarded(sys.stderr)
        await super()._run(run)

    async def answer(self, request: Request) -> Answer:
        """Do it. Whatever goes wrong is told in the answer, an interruption too."""
        told = self._answer = Answer()
        try:
            stop = CancellationRequest()
            with stop_on_sigint(stop):
                await stop.race(self._do(request, told))
        except (Cancelled, asyncio.CancelledError, KeyboardInterrupt):
            told.output = None
        except Exception as exc:  # boundary: front end - a request
            told.error = (type_name(exc), _message(exc))
        if request.do == "run":
            told.names = self._names()
        return told

    async def _do(self, request: Request, told: Answer) -> None:
        if request.do == "fetch":
            told.form, told.data = encode(self.variables(), request.name, request.limit)
            return
        if request.do == "clear":
            await self.clear_namespace()
        if request.cwd is not None:
            await self.set_cwd(request.cwd)
            told.cwd = str(self._cwd)
        if request.do == "run":
            scope = request.scope
            permit = None if request.permit is None else self._permit(request.permit)
            with nullcontext() if scope is None else run_scope(scope), permitting(permit):
                told.output, told.read = await self.run_cell(request.cell)
            if permit is not None:
                told.permit = self._came_of(permit)

    def _permit(self, sent: PermitState) -> Permit:
        if not is_watching():
            raise PermissionError(
                "this kernel can't be watched, so the code did not run; from now on every step "
                "asks before it runs"
            )
        return permit_here(sent, self._cwd or Path.cwd(), Asking(self._shell.kernel))

    def _came_of(self, permit: Permit) -> PermitState:
        paused = None if self.paused is None else (self.paused.sha, self.paused.left)
        held, made, left = permit.held, permit.made, permit.left
        return PermitState(None, None, made, held, permit.why_not, permit.open_end, left, paused)

    def _names(self) -> dict[str, tuple[str, str | None]]:
        names: dict[str, tuple[str, str | None]] = {}
        room = _ALL_PLAIN_BYTES
        for name, value in self.variables().items():
            whole = encode_plain(value)
            room -= len(whole or "")
            names[name] = (type_in_words(value), whole if room >= 0 else None)
        return names


class Asking:
    """Asks the run that code belongs to, over the channel for input, while the kernel handles a
    request. Used from any of its threads."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent = kernel.get_parent("shell")
        self._ident = kernel._parent_ident["shell"]
        self._lock = threading.Lock()
        self._number = 0

    def __call__(self, do: str, *given: Any) -> Any:
        """The answer. ``PermissionError`` where none comes in time, or none can be given."""
        with self._lock:
            self._number += 1
            asked = {"do": do, "given": given, "number": self._number}
            content = {"prompt": json.dumps(to_jsonable_python(asked)), "password": False}
            session, socket = self._kernel.session, self._kernel.stdin_socket
            session.send(socket, "input_request", content, self._parent, ident=self._ident)
            told: dict[str, Any] = {}
            due = time.monotonic() + _WAIT_S
            while told.get("number") != self._number:  # one of before may come late
                if not socket.poll(max(0, int((due - time.monotonic()) * 1000))):
                    raise PermissionError("the notebook that this code belongs to does not answer")
                _, reply = session.recv(socket)
                told = json.loads(reply["content"]["value"]) if reply else {}
        if "error" in told:
            raise PermissionError(f"this could not be put on record: {told['error']}")
        return told["value"]


def permit_here(sent: PermitState, folder: Path, ask: Asking) -> Permit:
    """The permit of a request, in the kernel.

    Args:
        folder: the workspace, where that is not the other side's.
    """
    return Permit(
        folder if sent.workspace is None else Path(sent.workspace),
        partial(ask, "allows"),
        partial(ask, "sha"),
        sent.approved,
        partial(ask, "leaving"),
        partial(ask, "ended"),
        # What lies on another machine cannot be kept here.
        lambda path: sent.workspace is not None and ask("keep", path),
        sent.made,
    )


def _message(exc: Exception) -> str:
    return attempt(lambda: plain(str(exc)), lambda _: "(its message cannot be shown)")
