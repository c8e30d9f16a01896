"""The one function through which every action passes.

The stages before the body, the body under its deadline, one envelope after. Nothing that ends
after its deadline changes what the gate has answered.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.agent.failure.kinds import Action, Failure, FailureKind
from parsimony_kernel.agent.failure.suspension import SuspensionRequest
from parsimony_kernel.agent.failure.termination import TerminationRequest
from parsimony_kernel.gate.answers import answer_of
from parsimony_kernel.gate.effects import Effects, MemoryEffects
from parsimony_kernel.gate.envelope import Envelope, refused, succeeded, told
from parsimony_kernel.gate.procedure import Walker, reachable_in
from parsimony_kernel.gate.refusal import GUIDANCE, RefusalError
from parsimony_kernel.gate.running import run_body
from parsimony_kernel.gate.stages import STAGES, Attempt, Stage, reachable
from parsimony_kernel.gate.writes import Writes
from parsimony_kernel.tools import Tool, ToolResult, Tools, words_of


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
        walker: Walker | None = None,
    ) -> None:
        self._tools = tools
        self._timeout_s = timeout_s
        self._walker = walker
        self._stages = stages if walker is None else _walked(stages, walker)
        self._writes = Writes(effects or MemoryEffects(), run_id, self._run)
        self._over = False

    @property
    def valid_next_actions(self) -> tuple[str, ...]:
        """What may be requested now; empty only when the run is over."""
        if self._over:
            return ()
        if self._walker is not None:
            return self._walker.valid_next_actions(self._tools)
        return tuple(self._tools)

    @property
    def place(self) -> str:
        """Where the run stands in its procedure, as JSON for a record; empty without one."""
        return "" if self._walker is None else json.dumps(self._walker.to_json())

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
            failure = _asked(stage, attempt)
            if failure is not None:
                return self._refuse(action, failure)
        tool = self._tools[action]
        run = self._writes.run if tool.effect == "write" else self._run
        result = await run(tool, inputs, cancellation)
        if result.failure is not None:
            return self._refuse(action, result.failure)
        return self._accept(action, result)

    def _accept(self, action: str, result: ToolResult) -> StepOutcome:
        data = result.data
        is_request = issubclass(type(data), TerminationRequest | SuspensionRequest)
        request: TerminationRequest | SuspensionRequest | None = data if is_request else None
        if request is not None:
            self._over = True
        if self._walker is not None:
            self._walker.advance(action)
        envelope = succeeded(
            action,
            _say(request) if request is not None else data,
            state="running" if request is None else _state_after(request),
            valid_next_actions=self.valid_next_actions,
        )
        return StepOutcome(envelope, result, request=request)

    def _refuse(self, action: str, failure: Failure) -> StepOutcome:
        # Cleaned once, here: the envelope, the lessons and a handoff all tell it again.
        read = told(failure)
        envelope = refused(
            action,
            read,
            state="over" if self._over else "running",
            valid_next_actions=self.valid_next_actions,
        )
        return StepOutcome(envelope, ToolResult.from_failure(read), read)

    async def _run(
        self,
        tool: Tool,
        inputs: Mapping[str, Any],
        cancellation: CancellationRequest | None,
        *,
        key: str = "",
    ) -> ToolResult:
        seconds = tool.timeout_s or self._timeout_s
        ended = await run_body(tool, inputs, seconds, cancellation, key=key)
        return answer_of(tool, ended, seconds)


def _walked(stages: tuple[Stage, ...], walker: Walker) -> tuple[Stage, ...]:
    """``stages`` with the walker's directly behind ``reachable``."""
    behind = stages.index(reachable) + 1
    return (*stages[:behind], reachable_in(walker), *stages[behind:])


def _asked(stage: Stage, attempt: Attempt) -> Failure | None:
    """What the stage says; one that breaks has let nothing pass, and says so."""
    try:
        return stage(attempt)
    except Exception as exc:  # a host's check, or one that meets an input it was not made for
        sentence = f"a check of {attempt.action} broke"
        return Failure(
            FailureKind.tool_error,
            f"{sentence} ({ToolResult.from_exception(exc).exception_message}). Nothing was run.",
            (sentence,),
            Action.handoff,
            metadata={
                "tool_name": attempt.action,
                "refusal": RefusalError.action_error,
                "envelope": {"error_type": type(exc).__name__, "error_message": words_of(exc)},
            },
        )


def _say(request: TerminationRequest | SuspensionRequest) -> str:
    if isinstance(request, SuspensionRequest):
        return "The question was put to the person; the answer follows as their next message."
    return "The run has ended."


def _state_after(request: TerminationRequest | SuspensionRequest) -> str:
    if isinstance(request, SuspensionRequest):
        return "suspended"
    return "done" if request.is_done else "handed_off"
