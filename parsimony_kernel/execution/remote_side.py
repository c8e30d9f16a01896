"""The far side of a ``RemoteExecutor``: what runs in its kernel, and the words of the two sides.

A request and its answer are JSON. The answer leaves with the reply to the request, which no
server thins out as it may thin out what is displayed. What is printed is sent ahead as it comes,
for the case that no answer ever does.
"""

import asyncio
import base64
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.outputs import (
    DataFrameObject,
    ExceptionObject,
    FigureObject,
    KernelOutput,
    PrimitiveObject,
)
from parsimony_kernel.execution.capture import BoundedText, Capture
from parsimony_kernel.execution.cell import Cell
from parsimony_kernel.execution.inprocess import CellEnd, Observation
from parsimony_kernel.execution.inspection import (
    attempt,
    class_package,
    comes_from,
    plain,
    type_name,
)
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.execution.notebook import NotebookExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.ledger import CellRun, OriginLedger, VariableOrigin

# Both sides must speak the same; it changes with what a request or an answer holds.
WORDS = 1
ANSWER_MIME = "application/vnd.parsimony.answer+json"

PLAIN_BYTES = 10_000
_ALL_PLAIN_BYTES = 1_000_000
_PLAIN_DEPTH = 20

_FORWARD_S = 0.05
# So many sends may follow one another at once before they are spaced out.
_BURST = 20
_FORWARD_CHARS = 10_000
# What was printed has to leave the process before the code holds the GIL, or ends the process:
# how long the code waits at most for the thread that sends it, and then for the socket below.
_HAND_OVER_S = 0.2
_SOCKET_S = 0.002

_sides: dict[str, "_Side"] = {}


def open_side(nonce: str, words: int) -> None:
    """Be the far side of the executor that says ``nonce``, in the place of any other.

    Raises ``RuntimeError`` where the other side has another version of these words.
    """
    if words != WORDS:
        raise RuntimeError(f"the executor speaks version {words}, this environment {WORDS}")
    from IPython import get_ipython

    _sides.clear()
    _sides[nonce] = _Side(get_ipython())


async def call(nonce: str, number: int, request: str) -> None:
    """Do what ``request`` asks; ``answer`` tells what came of it. ``KeyError`` for a stranger."""
    side = _sides[nonce]
    side.last = (number, json.dumps(await side.answered(json.loads(request))))


def answer(nonce: str, number: int) -> "Answer":
    """The answer to request ``number``, the last one; ``KeyError`` when it is another."""
    kept, text = _sides[nonce].last
    if kept != number:
        raise KeyError(number)
    return Answer(text)


class Answer:
    """Travels as the value of an expression."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {ANSWER_MIME: self._text}


def encode_plain(value: Any, limit: int = PLAIN_BYTES) -> str | None:
    """``value`` as JSON where it consists of plain values and is small, else ``None``.

    No code of the user's runs: only exact built-in types are looked into.
    """
    room = [limit]
    if not _is_plain(value, room, _PLAIN_DEPTH):
        return None
    try:
        text = json.dumps(value)
    except (ValueError, RuntimeError):
        # An integer of too many digits, or a list that a thread changes meanwhile.
        return None
    return text if len(text) <= limit else None


def _is_plain(value: Any, room: list[int], depth: int) -> bool:
    kind = type(value)
    room[0] -= len(value) + 2 if kind is str else 2
    if room[0] < 0 or depth < 0:
        return False
    if value is None or kind in (bool, int, float, str):
        return True
    if kind is list:
        return all(_is_plain(each, room, depth - 1) for each in value.copy())
    if kind is dict:
        return all(
            type(key) is str and _is_plain(key, room, 0) and _is_plain(each, room, depth - 1)
            for key, each in value.copy().items()
        )
    return False


class _ToldLedger(OriginLedger):
    """A ledger that notes what was written into it, for the ledger of the other side."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, Any]] = []

    def stamp(self, origin: VariableOrigin) -> None:
        super().stamp(origin)
        self.told.append(("stamp", origin.model_dump(mode="json")))

    def record(self, cell: CellRun) -> None:
        super().record(cell)
        self.told.append(("record", cell.model_dump(mode="json")))

    def drop(self, name: str) -> None:
        super().drop(name)
        self.told.append(("drop", name))


