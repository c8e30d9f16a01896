"""The names of causes.

Values only. The order and the strings are stable: they stand in journals. New members go before
``UNKNOWN``, which stays last.
"""

from enum import StrEnum


class FailureType(StrEnum):
    """Why something failed, hence which hint helps. One per failure."""

    WRONG_TOOL_CALLED = "wrong_tool_called"
    CONSTRAINT_IGNORED = "constraint_ignored"
    LOOP_DETECTED = "loop_detected"
    HALLUCINATED_STATE = "hallucinated_state"
    PLAN_INCOMPLETE = "plan_incomplete"
    SCHEMA_MISMATCH = "schema_mismatch"
    CONTEXT_OVERFLOW = "context_overflow"
    GOAL_DRIFT = "goal_drift"
    EXTERNAL_FAULT = "external_fault"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"
