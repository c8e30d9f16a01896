"""A tool whose service is down is left alone for a while.

Five ends in a row that speak of a fault outside, or of no answer in time, open its breaker; what
the code of a tool or its arguments have done wrong says nothing about the service. A tool that is
defined anew starts closed, because the definition may have been the fault.
"""

import hashlib
import inspect
from typing import Any

from parsimony_kernel.core.causes import TOOL_BREAKER_OPEN
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.execution.inspection import class_name
from parsimony_kernel.gate.tool_result import type_of_end
from parsimony_kernel.limits.breaker import (
    PROBE_LEASE_S,
    Breakers,
    CircuitBreaker,
    CircuitOpenError,
    Permit,
)
from parsimony_kernel.tools import Tool, ToolResult

_TROUBLE = frozenset({FailureType.EXTERNAL_FAULT, FailureType.TIMEOUT})
# What a call may take beyond its deadline, to unwind and to be put on record.
_GRACE_S = 60.0


def admit(breakers: Breakers, tool: Tool, deadline_s: float) -> Permit | Failure | None:
    """A permit for one call of ``tool``, which takes at most ``deadline_s`` seconds; a refusal
    while its breaker is open. Code has none, nor has what ends a run."""
    if tool.tool_type == "code" or tool.terminal:
        return None
    # A write whose end is not known is looked up, under a deadline of its own.
    lease_s = max(PROBE_LEASE_S, 2 * deadline_s + _GRACE_S)
    breaker = breakers.of(service_of(tool), probe_lease_s=lease_s)
    try:
        return breaker.admit()
    except CircuitOpenError as exc:
        return _left_alone(tool, breaker, exc.retry_in_s)


def service_of(tool: Tool) -> str:
    """The name of what stands behind ``tool``: another one when the tool is defined otherwise.

    It is defined by its source text, which is the same in every process; of what it closes over
    and of the functions that it calls nothing is known.
    """
    function: Any = tool.function
    try:
        source = inspect.getsource(inspect.unwrap(getattr(function, "func", function)))
    except (OSError, TypeError, ValueError):  # none that can be had
        source = class_name(type(function))
    made_of = f"{source} {tool.timeout_s!r}"
    return f"tool:{tool.name}:{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"


def tell(permit: Permit, tool: Tool, result: ToolResult) -> None:
    """Say what the end of the call means for the service behind ``tool``."""
    failure = result.failure
    if failure is None:
        permit.succeeded()
    elif failure.kind is not FailureKind.capability_gap and (  # where something of ours is missing
        type_of_end(failure, tool.name) in _TROUBLE
    ):
        permit.failed()
    else:
        permit.released()


def _left_alone(tool: Tool, breaker: CircuitBreaker, seconds: float) -> Failure:
    since = f"it is left alone for {seconds:.0f} s more"
    if breaker.state == "half_open":
        since = "one call finds out just now whether it works again"
    reason = f"it failed {breaker.failure_count} times in a row; {since}"
    return TOOL_BREAKER_OPEN.failure(
        f"{tool.name} is not reachable: {reason}. Nothing was run: another way is needed.",
        tool_name=tool.name,
        breaker="open",
        model=f"tool:{tool.name}",
        retry_in_s=seconds,
        envelope={"reason": reason, "details": {"retry_in_s": round(seconds, 1)}},
    )
