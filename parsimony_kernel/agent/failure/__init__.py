"""The failure spine: one value, its detectors, a policy, and one funnel.

The names of documents 000 and 002 are given here lazily; inside the package, import the module
that defines a name.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Action": "core.kinds",
    "Failure": "core.kinds",
    "FailureKind": "core.kinds",
    "FailureRaised": "core.kinds",
    "default_action_for": "core.kinds",
    "accumulate_usage": "agent.failure.detectors",
    "loop_signature": "core.calls",
    "post_llm": "agent.failure.detectors",
    "post_tool": "agent.failure.detectors",
    "pre_step": "agent.failure.detectors",
    "record_tool_call": "agent.failure.detectors",
    "DefaultPolicy": "core.policy",
    "RecoveryPolicy": "core.policy",
    "handle_failure": "agent.failure.recovery",
    "SuspensionConsumed": "agent.failure.suspension",
    "SuspensionElsewhere": "agent.failure.suspension",
    "SuspensionExpired": "agent.failure.suspension",
    "SuspensionRequest": "core.endings",
    "SuspensionTokenMismatch": "agent.failure.suspension",
    "compute_suspension_token": "agent.failure.suspension",
    "verify_suspension_token": "agent.failure.suspension",
    "TerminationRequest": "core.endings",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"parsimony_kernel.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
