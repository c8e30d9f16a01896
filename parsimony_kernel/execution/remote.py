"""Code in a kernel of its own: another process, or a kernel behind a Jupyter server.

For isolation, and for machines bigger than this one. What cannot be interrupted is ended with its
kernel; the call says which variables are gone, and the next one has a fresh kernel.
"""

import asyncio
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType
from typing import Any

from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.gateway import GatewayKernel
from parsimony_kernel.execution.remote_calls import (
    CHORE_S,
    Control,
    Ended,
    FarThread,
    Loss,
    Request,
)
from parsimony_kernel.execution.remote_kernel import Kernel, LocalKernel, RemoteKernelError
from parsimony_kernel.execution.remote_values import FETCH_BYTES, brought, value_from
from parsimony_kernel.execution.run_scope import current_scope
from parsimony_kernel.lineage.ledger import CellRun, InputRef, OriginLedger, VariableOrigin

GRACE_S = 3.0
_NAMES_TOLD = 10
_UNSTOPPABLE = "it could not be interrupted, so its kernel was ended"


class RemoteExecutor(BaseCodeExecutor):
    """Runs code in a kernel of its own, which is started when it is first needed.

    The environment of the kernel has parsimony_kernel installed. ``variables()`` holds small plain
    values as they are and a ``RemoteValue`` for everything else, both as of the end of the last
    call. A kernel that is gone is an ``ExceptionObject`` with ``state_lost``, once, whose message
    names what is gone; in the ledger these names are dropped and the runs of cells stay. Of code
    that ends its process at once (``os._exit``, a crash) the last prints may be lost.

    With its kernel end the processes that its code has started, see ``execution.descendants``.
    Behind a server that is the server's part, and what began a session of its own lives on there.

    Args:
        kernel_name: the kernelspec, of this machine or of the server.
        url: the address of a Jupyter server or gateway; ``None`` for a process of this machine.
        token: what opens that server.
        cwd: the folder to run in, one of the kernel's machine.
        grace_s: how long after its deadline or a stop code may still run before its kernel is
            ended, in seconds.

    Raises ``ValueError`` when ``url`` is no address of a server.
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
        def local() -> Kernel:
            return LocalKernel(kernel_name)

        def behind() -> Kernel:
            return GatewayKernel(url or "", token, kernel_name)

        if url is not None:
            behind()  # says at once what is wrong with the address
        self.origin_ledger = OriginLedger()
        self._cwd = cwd
        self._variables: dict[str, Any] = {}
        # What the run whose code goes there has read; added to by what it reads there.
        self._seen: set[tuple[str, str]] | None = None
        # The names of a loss that no code was told of yet.
        self._gone: tuple[str, ...] = ()
        self._copied = _Copied(self.origin_ledger)
        self._control: Control | None = None
        self._thread = FarThread(local if url is None else behind, grace_s)
        self._far = self._thread.far
        self._bring = _bringer(self._thread)
        weakref.finalize(self, self._thread.close).atexit = False

    # The contract

    async def execute(
        self,
        code: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        producer_notebook_path: str | None = None,
        seen_live_names: set[tuple[str, str]] | None = None,
    ) -> KernelOutput:
        scope = current_scope()
        self._seen = seen_live_names
        given = {
            "code": code,
            "dry_run": dry_run,
            "timeout_seconds": timeout_seconds,
            "producer_notebook_path": producer_notebook_path,
            "seen_live_names": None if seen_live_names is None else sorted(seen_live_names),
        }
        request = {"do": "execute", "given": given, "scope": scope and asdict(scope)}
        return await self._cell(request, timeout_seconds)

    async def eval(
        self,
        expr: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> KernelOutput:
        given = {"expr": expr, "dry_run": dry_run, "timeout_seconds": timeout_seconds}
        return await self._cell({"do": "eval", "given": given}, timeout_seconds)

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Run what follows in the folder ``cwd`` of the kernel's machine.

        Raises ``NotADirectoryError`` when it is none there, ``RemoteKernelError`` when there is
        no kernel.
        """
        self._cwd = None
        await self._move(cwd)

    async def clear_namespace(self) -> None:
        await self._on_far(self._far.fresh())
        self.origin_ledger.clear()
        self._forget()
        self._gone = ()

    def variables(self) -> dict[str, Any]:
        return dict(self._variables)

    # The kernel itself

    async def start(self) -> None:
        """Start the kernel now rather than with the first call. Raises ``RemoteKernelError``."""
        await self._on_far(self._far.start())

    def interrupt(self) -> None:
        """Interrupt the call that runs, which then ends with a ``KeyboardInterrupt``."""
        if self._control is not None:
            self._thread.tell(self._control.stop)

    async def kill(self) -> None:
        """End the kernel, whatever it does. The variables are gone; the next call has another."""
        await self._on_far(self._far.end())
        self._forget()
        self._gone = ()

    async def restart(self) -> None:
        """End the kernel and start another one."""
        await self.kill()
        await self.start()

    async def shutdown(self) -> None:
        """End the kernel for good."""
        with suppress(RemoteKernelError):
            await self._on_far(self._far.end())
        await asyncio.to_thread(self._thread.close, wait=True)
        self._forget()

    async def fetch(self, name: str, max_bytes: int = FETCH_BYTES) -> Any:
        """The variable ``name`` brought over, see ``RemoteValue.fetch``."""
        return await asyncio.to_thread(self._bring, name, max_bytes)

    async def __aenter__(self) -> "RemoteExecutor":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.shutdown()

    # Calls

    async def _on_far(self, coroutine: Any) -> Any:
        return await asyncio.wrap_future(self._thread.submit(coroutine))

    async def _move(self, cwd: str) -> None:
        ended: Ended = await self._on_far(self._far.call({"do": "set_cwd", "cwd": cwd}, CHORE_S))
        error = (ended.answer or {}).get("error")
        if error is not None:
            kind = NotADirectoryError if error["name"] == "NotADirectoryError" else OSError
            raise kind(error["message"])
        if ended.answer is None:
            raise RemoteKernelError(f"The kernel did not change to {cwd!r}; try again.")

    async def _cell(self, request: Request, seconds: float | None) -> KernelOutput:
        if seconds is not None and not seconds > 0:
            raise ValueError(f"timeout_seconds is {seconds!r}; give more than 0, or None")
        try:
            if self._cwd is not None:
                cwd, self._cwd = self._cwd, None
                await self._move(cwd)
            ended = await self._ended(request, seconds)
        except RemoteKernelError as exc:
            return KernelOutput(outputs=(_told(exc),))
        return self._output(ended, seconds)

    async def _ended(self, request: Request, seconds: float | None) -> Ended:
        control = Control()
        call = asyncio.wrap_future(
            self._thread.submit(self._far.call(request, seconds, cell=True, control=control))
        )
        self._control = control
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            ours = asyncio.current_task()
            if call.cancelled() and not (ours and ours.cancelling()):
                return Ended(ran=False)  # interrupted while it waited for its kernel
            control.is_deserted = True
            self._thread.tell(control.stop)
            while not call.done():
                try:
                    await asyncio.wait({call})
                except asyncio.CancelledError:
                    self._thread.tell(control.kill)
            if not call.cancelled() and call.exception() is None:
                self._settle(call.result())
            raise
        finally:
            self._control = None

    def _output(self, ended: Ended, seconds: float | None) -> KernelOutput:
        """What came of a cell, after it was written into variables and ledger."""
        self._settle(ended)
        answer = ended.answer or {}
        if "output" in answer:
            return KernelOutput.model_validate(answer["output"])
        if ended.loss is not None:
            gone, self._gone = self._gone, ()
            error = _lost(ended.loss, gone, seconds, ran=ended.ran)
        elif "error" in answer:
            error = ExceptionObject(**answer["error"])
        else:
            error = ExceptionObject(name="KeyboardInterrupt", message="stopped by the user")
        return KernelOutput(
            stdout=ended.stdout,
            stderr=ended.stderr,
            outputs=(error,),
            truncated=ended.truncated,
        )

    def _settle(self, ended: Ended) -> None:
        """Write into variables and ledger what became of them."""
        if ended.loss is not None:
            self._gone = (*self._gone, *self._variables)
            self._forget()
        answer = ended.answer
        if answer is not None:
            for name in answer["gone"]:
                self._variables.pop(name, None)
            for name, told in answer["names"].items():
                self._variables[name] = value_from(name, told, self._bring)
            self._copied.write(answer["ledger"])
            if self._seen is not None:
                self._seen.update((kind, name) for kind, name in answer.get("seen_live_names", ()))

    def _forget(self) -> None:
        """Nothing is left of what the names stood for."""
        self._variables.clear()
        for name, version in self.origin_ledger.versions().items():
            if version:
                self.origin_ledger.drop(name)
        self._copied = _Copied(self.origin_ledger)


