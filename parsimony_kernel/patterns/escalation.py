"""Human-in-the-loop: decide when to escalate to a person, and enforce exact approvals.

An approval belongs to one request, is bound to the hash of the exact action, and allows a single
execution.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import Enum
from typing import Any, Literal

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.effects import action_sha, is_sensitive

REVIEW_THRESHOLD = 0.7
MAX_FAILURES = 3
MAX_AGE_S = 86_400.0


class EscalationReason(Enum):
    """Why a person is asked."""

    POLICY_REVIEW = "policy_review"
    REPEATED_FAILURES = "repeated_failures"
    SAFETY_CHECK = "safety_check"
    VALIDATION_FAILED = "validation_failed"
    MAX_STEPS_EXCEEDED = "max_steps_exceeded"


# Priority of a review, and its instruction to the reviewer.
_REVIEWS = {
    EscalationReason.SAFETY_CHECK: (1, "Approve this very action before it runs, or refuse it"),
    EscalationReason.REPEATED_FAILURES: (2, "Look at the failed attempts and say how to go on"),
    EscalationReason.POLICY_REVIEW: (3, "Look at the output that the policy flagged"),
}


@dataclass(frozen=True)
class EscalationRequest:
    """Request to a reviewer. ``priority`` runs from 1 (critical) to 5."""

    reason: EscalationReason
    context: dict[str, object]
    priority: int
    suggested_action: str


Reviewer = Callable[[EscalationRequest], Awaitable[Mapping[str, str]]]


async def _nobody(_: EscalationRequest) -> Mapping[str, str]:
    return {"decision": "pending", "action_hash": "not-approved"}


@dataclass(eq=False, repr=False)
class HumanInTheLoop:
    """Escalation to a person.

    Args:
        review_threshold: a policy score below it is reviewed.
        max_retries: number of failures in a row that escalates.
        reviewer: awaits the person's decision; without one every decision is pending.
    """

    review_threshold: float = REVIEW_THRESHOLD
    max_retries: int = MAX_FAILURES
    _: KW_ONLY
    reviewer: Reviewer = _nobody
    escalation_queue: list[EscalationRequest] = field(default_factory=list, init=False)
    _tickets: int = field(default=0, init=False)

    def should_escalate(
        self,
        agent_state: Mapping[str, object],
        failure_count: int = 0,
        policy_score: float | None = None,
    ) -> EscalationRequest | None:
        """Return an escalation for the most severe reason, or ``None``.

        Args:
            agent_state: its ``action_type`` is the action about to be done.
            failure_count: failures in a row.
            policy_score: the policy's score; NaN counts as below every threshold.
        """
        if is_sensitive(agent_state.get("action_type")):
            reason = EscalationReason.SAFETY_CHECK
        elif failure_count >= self.max_retries:
            reason = EscalationReason.REPEATED_FAILURES
        elif policy_score is not None and not policy_score >= self.review_threshold:
            reason = EscalationReason.POLICY_REVIEW
        else:
            return None
        priority, suggested = _REVIEWS[reason]
        return EscalationRequest(reason, dict(agent_state), priority, suggested)

    async def handle_escalation(self, request: EscalationRequest) -> dict[str, object]:
        """Queue ``request`` and await the person's decision."""
        self.escalation_queue.append(request)
        self._tickets += 1
        ticket = f"ESC-{self._tickets}"
        return {
            "status": "escalated",
            "ticket_id": ticket,
            "reason": request.reason.value,
            "priority": request.priority,
            "review_decision": dict(await self.reviewer(request)),
        }


def action_hash(tool_name: str, args: Mapping[str, Any]) -> str:
    """Return the SHA-256 of exactly this action, in hex.

    Raises:
        TypeError, ValueError: JSON can't represent an argument, so two different ones could get the
            same hash.
    """
    json.dumps(dict(args), allow_nan=False)
    return action_sha(tool_name, args)


class ApprovalError(Exception):
    """The action may not run; the message says why and what to do."""


@dataclass(frozen=True)
class _Asked:
    action_hash: str
    asked_at: float
    state: Literal["pending", "approved", "denied", "used"] = "pending"


class Approvals:
    """Approval requests and their states. ``max_age_s`` is counted from the request."""

    def __init__(self, *, max_age_s: float = MAX_AGE_S, clock: Clock = SYSTEM_CLOCK) -> None:
        self._max_age_s = max_age_s
        self._clock = clock
        self._asked: dict[str, _Asked] = {}

    def ask(self, tool_name: str, args: Mapping[str, Any]) -> str:
        """Request approval for one execution of exactly this action; return the request's id."""
        request_id = secrets.token_hex(16)
        self._asked[request_id] = _Asked(action_hash(tool_name, args), self._clock.monotonic())
        return request_id

    def decide(self, request_id: str, *, approved: bool) -> bool:
        """Record the person's decision; only the first counts. Return whether this was it."""
        asked = self._asked.get(request_id)
        if asked is None or asked.state != "pending":
            return False
        self._asked[request_id] = replace(asked, state="approved" if approved else "denied")
        return True

    def spend(self, request_id: str, tool_name: str, args: Mapping[str, Any]) -> None:
        """Use up the approval, immediately before the action runs.

        Raises:
            ApprovalError: there is no approval, it is too old or used, or it is for another action.
        """
        asked = self._asked.get(request_id)
        if asked is None or asked.state in ("pending", "denied"):
            raise ApprovalError(f"{tool_name} was not approved; ask before it runs")
        if asked.state == "used":
            raise ApprovalError(f"this approval of {tool_name} is used up; ask again")
        if self._clock.monotonic() - asked.asked_at > self._max_age_s:
            raise ApprovalError(f"this approval of {tool_name} is too old; ask again")
        if asked.action_hash != action_hash(tool_name, args):
            raise ApprovalError(f"{tool_name} was changed since it was approved; ask again")
        self._asked[request_id] = replace(asked, state="used")
