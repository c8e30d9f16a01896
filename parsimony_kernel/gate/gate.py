"""The gate: the single entry point for every action of a run.

An action passes the stages, its body runs under a deadline, and the gate returns one envelope. A
body that ends after its deadline can't change the answer.
"""

import hashlib
import inspect
import marshal
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.causes import CHECK_BROKEN, TOOL_BREAKER_OPEN, Rung, cause_of
from parsimony_kernel.core.effects import Effects, MemoryEffects
from parsimony_kernel.core.kinds import Action, Failure, FailureKind, FailureType
from parsimony_kernel.core.state import SuspensionRequest, TerminationRequest
from parsimony_kernel.core.text import words_of
from parsimony_kernel.execution.run_scope import permitting
from parsimony_kernel.gate.approval import Approving, cut_off
from parsimony_kernel.gate.body import run_body, type_of_end
from parsimony_kernel.gate.envelope import Envelope, refused, sanitised, succeeded
from parsimony_kernel.gate.procedure import Walker
from parsimony_kernel.gate.stages import STAGES, Attempt, Stage, known, validated_output
from parsimony_kernel.gate.writes import Writes
from parsimony_kernel.limits.breaker import PROBE_LEASE_S, Breakers, CircuitOpenError
from parsimony_kernel.tools import Tool, ToolResult, Tools

_TROUBLE = frozenset({FailureType.EXTERNAL_FAULT, FailureType.TIMEOUT})
# Seconds a call may take beyond its deadline, to unwind and to be recorded.
_GRACE_S = 60.0


@dataclass(frozen=True)
class StepOutcome:
    """Outcome of one step. ``request`` is set when the tool ends or suspends the run."""

    envelope: Envelope
    result: ToolResult
    failure: Failure | None = None
    request: TerminationRequest | SuspensionRequest | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def is_guidance(self) -> bool:
        """Whether the action was refused before its body ran, with a remedy for the model.

        Only refusals that the model can fix count; it must not guess the person's answer.
        """
        cause = None if self.failure is None else cause_of(self.failure)
        return cause is not None and cause.ladder[0] is Rung.refusal


@dataclass(eq=False, repr=False)
class Gate:
    """Check, run and answer the actions of one run.

    Args:
        tools: the callable tools, by name.
        timeout_s: deadline of a body in seconds, for tools that set none.
        stages: checks before a body runs, in order; they follow the checks that the action exists
            and is possible now. The first failure wins.
        effects: the write-ahead log of writes; in memory if not given.
        run_id: the run that makes the writes.
        walker: the run's position in its procedure, if it has one.
        breakers: circuit breakers of the tools' services; a host's breakers outlive the run.
        approvals: the approval policy; without one nobody is asked.
    """

    tools: Tools
    _: KW_ONLY
    timeout_s: float
    stages: tuple[Stage, ...] = STAGES
    effects: Effects = field(default_factory=MemoryEffects)
    run_id: str = ""
    walker: Walker = field(default_factory=Walker)
    breakers: Breakers = field(default_factory=Breakers)
    approvals: Approving | None = None

    def __post_init__(self) -> None:
        asked = () if self.approvals is None else (self.approvals.stage,)
        self._checks = (known, self.walker.stage, *self.stages, *asked)
        self._writes = Writes(self.effects, self.run_id, self._run)

    @property
    def valid_next_actions(self) -> tuple[str, ...]:
        """Names of the actions that may be requested now; empty only when the run is over."""
        return self.walker.valid_next_actions(self.tools)

    @property
    def place(self) -> str:
        """State of the run's procedure, for the record; empty without a procedure."""
        return self.walker.place

    async def step(
        self,
        action: str,
        inputs: Mapping[str, Any],
        *,
        cancellation: CancellationRequest | None = None,
        approved: str | None = None,
    ) -> StepOutcome:
        """Pass one action through every stage and run it if all accept it.

        Args:
            action: the name of a tool.
            inputs: its arguments, as the model gave them.
            cancellation: stops the step when set.
            approved: hash of the action that a person approved.

        Returns:
            The outcome; failures are values in it.

        Raises:
            Cancelled: the run was stopped during the step.
        """
        # The recorded state of a write that was begun before.
        is_write = action in self.tools and self.tools[action].effect == "write"
        standing = self._writes.standing(self.tools[action], inputs) if is_write else None
        attempt = Attempt(action, inputs, self.tools, approved, recorded=standing is not None)
        for stage in self._checks:
            if (failure := _asked(stage, attempt)) is not None:
                return self._refuse(action, failure)
        tool, approvals = attempt.tool, self.approvals
        permit = None if approvals is None else approvals.permit(attempt)
        with permitting(permit):
            if standing is not None:
                result = await self._writes.tell(tool, inputs, cancellation, standing)
            else:
                result = await self._guarded(tool, inputs, cancellation)
        if approvals is not None and permit is not None:
            result = approvals.held(attempt, permit, result)
        if attempt.outside:
            result = cut_off(tool, result, attempt.outside, self._writes.key(tool, inputs))
        result = validated_output(tool, result)
        if result.failure is not None:
            return self._refuse(action, result.failure)
        return self._accept(action, result, attempt.not_found)

    async def _guarded(
        self, tool: Tool, inputs: Mapping[str, Any], cancellation: CancellationRequest | None
    ) -> ToolResult:
        """Run ``tool`` behind its circuit breaker; code and terminal tools have none.

        A stopped call releases its probe lease.
        """
        run = self._writes.run if tool.effect == "write" else self._run
        if tool.tool_type == "code" or tool.terminal:
            return await run(tool, inputs, cancellation)
        # Doubled: a write whose outcome is unknown is reconciled under a second deadline.
        lease_s = max(PROBE_LEASE_S, 2 * self._deadline_s(tool) + _GRACE_S)
        breaker = self.breakers.of(service_of(tool), probe_lease_s=lease_s)
        try:
            permit = breaker.admit()
        except CircuitOpenError as exc:
            failure = _left_alone(tool, breaker.state, breaker.failure_count, exc.retry_in_s)
            return ToolResult.from_failure(failure)
        try:
            result = await run(tool, inputs, cancellation)
            if result.failure is None:
                permit.report("succeeded")
            elif _is_of_service(tool, result.failure):
                permit.report("failed")
            return result
        finally:
            permit.report("released")

    def _accept(self, action: str, result: ToolResult, not_found: list[str]) -> StepOutcome:
        data, walker = result.data, self.walker
        is_request = issubclass(type(data), TerminationRequest | SuspensionRequest)
        request: TerminationRequest | SuspensionRequest | None = data if is_request else None
        walker.is_over = walker.is_over or is_request
        walker.advance(action)
        state, shown = (walker.state, data) if request is None else _ended(request)
        envelope = succeeded(
            action, shown, state, self.valid_next_actions, note=result.note, not_found=not_found
        )
        return StepOutcome(envelope, result, request=request)

    def _refuse(self, action: str, failure: Failure) -> StepOutcome:
        # Scrubbed once, here: the envelope, the lessons and a handoff all repeat it.
        read, following = sanitised(failure), self.valid_next_actions
        if "breaker" in failure.metadata:  # its service is down; offered only if nothing else is
            following = tuple(name for name in following if name != action) or following
        state = "over" if self.walker.is_over else self.walker.state
        envelope = refused(action, read, state, following)
        return StepOutcome(envelope, ToolResult.from_failure(read), read)

    async def _run(
        self,
        tool: Tool,
        inputs: Mapping[str, Any],
        cancellation: CancellationRequest | None,
        *,
        key: str = "",
    ) -> ToolResult:
        return await run_body(tool, inputs, self._deadline_s(tool), cancellation, key=key)

    def _deadline_s(self, tool: Tool) -> float:
        return self.timeout_s if tool.timeout_s is None else tool.timeout_s


