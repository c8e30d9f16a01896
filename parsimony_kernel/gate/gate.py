"""The one function through which every action passes.

The stages before the body, the body under its deadline, one envelope after. Nothing that ends
after its deadline changes what the gate has answered.
"""

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.agent.failure.kinds import Action, Effect, Failure, FailureKind
from parsimony_kernel.agent.failure.recovery import EFFECT_KEY
from parsimony_kernel.agent.failure.suspension import SuspensionRequest
from parsimony_kernel.agent.failure.termination import TerminationRequest
from parsimony_kernel.gate.effects import Effects, MemoryEffects, action_sha
from parsimony_kernel.gate.envelope import Envelope, plain, refused, succeeded
from parsimony_kernel.gate.refusal import GUIDANCE, RefusalError
from parsimony_kernel.gate.stages import STAGES, Attempt, Stage
from parsimony_kernel.llm.faults import scrub
from parsimony_kernel.tools import Tool, ToolResult, Tools
from parsimony_kernel.triage.taxonomy import FailureType

EFFECT_CHOICES = ("It did", "It did not", "Stop here")


def took_effect(reply: str) -> bool | None:
    """What a person said of a write; ``None`` when the words do not say."""
    said = reply.strip().casefold().rstrip(".!")
    if said.startswith(("it did not", "it didn't", "no")):
        return False
    return True if said.startswith(("it did", "yes")) else None


# How long a cancelled body may take to unwind before it is left behind, fenced.
_GRACE_S = 2.0


@dataclass(frozen=True)
class StepOutcome:
    """What one step came to. ``request`` is set when the tool ends or suspends the run."""

    envelope: Envelope
    result: ToolResult
    failure: Failure | None = None
    request: TerminationRequest | SuspensionRequest | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def is_guidance(self) -> bool:
        """Whether the action was refused before its body ran, with what to send instead.

        Only what the model can mend counts; what the person has to say is not for it to guess.
        """
        return (
            self.failure is not None
            and self.failure.refusal in GUIDANCE
            and (
                self.failure.suggested_action in (Action.retry, Action.narrow_scope)
                or self.failure.kind is FailureKind.loop_detected
            )
        )


class Gate:
    """Admits, runs and answers the actions of one run."""

    def __init__(
        self,
        tools: Tools,
        *,
        timeout_s: float,
        stages: tuple[Stage, ...] = STAGES,
        effects: Effects | None = None,
        run_id: str = "",
    ) -> None:
        self._tools = tools
        self._timeout_s = timeout_s
        self._stages = stages
        self._effects = effects or MemoryEffects()
        self._run_id = run_id
        self._over = False
        self._abandoned: set[asyncio.Task[Any]] = set()

    @property
    def valid_next_actions(self) -> tuple[str, ...]:
        """What may be requested now; empty only when the run is over."""
        return () if self._over else tuple(self._tools)

    async def step(
        self,
        action: str,
        inputs: Mapping[str, Any],
        *,
        cancellation: CancellationRequest | None = None,
        approved: str | None = None,
    ) -> StepOutcome:
        """Pass ``action`` through every stage and, if admitted, run it.

        ``approved`` is the hash of the action that a person has allowed. Failures are values in
        the outcome. Raises ``Cancelled`` when the run is stopped meanwhile.
        """
        attempt = Attempt(action, inputs, self._tools, self._over, approved)
        for stage in self._stages:
            failure = stage(attempt)
            if failure is not None:
                return self._refuse(action, failure)
        tool = self._tools[action]
        run = self._write if tool.effect == "write" else self._run
        result = await run(tool, inputs, cancellation)
        failure = result.failure or _from_message(action, result)
        if failure is not None:
            return self._refuse(action, failure)
        return self._accept(action, result)

    def _accept(self, action: str, result: ToolResult) -> StepOutcome:
        data = result.data
        request = data if isinstance(data, TerminationRequest | SuspensionRequest) else None
        if request is not None:
            self._over = True
        envelope = succeeded(
            action,
            _say(request) if request is not None else data,
            state="running" if request is None else _state_after(request),
            valid_next_actions=self.valid_next_actions,
        )
        return StepOutcome(envelope, result, request=request)

    def _refuse(self, action: str, failure: Failure) -> StepOutcome:
        # Cleaned once, here: the envelope, the lessons and a handoff all tell it again.
        told = Failure(
            failure.kind,
            scrub(failure.explanation),
            tuple(scrub(blocker) for blocker in failure.blockers),
            failure.suggested_action,
            failure.partial_data,
            failure.metadata,
        )
        envelope = refused(
            action,
            told,
            state="over" if self._over else "running",
            valid_next_actions=self.valid_next_actions,
        )
        return StepOutcome(envelope, ToolResult.from_failure(told), told)

    async def _write(
        self, tool: Tool, inputs: Mapping[str, Any], cancellation: CancellationRequest | None
    ) -> ToolResult:
        """Run a write once: what is committed is told again, what is uncertain is found out."""
        key = action_sha(tool.name, inputs, run_id=self._run_id)
        standing = self._effects.standing(key)
        if standing is not None and standing.state == "committed":
            return ToolResult.from_data(standing.answer)
        if standing is None:
            self._effects.intend(key, tool.name, inputs)
            result = await self._run(tool, inputs, cancellation)
            if result.failure is None or result.failure.effect is not Effect.uncertain:
                return self._settle(key, result)
            failure = result.failure
        else:
            failure = _uncertain(tool, "an earlier attempt of it has no known end")
        if tool.reconcile is None or self._abandoned:
            return ToolResult.from_failure(_unsettled(failure, tool, key))
        return await self._reconcile(tool, inputs, cancellation, key, failure)

    def _settle(self, key: str, result: ToolResult) -> ToolResult:
        if result.ok:
            self._effects.commit(key, plain(result.data))
        else:
            self._effects.withdraw(key)  # a write that raises says that nothing happened
        return result

    async def _reconcile(
        self,
        tool: Tool,
        inputs: Mapping[str, Any],
        cancellation: CancellationRequest | None,
        key: str,
        failure: Failure,
    ) -> ToolResult:
        assert tool.reconcile is not None
        asking = replace(
            tool, function=tool.reconcile, effect="none", name=f"{tool.name}.reconcile"
        )
        found = await self._run(asking, inputs, cancellation)
        if not found.ok:
            return ToolResult.from_failure(_unsettled(failure, tool, key))
        if found.data is None:
            self._effects.withdraw(key)
            return ToolResult.from_failure(_did_not_happen(failure, tool))
        self._effects.commit(key, plain(found.data))
        return found

    async def _run(
        self, tool: Tool, inputs: Mapping[str, Any], cancellation: CancellationRequest | None
    ) -> ToolResult:
        parsed = tool.arguments.model_validate(dict(inputs))
        given = {name: getattr(parsed, name) for name in parsed.model_fields_set}
        task: asyncio.Task[Any] = asyncio.ensure_future(_call(tool, given))
        deadline = tool.timeout_s or self._timeout_s
        waiting = asyncio.wait({task}, timeout=deadline)
        try:
            await (cancellation.race(waiting) if cancellation is not None else waiting)
        finally:
            if not task.done():
                await self._abandon(task)
        if task.cancelled() or not task.done():
            return ToolResult.from_failure(_timed_out(tool, deadline))
        return _result_of(tool, task)

    async def _abandon(self, task: asyncio.Task[Any]) -> None:
        # A body that ignores its cancellation is fenced: its result reaches nothing.
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._forget)
        await asyncio.wait({task}, timeout=_GRACE_S)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that a late error is not reported as lost