class _Forwarder:
    """Sends the streams of one request ahead, on average at most twenty times a second.

    Whole lines leave at once while that lasts, since the code may hold the GIL from its next line
    on. Of what comes faster than that the newest is kept. Written to from any thread.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._parent = kernel.get_parent("shell")
        self._waiting: deque[tuple[str, str]] = deque()
        self._length = 0
        self._cut = 0
        self._burst = float(_BURST)
        self._refilled_at = time.monotonic()
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    def write(self, stream: str, text: str) -> None:
        """Send ``text``, now or with what comes next."""
        with self._lock:
            self._waiting.append((stream, text))
            self._length += len(text)
            while self._length > _FORWARD_CHARS:
                before, oldest = self._waiting.popleft()
                kept = oldest[self._length - _FORWARD_CHARS :]
                self._cut += len(oldest) - len(kept)
                self._length -= len(oldest) - len(kept)
                if kept:
                    self._waiting.appendleft((before, kept))
            now = time.monotonic()
            self._burst = min(_BURST, self._burst + (now - self._refilled_at) / _FORWARD_S)
            self._refilled_at = now
            if self._burst < 1 or not text.endswith("\n"):
                if self._timer is None:
                    self._timer = threading.Timer(_FORWARD_S, self.flush)
                    self._timer.daemon = True
                    self._timer.start()
                return
            self._burst -= 1
        self.flush()
        gone = threading.Event()
        self._kernel.iopub_thread.schedule(gone.set)
        gone.wait(_HAND_OVER_S)
        time.sleep(_SOCKET_S)

    def flush(self) -> None:
        """Send what waits."""
        with self._lock:
            waiting, self._waiting, self._length = self._waiting, deque(), 0
            cut, self._cut = self._cut, 0
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            joined: list[tuple[str, str]] = []
            for stream, text in waiting:
                if joined and joined[-1][0] == stream:
                    text = joined.pop()[1] + text
                joined.append((stream, text))
            for stream, text in joined:
                self._kernel.session.send(
                    self._kernel.iopub_socket,
                    "stream",
                    {"name": stream, "text": plain(text), "cut": cut},
                    parent=self._parent,
                    ident=f"stream.{stream}".encode(),
                )
                cut = 0


class _Forwarded(BoundedText):
    """A stream of a cell whose text is also sent ahead."""

    def __init__(self, stream: str, forwarder: _Forwarder) -> None:
        super().__init__()
        self._stream = stream
        self._forwarder = forwarder

    def write(self, text: str) -> None:
        super().write(text)
        if text:
            self._forwarder.write(self._stream, text)


class _ForwardingExecutor(NotebookExecutor):
    """Runs cells in the kernel's shell, with their streams sent ahead."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.origin_ledger = self.told_ledger = _ToldLedger()
        self.capture: Capture | None = None

    async def _run(
        self,
        cell: Cell,
        capture: Capture,
        *,
        namespace: dict[str, Any],
        seconds: float | None,
        observed: Observation,
    ) -> CellEnd:
        forwarder = _Forwarder(self._shell.kernel)
        capture.stdout = _Forwarded("stdout", forwarder)
        capture.stderr = _Forwarded("stderr", forwarder)
        self.capture = capture
        return await super()._run(
            cell, capture, namespace=namespace, seconds=seconds, observed=observed
        )


