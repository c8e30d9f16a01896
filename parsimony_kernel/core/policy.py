"""Choose the action that answers a failure.

Pure: a policy reads the failure and the counts and changes neither.
"""

from typing import Protocol, runtime_checkable

from parsimony_kernel.core.kinds import Action, Failure, FailureKind
from parsimony_kernel.core.state import RunState

MAX_BACKOFF_S = 30.0

_RETRIES = {
    FailureKind.transient_provider: 3,
    FailureKind.tool_error: 2,
    FailureKind.output_truncated: 1,
}


@runtime_checkable
class RecoveryPolicy(Protocol):
    """The protocol of a recovery policy, which a host may replace."""

    def retry_budget(self, kind: FailureKind) -> int:
        """Return the number of consecutive retries for ``kind``."""
        ...

    def backoff(self, kind: FailureKind, attempt: int) -> float:
        """Return the seconds to wait before retry number ``attempt``, counted from 0."""
        ...

    def decide(self, failure: Failure, state: RunState) -> Action:
        """Return the action, given the counts before this failure."""
        ...


class DefaultPolicy:
    """The default ladder: retry within a budget, narrow once, then ask a person."""

    def retry_budget(self, kind: FailureKind) -> int:
        return _RETRIES.get(kind, 0)

    def backoff(self, kind: FailureKind, attempt: int) -> float:
        if kind is not FailureKind.transient_provider:
            return 0.0
        return float(min(2.0 ** min(attempt, 16), MAX_BACKOFF_S))

    def decide(self, failure: Failure, state: RunState) -> Action:
        action = failure.suggested_action
        assert action is not None  # a Failure always has one after construction
        prior = state.failure_attempts.get(failure.kind, 0)
        if action is Action.retry and prior >= self.retry_budget(failure.kind):
            return Action.handoff
        if action is Action.narrow_scope and prior >= 1:
            return Action.handoff
        return action
