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

    def backoff(self, kind: FailureKind, attempt: int) -> float:
        """Return the seconds to wait before retry number ``attempt``, counted from 0."""

    def decide(self, failure: Failure, state: RunState) -> Action:
        """Return the action, given the counts before this failure."""


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
        return self._within_budget(action, failure.kind, state)

    def _within_budget(
        self, action: Action, kind: FailureKind, state: RunState, *, fewest_retries: int = 0
    ) -> Action:
        """Return ``action``, or a handoff if its budget is used up."""
        if action not in (Action.retry, Action.narrow_scope):
            return action
        most = 1 if action is Action.narrow_scope else max(self.retry_budget(kind), fewest_retries)
        return Action.handoff if state.failure_attempts.get(kind, 0) >= most else action
