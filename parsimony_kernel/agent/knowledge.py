"""What a run knows when something has failed, and the type that the failure has in its light."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from parsimony_kernel.agent.failure.recovery import outlived, within
from parsimony_kernel.core.calls import arguments_of
from parsimony_kernel.core.chat import ToolCall
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.taxonomy import FailureType, Step, TriageContext
from parsimony_kernel.gate.tool_result import step_of_end
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.classify import Classifier, from_messages

# The longest that a classifier thinks, in seconds.
JUDGING_S = 10.0


@dataclass(frozen=True)
class Knowledge:
    """What is asked when a failure is judged. It is read then, from what the run has by then.

    Args:
        identifiers: the values that the task's contract is about, by argument name.
        prompt_tokens: the size of the last request that was answered.
        context_window: the tokens that the model takes, where that is known.
    """

    state: RunState
    tools: Tools
    identifiers: Mapping[str, str]
    checkpoints: tuple[str, ...] = ()
    prompt_tokens: int | None = None
    context_window: int | None = None

    def as_context(self) -> TriageContext:
        """All of it, for a strategy or a classifier."""
        return TriageContext(
            tools=tuple(self.tools),
            constraints=tuple(self.state.pinned_constraints),
            subgoals=tuple(self.state.subgoals),
            done_subgoals=frozenset(self.state.done_subgoals),
            identifiers=self.identifiers,
            prompt_tokens=self.prompt_tokens,
            context_window=self.context_window,
            checkpoints=self.checkpoints,
        )

    async def type_of(
        self,
        failure: Failure,
        call: ToolCall,
        classifier: Classifier,
        *,
        within_s: float = JUDGING_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> FailureType:
        """What ``classifier`` says of the failure of ``call``.

        A classifier that breaks, or takes longer than ``within_s`` and ``JUDGING_S`` seconds of
        ``clock``, says nothing.
        """
        made = from_messages(self.state.messages)
        name = call.function.name
        last = replace(
            step_of_end(failure, name, index=len(made), inputs=arguments_of(call)),
            idempotent=name in self.tools and self.tools[name].is_repeatable,
        )
        trajectory = (*made, last)
        with outlived("the classifier broke; the type of the failure is not known"):
            judging = self._judged(trajectory, classifier)
            return await within(judging, min(within_s, JUDGING_S), clock)
        return FailureType.UNKNOWN

    async def _judged(self, trajectory: Sequence[Step], classifier: Classifier) -> FailureType:
        request = request_in(self.state.messages)
        return FailureType(await classifier.classify(trajectory, request, run=self.as_context()))


def typed(failure: Failure, kind: FailureType) -> Failure:
    """``failure`` with its type. A type chooses a hint; it changes neither effect nor action."""
    return replace(failure, metadata={**failure.metadata, "type": kind})
