"""A tool whose service is down is left alone for a while.

Five ends in a row that speak of a fault outside, or of no answer in time, open its breaker; what
the code of a tool or its arguments have done wrong says nothing about the service.
"""

from parsimony_kernel.agent.failure.causes import TOOL_BREAKER_OPEN
from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.gate.answers import step_of_end
from parsimony_kernel.limits.breaker import Breakers, CircuitBreaker, CircuitOpenError, Permit
from parsimony_kernel.tools import Tool, ToolResult
from parsimony_kernel.triage.classifier.rules import RulesClassifier
from parsimony_kernel.triage.taxonomy import FailureType

_TROUBLE = frozenset({FailureType.EXTERNAL_FAULT, FailureType.TIMEOUT})


class ToolBreakers:
    """The breakers of a run's tools. Code has none, nor has what ends a run."""

    def __init__(self, breakers: Breakers) -> None:
        self._breakers = breakers
        self._refused: set[str] = set()

    def admit(self, tool: Tool) -> Permit | Failure | None:
        """A permit for one call; a refusal while the breaker is open; ``None`` without one."""
        if tool.tool_type == "code" or tool.terminal:
            return None
        breaker = self._of(tool.name)
        try:
            permit = breaker.admit()
        except CircuitOpenError as exc:
            self._refused.add(tool.name)
            return _left_alone(tool, breaker, exc.retry_in_s)
        self._refused.discard(tool.name)
        return permit

    def is_left_alone(self, name: str) -> bool:
        """Whether the tool was refused and still would be."""
        return name in self._refused and self._of(name).state == "open"

    def _of(self, name: str) -> CircuitBreaker:
        return self._breakers.of(f"tool:{name}")


def tell(permit: Permit, tool: Tool, result: ToolResult) -> None:
    """Say what the end of the call means for the service behind ``tool``."""
    failure = result.failure
    if failure is None:
        permit.succeeded()
    elif failure.kind is FailureKind.capability_gap:
        permit.released()  # something of ours is missing
    elif RulesClassifier().judge([step_of_end(failure, tool.name)]).type in _TROUBLE:
        permit.failed()
    else:
        permit.released()


def _left_alone(tool: Tool, breaker: CircuitBreaker, seconds: float) -> Failure:
    if breaker.state == "half_open":
        since = "one call finds out just now whether it works again"
    else:
        since = (
            f"it has been left alone for {breaker.reset_timeout - seconds:.0f} s, and is for "
            f"{seconds:.0f} s more"
        )
    reason = f"it failed {breaker.failure_count} times in a row; {since}"
    return TOOL_BREAKER_OPEN.failure(
        f"{tool.name} is not reachable: {reason}. Nothing was run: another way is needed.",
        tool_name=tool.name,
        breaker="open",
        model=f"tool:{tool.name}",
        retry_in_s=seconds,
        envelope={"reason": reason, "details": {"retry_in_s": round(seconds, 1)}},
    )
