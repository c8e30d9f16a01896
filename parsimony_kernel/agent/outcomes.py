"""Step outcomes for reports: classify failures, drop undone changes, build terminal events."""

from dataclasses import asdict, replace
from typing import Any

from parsimony_kernel.agent.failure.recovery import outlived, suspend, within
from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.core.causes import CAPABILITY_GAP
from parsimony_kernel.core.chat import ToolCall, arguments_of
from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.core.events import AgentEvent, Handoff, RunCompleted
from parsimony_kernel.core.kinds import Failure, FailureKind, FailureType, TriageContext
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.core.state import RunState, SuspensionRequest, TerminationRequest
from parsimony_kernel.gate.body import step_of_end
from parsimony_kernel.gate.envelope import to_text
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.triage.classify import from_messages
from parsimony_kernel.triage.taxonomy import column

_HINTS = column("hint")
# Time limit of a classifier, in seconds.
JUDGING_S = 10.0


async def diagnose(
    failure: Failure,
    call: ToolCall,
    context: RunContext,
    state: RunState,
    known: TriageContext,
    *,
    is_idempotent: bool = False,
) -> FailureType:
    """Classify the failure of ``call`` with the agent's classifier.

    Returns ``UNKNOWN`` when the classifier raises, or takes longer than ``JUDGING_S`` seconds or
    than the run has left.
    """
    made = from_messages(state.messages)
    last = step_of_end(failure, call.function.name, index=len(made), inputs=arguments_of(call))
    trajectory = (*made, replace(last, idempotent=is_idempotent))
    request, seconds = request_in(state.messages), min(context.time_left(state), JUDGING_S)
    with outlived("the classifier broke; the type of the failure is not known"):
        judging = context.classifier.classify(trajectory, request, run=known)
        return FailureType(await within(judging, seconds, context.clock))
    return FailureType.UNKNOWN


def with_type(outcome: StepOutcome, kind: FailureType) -> StepOutcome:
    """Add the type of a failure and its hint to the outcome. A type never changes the effect or the
    action."""
    if outcome.failure is not None and kind is not FailureType.UNKNOWN:
        outcome = replace(outcome, failure=outcome.failure.noting({"type": kind}))
    return adding(outcome, "hint", _HINTS[kind]) if kind in _HINTS else outcome


def as_restored(outcome: StepOutcome, back: PutBack) -> StepOutcome:
    """Remove from the outcome the changes to variables that were restored."""
    result = outcome.envelope.get("result")
    if not isinstance(result, dict):
        return outcome
    gone = {*back.restored, *back.removed}
    left = {key: each for key, each in result.items() if key not in ("overwritten", "deleted")}
    variables = [each for each in left.pop("variables", ()) if each.get("name") not in gone]
    if variables:
        left["variables"] = variables
    return adding(outcome, "result", left)


def adding(outcome: StepOutcome, key: str, value: Any) -> StepOutcome:
    """Copy the outcome with ``value`` under ``key`` of its envelope."""
    return replace(outcome, envelope={**outcome.envelope, key: value})


def shown(outcome: StepOutcome) -> str:
    """Return the result of the step as text."""
    return to_text(outcome.envelope.get("result", outcome.envelope))


def is_late(outcome: StepOutcome) -> bool:
    """Whether the step timed out, or invalidated the kernel."""
    failure = outcome.failure
    return failure is not None and (
        failure.type is FailureType.TIMEOUT or failure.kind is FailureKind.kernel_invalidated
    )


def for_people(outcome: StepOutcome, secrets: Secrets, *, stopped: bool) -> dict[str, Any]:
    """Return the envelope plus the full output of code, which only people see."""
    result = dict(outcome.envelope)
    if stopped and not outcome.ok:
        result["stopped"] = True
    data = outcome.result.data if outcome.ok else outcome.result.partial_data
    if isinstance(data, KernelOutput):
        result["output"] = secrets.of_json(data.model_dump(mode="json"))
    return result


def terminal_event(
    request: TerminationRequest | SuspensionRequest,
    context: RunContext,
    state: RunState,
    secrets: Secrets,
) -> AgentEvent:
    """Build the event that ends or suspends a run."""
    if isinstance(request, SuspensionRequest):
        return suspend(context, state, **secrets.of_prose(asdict(request)))
    if request.is_done:
        bound = context.hooks.variables(state)
        return RunCompleted(summary=request.message, variables=bound)
    return Handoff(
        rationale=request.message,
        blockers=request.blockers,
        suggested_next_steps=request.suggested_next_steps,
        failure=CAPABILITY_GAP.failure(request.message, blockers=request.blockers),
    )
