"""A kernel somewhere else: how it is asked, and the one that is a process of this machine.

All kernels live on one event loop, on a thread of its own, so that an executor may be awaited from
any loop, asked without one, and forgotten. Whatever goes wrong on the way to a kernel is a
``RemoteKernelError``, one sentence with the remedy.
"""

import asyncio
import atexit
import json
import os
import queue
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import Context
from functools import cache
from typing import Any, Literal, TypeVar

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from parsimony_kernel.core.outputs import ExceptionObject, KernelOutput
from parsimony_kernel.core.reach import Reach
from parsimony_kernel.execution.capture import BoundedText
from parsimony_kernel.execution.children import kill_marked, marked, new_mark
from parsimony_kernel.execution.interrupt import OwnThread
from parsimony_kernel.execution.permit import Permit
from parsimony_kernel.execution.remote_bootstrap import ANSWER_MIME, WORDS, Answer, Request
from parsimony_kernel.execution.remote_values import RemoteKernelError

START_S = 60.0
# A request that is no cell of code.
CHORE_S = 60.0
CLOSE_S = 5.0
# How often a kernel that does not answer yet is asked again, and a socket that is silent.
_ASK_AGAIN_S = 1.0
_POLL_S = 0.05
_DRAIN_S = 0.3
_TOLD_CHARS = 200

_STATES = {"restarting": "was restarted by its server, as it is when it dies", "dead": "died"}
_INTERRUPTIONS = frozenset({"KeyboardInterrupt", "CancelledError"})
# What code there may ask of its permit.
_ASKED = frozenset({"allows", "sha", "leaving", "ended", "keep"})
_REACH, _ANSWER = TypeAdapter(Reach), TypeAdapter(Answer)

_BOOTSTRAP = "parsimony_kernel.execution.remote_bootstrap"
# A kernel that somebody restarted has not imported it, and the reply says so.
_SIDE = f'__import__("sys").modules["{_BOOTSTRAP}"]'
_OPEN = f'__import__("importlib").import_module("{_BOOTSTRAP}").open_side({WORDS})'

T = TypeVar("T")
Content = dict[str, Any]
Why = Literal["death", "deadline", "stop"]


class Disconnected(Exception):
    """The connection to the kernel broke; the kernel itself may live on."""


class Loss(RemoteKernelError):
    """The kernel is gone with all its variables.

    ``str()`` says how, in words that follow "the kernel"; ``why`` is what ended it: its own end, a
    deadline, or a stop.
    """

    def __init__(self, how: object, why: Why = "death") -> None:
        super().__init__(str(how))
        self.why = why


class Call:
    """A request to a kernel, and what its code has printed until now.

    Args:
        seconds: its deadline; ``None`` for no limit.
        permit: answers what its code asks.
    """

    def __init__(
        self, request: Request, seconds: float | None = CHORE_S, permit: Permit | None = None
    ) -> None:
        self.request, self.seconds, self.permit = request, seconds, permit
        self.has_begun, self.is_killed = False, False
        self.stopped_at: float | None = None
        self.task: asyncio.Task[Any] | None = None
        self._streams = {"stdout": BoundedText(), "stderr": BoundedText()}

    def stop(self, *, kill: bool = False) -> None:
        """Interrupt it, again if need be, and then end its kernel; or end that now."""
        kernel_loop().call_soon_threadsafe(self._stop, kill)

    def _stop(self, kill: bool) -> None:
        self.stopped_at = self.stopped_at or time.monotonic()
        self.is_killed |= kill
        if self.task is not None and not self.has_begun:
            self.task.cancel()

    def hear(self, content: Content) -> None:
        """Take what a message says, if it is of a stream."""
        if (stream := self._streams.get(content.get("name", ""))) is not None:
            stream.write(content["text"])

    def heard(self, error: ExceptionObject) -> KernelOutput:
        """What was printed, and the error that it ended with."""
        return KernelOutput(
            **{name: stream.text() for name, stream in self._streams.items()},
            outputs=(error,),
            truncated=any(each.is_cut for each in self._streams.values()),
        )

    def answer(self, question: str) -> str:
        """Answer what its code asks of the permit: as JSON, the name of one of its functions and
        the arguments, and what that gave or why it could not."""
        asked = json.loads(question)
        try:
            if asked["do"] not in _ASKED:
                raise ValueError(f"{asked['do']!r} is nothing that code may ask")
            given = [
                _REACH.validate_python(each) if type(each) is dict else each
                for each in asked["given"]
            ]
            told = {"value": getattr(self.permit, asked["do"])(*given)}
        except Exception as exc:  # boundary: front end - it is raised where the code asked
            told = {"error": f"{type(exc).__name__}: {exc}"}
        return json.dumps({"number": asked["number"], **told})


