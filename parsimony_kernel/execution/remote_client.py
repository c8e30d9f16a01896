"""Code in a kernel of its own: another process, or a kernel behind a Jupyter server.

For isolation, and for machines bigger than this one. What cannot be interrupted is ended with its
kernel; the call says which variables are gone, and the next one has a fresh kernel.
"""

import asyncio
import json
import weakref
from contextlib import suppress
from functools import partial
from typing import Any

from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput, PrimitiveObject
from parsimony_kernel.execution.base import CellExecutor, CellRequest
from parsimony_kernel.execution.guard import Paused
from parsimony_kernel.execution.permit import current_permit
from parsimony_kernel.execution.remote_bootstrap import Answer, PermitState, Request
from parsimony_kernel.execution.remote_kernel import CLOSE_S, Call, Kernel, LocalKernel, Loss
from parsimony_kernel.execution.remote_values import RemoteKernelError, RemoteValue, decode
from parsimony_kernel.execution.run_scope import current_scope
from parsimony_kernel.lineage.ledger import OriginLedger, stamp_effect

GRACE_S = 3.0
# A table of this many bytes in Arrow's form can be brought from a clean place.
_CLEAN_BYTES = 2**31
_NAMES_TOLD = 10


class RemoteExecutor(CellExecutor):
    """Runs code in a kernel of its own, which is started when it is first needed.

    The environment of the kernel has parsimony_kernel installed. ``variables()`` holds small plain
    values as they are and a ``RemoteValue`` for everything else, both as of the end of the last
    call. A kernel that is gone is an ``ExceptionObject`` with ``state_lost``, once, whose message
    names what is gone; in the ledger these names are dropped and the runs of cells stay. Of code
    that ends its process at once (``os._exit``, a crash) the last prints may be lost.

    With its kernel end the processes that its code has started, see ``execution.children``.
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
        self._kernel: Kernel
        if url is None:
            self._kernel = LocalKernel(kernel_name, grace_s)
        else:
            from parsimony_kernel.execution.gateway import GatewayKernel  # deferred: aiohttp

            self._kernel = GatewayKernel(url, token, kernel_name, grace_s)
        self.origin_ledger = OriginLedger()
        self._cwd, self.url = cwd, url
        self._variables: dict[str, Any] = {}
        # Knows the kernel and not the executor, which it would keep.
        self._bring = partial(_bring, self._kernel)
        weakref.finalize(self, self._kernel.close).atexit = False

    @property
    def is_watched(self) -> bool:  # type: ignore[override]
        return self._kernel.is_watched

    # The contract

    async def run_cell(self, request: CellRequest) -> tuple[KernelOutput, set[tuple[str, str]]]:
        permit = None if request.dry_run else current_permit()
        asked = Request("run", self._cwd, request, current_scope())
        if permit is not None:
            workspace = str(permit.workspace) if self.url is None else None
            asked.permit = PermitState(workspace, permit.approved, permit.made)
        call = Call(asked, request.timeout_seconds, permit)
        try:
            answer = await self._answer(call)
        except Loss as loss:
            error = _lost(loss, call, tuple(self._variables))
            self._kernel.loss = None
            self._forget()
            return call.heard(error), set()
        except RemoteKernelError as exc:
            return call.heard(ExceptionObject(name="RemoteKernelError", message=str(exc))), set()
        if permit is not None and (came := answer.permit) is not None:
            permit.held, permit.why_not, permit.open_end = came.held, came.why_not, came.open_end
            permit.left += came.left
            permit.made.update(came.made)
            self.paused = came.paused and Paused(None, came.paused[0], left=came.paused[1])
        if answer.output is not None:
            return answer.output, answer.read
        name, message = answer.error or ("KeyboardInterrupt", "stopped by the user")
        return call.heard(ExceptionObject(name=name, message=message)), set()

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Run what follows in the folder ``cwd`` of the kernel's machine.

        Raises ``NotADirectoryError`` when it is none there, ``RemoteKernelError`` when there is
        no kernel.
        """
        answer = Answer()
        with suppress(Loss):
            answer = await self._answer(Call(Request("set_cwd", cwd)))
        if answer.error is not None:
            name, message = answer.error
            raise (NotADirectoryError if name == "NotADirectoryError" else OSError)(message)
        if not answer.cwd:
            raise RemoteKernelError(f"The kernel did not change to {cwd!r}; try again.")
        self._cwd = answer.cwd

    async def clear_namespace(self) -> None:
        # A kernel that code has broken is dropped; nothing in it is needed.
        with suppress(Loss):
            await self._answer(Call(Request("clear")))
        self._kernel.loss = None
        self.origin_ledger.clear()
        self._variables.clear()

    def variables(self) -> dict[str, Any]:
        return dict(self._variables) if self._kernel.loss is None else {}

    async def shutdown(self) -> None:
        """End the kernel for good."""
        await asyncio.wait({asyncio.wrap_future(self._kernel.close())}, timeout=CLOSE_S)
        self._forget()

    async def value(self, name: str) -> Any:
        """The value of a variable, brought over whole. ``KeyError`` without it."""
        value = self._variables[name]
        if not isinstance(value, RemoteValue):
            return value
        return await asyncio.to_thread(value.fetch, _CLEAN_BYTES)

    async def __aenter__(self) -> "RemoteExecutor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # Calls

    async def _answer(self, call: Call) -> Answer:
        """The answer, with variables and ledger as it says. Code that is cancelled has ended."""
        done = asyncio.wrap_future(self._kernel.submit(call))
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            call.stop()
            while not done.done():
                try:
                    await asyncio.wait({done})
                except asyncio.CancelledError:
                    call.stop(kill=True)
            # Of a kernel that is lost the next code is told.
            if not done.cancelled() and done.exception() is None:
                self._settle(done.result())
            raise
        self._settle(done.result())
        return done.result()

    def _settle(self, answer: Answer) -> None:
        """Write into variables and ledger what became of them."""
        if answer.names is not None:
            output = answer.output or KernelOutput()
            summaries = {
                each.name: each
                for each in output.variables
                if not isinstance(each, ExceptionObject)
            }
            before, self._variables = self._variables, {}
            for name, (kind, plain) in answer.names.items():
                known = before.get(name)
                if plain is not None:
                    self._variables[name] = json.loads(plain)
                elif (
                    isinstance(known, RemoteValue)
                    and known.type == kind
                    and name not in output.changed
                ):
                    self._variables[name] = known
                else:
                    summary = summaries.get(name) or PrimitiveObject(name=name, python_type=kind)
                    self._variables[name] = RemoteValue(name, kind, summary, self._bring)
        for effect, code, scope, at, how in answer.stamps:
            stamp_effect(self.origin_ledger, effect, code, scope, at, **how)

    def _forget(self) -> None:
        """Nothing is left of what the names stood for."""
        self._variables.clear()
        for name, version in self.origin_ledger.versions().items():
            if version:
                self.origin_ledger.drop(name)


