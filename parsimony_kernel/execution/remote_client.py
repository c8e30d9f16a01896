"""Run code in a kernel of its own: another process, or a kernel behind a Jupyter server.

For isolation, and for machines bigger than this one. Code that can't be interrupted is killed with
its kernel; the output names the lost variables, and the next call gets a fresh kernel. One thread
does all communication with the kernel, so that an executor can be awaited from any event loop,
used without one, and dropped at any time.
"""

import asyncio
import atexit
import base64
import json
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from textwrap import shorten
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from parsimony_kernel.core.outputs import (
    ExceptionObject,
    KernelOutput,
    KernelOutputType,
    PrimitiveObject,
)
from parsimony_kernel.core.reach import Reach
from parsimony_kernel.execution import remote_bootstrap as bootstrap
from parsimony_kernel.execution.base import CellExecutor, CellRequest
from parsimony_kernel.execution.guard import Paused
from parsimony_kernel.execution.remote_kernel import Kernel, Loss, RemoteKernelError, kernel_maker
from parsimony_kernel.execution.run_scope import Permit, current_permit, current_scope
from parsimony_kernel.lineage.ledger import OriginLedger, stamp_effect

GRACE_S = 3.0
# The largest values that ``fetch`` by default and ``value`` transfer, in bytes of Arrow or JSON.
FETCH_BYTES = 64_000_000
_CLEAN_BYTES = 2**31
_REACH = TypeAdapter(Reach)
_NAMES_CHARS = 300

# Deadline of requests other than cells, in seconds.
CHORE_S = 60.0
_POLL_S = 0.02
CLOSE_S = 5.0

# Error names of an interrupted reply.
_INTERRUPTIONS = frozenset({"KeyboardInterrupt", "CancelledError"})
_TOLD_CHARS = 200

_BOOTSTRAP = "parsimony_kernel.execution.remote_bootstrap"
# A kernel that was restarted by others has not imported it; the reply is an error then.
_SIDE = f'__import__("sys").modules["{_BOOTSTRAP}"]'
_OPEN = f'__import__("importlib").import_module("{_BOOTSTRAP}").open_side({bootstrap.WORDS})'


@dataclass(frozen=True)
class RemoteValue:
    """A variable that stays in its kernel.

    Holds its name, its type in words, and a summary of it from when it last changed.
    """

    name: str
    type: str
    summary: KernelOutputType
    _bring: Callable[[str, int], Any] = field(repr=False, compare=False)

    def fetch(self, max_bytes: int = FETCH_BYTES) -> Any:
        """Transfer the variable's current value, after running code has ended.

        Args:
            max_bytes: the largest value to transfer, in bytes of Arrow or JSON.

        Returns:
            A table of pandas as the same, one of another library as a pyarrow table, an Altair
            chart as its dict, a plain value as it is.

        Raises:
            RemoteKernelError: when it is gone, of another type, or larger than ``max_bytes``; the
                message says what to do instead.
        """
        return self._bring(self.name, max_bytes)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.type} in another kernel; .fetch() brings it>"


class Job(Future[bootstrap.Answer]):
    """A request to the kernel. If cancelled before the kernel is ready, it is not sent.

    Args:
        request: the request.
        permit: answers the code's questions meanwhile; ``None`` if it may not ask.
    """

    stopped_at: float | None = None

    def __init__(self, request: bootstrap.Request, permit: Permit | None = None) -> None:
        super().__init__()
        self.request, self.permit, self.is_cell = request, permit, request.cell is not None
        seconds = CHORE_S if request.cell is None else request.cell.timeout_seconds
        self.seconds = float("inf") if seconds is None else seconds

    def stop(self, *, now: bool = False) -> None:
        """Interrupt it, repeatedly if needed; after the grace period, or now, kill its kernel."""
        if not self.cancel() and (now or self.stopped_at is None):
            self.stopped_at = float("-inf") if now else time.monotonic()


