"""Run code in a kernel of its own: another process, or a kernel behind a Jupyter server.

For isolation, and for machines bigger than this one. Code that can't be interrupted is killed with
its kernel; the output names the lost variables, and the next call gets a fresh kernel. One thread
does all communication with the kernel, so that an executor can be awaited from any event loop,
used without one, and dropped at any time.
"""

import asyncio
import atexit
import json
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from pydantic import TypeAdapter

from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput, KernelOutputType
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.execution.base import CellExecutor, CellRequest
from parsimony_kernel.execution.guard import Paused
from parsimony_kernel.execution.permit import Permit, current_permit
from parsimony_kernel.execution.remote_bootstrap import ANSWER_MIME, ASKED, STOPPED, WORDS
from parsimony_kernel.execution.remote_kernel import (
    Kernel,
    LocalKernel,
    RemoteKernelError,
)
from parsimony_kernel.execution.remote_values import RemoteValue, decode
from parsimony_kernel.execution.run_scope import RunScope, current_scope
from parsimony_kernel.lineage.ledger import OriginLedger, stamp_effect
from parsimony_kernel.lineage.observe import CellEffect

GRACE_S = 3.0
# The largest table, in bytes of Arrow, that ``value`` transfers.
_CLEAN_BYTES = 2**31
_SUMMARY: TypeAdapter[KernelOutputType] = TypeAdapter(KernelOutputType)
_EFFECT = TypeAdapter(CellEffect)
_NAMES_TOLD = 10
Request = dict[str, Any]

# Deadline of requests other than cells, in seconds.
CHORE_S = 60.0
_POLL_S = 0.05
# The poll interval when the code may wait for our answers.
_ASKED_S = 0.01
CLOSE_S = 5.0

# Error names of an interrupted reply, and the minimal answer in that case.
_INTERRUPTIONS = frozenset({"KeyboardInterrupt", "CancelledError"})
INTERRUPTED: dict[str, Any] = {"names": None, "ledger": []}
_TOLD_CHARS = 200

_BOOTSTRAP = "parsimony_kernel.execution.remote_bootstrap"
# A kernel that was restarted by others has not imported it; the reply is an error then.
_SIDE = f'__import__("sys").modules["{_BOOTSTRAP}"]'
_OPEN = f'__import__("importlib").import_module("{_BOOTSTRAP}").open_side({WORDS})'


class Loss(RemoteKernelError):
    """The kernel is gone with all its variables.

    ``str()`` says how, in words that follow "the kernel"; ``why`` is the cause: its own death, a
    deadline, or a stop. ``ran`` is whether the request reached the kernel.
    """

    ran = False

    def __init__(self, how: object, why: Literal["death", "deadline", "stop"] = "death") -> None:
        super().__init__(str(how))
        self.why = why


