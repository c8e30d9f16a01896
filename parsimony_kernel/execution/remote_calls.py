"""Requests to a kernel somewhere else: deadlines, stops, deaths, and a fresh kernel after each.

``Far`` lives on the event loop of one thread of its own. An executor may then be awaited from any
loop, asked without one, and forgotten.
"""

import asyncio
import atexit
import json
import secrets
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from parsimony_kernel.execution.capture import BoundedText
from parsimony_kernel.execution.remote_kernel import (
    Disconnected,
    Kernel,
    RemoteKernelError,
    unreachable,
)
from parsimony_kernel.execution.remote_side import ANSWER_MIME, WORDS

T = TypeVar("T")
Request = dict[str, Any]

# A request that is no cell of code.
CHORE_S = 60.0
_POLL_S = 0.1
# How long what a dead kernel had sent may still be under way.
_DRAIN_S = 0.3
_CLOSE_S = 5.0
# A server takes seconds to end a kernel that does not listen.
_ENDING_S = 1.0

# What an interruption leaves in a reply, and what every answer holds.
_INTERRUPTIONS = frozenset({"KeyboardInterrupt", "CancelledError"})
_ALWAYS = frozenset({"names", "gone", "ledger"})
_TOLD_CHARS = 200

_SIDE = "parsimony_kernel.execution.remote_side"
_ON_SIDE = f'__import__("sys").modules["{_SIDE}"]'


@dataclass(frozen=True)
class Loss:
    """The kernel is gone with all its variables.

    ``how`` follows "the kernel"; ``why`` is what ended it: its own end, a deadline, or a stop.
    """

    how: str
    why: Literal["death", "deadline", "stop"] = "death"


@dataclass(frozen=True)
class Ended:
    """How a request ended: with an answer, without one, or with the loss of the kernel.

    The streams are what came ahead of an answer that never did; ``ran`` says whether the request
    reached the kernel.
    """

    answer: dict[str, Any] | None = None
    loss: Loss | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    ran: bool = True


class _Heard(BoundedText):
    """A stream as it arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.has_gaps = False


class Control:
    """What can be done to one request. Used on the loop of its ``Far``."""

    def __init__(self) -> None:
        self.stopped_at: float | None = None
        self.is_killed = False
        # Nobody waits for its end any more: what is lost with it is told to the next cell.
        self.is_deserted = False
        # The task that waits for its turn and its kernel, as long as it does.
        self.task: asyncio.Task[Any] | None = None
        self.wake: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Interrupt it, again if need be, and then end its kernel."""
        if self.task is not None:
            self.task.cancel()
        elif self.stopped_at is None:
            self.stopped_at = asyncio.get_running_loop().time()
            self.wake()

    def kill(self) -> None:
        """End its kernel now."""
        if self.task is not None:
            self.task.cancel()
        self.is_killed = True
        self.wake()


