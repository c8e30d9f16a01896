"""What a tool's own validators say of what it answered."""

from parsimony_kernel.gate.answers import refused_output
from parsimony_kernel.gate.rendition import plain
from parsimony_kernel.gate.validators import objection
from parsimony_kernel.tools import Tool, ToolResult


def validated_output(tool: Tool, result: ToolResult) -> ToolResult:
    """``result`` itself when every validator accepts its data, in order; else a failure.

    The first refusal stops, and a validator that breaks has accepted nothing. Of a write they
    judge what is on record, so that the word about it is the same each time it is told.
    """
    if result.failure is not None or not tool.output_validators:
        return result
    judged = plain(result.data) if tool.effect == "write" else result.data
    for validator in tool.output_validators:
        against = objection(validator, judged)
        if against is not None:
            return refused_output(tool, against.reason, result.data)
    return result
