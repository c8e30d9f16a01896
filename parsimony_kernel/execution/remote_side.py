"""The far side of a ``RemoteExecutor``: what runs in its kernel, and the words of the two sides.

A request and its answer are JSON. The answer leaves with the reply to the request, which no
server thins out as it may thin out what is displayed. What is printed is sent ahead as it comes,
for the case that no answer ever does.
"""

import asyncio
import base64
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.outputs import (
    ExceptionObject,
    KernelOutput,
    PrimitiveObject,
)
from parsimony_kernel.execution.capture import BoundedText, Capture
from parsimony_kernel.execution.cell import Cell
from parsimony_kernel.execution.inprocess import CellEnd
from parsimony_kernel.execution.inspection import (
    attempt,
    class_package,
    comes_from,
    plain,
    type_name,
)
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.execution.notebook import NotebookExecutor
from parsimony_kernel.execution.permit import permitting
from parsimony_kernel.execution.remote_permit import Asked, came_of, far_permit
from parsimony_kernel.execution.run_scope import RunScope, run_scope

# Both sides must speak the same; it changes with what a request or an answer holds.
WORDS = 3
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


async def clear(nonce: str) -> None:
    """Forget every variable."""
    await _sides[nonce].executor.clear_namespace()


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


class _Forwarded(BoundedText):
    """A stream of a cell whose text is also sent ahead, on average at most twenty times a second.

    Whole lines leave at once while that lasts, since the code may hold the GIL from its next line
    on. Of what comes faster than that the newest is kept. Written to from any thread.
    """

    def __init__(self, name: str, kernel: Any) -> None:
        super().__init__()
        self._name, self._kernel = name, kernel
        self._parent = kernel.get_parent("shell")
        self._waiting, self._cut = "", 0
        self._burst, self._refilled_at = float(_BURST), time.monotonic()
        self._lock = threading.RLock()
        self._is_due = False

    def write(self, text: str) -> None:
        super().write(text)
        with self._lock:
            waiting = self._waiting + text
            self._waiting = waiting[-_FORWARD_CHARS:]
            self._cut += len(waiting) - len(self._waiting)
            now = time.monotonic()
            self._burst = min(_BURST, self._burst + (now - self._refilled_at) / _FORWARD_S)
            self._refilled_at = now
            if self._burst < 1 or not text.endswith("\n"):
                if not self._is_due:
                    self._is_due, thread = True, self._kernel.iopub_thread
                    thread.schedule(lambda: thread.io_loop.call_later(_FORWARD_S, self._send))
                return
            self._burst -= 1
        self._send()
        gone = threading.Event()
        self._kernel.iopub_thread.schedule(gone.set)
        gone.wait(_HAND_OVER_S)
        time.sleep(_SOCKET_S)

    def _send(self) -> None:
        with self._lock:
            self._is_due = False
            if not self._waiting:
                return
            content = {"name": self._name, "text": plain(self._waiting), "cut": self._cut}
            ident = f"stream.{self._name}".encode()
            socket = self._kernel.iopub_socket
            self._kernel.session.send(socket, "stream", content, parent=self._parent, ident=ident)
            self._waiting, self._cut = "", 0


class _ForwardingExecutor(NotebookExecutor):
    """Runs cells in the kernel's shell, with their streams sent ahead."""

    capture: Capture

    async def _run(self, cell: Cell, capture: Capture, **given: Any) -> CellEnd:
        capture.stdout = _Forwarded("stdout", self._shell.kernel)
        capture.stderr = _Forwarded("stderr", self._shell.kernel)
        self.capture = capture
        return await super()._run(cell, capture, **given)


