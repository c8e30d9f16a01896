"""A tool whose service is down is left alone for a while.

Five ends in a row that speak of a fault outside, or of no answer in time, open its breaker; what
the code of a tool or its arguments have done wrong says nothing about the service. A tool that is
defined anew starts closed, because the definition may have been the fault.
"""

import functools
import hashlib
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, MethodType, NoneType
from typing import Any

from parsimony_kernel.core.causes import TOOL_BREAKER_OPEN
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.execution.inspection import class_name, class_package
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
_PLAIN = (bool, bytes, complex, float, int, str, EllipsisType, NoneType)


class ToolBreakers:
    """The breakers of a run's tools. Code has none, nor has what ends a run."""

    def __init__(self, breakers: Breakers) -> None:
        self._breakers = breakers
        self._refused: dict[str, CircuitBreaker] = {}

    def admit(self, tool: Tool, deadline_s: float) -> Permit | Failure | None:
        """A permit for one call; a refusal while the breaker is open; ``None`` without one."""
        if tool.tool_type == "code" or tool.terminal:
            return None
        breaker = self._breakers.of(service_of(tool), probe_lease_s=_lease_s(tool, deadline_s))
        try:
            permit = breaker.admit()
        except CircuitOpenError as exc:
            self._refused[tool.name] = breaker
            return _left_alone(tool, breaker, exc.retry_in_s)
        self._refused.pop(tool.name, None)
        return permit

    def is_left_alone(self, name: str) -> bool:
        """Whether the tool was refused and still would be."""
        breaker = self._refused.get(name)
        return breaker is not None and breaker.state == "open"


def service_of(tool: Tool) -> str:
    """The name of what stands behind ``tool``: another one when the tool is defined otherwise.

    The same definition, run again or made anew for each run, is the same; of what it closes over
    and of the functions that it calls nothing is known.
    """
    made_of = f"{_definition(tool.function)} {tool.timeout_s!r}"
    return f"tool:{tool.name}:{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"


def _lease_s(tool: Tool, deadline_s: float) -> float:
    # A write whose end is not known is looked up, under a deadline of its own.
    bodies = 1 if tool.reconcile is None else 2
    return max(PROBE_LEASE_S, bodies * deadline_s + _GRACE_S)


def _definition(function: Any) -> str:
    """What ``function`` does, in words that are the same in every process; nothing of it is run."""
    kind = type(function)
    if kind is functools.partial:
        return f"{_words((function.args, function.keywords))} {_definition(function.func)}"
    if kind is MethodType:
        return _definition(function.__func__)
    if kind is FunctionType:
        wrapped = function.__dict__.get("__wrapped__")
        inner = "" if wrapped is None else _definition(wrapped)
        return _words((function.__code__, function.__defaults__, function.__kwdefaults__)) + inner
    if kind is BuiltinFunctionType:
        return str(function.__qualname__)
    return _definition(kind.__call__) if type(kind.__call__) is FunctionType else _words(function)


def _words(value: Any) -> str:
    """A constant by its value, code by what is in it, and an object by its class."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is dict:
        return _words(tuple(value.items()))
    if kind is tuple or kind is frozenset:
        words = map(_words, value)
        return f"({', '.join(sorted(words) if kind is frozenset else words)})"
    if kind is CodeType:
        names = (value.co_names, value.co_varnames, value.co_freevars)
        return _words((value.co_code, value.co_consts, value.co_flags, names))
    return f"{class_package(kind)}.{class_name(kind)}"


def tell(permit: Permit, tool: Tool, result: ToolResult) -> None:
    """Say what the end of the call means for the service behind ``tool``."""
    failure = result.failure
    if failure is None:
        permit.succeeded()
    elif failure.kind is FailureKind.capability_gap:
        permit.released()  # something of ours is missing
    elif type_of_end(failure, tool.name) in _TROUBLE:
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