async def _call(tool: Tool, given: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(tool.function):
        return await tool.function(**given)
    # Off the event loop, which has other things to wait for.
    answered = await asyncio.to_thread(tool.function, **given)
    return await answered if inspect.isawaitable(answered) else answered


def _result_of(tool: Tool, task: "asyncio.Task[Any]") -> ToolResult:
    exc = task.exception()
    if exc is None:
        value = task.result()
        return value if isinstance(value, ToolResult) else ToolResult.from_data(value)
    if not isinstance(exc, Exception):
        raise exc
    return ToolResult.from_failure(
        Failure(
            FailureKind.tool_error,
            scrub(f"{tool.name} failed: {ToolResult.from_exception(exc).exception_message}"),
            metadata={
                "tool_name": tool.name,
                "refusal": RefusalError.action_error,
                "envelope": {
                    "error_type": type(exc).__name__,
                    "error_message": scrub(str(exc)),
                },
            },
        )
    )


def _from_message(action: str, result: ToolResult) -> Failure | None:
    if result.exception_message is None:
        return None
    name, _, text = result.exception_message.partition(": ")
    return Failure(
        FailureKind.tool_error,
        scrub(f"{action} failed: {result.exception_message}"),
        partial_data=result.partial_data,
        metadata={
            "tool_name": action,
            "refusal": RefusalError.action_error,
            "envelope": {"error_type": name, "error_message": scrub(text)},
        },
    )


def _timed_out(tool: Tool, seconds: float) -> Failure:
    return Failure(
        FailureKind.tool_error,
        f"{tool.name} exceeded its {seconds:g} s timeout and was stopped",
        metadata={
            "tool_name": tool.name,
            "refusal": RefusalError.action_timeout,
            "type": FailureType.TIMEOUT,
            "effect": Effect.none if tool.is_repeatable else Effect.uncertain,
            "envelope": {"timeout_seconds": seconds},
        },
    )


def _uncertain(tool: Tool, why: str) -> Failure:
    return Failure(
        FailureKind.tool_error,
        f"{tool.name}: {why}",
        metadata={
            "tool_name": tool.name,
            "refusal": RefusalError.action_timeout,
            "type": FailureType.TIMEOUT,
            "effect": Effect.uncertain,
        },
    )


def _unsettled(failure: Failure, tool: Tool, key: str) -> Failure:
    """The failure, as a question to the person: nobody else can say what happened."""
    return replace(
        failure,
        explanation=f"{failure.explanation}; it is not known whether it took effect",
        metadata={
            **failure.metadata,
            EFFECT_KEY: key,
            "question": f"Did {tool.name} take effect?",
            "choices": list(EFFECT_CHOICES),
        },
    )


def _did_not_happen(failure: Failure, tool: Tool) -> Failure:
    return replace(
        failure,
        explanation=f"{failure.explanation}; looked up: it did not take effect",
        metadata={**failure.metadata, "effect": Effect.none, "tool_name": tool.name},
    )


def _say(request: TerminationRequest | SuspensionRequest) -> str:
    if isinstance(request, SuspensionRequest):
        return "The question was put to the person; the answer follows as their next message."
    return "The run has ended."


def _state_after(request: TerminationRequest | SuspensionRequest) -> str:
    if isinstance(request, SuspensionRequest):
        return "suspended"
    return "done" if request.is_done else "handed_off"