class Job(Future[Any]):
    """A request to the kernel. If cancelled before the kernel is ready, it is not sent.

    Args:
        request: the request, sent as JSON.
        seconds: the deadline; ``None`` for no limit.
        told: answers the code's questions meanwhile; ``None`` if it may not ask.
    """

    stopped_at: float | None = None
    is_killed = False

    def __init__(
        self,
        request: Request,
        seconds: float | None = CHORE_S,
        told: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__()
        self.request, self.seconds, self.told = request, seconds, told
        self.is_cell = request["do"] == "run"

    def stop(self) -> None:
        """Interrupt it, repeatedly if needed, and after the grace period kill its kernel."""
        if not self.cancel() and self.stopped_at is None:
            self.stopped_at = time.monotonic()

    def kill(self) -> None:
        """Kill its kernel now."""
        self.cancel()
        self.is_killed = True


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
        self._number, self._has_run = 0, False
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._job = Job({"do": "nothing"})
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
            self._job.kill()
            self._jobs.put(None)

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._job = job
            try:
                self._ready(job.is_cell)
                if job.set_running_or_notify_cancel():
                    job.set_result(self._call())
            except Exception as exc:  # boundary: front end - it is raised where the job is awaited
                with suppress(InvalidStateError):
                    job.set_exception(exc)
        self._drop()

    # On the thread

    def _ready(self, is_cell: bool) -> None:
        """Start a kernel if there is none, unless a loss must be reported to this cell first."""
        if self._kernel is not None and (how := self._kernel.death()) is not None:
            self.untold = Loss(how) if self._has_run else self.untold
            self._drop()
        if self._kernel is None and not (is_cell and self.untold):
            self._kernel = self._make()
            try:
                self._kernel.start()
                self._open()
            except BaseException:
                self._drop()
                raise

    def _open(self) -> None:
        """Install ``remote_bootstrap`` in the kernel."""
        try:
            reply = self._reply(_OPEN, f"{_SIDE}.is_watching()", CHORE_S)
        except RemoteKernelError as exc:
            raise RemoteKernelError(f"The kernel {exc} when it was first asked.") from exc
        if reply.get("status") != "ok":
            raise RemoteKernelError(
                f"The kernel cannot be used ({': '.join(_error(reply))}); it must be a kernel of "
                "IPython with the same package: pip install --upgrade parsimony-kernel"
            )
        self.is_watched = _told(reply).get("data", {}).get("text/plain") == "True"

    def _call(self) -> Any:
        job, kernel = self._job, self._kernel
        if job.is_cell and self.untold is not None:
            loss, self.untold = self.untold, None
            raise Loss(loss, loss.why)
        assert kernel is not None
        try:
            answer = self._answer()
        except RemoteKernelError as exc:
            lost = exc if isinstance(exc, Loss) else Loss(kernel.death() or exc)
            self._drop()
            lost.ran = True
            self.untold = self.untold if job.is_cell else lost
            raise lost from None
        self._has_run |= job.is_cell
        answer = answer or INTERRUPTED
        if "output" in answer:
            return answer
        error = ExceptionObject(**answer.get("error", STOPPED))
        return {**answer, "output": KernelOutput(outputs=(error,))}

    def _drop(self) -> None:
        """Close the kernel and forget it."""
        kernel, self._kernel, self._has_run = self._kernel, None, False
        if kernel is not None:
            kernel.close()

    def _answer(self) -> dict[str, Any] | None:
        """Send the job and return its answer; ``None`` when it was interrupted.

        Raises what ``_reply`` raises.
        """
        self._number += 1
        seconds = self._job.seconds
        run = f"await {_SIDE}.call({self._number}, {json.dumps(self._job.request)!r})"
        collect = f"{_SIDE}.answer({self._number})"
        reply = self._reply(run, collect, seconds)
        answer = _answer_in(reply)
        if answer is None and _is_interrupted(reply):
            # Interrupted while the answer was on its way: collect it, if it is there.
            reply = self._reply("", collect, CHORE_S)
            answer = _answer_in(reply)
            if _error(reply) == ("KeyError", str(self._number)) or _is_interrupted(reply):
                return answer
        if answer is None:
            told = ": ".join(filter(None, _error(reply)))[:_TOLD_CHARS] or "cannot be read"
            raise Loss(
                "was ended, because it was restarted by somebody else, or code broke the "
                f"executor's side of it (its answer: {told})"
            )
        return answer

    def _reply(self, code: str, expression: str, seconds: float | None) -> dict[str, Any]:
        """Send one request and wait for its reply.

        Raises ``Loss``, and another ``RemoteKernelError`` when the connection broke.
        """
        kernel, job, strikes = self._kernel, self._job, 0
        assert kernel is not None
        kernel.send(code, expression)
        # The deadline counts from the kernel's first message, or from here after the grace period:
        # code that holds the GIL from the start delays that message.
        begun = time.monotonic() + self._grace_s
        while True:
            reply, how = kernel.reply(_POLL_S if job.told is None else _ASKED_S), kernel.death()
            if job.told is not None:
                for question in kernel.questions():
                    kernel.tell(job.told(question))
            if kernel.speaks():
                begun = min(begun, time.monotonic())
            if reply is not None:
                return reply
            if how is not None:
                raise Loss(how)
            why: Literal["deadline", "stop"] = "deadline" if job.stopped_at is None else "stop"
            due = float("inf") if seconds is None else begun + seconds
            over = time.monotonic() - (job.stopped_at or due)
            if job.is_killed or over > self._grace_s:
                raise Loss("was ended", "stop" if job.is_killed else why)
            # After a deadline, the executor in the kernel interrupts the code itself.
            if why == "stop" and over >= strikes * self._grace_s / 3:
                strikes += 1
                kernel.interrupt()


def _told(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the result of the user expression in a reply."""
    return (reply.get("user_expressions") or {}).get("answer") or {}


def _answer_in(reply: dict[str, Any]) -> dict[str, Any] | None:
    try:
        answer = json.loads(_told(reply)["data"][ANSWER_MIME])
    except (LookupError, ValueError, TypeError):
        return None
    return answer if type(answer) is dict and answer.keys() >= INTERRUPTED.keys() else None


def _error(reply: dict[str, Any]) -> tuple[str, str]:
    """Return name and message of the error in the code, else in the expression."""
    wrong = _told(reply) if reply.get("status") == "ok" else reply
    return str(wrong.get("ename", "")), str(wrong.get("evalue", ""))


def _is_interrupted(reply: dict[str, Any]) -> bool:
    return reply.get("status") == "aborted" or _error(reply)[0] in _INTERRUPTIONS


_threads: set[RemoteClient] = set()


@atexit.register
def _close_all() -> None:
    for each in tuple(_threads):
        each.close()
        each.join(CLOSE_S)


class RemoteExecutor(CellExecutor):
    """Runs code in a kernel of its own, started on first use.

    The kernel's environment must have parsimony_kernel installed. ``variables()`` returns numbers
    and short texts as they are, up to 200,000 characters in total, and a ``RemoteValue`` for
    everything else, both as of the end of the last call. The loss of a kernel is reported once, as
    an ``ExceptionObject`` with ``state_lost`` whose message names the lost variables. The ledger
    drops these names and keeps the runs of cells. Output that the code had printed is lost with its
    kernel, too.

    Child processes of the code are killed with the kernel, see ``execution.children``. Behind a
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
        def make() -> Kernel:
            if url is None:
                return LocalKernel(kernel_name)
            try:
                from parsimony_kernel.execution.gateway import GatewayKernel
            except ImportError as exc:
                raise RemoteKernelError(
                    "Kernels behind a server need another package: "
                    'pip install "parsimony-kernel[remote]"'
                ) from exc
            return GatewayKernel(url, token, kernel_name)

        with suppress(RemoteKernelError):
            make()  # raises for a wrong address now, instead of at the first call
        self.origin_ledger = OriginLedger()
        self._cwd, self.url = cwd, url
        self._variables: dict[str, Any] = {}
        # The lost variables that were not reported yet.
        self._gone: tuple[str, ...] = ()
        self._client = RemoteClient(make, grace_s)
        self._bring = partial(_bring, self._client)
        weakref.finalize(self, self._client.close).atexit = False

    @property
    def is_watched(self) -> bool:  # type: ignore[override]
        return self._client.is_watched

    # The contract

    async def run_cell(self, request: CellRequest) -> tuple[KernelOutput, set[tuple[str, str]]]:
        scope, permit = current_scope(), None if request.dry_run else current_permit()
        asked = {
            "do": "run",
            "given": asdict(request),
            "scope": scope and asdict(scope),
            "permit": permit and _sent(permit, is_here=self.url is None),
            "cwd": self._cwd,
        }
        seconds = request.timeout_seconds
        try:
            answer = await self._answer(asked, permit, seconds)
        except Loss as loss:
            self._forget()
            error = _lost(loss, self._gone, seconds)
            self._gone = ()
            return KernelOutput(outputs=(error,)), set()
        except RemoteKernelError as exc:
            error = ExceptionObject(name="RemoteKernelError", message=str(exc))
            return KernelOutput(outputs=(error,)), set()
        self._settle(answer)
        if permit is not None and "permit" in answer:
            self.paused = _settle_permit(permit, answer["permit"], answer["paused"])
        output = KernelOutput.model_validate(answer["output"])
        return output, set(map(tuple, answer.get("read", ())))

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Set the working folder of later cells to ``cwd``, on the kernel's machine.

        Raises:
            NotADirectoryError: when it is not a folder there.
            RemoteKernelError: when there is no kernel.
        """
        answer = await self._chore("set_cwd", cwd)
        if "cwd" not in answer:
            error = answer.get("error", STOPPED)
            is_none = error["name"] == "NotADirectoryError"
            raise (NotADirectoryError if is_none else OSError)(error["message"])
        self._cwd = answer["cwd"]

    async def clear_namespace(self) -> None:
        # A kernel that is gone, or that code has broken, has nothing to clear.
        with suppress(RemoteKernelError):
            await self._chore("clear", None)
        self._client.untold = None
        self.origin_ledger.clear()
        self._variables.clear()
        self._gone = ()

    def variables(self) -> dict[str, Any]:
        return dict(self._variables)

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

    async def _chore(self, do: str, cwd: str | None) -> dict[str, Any]:
        """Send a request other than a cell; return its answer. Raises ``RemoteKernelError``."""
        try:
            job = self._client.submit(Job({"do": do, "cwd": cwd}))
            answer: dict[str, Any] = await asyncio.wrap_future(job)
        except Loss as loss:
            raise RemoteKernelError(f"The kernel {loss}; try again.") from loss
        return answer

    async def _answer(
        self, request: Request, permit: Permit | None, seconds: float | None
    ) -> dict[str, Any]:
        told = None if permit is None else _answers(permit)
        job = self._client.submit(Job(request, seconds, told))
        call = asyncio.wrap_future(job)
        try:
            answer: dict[str, Any] = await asyncio.shield(call)
            return answer
        except asyncio.CancelledError:
            job.stop()
            while not call.done():
                try:
                    await asyncio.wait({call})
                except asyncio.CancelledError:
                    job.kill()
            if not call.cancelled():
                match call.exception():
                    case None:
                        self._settle(call.result())
                    case Loss() as loss:  # cancelled, so the next cell reports the loss
                        self._client.untold = loss
                        self._forget()
            raise

    def _settle(self, answer: dict[str, Any]) -> None:
        """Update the variables and the ledger from an answer."""
        if answer["names"] is not None:
            names = answer["names"].items()
            self._variables = {name: self._value(name, told) for name, told in names}
        for ran in answer["ledger"]:
            effect, scope = _EFFECT.validate_python(ran["effect"]), RunScope(**ran["scope"])
            ledger, code = self.origin_ledger, ran["code"]
            stamp_effect(ledger, effect, code, scope, ran["at"], **ran["how"])

    def _value(self, name: str, told: dict[str, Any]) -> Any:
        """Return a variable's local form: a plain value itself, else a ``RemoteValue``."""
        if "plain" in told:
            return json.loads(told["plain"])
        known = self._variables.get(name)
        if "summary" not in told and isinstance(known, RemoteValue) and known.type == told["type"]:
            return known
        of_type = {"type": "primitive", "name": name, "python_type": told["type"]}
        summary = _SUMMARY.validate_python(told.get("summary", of_type))
        return RemoteValue(name, told["type"], summary, self._bring)

    def _forget(self) -> None:
        """Drop all variables and their origins after a loss; keep the names to report them."""
        self._gone = (*self._gone, *self._variables)
        self._variables.clear()
        for name, version in self.origin_ledger.versions().items():
            if version:
                self.origin_ledger.drop(name)


def _bring(client: RemoteClient, name: str, max_bytes: int) -> Any:
    """Transfer a variable. Takes the client, since the executor would be kept alive by it."""
    job = Job({"do": "fetch", "given": {"name": name, "limit": max_bytes}})
    try:
        answer = client.submit(job).result()
    except Loss as loss:
        raise RemoteKernelError(
            f"{name!r} is gone: the kernel {loss}; run the cell that makes it again."
        ) from loss
    if "form" not in answer:
        told = answer.get("error", {"message": "the kernel was interrupted; try again"})
        raise RemoteKernelError(f"{told['message']}.")
    return decode(answer["form"], answer["data"])


def _lost(loss: Loss, names: tuple[str, ...], seconds: float | None) -> ExceptionObject:
    """Build the error for a lost kernel: what happened, what is lost, and what to do next."""
    name, what = {
        "deadline": ("TimeoutError", f"timeout: the code was stopped after {seconds or 0:g} s; "),
        "stop": ("KeyboardInterrupt", "stopped by the user; "),
        "death": ("KernelDied", f"the kernel {loss}"),
    }[loss.why]
    what += "" if loss.why == "death" else "it could not be interrupted, so its kernel was ended"
    what += "" if loss.ran else ", before this code, which was not run"
    shown = ", ".join(names[:_NAMES_TOLD])
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    gone = f"gone with it: {shown}{more}" if names else "it held no variables"
    gone += "; what this code had printed is gone too" if loss.ran else ""
    return ExceptionObject(
        name=name,
        message=f"{what}; {gone}. The next code has a fresh kernel: make again what it needs",
        past_deadline=loss.why == "deadline",
        state_lost=True,
    )


# The permit of the code in the kernel


def _sent(permit: Permit, *, is_here: bool) -> dict[str, Any]:
    """Serialise ``permit`` for a request.

    Args:
        permit: the permit of the code.
        is_here: the kernel runs on this machine and sees the same files.
    """
    workspace = str(permit.workspace) if is_here else None
    return {"workspace": workspace, "approved": permit.approved, "made": sorted(permit.made)}


def _answers(permit: Permit) -> Callable[[str], str]:
    """Return a function that answers the kernel's questions to ``permit``, both as JSON.

    A question names a function of the permit and its arguments; the answer holds the return value
    or the error.
    """

    def answer(question: str) -> str:
        asked = json.loads(question)
        try:
            if asked["do"] not in ASKED:
                raise ValueError(f"{asked['do']!r} is nothing that code may ask")
            given = [_reach(each) if type(each) is dict else each for each in asked["given"]]
            told = {"value": getattr(permit, asked["do"])(*given)}
        except Exception as exc:  # boundary: front end - it is raised where the code asked
            told = {"error": f"{type(exc).__name__}: {exc}"}
        return json.dumps({"number": asked["number"], **told})

    return answer


def _settle_permit(
    permit: Permit, came: dict[str, Any], paused: dict[str, Any] | None
) -> Paused | None:
    """Update ``permit`` from the kernel's answer; return the code paused there, if any."""
    permit.held = came["held"] and _reach(came["held"])
    permit.why_not, permit.open_end = came["why_not"], came["open_end"]
    permit.left += map(_reach, came["left"])
    permit.made.update(came["made"])
    return None if paused is None else Paused(None, paused["sha"], left=tuple(paused["left"]))


def _reach(told: dict[str, Any]) -> Reach:
    return Reach(**{**told, "kind": ReachKind(told["kind"])})
