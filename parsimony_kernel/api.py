"""The notebook for somebody else's agent: its gate, lineage, undo and record around their loop.

Each piece of code is a turn of a notebook, run by the same gate as the turns of ``%%agent``.
"""

import asyncio
import inspect
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from IPython import get_ipython

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.chat import Completion, FunctionCall, ModelRequest, ToolCall, answer
from parsimony_kernel.core.choices import Choice, offered_in
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.ledger import VariableOrigin
from parsimony_kernel.lineage.why import Explanation
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.view.blocks import FigureBlock, QuestionBlock, StepBlock
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import bundle
from parsimony_kernel.view.outline import notes, outline
from parsimony_kernel.view.parts import Section

# How often a call looks whether the one before it has ended, in seconds.
_WAIT_S = 0.01


@dataclass(frozen=True)
class CodeResult:
    """What one piece of code came to. As a string it is what a model should read.

    Attributes:
        ok: whether it ran to its end. If not, the variables are as they were before.
        text: what it printed and showed and the variables it bound, or why it failed; a few
            kilobytes at most, tables as lines of text.
        output: all that it gave back, typed: tables, figures, values, the exception.
        origins: for each variable that it bound or changed, the code and inputs that made it.
        refused: what it would have reached and was not allowed to, one sentence; else empty.
        turn: the number by which ``undo`` knows it.
    """

    ok: bool
    text: str
    output: KernelOutput
    origins: Mapping[str, VariableOrigin]
    refused: str
    turn: int

    def __str__(self) -> str:
        return self.text


class Notebook(AbstractContextManager["Notebook"]):
    """Run an agent's code with approval, lineage, undo and a record.

    In a script the code has a namespace of its own. Inside IPython and Jupyter it runs in the
    notebook's, where ``%agent why``, ``%agent undo`` and ``%agent history`` know of it too.

    Example:
        >>> from parsimony_kernel import Notebook
        >>> with Notebook(variables={"prices": [3, 4, 5]}) as notebook:
        ...     print(notebook.run_code("total = sum(prices)"))
        `total`: 12 (int)

    Args:
        variables: bound before the first code runs.
        confirm: called with the code and what it would reach, one sentence, whenever code would
            reach outside: the network, programs, files beyond the workspace. Gives a bool, or an
            awaitable of one. Without it all such code is refused.
        approve: when to ask: ``guarded`` as above, ``ask`` before every piece of code, ``auto``
            never.
        share: how much ``text`` tells of data: ``samples`` (what code prints, first rows and
            sample values), ``schema`` (names and types), ``none`` or ``full``.
        timeout_s: seconds that one piece of code may take, at most 600.
        folder: where relative paths begin and where, in ``.ockham``, the journal is kept. Ignored
            inside IPython.
        agent: what the record calls whoever writes the code.
        isolated: use a namespace of its own inside IPython too.

    Raises:
        ValueError: ``approve`` or ``share`` is none of these.
        SessionError: the journal cannot be written.
    """

    def __init__(
        self,
        *,
        variables: Mapping[str, Any] | None = None,
        confirm: Callable[[str, str], bool | Awaitable[bool]] = lambda code, why: False,
        approve: str = "guarded",
        share: str = "samples",
        timeout_s: float = 120.0,
        folder: str | Path = ".",
        agent: str = "another agent",
        isolated: bool = False,
    ) -> None:
        when, told = Approval(approve), Share(share)
        self._options = TurnOptions(
            approve=when, share=told, tells=False, max_execution_time_s=timeout_s
        )
        self._confirm, self._agent = confirm, agent
        self._lock = threading.Lock()
        # Inside IPython, keeps an agent's work apart from what the running cell does itself.
        self._apart: Callable[[], AbstractContextManager[None]] = nullcontext
        self._shell = None if isolated else get_ipython()
        if self._shell is None:
            executor = CodeExecutor(cwd=folder)
            place = Path(folder).resolve()
            self._session = NotebookSession(executor=executor, notebook="script", folder=place)
        else:
            from parsimony_agent.extension import install  # deferred: scripts do without magics

            magics: Any = install(self._shell)
            self._session, executor = magics.session, magics.session.executor
            self._apart = magics.user_cells.apart
        executor.namespace().update(variables or {})
        self._earlier = len(self._session.turns())

    def run_code(self, code: str, purpose: str = "") -> CodeResult:
        """Run Python and wait for it, within a running event loop too.

        Args:
            code: statements; the value of a trailing expression is shown.
            purpose: a short phrase that heads the step in the record.

        Returns:
            What it came to. An error of the code, its deadline and a refusal are values in it.

        Raises:
            KeyboardInterrupt: it was stopped. In a script what it had done until then stays;
                ``undo`` takes that back.
            SessionError: a turn of ``%%agent`` is running, or the journal cannot be written.
        """
        return _finished(self.run_code_async(code, purpose))

    async def run_code_async(self, code: str, purpose: str = "") -> CodeResult:
        """Run Python; calls that overlap run one after the other. See ``run_code``.

        Raises:
            CancelledError: it was stopped.
        """
        while not self._lock.acquire(blocking=False):
            await asyncio.sleep(_WAIT_S)
        try:
            with self._apart():
                return await self._turn(_Relay(self._agent, code, purpose))
        finally:
            self._lock.release()

    def run_python(self, code: str, purpose: str = "") -> str:
        """Run Python in a notebook. Variables last from call to call; when code fails they are as
        they were before it.

        Args:
            code: Python source; print what you need, or end with an expression to see its value.
            purpose: what the code is for, a short phrase.

        Returns:
            What the code printed and showed and the variables it made, or why it failed.
        """
        return self.run_code(code, purpose).text

    async def run_python_async(self, code: str, purpose: str = "") -> str:
        # Its docstring, which an agent's model reads, is set below.
        return (await self.run_code_async(code, purpose)).text

    run_python_async.__doc__ = run_python.__doc__

    def variables(self) -> dict[str, Any]:
        """The variables by name, live objects: no modules, no private names."""
        return self._session.executor.variables()

    def why(self, name: str) -> Explanation:
        """Where a variable comes from, step by step, newest first; ``.text()`` says it in words.

        Of a name that doesn't exist the explanation says so.
        """
        return self._session.past.why(name)

    def undo(self, turn: int | None = None) -> PutBack:
        """Restore the variables, and files of the workspace, to before a piece of code ran.

        Args:
            turn: ``CodeResult.turn``; by default the newest that changed something.

        Returns:
            The names that were restored, removed, kept because they changed since, or lost.

        Raises:
            SessionError: that turn cannot be undone; it says why, and which can.
        """
        with self._apart():
            return self._session.past.undo(turn)[1]

    def record(self, mime: str = "text/plain") -> str:
        """What the agent ran since this object was made, and what came of it, for people to read.

        A notebook draws it where this object is shown. A step has the number of its turn.

        Args:
            mime: ``text/plain``, ``text/markdown`` or ``text/html``.
        """
        return str(self._repr_mimebundle_()[mime])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        sections: list[Section] = []
        for turn in self._session.turns()[self._earlier :]:
            if turn.model == self._agent:
                sections += _shown(turn.ordinal, self._session.events(turn.run_id))
        return bundle(sections)

    def close(self) -> None:
        """Release the journal. Inside IPython it stays with the notebook."""
        if self._shell is None:
            self._session.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _turn(self, relay: "_Relay") -> CodeResult:
        # No word of the code or its purpose: an address in a request counts as allowed.
        request = f"Run code of {self._agent}"
        begun = self._session.turn(
            request, cell_key=uuid4().hex, options=self._options, models=(relay,)
        )
        refused = await self._drive(begun, relay)
        text = "\n".join(filter(None, (refused, relay.text)))
        output = KernelOutput.model_validate(relay.result.get("output", {}))
        found = map(self._session.executor.origin_ledger.get, output.changed if relay.ok else ())
        origins = {origin.name: origin for origin in found if origin is not None}
        turn = self._session.turns()[-1].ordinal
        return CodeResult(relay.ok, text, output, origins, refused, turn)

    async def _drive(self, events: AsyncGenerator[ev.AgentEvent, None], relay: "_Relay") -> str:
        """Run a turn to its end; what it was not allowed to reach, if anything."""
        async with aclosing(events):
            async for event in events:
                match event:
                    case ev.ToolEvent(tool_name="run_code", completed=True):
                        relay.ok, relay.result = bool(event.ok), event.result or {}
                    case ev.RunCancelled():
                        raise asyncio.CancelledError(event.reason)
                    case ev.PartialRunSummary(missing=why) | ev.Handoff(rationale=why):
                        relay.text = relay.text or why
        if not isinstance(event, ev.UserInputRequested):
            return ""
        is_approval = Choice.run_it in offered_in(event.suspension_record)
        reply, refused = Choice.do_not_run_it if is_approval else Choice.stop, event.context or ""
        try:
            told = is_approval and self._confirm(relay.code, refused)
            if await told if inspect.isawaitable(told) else told:
                reply, refused = Choice.run_it, ""
        finally:
            # Where asking failed, too, the question does not wait for ever.
            asked = event.suspension_record.run_id
            goes_on = self._session.resume(reply.words, turn_id=asked, models=(relay,))
            refused = await self._drive(goes_on, relay) or refused
        return refused