class _Copied:
    """Copies the ledger of one life of a kernel, which counts from 1, to the end of ours."""

    def __init__(self, ledger: OriginLedger) -> None:
        self._ledger = ledger
        self._versions: dict[tuple[str, int], int] = {}
        self._numbers: dict[int, int] = {}

    def write(self, told: list[tuple[str, Any]]) -> None:
        """Do again, in the same order, what was done to the ledger there."""
        for what, given in told:
            if what == "stamp":
                self._stamp(VariableOrigin.model_validate(given))
            elif what == "record":
                self._record(CellRun.model_validate(given))
            else:
                self._ledger.drop(given)

    def _stamp(self, origin: VariableOrigin) -> None:
        version = self._ledger.next_version(origin.name)
        self._versions[origin.name, origin.version] = version
        number = origin.cell_run and self._number(origin.cell_run)
        here = {"version": version, "inputs": self._here(origin.inputs), "cell_run": number}
        self._ledger.stamp(origin.model_copy(update=here))

    def _record(self, cell: CellRun) -> None:
        here = {
            "number": self._number(cell.number),
            "reads": self._here(cell.reads),
            "made": self._here(cell.made),
        }
        self._ledger.record(cell.model_copy(update=here))

    def _number(self, there: int) -> int:
        return self._numbers.setdefault(there, self._ledger.next_cell_run())

    def _here(self, refs: tuple[InputRef, ...]) -> tuple[InputRef, ...]:
        return tuple(
            InputRef(name=ref.name, version=self._versions.get((ref.name, ref.version), 0))
            for ref in refs
        )