def _asked(stage: Stage, attempt: Attempt) -> Failure | None:
    """Run a stage and return its failure, if any; a stage that raises refuses the action."""
    try:
        return stage(attempt)
    except (Cancelled, KeyboardInterrupt):
        raise
    except BaseException as exc:  # boundary: tool - a host's check
        sentence = f"a check of {attempt.action} broke"
        return CHECK_BROKEN.failure(
            f"{sentence} ({ToolResult.from_exception(exc).exception_message}). Nothing was run.",
            blockers=(sentence,),
            action=Action.handoff,
            tool_name=attempt.action,
            check="broken",
            envelope={"error_type": type(exc).__name__, "error_message": words_of(exc)},
        )


def _ended(request: TerminationRequest | SuspensionRequest) -> tuple[str, str]:
    """Return the state of an ended or suspended run, and the sentence for the model."""
    if isinstance(request, SuspensionRequest):
        sentence = "The question was put to the person; the answer follows as their next message."
        return "suspended", sentence
    return "done" if request.is_done else "handed_off", "The run has ended."


# -- circuit breakers of the tools' services
#
# Five external faults or timeouts in a row open a tool's breaker. Errors in the tool's code or
# arguments don't count: they say nothing about the service.


def service_of(tool: Tool) -> str:
    """Return the breaker key of ``tool``: it changes when the tool's function is redefined.

    The key is the same in every process. It ignores closed-over values and called functions.
    """
    function = inspect.unwrap(tool.function)
    code = getattr(getattr(function, "func", function), "__code__", None)
    given = (getattr(function, each, None) for each in ("__defaults__", "__kwdefaults__"))
    # Marshal format 2 has no references, so the bytes don't depend on who else holds a constant.
    bare = _placeless(code) if inspect.iscode(code) else None
    made_of = marshal.dumps(bare, 2) + repr((*given, tool.timeout_s)).encode()
    return f"tool:{tool.name}:{hashlib.sha256(made_of).hexdigest()[:16]}"


def _placeless(made: Any) -> Any:
    """Remove file name and line number from a code object and the code objects nested in it."""
    if not inspect.iscode(made):
        return made
    consts = tuple(map(_placeless, made.co_consts))
    return made.replace(co_filename="", co_firstlineno=1, co_consts=consts)


def _is_of_service(tool: Tool, failure: Failure) -> bool:
    """Whether a failure counts against the service behind ``tool``; our own capability gaps
    don't."""
    is_gap = failure.kind is FailureKind.capability_gap
    return not is_gap and type_of_end(failure, tool.name) in _TROUBLE


def _left_alone(tool: Tool, state: str, failures: int, seconds: float) -> Failure:
    since = f"it is left alone for {seconds:.0f} s more"
    if state == "half_open":
        since = "one call finds out just now whether it works again"
    reason = f"it failed {failures} times in a row; {since}"
    return TOOL_BREAKER_OPEN.failure(
        f"{tool.name} is not reachable: {reason}. Nothing was run: another way is needed.",
        tool_name=tool.name,
        breaker="open",
        model=f"tool:{tool.name}",
        envelope={"reason": reason, "details": {"retry_in_s": round(seconds, 1)}},
    )
