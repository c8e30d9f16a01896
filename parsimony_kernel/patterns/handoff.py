"""What one worker hands to the next passes its validators first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


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
    for validator in validators:
        result = validator(output)
        if not result.valid:
            return {
                "status": "validation_failed",
                "error": result.reason,
                "fallback": "Request human review of this output",
            }
    return output
