"""Validated handoff: check one worker's output before the next worker gets it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

P = TypeVar("P")


@dataclass(frozen=True)
class ValidationResult:
    """Result of one validator; ``reason`` says what is wrong."""

    valid: bool
    reason: str = ""


Validator = Callable[[dict[str, object]], ValidationResult]


def validated_handoff(
    output: dict[str, object], validators: Sequence[Validator]
) -> dict[str, object]:
    """Return ``output`` if every validator accepts it.

    Otherwise return a dict with ``status``, ``error`` (the first rejection's reason) and
    ``fallback``; later validators don't run. An exception of a validator propagates: its verdict is
    unknown.
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
    """Return the result of the first validator that rejects ``proposal``, or ``None``."""
    results = (validator(proposal) for validator in validators)
    return next((result for result in results if not result.valid), None)
