"""The kernel side of a ``RemoteExecutor``: an executor in the kernel's shell, with approval.

Requests and answers are JSON. The answer travels in the execute reply, because servers may
rate-limit displayed output but not replies.
"""

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput, PrimitiveObject
from parsimony_kernel.execution.base import CellRequest
from parsimony_kernel.execution.guard import is_watching
from parsimony_kernel.execution.inspection import attempt, plain, type_name
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.execution.notebook_executor import NotebookExecutor
from parsimony_kernel.execution.permit import Permit, permitting
from parsimony_kernel.execution.remote_values import encode, encode_scalar, type_in_words
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.observe import CellEffect

# The protocol version; it changes with the fields of a request or an answer.
WORDS = 9
STOPPED = {"name": "KeyboardInterrupt", "message": "stopped by the user"}
ANSWER_MIME = "application/vnd.parsimony.answer+json"
# The permit's functions that code in the kernel may call, and the fields that tell what came of it.
ASKED = ("allows", "sha", "leaving", "ended", "keep")
CAME = ("held", "why_not", "open_end", "left", "made")

# How long code waits for an answer from the notebook, in seconds; then it is refused.
_WAIT_S = 2.0
# The most characters of variables, in total, that travel whole with each answer.
_PLAIN_CHARS = 200_000

_side: "_Side"


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
    told = await _side.answered(json.loads(request))
    _side.last = (number, json.dumps(told, default=_jsonable))


def answer(number: int) -> "Answer":
    """Return the answer to the last request; ``KeyError`` if ``number`` is not the last one's."""
    kept, text = _side.last
    if kept != number:
        raise KeyError(number)
    return Answer(text)


class Answer:
    """An answer as the value of a user expression, displayed as a mime bundle."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {ANSWER_MIME: self._text}


class _StampingExecutor(NotebookExecutor):
    """Runs cells in the kernel's shell, and collects their ledger entries."""

    # The ledger entries of the last request, for the executor's own ledger.
    stamps: list[dict[str, Any]]

    def stamp(self, effect: CellEffect, code: str, scope: RunScope, at: str, **how: Any) -> None:
        super().stamp(effect, code, scope, at, **how)
        ran = {"effect": effect, "scope": scope, "code": code, "at": at, "how": how}
        self.stamps.append(ran)


class _Side:
    """The executor in this kernel, and its last answer."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.executor = _StampingExecutor(shell)
        self.last: tuple[int, str] = (0, "")

    async def answered(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a request; return the answer, which also carries errors and interruptions."""
        told: dict[str, Any] = {"names": None, "ledger": []}
        self.executor.stamps = []
        output = KernelOutput()
        try:
            stop = CancellationRequest()
            with stop_on_sigint(stop):
                output, done = await stop.race(self._done(request))
            told |= {**done, "output": output.model_dump(mode="json")}
        except (Cancelled, asyncio.CancelledError, KeyboardInterrupt):
            told["error"] = STOPPED
        except Exception as exc:  # boundary: front end - a request
            told["error"] = {"name": type_name(exc), "message": _message(exc)}
        if request["do"] == "run":
            told |= {"names": self._names(output), "ledger": self.executor.stamps}
        return told

    async def _done(self, request: Mapping[str, Any]) -> tuple[KernelOutput, dict[str, Any]]:
        given, executor = request.get("given", {}), self.executor
        if request["do"] == "fetch":
            return KernelOutput(), encode(executor.variables(), **given)
        if request["do"] == "clear":
            await executor.clear_namespace()
        if request["cwd"] is not None:
            await executor.set_cwd(request["cwd"])
        if request["do"] == "run":
            return await self._run(request)
        return KernelOutput(), {"cwd": str(executor.output_factory.local_dir)}

    async def _run(self, request: Mapping[str, Any]) -> tuple[KernelOutput, dict[str, Any]]:
        scope, permit = request["scope"], self._permit(request["permit"])
        with nullcontext() if scope is None else run_scope(RunScope(**scope)), permitting(permit):
            output, read = await self.executor.run_cell(CellRequest(**request["given"]))
        told: dict[str, Any] = {"read": sorted(read)}
        if permit is not None:
            told["permit"] = {name: getattr(permit, name) for name in CAME}
            paused = self.executor.paused
            told["paused"] = paused and {"sha": paused.sha, "left": paused.left}
        return output, told

    def _permit(self, told: Mapping[str, Any] | None) -> Permit | None:
        if told is None:
            return None
        if not is_watching():
            raise PermissionError(
                "this kernel can't be watched, so the code did not run; from now on every step "
                "asks before it runs"
            )
        folder = self.executor.output_factory.local_dir or Path.cwd()
        return permit_here(told, folder, Asking(self._shell.kernel))

    def _names(self, output: KernelOutput) -> dict[str, Any]:
        """Serialise the variables: numbers and short texts as JSON, others by their type.

        Texts beyond ``_PLAIN_CHARS`` in total count as others; of these, a changed variable gets a
        summary as well.
        """
        summaries = {
            each.name: each for each in output.variables if not isinstance(each, ExceptionObject)
        }
        names: dict[str, Any] = {}
        room = _PLAIN_CHARS
        for name, value in self.executor.variables().items():
            whole = encode_scalar(value)
            if whole is not None and len(whole) <= room:
                room -= len(whole)
                names[name] = {"plain": whole}
                continue
            words = type_in_words(value)
            names[name] = {"type": words}
            if name in output.changed:
                summary = summaries.get(name) or PrimitiveObject(name=name, python_type=words)
                names[name]["summary"] = summary.model_dump(mode="json")
        return names


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
            question = json.dumps(told, default=_jsonable)
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


def permit_here(told: Mapping[str, Any], folder: Path, ask: Asking) -> Permit:
    """Build the kernel-side permit of a request.

    Args:
        told: the serialised permit.
        folder: the workspace to use when the kernel doesn't share the executor's files.
        ask: calls the executor's permit.
    """
    asked: dict[str, Any] = {do: partial(ask, do) for do in ASKED}
    if told["workspace"] is None:  # the executor can't save files of another machine
        asked["keep"] = lambda path: False
    made = set(told["made"])
    return Permit(Path(told["workspace"] or folder), approved=told["approved"], made=made, **asked)


def _jsonable(value: Any) -> Any:
    return sorted(value) if isinstance(value, set | frozenset) else asdict(value)


def _message(exc: Exception) -> str:
    return attempt(lambda: plain(str(exc)), lambda _: "(its message cannot be shown)")