class Kernel(ABC):
    """One kernel after the other, started when it is needed. It does one call after the other.

    Args:
        name: the kernelspec that is started.
        grace_s: how long after its deadline, or after a stop, code may still run before its
            kernel is ended, in seconds.
    """

    def __init__(self, name: str, grace_s: float) -> None:
        self.name, self._grace_s = name, grace_s
        # How the last one was lost, until code is told of it.
        self.loss: Loss | None = None
        # Whether its code is stopped before it reaches outside, as far as is known.
        self.is_watched = True
        self._turn = asyncio.Lock()
        self._call = Call(Request("clear"))
        self._number = 0
        self._is_started = False
        self._death: str | None = None
        # Channel and content of messages about what was sent last, None for a broken connection.
        self._inbox: asyncio.Queue[tuple[str, Content] | None] = asyncio.Queue()
        self._sent = ""
        self._listening: list[asyncio.Task[None]] = []
        _kernels.add(self)

    # What a place says

    @abstractmethod
    async def _start(self) -> None:
        """Have one run. Raises ``RemoteKernelError``."""

    @abstractmethod
    async def _how_it_died(self) -> str | None:
        """How it ended, in words that follow "the kernel"; ``None`` while it lives."""

    @abstractmethod
    async def _send(self, channel: str, kind: str, content: Content) -> str:
        """Send a message. Gives its id; raises ``Disconnected``."""

    @abstractmethod
    async def _interrupt(self) -> None:
        """Interrupt what it runs. Does nothing when it cannot be reached."""

    @abstractmethod
    async def _end(self) -> None:
        """End it at once, whatever it does, and free what was held for it."""

    async def _reconnect(self) -> None:
        """Reach the same kernel again. Raises ``RemoteKernelError`` where that fails."""
        raise RemoteKernelError("its connection broke")

    # From any thread

    def submit(self, call: Call) -> "Future[Answer]":
        """Have ``call`` done.

        It raises ``RemoteKernelError`` without a kernel, and ``Loss`` with the kernel or where it
        relies on what was in one that is gone: then it is not done.
        """
        return _soon(self._do(call))

    def close(self) -> "Future[None]":
        """End it for good, whatever it does; more than once."""
        _kernels.discard(self)
        self._call.stop(kill=True)
        return _soon(self._close())

    # On the loop

    async def _close(self) -> None:
        async with self._turn:
            await self._drop()

    async def _drop(self) -> None:
        for each in self._listening:
            each.cancel()
        self._listening.clear()
        self._is_started, self._death = False, None
        await self._end()

    async def _do(self, call: Call) -> Answer:
        call.task = asyncio.current_task()
        async with self._turn:
            if self not in _kernels:
                raise RemoteKernelError("The executor was shut down; make another one.")
            if call.stopped_at is not None:
                raise asyncio.CancelledError
            self._call = call
            if self._is_started and (how := await self._how_it_died()) is not None:
                self.loss = Loss(how)
                await self._drop()
            if call.request.do in ("run", "fetch") and self.loss is not None:
                raise Loss(self.loss, self.loss.why)
            if call.request.do == "clear" and not self._is_started:
                return Answer()
            if not self._is_started:
                await self._open()
            call.has_begun = True
            try:
                return await self._answer(call)
            except (Disconnected, RemoteKernelError) as exc:
                how = await self._how_it_died() or unreachable(exc)
                self.loss = exc if isinstance(exc, Loss) else Loss(how)
                await self._drop()
                raise self.loss from None

    async def _open(self) -> None:
        """Start it and have our side of it there."""
        try:
            await self._start()
            opening = Call(Request("clear"))
            reply = await self._reply(opening, _OPEN, f"{_SIDE}.is_watching()")
            if reply.get("status") != "ok":
                raise RemoteKernelError(
                    f"The kernel cannot be used ({reply.get('ename')}: {reply.get('evalue')}): it "
                    "must be a Python kernel of IPython, and its environment needs the same "
                    "version of this package; pip install parsimony-kernel"
                )
        except BaseException as exc:
            await self._drop()
            if isinstance(exc, Disconnected | Loss):
                raise RemoteKernelError(f"The kernel {exc} when it was first asked.") from exc
            raise
        self.is_watched = _told(reply).get("data", {}).get("text/plain") == "True"
        self._is_started = True

    async def _is_there(self) -> bool:
        """Wait for the first word of a kernel that is being started; whether one comes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                # What is asked before its sockets are bound is lost.
                while await self._how_it_died() is None:
                    await self._request("kernel_info_request", {})
                    if await self._receive(_ASK_AGAIN_S) is not None:
                        return True
        return False

    async def _answer(self, call: Call) -> Answer:
        """What came of it there. Raises ``Loss``, ``Disconnected`` and ``RemoteKernelError``."""
        self._number += 1
        request = json.dumps(to_jsonable_python(call.request))
        run = f"await {_SIDE}.call({self._number}, {request!r})"
        for _ in range(3):
            try:
                # What arrived is not done again, so it may be sent again: where the connection
                # broke, and where the answer was interrupted on its way out.
                code = run if call.stopped_at is None else ""
                reply = await self._reply(call, code, f"{_SIDE}.answer({self._number})")
            except Disconnected:
                await self._reconnect()
            else:
                answer = _parse(reply, self._number)
                if answer is not None:
                    return answer
        return Answer()

    async def _reply(self, call: Call, code: str, expression: str) -> Content:
        """The reply to a request to run ``code`` quietly and then evaluate ``expression``.

        Raises ``Loss`` and ``Disconnected``.
        """
        content = {"code": code, "user_expressions": {"answer": expression}, "stop_on_error": False}
        quiet = {"silent": True, "store_history": False, "allow_stdin": False}
        await self._request("execute_request", content | quiet)
        # When its first word comes, or without one: code that holds the GIL at once keeps it back.
        begun = time.monotonic() + self._grace_s
        strikes, patience = 0, _POLL_S
        while True:
            match await self._receive(patience):
                case "shell", reply:
                    return reply
                case "stdin", question:
                    told = await asyncio.to_thread(call.answer, question["prompt"])
                    await self._send("stdin", "input_reply", {"value": told})
                case _, said:
                    begun = min(begun, time.monotonic())
                    call.hear(said)
                case None:
                    how = await self._how_it_died()
                    if how is not None and patience == _DRAIN_S:
                        raise Loss(how)
                    # What a dead kernel had sent may still be under way.
                    patience = _POLL_S if how is None else _DRAIN_S
            due = float("inf") if call.seconds is None else begun + call.seconds
            over = time.monotonic() - (call.stopped_at or due)
            if call.is_killed or over > self._grace_s:
                raise Loss("was ended", "deadline" if call.stopped_at is None else "stop")
            # Past a deadline the far side interrupts the code itself.
            if call.stopped_at is not None and over >= strikes * self._grace_s / 3:
                strikes += 1
                await self._interrupt()

    async def _request(self, kind: str, content: Content) -> None:
        """Send a request; what is received from now on is about it. Raises ``Disconnected``."""
        self._inbox = asyncio.Queue()
        self._sent = await self._send("shell", kind, content)

    async def _receive(self, seconds: float) -> tuple[str, Content] | None:
        """The next message, if one comes in time. Raises ``Disconnected``."""
        try:
            message = await asyncio.wait_for(self._inbox.get(), seconds)
        except TimeoutError:
            return None
        if message is None:
            raise Disconnected("lost its connection")
        return message

    def _arrived(self, channel: str, message: Content) -> None:
        if message["header"]["msg_type"] == "status":
            state = message["content"]["execution_state"]
            self._death = _STATES.get(state, self._death)
        if (message["parent_header"] or {}).get("msg_id") == self._sent:
            self._inbox.put_nowait((channel, message["content"]))


class LocalKernel(Kernel):
    """A kernel as a process of this machine. It ends when this process does.

    When it is closed, the processes that its code has started end with it.
    """

    _manager: AsyncKernelManager | None = None

    async def _start(self) -> None:
        self._mark = new_mark()
        self._manager = AsyncKernelManager(kernel_name=self.name)
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        try:
            await self._manager.start_kernel(env=marked(None, self._mark), **nowhere)
        except NoSuchKernel as exc:
            raise RemoteKernelError(
                f"No kernel is named {self.name!r} here; `jupyter kernelspec list` tells the names."
            ) from exc
        except OSError as exc:
            raise RemoteKernelError(
                f"The kernel {self.name!r} cannot be started ({exc.strerror or exc}); check the "
                "`argv` of its kernelspec."
            ) from exc
        self._client = self._manager.client()
        self._client.start_channels(hb=False)
        names = "shell", "iopub", "stdin"
        self._channels = {name: getattr(self._client, f"{name}_channel") for name in names}
        self._listening = [asyncio.create_task(self._listen(name)) for name in names]
        if not await self._is_there():
            raise RemoteKernelError(
                f"The kernel {self.name!r} {await self._how_it_died() or 'did not answer'} while "
                f"it started; `jupyter console --kernel {self.name}` shows why."
            )

    async def _listen(self, channel: str) -> None:
        while True:
            # Now and then a socket does not wake who waits for it, and is ready when asked again.
            with suppress(queue.Empty):
                self._arrived(channel, await self._channels[channel].get_msg(_ASK_AGAIN_S))

    async def _send(self, channel: str, kind: str, content: Content) -> str:
        message = self._client.session.msg(kind, content)
        self._channels[channel].send(message)
        return str(message["header"]["msg_id"])

    async def _how_it_died(self) -> str | None:
        provisioner = self._manager and self._manager.provisioner
        status = None if provisioner is None else await provisioner.poll()
        return None if status is None else exit_in_words(status)

    async def _interrupt(self) -> None:
        if self._manager is not None:
            with suppress(RuntimeError, OSError):
                await self._manager.interrupt_kernel()

    async def _end(self) -> None:
        manager, self._manager = self._manager, None
        if manager is not None:
            if manager.has_kernel:
                self._client.stop_channels()
                await manager.shutdown_kernel(now=True)
            kill_marked(self._mark)


def unreachable(reason: Exception) -> str:
    """That a kernel is lost because of ``reason``, in words that follow "the kernel"."""
    return f"cannot be reached ({str(reason).rstrip('.')})"


def exit_in_words(status: int) -> str:
    """How a process ended that left ``status``, in words that follow its name."""
    if status >= 0:
        return f"ended by itself with exit status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    why = ", as it is when memory runs out" if -status == signal.SIGKILL else ""
    return f"was ended by {name}{why}"


def _told(reply: Content) -> Content:
    """What came of the expression, or of the code before it."""
    return (reply.get("user_expressions") or {}).get("answer") or reply


def _parse(reply: Content, number: int) -> Answer | None:
    """The answer to request ``number``; ``None`` where something was interrupted.

    Raises ``Loss`` where there can't be one any more.
    """
    told = _told(reply)
    with suppress(LookupError, ValueError, TypeError):
        return _ANSWER.validate_python(json.loads(told["data"][ANSWER_MIME]))
    name, text = str(told.get("ename", "")), str(told.get("evalue", ""))
    is_interrupted = told.get("status") == "aborted" or name in _INTERRUPTIONS
    if is_interrupted or (name, text) == ("KeyError", str(number)):
        return None
    if name == "KeyError" and _BOOTSTRAP in text:  # it is not the one that we opened
        raise Loss("was restarted by somebody else")
    said = f"{name}: {text}"[:_TOLD_CHARS] if name else "its answer cannot be read"
    raise Loss(f"was ended, because code broke the kernel's side of the executor ({said})")


_kernels: set[Kernel] = set()


@cache
def kernel_loop() -> asyncio.AbstractEventLoop:
    """The event loop of all kernels. Its thread keeps no process alive."""
    loop = asyncio.new_event_loop()
    OwnThread(target=loop.run_forever, name="parsimony-kernels", daemon=True).start()
    return loop


def _soon(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Do ``work`` on that loop, on behalf of nobody's code."""
    return Context().run(asyncio.run_coroutine_threadsafe, work, kernel_loop())


@atexit.register
def _close_all() -> None:
    wait([each.close() for each in tuple(_kernels)], CLOSE_S)


def _in_fork() -> None:
    # The kernels are those of the process that has forked.
    _kernels.clear()
    kernel_loop.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_fork)
