"""The kernel side of a ``RemoteExecutor``: an executor in the kernel's shell, with approval.

Requests and answers are JSON. The answer travels in the execute reply, because servers may
rate-limit displayed output but not replies.
"""

import asyncio
import base64
import io
import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.execution.base import CellRequest
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.execution.guard import is_watching
from parsimony_kernel.execution.inspection import attempt, comes_from, plain, type_name
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.execution.run_scope import Outcome, Permit, RunScope, permitting, run_scope
from parsimony_kernel.lineage.observe import CellEffect

# The protocol version; it changes with the fields of a request or an answer.
WORDS = 10
ANSWER_MIME = "application/vnd.parsimony.answer+json"
# The permit's functions that code in the kernel may call.
ASKED = ("allows", "sha", "leaving", "ended", "keep")

# How long code waits for an answer from the notebook, in seconds; then it is refused.
_WAIT_S = 2.0
# The longest text that travels with each answer.
_SCALAR_CHARS = 1_000
_SCALARS = (bool, int, float, str, type(None))


# What a request says of its permit: the workspace (none if the kernel doesn't share our files), the
# approved hash, and the paths that the run has made.
Allowed = tuple[Path | None, str | None, set[str]]


@dataclass
class Request:
    """A request: to change the folder, clear the namespace, run a cell, fetch a variable."""

    cwd: str | None = None
    clears: bool = False
    cell: CellRequest | None = None
    scope: RunScope | None = None
    permit: Allowed | None = None
    # The name of a variable, and the most bytes to transfer.
    fetch: tuple[str, int] | None = None


# The arguments of ``stamp_effect`` for a cell that ran.
Stamp = tuple[CellEffect, str, RunScope, str, dict[str, Any]]


@dataclass
class Answer(Outcome):
    """An answer, displayed as a mime bundle. An error or interruption is part of the output."""

    output: KernelOutput = field(default_factory=KernelOutput)
    # The type of each variable, and its value as JSON if it is a short plain one.
    names: dict[str, tuple[str, str | None]] | None = None
    ledger: list[Stamp] = field(default_factory=list)
    read: set[tuple[str, str]] = field(default_factory=set)
    # The hash and the side effects of paused code.
    paused: tuple[str, tuple[str, ...]] | None = None
    cwd: str = ""
    # The fetched variable's format and data, see ``encode``.
    value: tuple[str, str] | None = None

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = json.dumps(self, default=to_jsonable_python, ensure_ascii=False)
        # A file's name may hold halves of characters.
        return {ANSWER_MIME: text.encode("utf-8", "replace").decode()}


REQUEST, ANSWER = TypeAdapter(Request), TypeAdapter(Answer)


def failed(name: str, message: str) -> KernelOutput:
    """Return an output that holds only an error."""
    return KernelOutput(outputs=(ExceptionObject(name=name, message=message),))


STOPPED = failed("KeyboardInterrupt", "stopped by the user")


def open_side(words: int) -> None:
    """Set this kernel up for a new executor.

    Raises:
        RuntimeError: when the executor has another protocol version.
    """
    global _side
    if words != WORDS:
        raise RuntimeError(f"the executor speaks version {words}, this environment {WORDS}")
    from IPython import get_ipython

    _side = _Side(get_ipython())


async def call(number: int, request: str) -> None:
    """Handle a JSON ``request``; ``answer`` returns its result."""
    _side.last = (number, await _side.answered(REQUEST.validate_json(request)))


def answer(number: int) -> Answer:
    """Return the answer to the last request; ``KeyError`` if ``number`` is not the last one's."""
    kept, told = _side.last
    if kept != number:
        raise KeyError(number)
    return told


class _Side(NotebookExecutor):
    """The executor in this kernel, the ledger entries of its last request, and its last answer."""

    stamps: list[Stamp]
    last: tuple[int, Answer] = (0, Answer())

    def stamp(self, effect: CellEffect, code: str, scope: RunScope, at: str, **how: Any) -> None:
        super().stamp(effect, code, scope, at, **how)
        self.stamps.append((effect, code, scope, at, how))

    async def answered(self, request: Request) -> Answer:
        """Handle a request; return the answer, which also carries errors and interruptions."""
        told = Answer()
        self.stamps = told.ledger
        try:
            stop = CancellationRequest()
            with stop_on_sigint(stop):
                await stop.race(self._handle(request, told))
        except (Cancelled, asyncio.CancelledError, KeyboardInterrupt):
            told.output = STOPPED
        except Exception as exc:  # boundary: front end - a request
            told.output = failed(type_name(exc), _message(exc))
        if request.cell is not None:
            told.names = {
                name: (type_name(value), encode_scalar(value))
                for name, value in self.variables().items()
            }
        return told

    async def _handle(self, request: Request, told: Answer) -> None:
        if request.clears:
            await self.clear_namespace()
        if request.cwd is not None:
            await self.set_cwd(request.cwd)
        told.cwd = str(self.output_factory.local_dir)
        if request.fetch is not None:
            told.value = encode(self.variables(), *request.fetch)
        if request.cell is None:
            return
        permit = None if request.permit is None else self._permit(request.permit)
        with run_scope(request.scope), permitting(permit):
            told.output, told.read = await self.run_cell(request.cell)
        if permit is not None:
            told.add(permit)
            paused = self.paused
            told.paused = None if paused is None else (paused.sha, paused.left)

    def _permit(self, told: Allowed) -> Permit:
        if not is_watching():
            raise PermissionError(
                "this kernel can't be watched, so the code did not run; from now on every step "
                "asks before it runs"
            )
        folder = self.output_factory.local_dir or Path.cwd()
        return permit_here(told, folder, Asking(self._shell.kernel))


