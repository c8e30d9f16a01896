"""What a model is told beside the error of a tool, by the type of the failure.

One sentence each; what the error itself says already has none.
"""

from collections.abc import Mapping

from parsimony_kernel.triage.taxonomy import FailureType

HINTS: Mapping[FailureType, str] = {
    FailureType.EXTERNAL_FAULT: (
        "The service failed for a reason that passes. The same call may be made again; if it "
        "fails again, take another way."
    ),
    FailureType.TIMEOUT: "It did not end in time. Do less at once.",
    FailureType.SCHEMA_MISMATCH: (
        "Something does not have the structure that was expected. Look at what is there first."
    ),
    FailureType.CONTEXT_OVERFLOW: "It was too much at once. Take a part of it.",
    FailureType.WRONG_TOOL_CALLED: "What was called is not there. Use what exists.",
    FailureType.CONSTRAINT_IGNORED: "This is not allowed here. Take a way that is.",
}