def _bring(kernel: Kernel, name: str, max_bytes: int) -> Any:
    try:
        answer = kernel.submit(Call(Request("fetch", name=name, limit=max_bytes))).result()
    except Loss as loss:
        raise RemoteKernelError(
            f"{name!r} is gone: the kernel {loss}; run the cell that makes it again."
        ) from loss
    if not answer.form:
        _, said = answer.error or ("", "the kernel was interrupted; try again")
        raise RemoteKernelError(f"{said}.")
    return decode(answer.form, answer.data)


def _lost(loss: Loss, call: Call, names: tuple[str, ...]) -> ExceptionObject:
    """What is said of a kernel that is gone: what happened, what is gone with it, what is next."""
    name, what = {
        "deadline": (
            "TimeoutError",
            f"timeout: the code was stopped after {call.seconds or 0:g} s; ",
        ),
        "stop": ("KeyboardInterrupt", "stopped by the user; "),
        "death": ("KernelDied", f"the kernel {loss}"),
    }[loss.why]
    what += "" if loss.why == "death" else "it could not be interrupted, so its kernel was ended"
    what += "" if call.has_begun else ", before this code, which was not run"
    shown = ", ".join(names[:_NAMES_TOLD])
    more = f" and {len(names) - _NAMES_TOLD} more" if len(names) > _NAMES_TOLD else ""
    gone = f"gone with it: {shown}{more}" if names else "it held no variables"
    return ExceptionObject(
        name=name,
        message=f"{what}; {gone}. The next code has a fresh kernel: make again what it needs",
        past_deadline=loss.why == "deadline",
        state_lost=True,
    )
