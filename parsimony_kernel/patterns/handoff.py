"""What one worker hands to the next passes its validators first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

P = TypeVar("P")


@dataclass(frozen=True)
class ValidationResult:
    """The word of one validator; ``reason`` says what is wrong."""

    valid: bool
    reason: str = ""


Validator = Callable[[dict[str, object]], ValidationResult]


def validated_handoff(
    output: dict[str, object], validators: Sequence[Validator]
) -> dict[str, object]:
    """``output`` itself when every validator accepts it.

    Else a dict with ``status``, ``error`` (the reason of the first that does not) and
    ``fallback``; later validators are not asked. A validator that raises is not caught: what it
    would have said is not known.
    """
    rejected = rejection(output, validators)
    if rejected is None:
        return output
    return {
        "status": "validation_failed",
        "error": rejected.reason,
        "fallback": "Request human review of this output",
    }


def rejection(
    proposal: P, validators: Sequence[Callable[[P], ValidationResult]]
) -> ValidationResult | None:
    """The result of the first validator that does not accept ``proposal``, if any does not."""
    results = (validator(proposal) for validator in validators)
    return next((result for result in results if not result.valid), None)