class _Side:
    """One executor in this kernel and what its other side knows of it."""

    def __init__(self, shell: Any) -> None:
        self.last: tuple[int, str] = (0, "")
        self._shell = shell
        self._executor = _ForwardingExecutor(shell)
        # What the other side was told of each name: its plain value, or the words of its type.
        self._known: dict[str, tuple[str, str]] = {}
        self._seen: list[tuple[str, str]] = []

    async def answered(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do it. Whatever goes wrong is told in the answer, an interruption too."""
        told: dict[str, Any] = {}
        self._executor.capture = None
        output: KernelOutput | None = None
        try:
            stop = CancellationRequest()
            with stop_on_sigint(stop):
                done = await stop.race(self._done(request))
            if isinstance(done, KernelOutput):
                output = done
            else:
                told.update(done)
        except (Cancelled, asyncio.CancelledError, KeyboardInterrupt):
            told["stopped"] = True
            if request["do"] in ("execute", "eval"):
                output = self._stopped()
        except Exception as exc:  # boundary: front end - a request
            told["error"] = {"name": type_name(exc), "message": _words(exc)}
        if output is not None:
            told["output"] = output.model_dump(mode="json")
        told["names"], told["gone"] = self._news(output)
        told["seen_live_names"], self._seen = self._seen, []
        told["ledger"] = self._executor.told_ledger.told[:]
        self._executor.told_ledger.told.clear()
        return told

    async def _done(self, request: Mapping[str, Any]) -> KernelOutput | dict[str, Any]:
        do, scope = request["do"], request.get("scope")
        executor = self._executor
        if do == "execute":
            given = dict(request["given"])
            if given["seen_live_names"] is not None:
                given["seen_live_names"] = {(kind, name) for kind, name in given["seen_live_names"]}
            with nullcontext() if scope is None else run_scope(RunScope(**scope)):
                output = await executor.execute(**given)
            self._seen = sorted(given["seen_live_names"] or ())
            return output
        if do == "eval":
            return await executor.eval(**request["given"])
        if do == "set_cwd":
            await executor.set_cwd(request["cwd"])
            return {"cwd": str(executor.output_factory.local_dir)}
        if do == "fetch":
            return fetched(executor.variables(), request["name"], request["limit"])
        if do == "clear":
            await executor.clear_namespace()
            return {}
        if do == "look":
            return {"pid": os.getpid()}
        raise ValueError(f"nothing is known of {do!r}")

    def _stopped(self) -> KernelOutput:
        capture = self._executor.capture
        stopped = ExceptionObject(name="KeyboardInterrupt", message="stopped by the user")
        if capture is None:
            return KernelOutput(outputs=(stopped,))
        return KernelOutput(
            stdout=capture.stdout.text(),
            stderr=capture.stderr.text(),
            outputs=(*capture.outputs, stopped),
            truncated=capture.is_cut,
        )

    def _news(self, output: KernelOutput | None) -> tuple[dict[str, Any], list[str]]:
        """The names that are not what the other side was told, and those that are no more."""
        present = self._executor.variables()
        summaries = {} if output is None else {each.name: each for each in _named(output)}
        changed = () if output is None else output.changed
        news: dict[str, Any] = {}
        room = _ALL_PLAIN_BYTES
        for name, value in present.items():
            whole = encode_plain(value)
            if whole is not None and (room := room - len(whole)) >= 0:
                if self._known.get(name) != ("plain", whole):
                    self._known[name] = ("plain", whole)
                    news[name] = {"plain": whole}
                continue
            words = ("value", type_in_words(value))
            if name not in changed and self._known.get(name) == words:
                continue
            self._known[name] = words
            summary = summaries.get(name) or PrimitiveObject(name=name, python_type=words[1])
            news[name] = {"type": words[1], "summary": summary.model_dump(mode="json")}
        gone = [name for name in self._known if name not in present]
        for name in gone:
            del self._known[name]
        return news, gone


def _words(exc: Exception) -> str:
    return attempt(lambda: plain(str(exc)), lambda _: "(its message cannot be shown)")


def _named(output: KernelOutput) -> list[DataFrameObject | FigureObject | PrimitiveObject]:
    return [each for each in output.variables if not isinstance(each, ExceptionObject)]


def type_in_words(value: Any) -> str:
    """The type of ``value`` with its package: ``pandas.DataFrame``, ``list``."""
    package = class_package(type(value))
    name = type_name(value)
    return name if package in ("", "builtins", "__main__") else f"{package}.{name}"


def fetched(variables: Mapping[str, Any], name: str, limit: int) -> dict[str, Any]:
    """The table or chart ``name`` as bytes in base64, with the form that they have.

    Raises ``LookupError``, ``TypeError`` or ``ValueError``, which say what to do instead.
    """
    if name not in variables:
        raise LookupError(f"no variable of the kernel is named {name!r} now")
    value = variables[name]
    form, data = _as_bytes(value, name, limit)
    if len(data) > limit:
        raise ValueError(_too_much(name, len(data), limit))
    return {"form": form, "data": base64.b64encode(data).decode()}


def _as_bytes(value: Any, name: str, limit: int) -> tuple[str, bytes]:
    table, form = _as_table(value, name, limit)
    if table is not None:
        if table.nbytes > limit:
            raise ValueError(_too_much(name, table.nbytes, limit))
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return form, sink.getvalue().to_pybytes()
    whole = encode_plain(value, limit)
    if whole is not None:
        return "json", whole.encode()
    if comes_from(value, "altair", "TopLevelMixin"):
        return "json", json.dumps(value.to_dict(), default=str).encode()
    if comes_from(value, "plotly.basedatatypes", "BaseFigure"):
        return "json", str(value.to_json()).encode()
    raise TypeError(
        f"{name!r} is of the type {type_in_words(value)}, which does not leave its kernel: tables, "
        "charts and plain values do. Turn it into one of these with code"
    )


def _as_table(value: Any, name: str, limit: int) -> tuple[Any, str]:
    """``value`` as a pyarrow table and the library that it came from, or ``None``."""
    if comes_from(value, "pandas", "DataFrame", "Series"):
        is_column = comes_from(value, "pandas", "Series")
        frame = value.to_frame() if is_column else value
        held = int(frame.memory_usage(index=True, deep=False).sum())
        if held > 4 * limit:  # bytes in Arrow may be fewer than in memory, but hardly by so much
            raise ValueError(_too_much(name, held, limit))
        import pyarrow as pa

        return pa.Table.from_pandas(frame), "series" if is_column else "pandas"
    if comes_from(value, "polars", "DataFrame"):
        return value.to_arrow(), "polars"
    if comes_from(value, "pyarrow", "RecordBatch"):
        return sys.modules["pyarrow"].Table.from_batches([value]), "arrow"
    if comes_from(value, "pyarrow", "Table"):
        return value, "arrow"
    return None, ""


def _too_much(name: str, size: int, limit: int) -> str:
    return (
        f"{name!r} holds {size / 1e6:,.0f} MB and at most {limit / 1e6:,.0f} MB are brought over: "
        "make the part or the sum that is needed with code, and fetch that"
    )
