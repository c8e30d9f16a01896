"""What a tool's own validators say of what it answered."""

from typing import Any

from parsimony_kernel.gate.answers import refused_output
from parsimony_kernel.gate.rendition import plain
from parsimony_kernel.tools import OutputValidator, Tool, ToolResult, words_of


def validated_output(tool: Tool, result: ToolResult) -> ToolResult:
    """``result`` itself when every validator accepts its data, in order; else a failure.

    The first refusal stops, and a validator that breaks has accepted nothing. Of a write they
    judge what is on record, so that the word about it is the same each time it is told.
    """
    if result.failure is not None or not tool.output_validators:
        return result
    judged = plain(result.data) if tool.effect == "write" else result.data
    for validator in tool.output_validators:
        reason = _reason_against(validator, judged)
        if reason is not None:
            return refused_output(tool, reason, result.data)
    return result


def _reason_against(validator: OutputValidator, data: Any) -> str | None:
    try:
        said = validator(data)
        if said is None or isinstance(said, str):
            return said
        return None if said.valid else said.reason or "a validator refused it"
    except ValueError as exc:
        return words_of(exc) or "a validator refused it"
    except Exception as exc:  # a foreign check: one that breaks has not let anything pass
        return f"a check of it broke ({type(exc).__name__}: {words_of(exc)})"