@dataclass
class _Relay:
    """The code as the model of a turn: it requests that the code be run, and ends the turn."""

    name: str
    code: str
    purpose: str
    # What it came to: for a model, and for people.
    text: str = ""
    ok: bool = False
    result: dict[str, Any] = field(default_factory=dict)
    is_stand_in: ClassVar[bool] = True

    async def stream(self, request: ModelRequest) -> AsyncIterator[Completion]:
        results = [each["content"] for each in request.messages if each["role"] == "tool"]
        action, arguments = "run_code", {"code": self.code, "purpose": self.purpose or None}
        if results:
            self.text = str(results[-1])
            first_line = self.text.strip().partition("\n")[0] or "Nothing was shown."
            action, arguments = "return_done", {"summary": first_line}
        yield answer(calls=[ToolCall(action, FunctionCall(action, json.dumps(arguments)))])


def _finished(work: Awaitable[CodeResult]) -> CodeResult:
    """What ``work`` gives, run in this thread, where a loop that waits meanwhile may run already.

    Another thread would not do: code is stopped best in the main one.
    """
    outer, loop = asyncio._get_running_loop(), asyncio.new_event_loop()
    asyncio._set_running_loop(None)
    try:
        return loop.run_until_complete(work)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        loop.close()
        asyncio._set_running_loop(outer)


def _shown(number: int, events: tuple[ev.AgentEvent, ...]) -> Iterator[Section]:
    """What is shown of a turn: the step and its charts, the question, and that it was undone."""
    for block in replay(events).blocks:
        if isinstance(block, StepBlock):
            yield outline(replace(block, number=number))
        elif isinstance(block, FigureBlock | QuestionBlock):
            yield outline(block)
    changes = [each for each in events if isinstance(each, ev.TurnTakenBack)]
    if changes and not changes[-1].redone:
        yield notes(f"Step {number} was undone.")
