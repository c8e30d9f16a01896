"""Failure handling: the ``Failure`` value, its detectors, the recovery policy and the funnel.

Lazily exports the names of documents 000 and 002. Inside the package, import from the module that
defines a name.
"""

from importlib import import_module
from typing import Any

_NAMES = {
    "core.chat": "loop_signature",
    "core.state": "SuspensionRequest TerminationRequest",
    "core.kinds": "Action Failure FailureKind FailureRaised default_action_for",
    "core.causes": "DefaultPolicy RecoveryPolicy",
    "agent.failure.detectors": "accumulate_usage post_llm post_tool pre_step record_tool_call",
    "agent.failure.recovery": "handle_failure",
    "agent.failure.suspension": (
        "SuspensionConsumed SuspensionElsewhere SuspensionExpired SuspensionTokenMismatch "
        "compute_suspension_token verify_suspension_token"
    ),
}
__all__ = sorted(" ".join(_NAMES.values()).split())


def __getattr__(name: str) -> Any:
    for home, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f"parsimony_kernel.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