class RemoteClient(threading.Thread):
    """The kernel of one executor, started on demand, and the thread that communicates with it.

    A daemon thread: it keeps no process alive. Jobs may be submitted from any thread.

    Args:
        make: returns a kernel that is not started yet.
        grace_s: how long code may still run after its deadline or a stop before its kernel is
            killed, in seconds.
    """

    def __init__(self, make: Callable[[], Kernel], grace_s: float) -> None:
        super().__init__(name="parsimony-remote-kernel", daemon=True)
        # A loss that was not reported to a cell yet.
        self.untold: Loss | None = None
        # Whether the kernel can stop code before side effects; assumed until it has started.
        self.is_watched = True
        self._make, self._grace_s = make, grace_s
        self._kernel: Kernel | None = None
        self._number = 0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._job = Job(bootstrap.Request())
        _threads.add(self)
        self.start()

    def submit(self, job: Job) -> Job:
        """Queue ``job``; its result is the answer to its request.

        The job raises ``Loss`` when the kernel dies. A cell also raises it, without being run,
        when an earlier kernel whose variables it may need is gone.

        Raises:
            RemoteKernelError: when the executor was shut down.
        """
        if self not in _threads:
            raise RemoteKernelError("The executor was shut down; make another one.")
        self._jobs.put(job)
        return job

    def close(self) -> None:
        """End the kernel, whatever it is running, and the thread. May be called repeatedly."""
        if self in _threads:
            _threads.discard(self)
            self._job.stop(now=True)
            self._jobs.put(None)

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._job = job
            try:
                self._ready()
                if job.set_running_or_notify_cancel():
                    job.set_result(self._call())
            except Exception as exc:  # boundary: front end - it is raised where the job is awaited
                with suppress(InvalidStateError):
                    job.set_exception(exc)
        self._drop()

    # On the thread

    def _ready(self) -> None:
        """Start a kernel if there is none, unless a loss must be reported to this cell first."""
        if self._kernel is not None and (how := self._kernel.death()) is not None:
            self.untold = Loss(how)
            self._drop()
        if self._kernel is None and not (self._job.is_cell and self.untold):
            self._kernel = self._make()
            try:
                self._kernel.start()
                self._open(self._kernel)
            except BaseException:
                self._drop()
                raise

    def _open(self, kernel: Kernel) -> None:
        """Install ``remote_bootstrap`` in the kernel."""
        try:
            reply = self._reply(kernel, _OPEN, f"{_SIDE}.is_watching()", CHORE_S)
        except Loss as exc:
            raise RemoteKernelError(f"The kernel {exc.how} when it was first asked.") from exc
        if reply.get("status") != "ok":
            raise RemoteKernelError(
                f"The kernel cannot be used ({': '.join(_error(reply))}); it must be a kernel of "
                "IPython with the same package: pip install --upgrade parsimony-kernel"
            )
        self.is_watched = _told(reply).get("data", {}).get("text/plain") == "True"

    def _call(self) -> bootstrap.Answer:
        job, kernel = self._job, self._kernel
        if job.is_cell and self.untold is not None:
            loss, self.untold = self.untold, None
            raise loss
        assert kernel is not None
        try:
            return self._answer(kernel)
        except Loss as loss:
            how = kernel.death() or loss.how
            # Nobody waits any more for a cell that was stopped.
            is_told = job.is_cell and job.stopped_at is None
            self.untold = None if is_told else Loss(how, loss.why)
            self._drop()
            raise Loss(how, loss.why, ran=True) from None

    def _drop(self) -> None:
        """Close the kernel and forget it."""
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.close()

    def _answer(self, kernel: Kernel) -> bootstrap.Answer:
        """Send the job and return its answer. Raises ``Loss``."""
        self._number += 1
        request = json.dumps(self._job.request, default=to_jsonable_python)
        collect = f"{_SIDE}.answer({self._number})"
        run = f"await {_SIDE}.call({self._number}, {request!r})"
        reply = self._reply(kernel, run, collect, self._job.seconds)
        if _is_interrupted(reply):
            # Interrupted while the answer was on its way: collect it, if it is there.
            reply = self._reply(kernel, "", collect, CHORE_S)
            if _is_interrupted(reply) or _error(reply) == ("KeyError", str(self._number)):
                return bootstrap.Answer(bootstrap.STOPPED)
        try:
            return bootstrap.ANSWER.validate_json(_told(reply)["data"][bootstrap.ANSWER_MIME])
        except (LookupError, ValueError, TypeError):
            told = ": ".join(filter(None, _error(reply)))[:_TOLD_CHARS] or "cannot be read"
            raise Loss(
                "was ended, because it was restarted by somebody else, or code broke the "
                f"executor's side of it (its answer: {told})"
            ) from None

    def _reply(self, kernel: Kernel, code: str, expression: str, seconds: float) -> dict[str, Any]:
        """Send one request and wait for its reply. Raises ``Loss``."""
        job, strikes = self._job, 0
        kernel.send(code, expression)
        # The deadline counts from the kernel's first message, or from here after the grace period:
        # code that holds the GIL from the start delays that message.
        begun = time.monotonic() + self._grace_s
        while True:
            reply, how = kernel.reply(_POLL_S), kernel.death()
            kernel.answer(partial(_answer_to, job.permit))
            if kernel.speaks():
                begun = min(begun, time.monotonic())
            if reply is not None:
                return reply
            if how is not None:
                raise Loss(how)
            over = time.monotonic() - (job.stopped_at or begun + seconds)
            if over > self._grace_s:
                raise Loss("was ended", "deadline" if job.stopped_at is None else "stop")
            # After a deadline, the executor in the kernel interrupts the code itself.
            if job.stopped_at is not None and over >= strikes * self._grace_s / 3:
                strikes += 1
                kernel.interrupt()