def _bringer(thread: FarThread) -> Callable[[str, int], Any]:
    """Brings a variable over. Knows the kernel and not the executor, which it would keep."""

    def bring(name: str, max_bytes: int) -> Any:
        request = {"do": "fetch", "name": name, "limit": max_bytes}
        ended = thread.submit(thread.far.call(request, CHORE_S)).result()
        if ended.loss is not None:
            raise RemoteKernelError(
                f"{name!r} is gone: the kernel {ended.loss.how}; run the cell that makes it again."
            )
        answer = ended.answer or {"error": {"message": "the kernel was interrupted; try again"}}
        if "error" in answer:
            raise RemoteKernelError(f"{answer['error']['message']}.")
        return brought(answer["form"], answer["data"])

    return bring


def _lost(
    loss: Loss, names: tuple[str, ...], seconds: float | None, *, ran: bool
) -> ExceptionObject:
    """What is said of a kernel that is gone: what happened, what is gone with it, what is next."""
    if loss.why == "deadline":
        name = "TimeoutError"
        what = (
            f"timeout: the code was stopped after {seconds:g} s; it could not be interrupted, so "
        )
        what += "its kernel was ended"
    elif loss.why == "stop":
        name = "KeyboardInterrupt"
        what = f"stopped by the user; {_UNSTOPPABLE}"
    else:
        name = "KernelDied"
        what = f"the kernel {loss.how}"
    if not ran:
        what += ", before this code, which was not run"
    shown = ", ".join(names[:_NAMES_TOLD])
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    gone = f"gone with it: {shown}{more}" if names else "it held no variables"
    return ExceptionObject(
        name=name,
        message=f"{what}; {gone}. The next code has a fresh kernel: make again what it needs",
        past_deadline=loss.why == "deadline",
        state_lost=True,
    )


def _told(exc: RemoteKernelError) -> ExceptionObject:
    return ExceptionObject(name="RemoteKernelError", message=str(exc))
