"""Questions that wait in a journal."""

from datetime import datetime
from typing import Any

from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.testing.manual_clock import START


def question(
    run_id: str, nonce: str, words: str = "ü\ud800", asked: datetime = START, times: int = 1
) -> SuspensionRecord:
    """A question whose conversation is ``times`` messages of ``words``."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": words} for _ in range(times)]
    return SuspensionRecord(
        run_id=run_id,
        session_id="s",
        suspension_token=f"{nonce}.00",
        suspended_at=asked.isoformat(),
        pending_question="Which?",
        messages=messages,
        failure_attempts={FailureKind.tool_error: 1},
    )
