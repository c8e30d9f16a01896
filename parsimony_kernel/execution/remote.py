"""Code in a kernel of its own: another process, or a kernel behind a Jupyter server.

For isolation, and for machines bigger than this one. What cannot be interrupted is ended with its
kernel; the call says which variables are gone, and the next one has a fresh kernel.
"""

import asyncio
import json
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput, KernelOutputType
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.execution.base import CellExecutor, CellRequest
from parsimony_kernel.execution.permit import Permit, current_permit
from parsimony_kernel.execution.remote_client import (
    CLEAR,
    CLOSE_S,
    INTERRUPTED,
    Job,
    Loss,
    RemoteClient,
    Request,
)
from parsimony_kernel.execution.remote_kernel import Kernel, LocalKernel, RemoteKernelError
from parsimony_kernel.execution.remote_values import FETCH_BYTES, RemoteValue, decode
from parsimony_kernel.execution.run_scope import RunScope, current_scope
from parsimony_kernel.execution.statement_guard import Paused
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.lineage.observe import CellEffect
from parsimony_kernel.lineage.stamp import stamp_effect

GRACE_S = 3.0
# A table of this many bytes in Arrow's form can be brought from a clean place.
_CLEAN_BYTES = 2**31
_SUMMARY: TypeAdapter[KernelOutputType] = TypeAdapter(KernelOutputType)
_EFFECT = TypeAdapter(CellEffect)
_NAMES_TOLD = 10
# What code there may ask of its permit.
_ASKED = frozenset({"allows", "sha", "leaving", "ended", "keep"})


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
            make()  # says at once what is wrong with the address
        self.origin_ledger = OriginLedger()
        self._cwd, self.url = cwd, url
        self._variables: dict[str, Any] = {}
        # The names of a loss that no code was told of yet.
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
            outputs = (*loss.heard.outputs, error)
            return loss.heard.model_copy(update={"outputs": outputs}), set()
        except RemoteKernelError as exc:
            error = ExceptionObject(name="RemoteKernelError", message=str(exc))
            return KernelOutput(outputs=(error,)), set()
        self._settle(answer)
        if permit is not None and "permit" in answer:
            self.paused = _settle_permit(permit, answer["permit"])
        output = KernelOutput.model_validate(answer["output"])
        return output, set(map(tuple, answer.get("read", ())))

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Run what follows in the folder ``cwd`` of the kernel's machine.

        Raises ``NotADirectoryError`` when it is none there, ``RemoteKernelError`` when there is
        no kernel.
        """
        try:
            answer = await asyncio.wrap_future(
                self._client.submit(Job({"do": "set_cwd", "cwd": cwd}))
            )
        except Loss:
            answer = INTERRUPTED
        if "error" in answer:
            is_none = answer["error"]["name"] == "NotADirectoryError"
            raise (NotADirectoryError if is_none else OSError)(answer["error"]["message"])
        if "cwd" not in answer:
            raise RemoteKernelError(f"The kernel did not change to {cwd!r}; try again.")
        self._cwd = answer["cwd"]

    async def clear_namespace(self) -> None:
        await asyncio.wrap_future(self._client.submit(Job(CLEAR)))
        self.origin_ledger.clear()
        self._forget()
        self._gone = ()

    def variables(self) -> dict[str, Any]:
        return dict(self._variables)

    async def shutdown(self) -> None:
        """End the kernel for good."""
        self._client.close()
        await asyncio.to_thread(self._client.join, CLOSE_S)
        self._forget()

    async def fetch(self, name: str, max_bytes: int = FETCH_BYTES) -> Any:
        """The variable ``name`` brought over, see ``RemoteValue.fetch``."""
        return await asyncio.to_thread(self._bring, name, max_bytes)

    async def value(self, name: str) -> Any:
        """The value of a variable, brought over whole. ``KeyError`` without it."""
        value = self._variables[name]
        return await self.fetch(name, _CLEAN_BYTES) if isinstance(value, RemoteValue) else value

    async def __aenter__(self) -> "RemoteExecutor":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # Calls

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
                    case Loss() as loss:  # nobody waits for it: it is told to the next cell
                        self._client.untold = loss
                        self._forget()
            raise

    def _settle(self, answer: dict[str, Any]) -> None:
        """Write into variables and ledger what became of them."""
        if answer["names"] is not None:
            names = answer["names"].items()
            self._variables = {name: self._value(name, told) for name, told in names}
        for ran in answer["ledger"]:
            effect, scope = _EFFECT.validate_python(ran["effect"]), RunScope(**ran["scope"])
            ledger, code = self.origin_ledger, ran["code"]
            stamp_effect(ledger, effect, code, scope, ran["at"], **ran["how"])

    def _value(self, name: str, told: dict[str, Any]) -> Any:
        """What stands for a variable here: a plain value itself, else a ``RemoteValue``."""
        if "plain" in told:
            return json.loads(told["plain"])
        known = self._variables.get(name)
        if "summary" not in told and isinstance(known, RemoteValue) and known.type == told["type"]:
            return known
        of_type = {"type": "primitive", "name": name, "python_type": told["type"]}
        summary = _SUMMARY.validate_python(told.get("summary", of_type))
        return RemoteValue(name, told["type"], summary, self._bring)

    def _forget(self) -> None:
        """Nothing is left of what the names stood for."""
        self._gone = (*self._gone, *self._variables)
        self._variables.clear()
        for name, version in self.origin_ledger.versions().items():
            if version:
                self.origin_ledger.drop(name)


def _bring(client: RemoteClient, name: str, max_bytes: int) -> Any:
    """Bring a variable over. Knows the kernel and not the executor, which it would keep."""
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
    """What is said of a kernel that is gone: what happened, what is gone with it, what is next."""
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
    return ExceptionObject(
        name=name,
        message=f"{what}; {gone}. The next code has a fresh kernel: make again what it needs",
        past_deadline=loss.why == "deadline",
        state_lost=True,
    )


# The permit under which its code runs there


def _sent(permit: Permit, *, is_here: bool) -> dict[str, Any]:
    """``permit`` as a request takes it along.

    Args:
        is_here: the kernel runs on this machine and sees the same files.
    """
    workspace = str(permit.workspace) if is_here else None
    return {"workspace": workspace, "approved": permit.approved, "made": sorted(permit.made)}


def _answers(permit: Permit) -> Callable[[str], str]:
    """Answers what the far side asks of ``permit``: as JSON, the name of one of its functions and
    the arguments, and what that gave or why it could not."""

    def answer(question: str) -> str:
        asked = json.loads(question)
        try:
            if asked["do"] not in _ASKED:
                raise ValueError(f"{asked['do']!r} is nothing that code may ask")
            given = [_reach(each) if type(each) is dict else each for each in asked["given"]]
            told = {"value": getattr(permit, asked["do"])(*given)}
        except Exception as exc:  # boundary: front end - it is raised where the code asked
            told = {"error": f"{type(exc).__name__}: {exc}"}
        return json.dumps({"number": asked["number"], **told})

    return answer


def _settle_permit(permit: Permit, came: dict[str, Any]) -> Paused | None:
    """Write into ``permit`` what came of it there; the code that waits there, if any does."""
    permit.held = came["held"] and _reach(came["held"])
    permit.why_not, permit.open_end = came["why_not"], came["open_end"]
    permit.left += map(_reach, came["left"])
    permit.made.update(came["made"])
    paused = came["paused"]
    return paused and Paused(None, paused["sha"], left=tuple(paused["left"]))


def _reach(told: dict[str, Any]) -> Reach:
    return Reach(**{**told, "kind": ReachKind(told["kind"])})