class Far:
    """The kernel of one executor, started when it is needed. Used on its own loop only.

    Args:
        make: a kernel that is not started yet.
        grace_s: how long after its deadline, or after a stop, code may still run before its
            kernel is ended.
    """

    def __init__(self, make: Callable[[], Kernel], grace_s: float) -> None:
        self._make = make
        self._grace_s = grace_s
        self._kernel: Kernel | None = None
        self._nonce = ""
        self._number = 0
        self._has_run = False
        self._cwd: str | None = None
        self._control = Control()
        # A loss that no cell was told of yet.
        self._untold: Loss | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def call(
        self,
        request: Request,
        seconds: float | None,
        *,
        cell: bool = False,
        control: "Control | None" = None,
    ) -> Ended:
        """Have ``request`` done, within ``seconds`` if any are given. Raises
        ``RemoteKernelError`` when there is no kernel.

        What finds its kernel gone and may rely on what was in it is not done.
        """
        control = control or Control()
        if control.is_killed or control.stopped_at is not None:
            raise asyncio.CancelledError
        control.task = asyncio.current_task()
        async with self._turn:
            self._control = Control()
            self._untold = await self._ready() or self._untold
            if self._untold is not None and (cell or request["do"] == "fetch"):
                loss = self._untold
                self._untold = None if cell else loss
                return Ended(loss=loss, ran=False)
            if self._kernel is None:
                await self._start()
            control.task = None
            self._control = control
            assert self._kernel is not None
            control.wake = self._kernel.wake
            ended = await self._ask(request, seconds)
            if cell and ended.loss is None:
                self._has_run = True
            if ended.loss is not None and (control.is_deserted or not cell):
                self._untold = ended.loss
            if ended.answer is not None and "cwd" in ended.answer:
                self._cwd = ended.answer["cwd"]
            return ended

    async def fresh(self) -> None:
        """Forget the variables: be another executor in the same kernel, or in the next one."""
        async with self._turn:
            self._control = Control()
            if self._kernel is not None and await self._ready() is None:
                await self._ask({"do": "clear"}, CHORE_S)
                if self._kernel is not None:
                    try:
                        await self._open()
                    except RemoteKernelError:  # code broke its side; nothing in it is needed
                        await self._drop(wait_s=_ENDING_S)
            self._has_run, self._untold = False, None

    async def end(self) -> None:
        """End the kernel, whatever it does. The next request has another."""
        self._control.kill()
        async with self._turn:
            self._control = Control()
            await self._drop()
            self._untold = None

    async def start(self) -> None:
        """Have a kernel that is ready. Raises ``RemoteKernelError``."""
        async with self._turn:
            self._control = Control()
            self._untold = await self._ready() or self._untold
            if self._kernel is None:
                await self._start()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _drop(self, *, wait_s: float | None = None) -> None:
        """Leave the kernel to its end, and wait for that, ``wait_s`` at most if it is given."""
        kernel, self._kernel = self._kernel, None
        self._has_run = False
        if kernel is not None:
            self._ending.add(asyncio.create_task(kernel.close()))
        if self._ending:
            _, self._ending = await asyncio.wait(self._ending, timeout=wait_s)

    async def _ready(self) -> Loss | None:
        """See that the kernel of before is still there; say it once when it is not."""
        if self._kernel is None:
            return None
        how = await self._kernel.death()
        if how is None:
            return None
        had_run = self._has_run
        await self._drop(wait_s=_ENDING_S)
        return Loss(how) if had_run else None

    async def _start(self) -> None:
        self._kernel = self._make()
        try:
            await self._kernel.start()
            await self._open()
        except BaseException:
            await self._drop()
            raise

    async def _open(self) -> None:
        """Be known to the kernel under a new nonce."""
        assert self._kernel is not None
        self._nonce = secrets.token_hex(8)
        code = (
            f'__import__("importlib").import_module("{_SIDE}").open_side("{self._nonce}", {WORDS})'
        )
        try:
            reply = await self._reply(code, "None", CHORE_S)
        except (Disconnected, _Gone, _Late) as exc:
            raise RemoteKernelError(f"The kernel {exc} when it was first asked.") from exc
        if reply.get("status") != "ok":
            raise RemoteKernelError(_no_side(reply.get("ename", ""), reply.get("evalue", "")))
        if self._cwd is not None:
            await self._ask({"do": "set_cwd", "cwd": self._cwd}, CHORE_S)

    async def _ask(self, request: Request, seconds: float | None) -> Ended:
        assert self._kernel is not None
        self._number += 1
        said = {"stdout": _Heard(), "stderr": _Heard()}
        run = f"await {_ON_SIDE}.call({self._nonce!r}, {self._number}, {json.dumps(request)!r})"
        collect = f"{_ON_SIDE}.answer({self._nonce!r}, {self._number})"
        loss: Loss | None = None
        answer = None
        missing = ("KeyError", str(self._number))
        try:
            try:
                reply = await self._reply(run, collect, seconds, said)
            except Disconnected:
                await self._kernel.reconnect()
                reply = await self._reply("", collect, seconds, said)
                if _error(reply) == missing:  # it never arrived
                    reply = await self._reply(run, collect, seconds, said)
            answer = _answer(reply)
            ran = reply
            if answer is None and not self._is_stranger(reply):
                # Interrupted on its way out: the answer is there or it never will be.
                reply = await self._reply("", collect, CHORE_S)
                answer = _answer(reply)
            if answer is None and self._is_stranger(reply):
                loss = Loss("was restarted by somebody else")
            elif answer is None and not _is_interrupted(ran):
                loss = Loss(_broken(ran))
            elif answer is None and _error(reply) != missing and not _is_interrupted(reply):
                loss = Loss(_broken(reply))
        except _Gone as exc:
            loss = Loss(str(exc))
        except _Late as exc:
            loss = Loss(str(exc), exc.why)
        except (Disconnected, RemoteKernelError) as exc:
            loss = Loss(await self._kernel.death() or unreachable(exc))
        if loss is not None:
            await self._drop(wait_s=_ENDING_S)
        return Ended(
            answer=answer,
            loss=loss,
            stdout=said["stdout"].text(),
            stderr=said["stderr"].text(),
            truncated=any(each.is_cut or each.has_gaps for each in said.values()),
        )

    def _is_stranger(self, reply: dict[str, Any]) -> bool:
        """Whether the kernel does not know us: it is not the one that we opened."""
        name, text = _error(reply)
        return name == "KeyError" and (self._nonce in text or _SIDE in text)

    async def _reply(
        self,
        code: str,
        expression: str,
        seconds: float | None,
        said: dict[str, _Heard] | None = None,
    ) -> dict[str, Any]:
        """The reply to one request. Raises ``_Gone``, ``_Late`` and ``Disconnected``."""
        kernel = self._kernel
        assert kernel is not None
        sent = await kernel.send(code, expression)
        begun: float | None = None
        strikes = 0
        said = said or {}
        while True:
            message = await kernel.receive(_POLL_S)
            if message is not None and message.parent == sent:
                if message.type == "execute_reply":
                    return message.content
                if message.type == "status" and begun is None:
                    begun = self._now()
                _hear(message.type, message.content, said)
                if message.type == "stream":
                    await asyncio.sleep(0)  # what prints for ever does not keep a stop waiting
            elif message is None and (how := await kernel.death()) is not None:
                while (last := await kernel.receive(_DRAIN_S)) is not None:
                    if last.parent == sent:
                        _hear(last.type, last.content, said)
                raise _Gone(how)
            why, due = self._due(begun, seconds)
            over = self._now() - due
            if self._control.is_killed or over > self._grace_s:
                await self._heard_out(kernel, sent, said)
                raise _Late("was ended", "stop" if self._control.is_killed else why)
            # Past a deadline the far side interrupts the code itself.
            if why == "stop" and over >= strikes * self._grace_s / 3:
                strikes += 1
                await kernel.interrupt()

    def _due(
        self, begun: float | None, seconds: float | None
    ) -> tuple[Literal["deadline", "stop"], float]:
        if self._control.stopped_at is not None:
            return "stop", self._control.stopped_at
        if begun is None or seconds is None:
            return "deadline", float("inf")
        return "deadline", begun + seconds

    async def _heard_out(self, kernel: Kernel, sent: str, said: dict[str, _Heard]) -> None:
        with suppress(Disconnected):
            while (last := await kernel.receive(0.01)) is not None:
                if last.parent == sent:
                    _hear(last.type, last.content, said)