def _told(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the user expression in a reply."""
    return (reply.get("user_expressions") or {}).get("answer") or {}


def _error(reply: dict[str, Any]) -> tuple[str, str]:
    """Return name and message of the error in the code, else in the expression."""
    wrong = _told(reply) if reply.get("status") == "ok" else reply
    return str(wrong.get("ename", "")), str(wrong.get("evalue", ""))


def _is_interrupted(reply: dict[str, Any]) -> bool:
    return reply.get("status") == "aborted" or _error(reply)[0] in _INTERRUPTIONS


def _answer_to(permit: Permit | None, question: str) -> str:
    """Answer a question of the code in the kernel to its permit, both as JSON.

    A question names a function of the permit and its arguments; the answer holds the return value
    or the error.
    """
    asked = json.loads(question)
    try:
        if asked["do"] not in bootstrap.ASKED:
            raise ValueError(f"{asked['do']!r} is nothing that code may ask")
        given = [_REACH.validate_python(e) if type(e) is dict else e for e in asked["given"]]
        told = {"value": getattr(permit, asked["do"])(*given)}
    except Exception as exc:  # boundary: front end - it is raised where the code asked
        told = {"error": f"{type(exc).__name__}: {exc}"}
    return json.dumps({"number": asked["number"], **told})


_threads: set[RemoteClient] = set()


@atexit.register
def _close_all() -> None:
    for each in tuple(_threads):
        each.close()
        each.join(CLOSE_S)


class RemoteExecutor(CellExecutor):
    """Runs code in a kernel of its own, started on first use.

    The kernel's environment must have parsimony_kernel installed. ``variables()`` returns numbers
    and texts of up to 1,000 characters as they are, and a ``RemoteValue`` for everything else, as
    of the end of the last call. The loss of a kernel is reported once, as an ``ExceptionObject``
    with ``state_lost`` whose message names the lost variables. The ledger drops these names and
    keeps the runs of cells. Output that the code had printed is lost with its kernel, too.

    Child processes of the code are killed with the kernel, see ``execution.capture``. Behind a
    server this is the server's job, and a process in a session of its own survives there.

    Args:
        kernel_name: the kernelspec, on this machine or on the server.
        url: the address of a Jupyter server or gateway; ``None`` for a local process.
        token: the server's token.
        cwd: the working folder, on the kernel's machine.
        grace_s: how long code may still run after its deadline or a stop before its kernel is
            killed, in seconds.

    Raises:
        ValueError: when ``url`` is not the address of a server.
    """

    def __init__(
        self,
        kernel_name: str = "python3",
        *,
        url: str | None = None,
        token: str | None = None,
        cwd: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self.origin_ledger = OriginLedger()
        self._cwd, self.url = cwd, url
        self._variables: dict[str, Any] = {}
        self._client = RemoteClient(kernel_maker(kernel_name, url, token), grace_s)
        self._bring = partial(_bring, self._client)
        weakref.finalize(self, self._client.close).atexit = False

    @property
    def is_watched(self) -> bool:  # type: ignore[override]
        return self._client.is_watched

    # The contract

    async def run_cell(self, request: CellRequest) -> tuple[KernelOutput, set[tuple[str, str]]]:
        permit = None if request.dry_run else current_permit()
        asked = bootstrap.Request(self._cwd, cell=request, scope=current_scope())
        if permit is not None:
            # A kernel behind a server doesn't see our files.
            workspace = permit.workspace if self.url is None else None
            asked.permit = workspace, permit.approved, permit.made
        try:
            answer = await self._answer(Job(asked, permit))
        except Loss as loss:
            error = _lost(loss, self._variables, request.timeout_seconds)
            self._forget()
            return KernelOutput(outputs=(error,)), set()
        except RemoteKernelError as exc:
            return bootstrap.failed("RemoteKernelError", str(exc)), set()
        self._settle(answer)
        if permit is not None:
            permit.add(answer)
            self.paused = answer.paused and Paused(None, answer.paused[0], left=answer.paused[1])
        return answer.output, answer.read

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Set the working folder of later cells to ``cwd``, on the kernel's machine.

        Raises:
            NotADirectoryError: when it is not a folder there.
            RemoteKernelError: when there is no kernel.
        """
        answer = await asyncio.wrap_future(self._client.submit(Job(bootstrap.Request(cwd))))
        if (error := answer.output.error) is not None:
            is_none = error.name == "NotADirectoryError"
            raise (NotADirectoryError if is_none else OSError)(error.message)
        self._cwd = answer.cwd

    async def clear_namespace(self) -> None:
        # A kernel that is gone, or that code has broken, has nothing to clear.
        with suppress(RemoteKernelError):
            await asyncio.wrap_future(self._client.submit(Job(bootstrap.Request(clears=True))))
        self._client.untold = None
        self.origin_ledger.clear()
        self._variables.clear()

    def variables(self) -> dict[str, Any]:
        return {} if self._client.untold else dict(self._variables)

    async def shutdown(self) -> None:
        """End the kernel for good."""
        self._client.close()
        await asyncio.to_thread(self._client.join, CLOSE_S)
        self._forget()

    async def value(self, name: str) -> Any:
        """Transfer the whole value of a variable.

        Raises:
            KeyError: there is no such variable.
        """
        value = self._variables[name]
        if not isinstance(value, RemoteValue):
            return value
        return await asyncio.to_thread(value.fetch, _CLEAN_BYTES)

    async def __aenter__(self) -> "RemoteExecutor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # Calls

    async def _answer(self, job: Job) -> bootstrap.Answer:
        """Submit a cell; stop it when this is cancelled, and kill its kernel at a second cancel."""
        call, is_cancelled = asyncio.wrap_future(self._client.submit(job)), False
        while not call.done():
            try:
                await asyncio.wait({call})
            except asyncio.CancelledError:
                job.stop(now=is_cancelled)
                is_cancelled = True
        if not is_cancelled:
            return call.result()
        if not call.cancelled():
            match call.exception():
                case None:
                    self._settle(call.result())
                case Loss() as loss:  # the next cell reports it
                    self._client.untold = loss
        raise asyncio.CancelledError

    def _settle(self, answer: bootstrap.Answer) -> None:
        """Update the variables and the ledger from an answer."""
        if answer.names is not None:
            told, known = answer.output, self._variables
            changed = dict.fromkeys(told.changed) | {each.name: each for each in told.variables}
            self._variables = {}
            for name, (kind, whole) in answer.names.items():
                value = known.get(name)
                if whole is not None:
                    value = json.loads(whole)
                elif name in changed or getattr(value, "type", "") != kind:
                    summary = changed.get(name) or PrimitiveObject(name=name, python_type=kind)
                    value = RemoteValue(name, kind, summary, self._bring)
                self._variables[name] = value
        for effect, code, scope, at, how in answer.ledger:
            stamp_effect(self.origin_ledger, effect, code, scope, at, **how)

    def _forget(self) -> None:
        """Drop all variables and their origins after a loss."""
        self._variables.clear()
        for name, version in self.origin_ledger.versions().items():
            if version:
                self.origin_ledger.go_back(name, 0)


def _bring(client: RemoteClient, name: str, max_bytes: int) -> Any:
    """Transfer a variable. Takes the client, since the executor would be kept alive by it."""
    answer = client.submit(Job(bootstrap.Request(fetch=(name, max_bytes)))).result()
    if answer.value is None:
        told = answer.output.error
        raise RemoteKernelError(f"{told.message if told else 'The answer has no value'}.")
    return decode(*answer.value)


def _lost(loss: Loss, names: Iterable[str], seconds: float | None) -> ExceptionObject:
    """Build the error for a lost kernel: what happened, what is lost, and what to do next."""
    name, what = {
        "deadline": ("TimeoutError", f"timeout: the code was stopped after {seconds or 0:g} s; "),
        "stop": ("KeyboardInterrupt", "stopped by the user; "),
        "death": ("KernelDied", f"the kernel {loss.how}"),
    }[loss.why]
    what += "" if loss.why == "death" else "it could not be interrupted, so its kernel was ended"
    what += "" if loss.ran else ", before this code, which was not run"
    shown = shorten(", ".join(names), _NAMES_CHARS, placeholder=" …")
    gone = f"gone with it: {shown}" if shown else "it held no variables"
    gone += "; what this code had printed is gone too" if loss.ran else ""
    return ExceptionObject(
        name=name,
        message=f"{what}; {gone}. The next code has a fresh kernel: make again what it needs",
        past_deadline=loss.why == "deadline",
        state_lost=True,
    )


def decode(form: str, data: str) -> Any:
    """Decode a value encoded by ``encode``."""
    raw = base64.b64decode(data)
    if form == "json":
        return json.loads(raw)
    import pyarrow as pa

    with pa.ipc.open_stream(raw) as reader:
        table = reader.read_all()
    if form == "table":
        return table
    frame = table.to_pandas()
    return frame if form == "frame" else frame.iloc[:, 0]
