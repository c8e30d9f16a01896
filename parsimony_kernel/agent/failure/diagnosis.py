"""The type that a failure has in the light of its run, where nothing else has told it."""

from dataclasses import replace

from parsimony_kernel.agent.failure.recovery import outlived, within
from parsimony_kernel.core.calls import arguments_of
from parsimony_kernel.core.chat import ToolCall
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.taxonomy import FailureType, TriageContext
from parsimony_kernel.gate.tool_result import step_of_end
from parsimony_kernel.triage.classify import Classifier, from_messages

# The longest that a classifier thinks, in seconds.
JUDGING_S = 10.0


async def diagnose(
    failure: Failure,
    call: ToolCall,
    classifier: Classifier,
    *,
    state: RunState,
    known: TriageContext,
    is_idempotent: bool = False,
    within_s: float = JUDGING_S,
    clock: Clock = SYSTEM_CLOCK,
) -> FailureType:
    """What ``classifier`` says of the failure of ``call``.

    A classifier that breaks, or takes longer than ``within_s`` and ``JUDGING_S`` seconds of
    ``clock``, says nothing.
    """
    made = from_messages(state.messages)
    last = step_of_end(failure, call.function.name, index=len(made), inputs=arguments_of(call))
    trajectory = (*made, replace(last, idempotent=is_idempotent))

    async def judged() -> FailureType:
        request = request_in(state.messages)
        return FailureType(await classifier.classify(trajectory, request, run=known))

    with outlived("the classifier broke; the type of the failure is not known"):
        return await within(judged(), min(within_s, JUDGING_S), clock)
    return FailureType.UNKNOWN
