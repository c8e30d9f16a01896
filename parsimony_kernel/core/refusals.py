"""The five refusals, by their wire names.

Values only. ``GUIDANCE`` refusals tell the model what to send instead, and are raised before the
action's body runs; the other two report what happened while it ran.
"""

from enum import StrEnum


class RefusalError(StrEnum):
    """The ``error`` field of an envelope."""

    invalid_transition = "invalid_transition"
    unknown_action = "unknown_action"
    validation_failed = "validation_failed"
    action_timeout = "action_timeout"
    action_error = "action_error"


GUIDANCE = frozenset(RefusalError) - {RefusalError.action_timeout, RefusalError.action_error}