class _Side:
    """One executor in this kernel and what its other side knows of it."""

    def __init__(self, shell: Any) -> None:
        self.executor = _ForwardingExecutor(shell)
        self._kernel = shell.kernel
        self.last: tuple[int, str] = (0, "")
        # What the other side was told of each name: its plain value, or the words of its type.
        self._known: dict[str, tuple[str, str]] = {}
        # How many runs of cells it was told of.
        self._told = 0

    async def answered(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do it. Whatever goes wrong is told in the answer, an interruption too."""
        told: dict[str, Any] = {"names": {}, "gone": [], "ledger": []}
        self.executor.capture = Capture(self.executor.output_factory)
        output, error = KernelOutput(), None
        try:
            stop = CancellationRequest()
            with stop_on_sigint(stop):
                output, done = await stop.race(self._done(request))
            told.update(done)
        except (Cancelled, asyncio.CancelledError, KeyboardInterrupt):
            error = ExceptionObject(name="KeyboardInterrupt", message="stopped by the user")
        except Exception as exc:  # boundary: front end - a request
            error = ExceptionObject(name=type_name(exc), message=_words(exc))
        if error is not None:
            told["error"] = {"name": error.name, "message": error.message}
            capture = self.executor.capture
            output = KernelOutput(
                stdout=capture.stdout.text(),
                stderr=capture.stderr.text(),
                outputs=(*capture.outputs, error),
                truncated=capture.is_cut,
            )
        if request["do"] != "fetch":
            told["output"] = output.model_dump(mode="json")
            told["names"], told["gone"] = self._news(output)
            told["ledger"] = self._recorded()
        return told

    def _recorded(self) -> list[tuple[Any, list[Any]]]:
        """The runs of cells that the other side was not told of, with the origins they gave."""
        ledger = self.executor.origin_ledger
        runs = ledger.cell_runs()[self._told :]
        self._told += len(runs)
        return [
            (_dumped(run), [_dumped(ledger.at_version(ref)) for ref in run.made]) for run in runs
        ]

    async def _done(self, request: Mapping[str, Any]) -> tuple[KernelOutput, dict[str, Any]]:
        do, given, scope = request["do"], request.get("given", {}), request.get("scope")
        executor = self.executor
        if do == "fetch":
            name, limit = request["name"], request["limit"]
            return KernelOutput(), fetched(executor.variables(), name, limit)
        if request["cwd"] is not None:
            await executor.set_cwd(request["cwd"])
        if do == "set_cwd":
            return KernelOutput(), {"cwd": str(executor.output_factory.local_dir)}
        if do == "eval":
            return await executor.eval(**given), {}
        names = given.pop("seen_live_names")
        seen = None if names is None else {(kind, name) for kind, name in names}
        permit = request.get("permit") and far_permit(
            request["permit"], executor.output_factory.local_dir or Path.cwd(), Asked(self._kernel)
        )
        with nullcontext() if scope is None else run_scope(RunScope(**scope)), permitting(permit):
            output = await executor.execute(**given, seen_live_names=seen)
        told: dict[str, Any] = {"seen_live_names": sorted(seen or ())}
        if permit is not None:
            told["permit"] = came_of(permit, executor.paused)
        return output, told

    def _news(self, output: KernelOutput) -> tuple[dict[str, Any], list[str]]:
        """The names that are not what the other side was told, and those that are no more."""
        present = self.executor.variables()
        summaries = {
            each.name: each for each in output.variables if not isinstance(each, ExceptionObject)
        }
        news: dict[str, Any] = {}
        room = _ALL_PLAIN_BYTES
        for name, value in present.items():
            whole = encode_plain(value)
            if whole is not None and (room := room - len(whole)) >= 0:
                if self._known.get(name) != ("plain", whole):
                    self._known[name] = ("plain", whole)
                    news[name] = {"plain": whole}
                continue
            words = type_in_words(value)
            if name in output.changed or self._known.get(name) != ("value", words):
                self._known[name] = ("value", words)
                summary = summaries.get(name) or PrimitiveObject(name=name, python_type=words)
                news[name] = {"type": words, "summary": summary.model_dump(mode="json")}
        gone = [name for name in self._known if name not in present]
        for name in gone:
            del self._known[name]
        return news, gone


def _dumped(model: Any) -> Any:
    return model.model_dump(mode="json")


def _words(exc: Exception) -> str:
    return attempt(lambda: plain(str(exc)), lambda _: "(its message cannot be shown)")


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

    def check(size: int, fold: int = 1) -> None:
        if size > fold * limit:
            raise ValueError(
                f"{name!r} holds {size / 1e6:,.0f} MB and at most {limit / 1e6:,.0f} MB are "
                "brought over: make the part or the sum that is needed with code, and fetch that"
            )

    form, text = "json", encode_plain(value, limit)
    if comes_from(value, "altair", "TopLevelMixin"):
        text = json.dumps(value.to_dict(), default=str)
    elif comes_from(value, "plotly.basedatatypes", "BaseFigure"):
        text = str(value.to_json())
    if text is not None:
        data = text.encode()
    else:
        form, table = _as_table(value, check)
        if not form:
            raise TypeError(
                f"{name!r} is of the type {type_in_words(value)}, which does not leave its "
                "kernel: tables, charts and plain values do. Turn it into one of these with code"
            )
        check(table.nbytes)
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data = sink.getvalue().to_pybytes()
    check(len(data))
    return {"form": form, "data": base64.b64encode(data).decode()}


def _as_table(value: Any, check: Callable[[int, int], None]) -> tuple[str, Any]:
    """The library that ``value`` comes from, and a pyarrow table of it; else an empty form."""
    if comes_from(value, "pandas", "DataFrame", "Series"):
        import pyarrow as pa

        is_column = comes_from(value, "pandas", "Series")
        frame = value.to_frame() if is_column else value
        # Bytes in Arrow may be fewer than in memory, but hardly by so much.
        check(int(frame.memory_usage(index=True, deep=False).sum()), 4)
        return "series" if is_column else "pandas", pa.Table.from_pandas(frame)
    if comes_from(value, "polars", "DataFrame"):
        return "polars", value.to_arrow()
    if comes_from(value, "pyarrow", "RecordBatch"):
        return "arrow", sys.modules["pyarrow"].Table.from_batches([value])
    return ("arrow", value) if comes_from(value, "pyarrow", "Table") else ("", None)
