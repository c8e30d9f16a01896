"""The failure spine: one value, its detectors, a policy, and one funnel.

The names of documents 000 and 002 are given here lazily; inside the package, import the module
that defines a name.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Action": "kinds",
    "Failure": "kinds",
    "FailureKind": "kinds",
    "FailureRaised": "kinds",
    "default_action_for": "kinds",
    "accumulate_usage": "detectors",
    "loop_signature": "detectors",
    "post_llm": "detectors",
    "post_tool": "detectors",
    "pre_step": "detectors",
    "record_tool_call": "detectors",
    "DefaultPolicy": "policy",
    "RecoveryPolicy": "policy",
    "handle_failure": "recovery",
    "SuspensionConsumed": "suspension",
    "SuspensionElsewhere": "suspension",
    "SuspensionExpired": "suspension",
    "SuspensionRequest": "suspension",
    "SuspensionTokenMismatch": "suspension",
    "compute_suspension_token": "suspension",
    "verify_suspension_token": "suspension",
    "TerminationRequest": "termination",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