def _message(exc: Exception) -> str:
    return attempt(lambda: plain(str(exc)), lambda _: "(its message cannot be shown)")


_side: _Side


class Asking:
    """Asks the executor's permit over the stdin channel while the kernel handles a request.

    May be called from any thread of the kernel.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent = kernel.get_parent("shell")
        self._ident = kernel._parent_ident["shell"]
        self._lock = threading.Lock()
        self._number = 0

    def __call__(self, do: str, *given: Any) -> Any:
        """Call the permit's function ``do``; return its value.

        Raises:
            PermissionError: when no answer comes in time, or the answer is an error.
        """
        with self._lock:
            self._number += 1
            told = {"do": do, "given": given, "number": self._number}
            question = json.dumps(told, default=to_jsonable_python)
            session, socket = self._kernel.session, self._kernel.stdin_socket
            content = {"prompt": question, "password": False}
            session.send(socket, "input_request", content, self._parent, ident=self._ident)
            due = time.monotonic() + _WAIT_S
            while (left := due - time.monotonic()) > 0:
                if not socket.poll(int(left * 1000) + 1):
                    continue
                _, reply = session.recv(socket)
                answer = json.loads(reply["content"]["value"]) if reply else {}
                if answer.get("number") == self._number:
                    break
            else:
                raise PermissionError("the notebook that this code belongs to does not answer")
        if "error" in answer:
            raise PermissionError(f"this could not be put on record: {answer['error']}")
        return answer["value"]


def permit_here(told: Allowed, folder: Path, ask: Asking) -> Permit:
    """Build the kernel-side permit of a request.

    Args:
        told: what the request says of it.
        folder: the workspace to use when the kernel doesn't share the executor's files.
        ask: calls the executor's permit.
    """
    workspace, approved, made = told
    asked: dict[str, Any] = {do: partial(ask, do) for do in ASKED}
    if workspace is None:  # the executor can't save files of another machine
        asked["keep"] = lambda path: False
    return Permit(workspace or folder, approved=approved, made=made, **asked)


# Values: small plain ones as JSON, tables as Arrow


def encode_scalar(value: Any) -> str | None:
    """Return a number, a short text, a truth value or ``None`` as JSON; else ``None``."""
    is_short = type(value) in _SCALARS and (type(value) is not str or len(value) <= _SCALAR_CHARS)
    return encode_plain(value) if is_short else None


def encode_plain(value: Any) -> str | None:
    """Return ``value`` as JSON if it is plain, else ``None``."""
    # Not plain, an integer with too many digits, nested too deep, or changed by a thread.
    with suppress(TypeError, ValueError, RuntimeError):
        plain_size(value)
        return json.dumps(value)
    return None


def plain_size(value: Any) -> int:
    """Return how many characters ``value`` takes at least as JSON; ``TypeError`` if it isn't plain.

    Runs no code of the user's: only exact built-in types are inspected.
    """
    if type(value) is str:
        return len(value)
    if type(value) is list:
        return len(value) + sum(plain_size(each) for each in value)
    if type(value) is dict and all(type(key) is str for key in value):
        return sum(len(key) + plain_size(each) for key, each in value.items())
    if type(value) not in _SCALARS:
        raise TypeError
    return 1


def encode(variables: Mapping[str, Any], name: str, limit: int) -> tuple[str, str]:
    """Encode the variable ``name`` as base64, with its format.

    Args:
        variables: the variables of the kernel.
        name: the variable to encode: a table, a chart or a plain value.
        limit: the largest result, in bytes.

    Returns:
        The format ("json", "table", "frame" or "series") and the data in base64.

    Raises:
        LookupError: when there is no such variable.
        TypeError: when its type can't be transferred.
        ValueError: when it is larger than ``limit``.
    """
    if name not in variables:
        raise LookupError(f"no variable of the kernel is named {name!r} now")
    value = variables[name]

    def check(size: int) -> None:
        if size > limit:
            raise ValueError(
                f"{name!r} holds {size / 1e6:,.0f} MB and at most {limit / 1e6:,.0f} MB are "
                "brought over: make the part or the sum that is needed with code, and fetch that"
            )

    with suppress(TypeError, RuntimeError):
        check(plain_size(value))
    text = encode_plain(value)
    if comes_from(value, "altair", "TopLevelMixin"):
        text = json.dumps(value.to_dict(), default=str)
    if text is not None:
        check(len(text))
        return "json", base64.b64encode(text.encode()).decode()
    form = "frame" if comes_from(value, "pandas", "DataFrame") else "table"
    if comes_from(value, "pandas", "Series"):
        form, value = "series", value.to_frame()
    if not hasattr(type(value), "__arrow_c_stream__"):
        raise TypeError(
            f"{name!r} is of the type {type_name(value)}, which does not leave its "
            "kernel: tables, Altair charts and plain values do. Turn it into one of these with code"
        )
    import pyarrow as pa

    sink, reader = io.BytesIO(), pa.RecordBatchReader.from_stream(value)
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            check(sink.tell() + batch.nbytes)
            writer.write_batch(batch)
    return form, base64.b64encode(sink.getvalue()).decode()