class _Gone(Exception):
    """The kernel is dead; ``str()`` says how."""


class _Late(Exception):
    """The code did not end in time, so that its kernel has to."""

    def __init__(self, how: str, why: Literal["deadline", "stop"]) -> None:
        super().__init__(how)
        self.why = why


def _hear(kind: str, content: dict[str, Any], said: dict[str, _Heard]) -> None:
    stream = said.get(content.get("name", "")) if kind == "stream" else None
    if stream is not None:
        if content.get("cut"):
            stream.has_gaps = True
            stream.write(f"\n… {content['cut']:,} characters cut …\n")
        stream.write(content["text"])


def _answer(reply: dict[str, Any]) -> dict[str, Any] | None:
    told = (reply.get("user_expressions") or {}).get("answer") or {}
    text = (told.get("data") or {}).get(ANSWER_MIME)
    if text is None:
        return None
    try:
        answer = json.loads(text)
    except (ValueError, TypeError):
        return None
    return answer if type(answer) is dict and answer.keys() >= _ALWAYS else None


def _error(reply: dict[str, Any]) -> tuple[str, str]:
    """Name and text of what went wrong in the code, or else in the expression."""
    if reply.get("status") == "ok":
        reply = (reply.get("user_expressions") or {}).get("answer") or {}
    return str(reply.get("ename", "")), str(reply.get("evalue", ""))


def _is_interrupted(reply: dict[str, Any]) -> bool:
    return reply.get("status") == "aborted" or _error(reply)[0] in _INTERRUPTIONS


def _broken(reply: dict[str, Any]) -> str:
    name, text = _error(reply)
    told = f"{name}: {text}"[:_TOLD_CHARS] if name else "its answer cannot be read"
    return f"was ended, because code broke the kernel's side of the executor ({told})"


def _no_side(name: str, text: str) -> str:
    if name in ("ModuleNotFoundError", "ImportError"):
        return (
            f"The kernel's environment cannot import parsimony_kernel ({text}); install it there: "
            "pip install parsimony-kernel"
        )
    if name == "RuntimeError":
        return (
            f"The kernel's environment has another version of parsimony_kernel ({text}); install "
            "the same one there: pip install --upgrade parsimony-kernel"
        )
    return f"The kernel cannot be used: {name}: {text}. It must be a Python kernel of IPython."


class FarThread:
    """The thread on whose loop a ``Far`` lives. A daemon: it keeps no process alive."""

    def __init__(self, make: Callable[[], Kernel], grace_s: float) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, name="parsimony-remote-kernel", daemon=True
        )
        self.far = Far(make, grace_s)
        self._thread.start()
        _threads.add(self)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there. Raises ``RemoteKernelError`` when the thread was closed."""
        if self not in _threads:
            coroutine.close()
            raise RemoteKernelError("The executor was shut down; make another one.")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def tell(self, function: Callable[[], None]) -> None:
        """Call it there, soon."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def close(self, *, wait: bool = False) -> None:
        """End the kernel and the thread; from any thread, more than once."""
        if self in _threads:
            _threads.discard(self)
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        if wait and threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)

    async def _end(self) -> None:
        try:
            await self.far.end()
        finally:
            self._loop.stop()


_threads: set[FarThread] = set()


@atexit.register
def _close_all() -> None:
    for each in tuple(_threads):
        each.close()
        each.close(wait=True)
