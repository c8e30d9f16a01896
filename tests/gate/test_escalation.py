"""A person is asked for measurable reasons, and what they approved is what runs, once."""

from collections.abc import Mapping

import pytest

from parsimony_kernel.patterns.escalation import (
    ApprovalError,
    Approvals,
    EscalationReason,
    EscalationRequest,
    HumanInTheLoop,
    action_hash,
)
from parsimony_kernel.testing.clock import ManualClock

REFUND = {"payment": "P9", "amount": 10}


@pytest.mark.parametrize(
    ("state", "failures", "score", "reason", "priority"),
    [
        ({}, 3, None, EscalationReason.REPEATED_FAILURES, 2),
        ({}, 4, 1.0, EscalationReason.REPEATED_FAILURES, 2),
        ({}, 0, 0.69, EscalationReason.POLICY_REVIEW, 3),
        ({}, 0, float("nan"), EscalationReason.POLICY_REVIEW, 3),
        *(
            ({"action_type": kind}, 0, None, EscalationReason.SAFETY_CHECK, 1)
            for kind in ("delete", "modify", "transfer", "refund", "Delete", "refund_order")
        ),
    ],
)
def test_each_trigger_reaches_a_person(
    state: dict[str, object],
    failures: int,
    score: float | None,
    reason: EscalationReason,
    priority: int,
) -> None:
    request = HumanInTheLoop().should_escalate(state, failures, score)
    assert request is not None
    assert (request.reason, request.priority, request.context) == (reason, priority, state)
    assert request.suggested_action


@pytest.mark.parametrize(
    ("state", "failures", "score"),
    [
        ({}, 0, None),
        ({}, 2, None),
        ({}, 0, 0.7),
        ({"action_type": "lookup"}, 2, 0.9),
        ({"action_type": "undelete"}, 0, None),
        ({"action_type": None}, 0, None),
    ],
)
def test_what_meets_no_trigger_reaches_nobody(
    state: dict[str, object], failures: int, score: float | None
) -> None:
    assert HumanInTheLoop().should_escalate(state, failures, score) is None


def test_the_most_severe_reason_is_reported() -> None:
    human = HumanInTheLoop()
    every = human.should_escalate({"action_type": "refund"}, 5, 0.1)
    assert every is not None
    assert every.reason is EscalationReason.SAFETY_CHECK
    two = human.should_escalate({}, 5, 0.1)
    assert two is not None
    assert two.reason is EscalationReason.REPEATED_FAILURES


def test_what_the_reviewer_sees_does_not_change_afterwards() -> None:
    state: dict[str, object] = {"action_type": "refund", "amount": 10}
    request = HumanInTheLoop().should_escalate(state)
    state["amount"] = 10_000
    assert request is not None
    assert request.context["amount"] == 10


async def test_an_escalation_is_queued_with_a_ticket_of_its_own() -> None:
    human = HumanInTheLoop()
    request = EscalationRequest(EscalationReason.SAFETY_CHECK, {}, 1, "look")
    first = await human.handle_escalation(request)
    assert first == {
        "status": "escalated",
        "ticket_id": "ESC-1",
        "reason": "safety_check",
        "priority": 1,
        "review_decision": {"decision": "pending", "action_hash": "not-approved"},
    }
    human.escalation_queue.clear()
    assert (await human.handle_escalation(request))["ticket_id"] == "ESC-2"


async def test_the_reviewer_s_decision_is_awaited() -> None:
    async def approve(request: EscalationRequest) -> Mapping[str, str]:
        return {"decision": "approved", "action_hash": action_hash("refund", REFUND)}

    human = HumanInTheLoop(reviewer=approve)
    request = EscalationRequest(EscalationReason.SAFETY_CHECK, {}, 1, "look")
    decided = (await human.handle_escalation(request))["review_decision"]
    assert decided == {"decision": "approved", "action_hash": action_hash("refund", REFUND)}


def test_a_hash_is_of_exactly_this_action() -> None:
    same = action_hash("refund", {"amount": 10, "payment": "P9"})
    assert action_hash("refund", REFUND) == same
    others = [
        action_hash("transfer", REFUND),
        action_hash("refund", {**REFUND, "amount": "10"}),
        action_hash("refund", {**REFUND, "amount": 10.5}),
        action_hash("refund", {**REFUND, "note": None}),
        action_hash("refund", {**REFUND, "payment": "P9 "}),
    ]
    assert len({same, *others}) == len(others) + 1


def test_an_action_that_json_cannot_hold_has_no_hash() -> None:
    with pytest.raises(TypeError):
        action_hash("refund", {"amount": object()})
    with pytest.raises(ValueError, match="JSON compliant"):
        action_hash("refund", {"amount": float("nan")})


def test_an_approved_action_runs_once_however_often_it_was_clicked() -> None:
    approvals = Approvals(clock=ManualClock())
    request = approvals.ask("refund", REFUND)
    assert [approvals.decide(request, approved=True) for _ in range(1000)].count(True) == 1
    approvals.spend(request, "refund", REFUND)
    assert not approvals.decide(request, approved=True)
    with pytest.raises(ApprovalError, match="used up"):
        approvals.spend(request, "refund", REFUND)


def test_an_action_that_was_changed_since_is_not_executed() -> None:
    approvals = Approvals(clock=ManualClock())
    request = approvals.ask("refund", REFUND)
    approvals.decide(request, approved=True)
    for name, args in (("refund", {**REFUND, "amount": 10_000}), ("transfer", REFUND)):
        with pytest.raises(ApprovalError, match="changed"):
            approvals.spend(request, name, args)
    approvals.spend(request, "refund", REFUND)


@pytest.mark.parametrize("decision", [None, False])
def test_what_nobody_approved_is_not_executed(decision: bool | None) -> None:
    approvals = Approvals(clock=ManualClock())
    request = approvals.ask("refund", REFUND)
    if decision is not None:
        approvals.decide(request, approved=decision)
        assert not approvals.decide(request, approved=True)
    with pytest.raises(ApprovalError, match="not approved"):
        approvals.spend(request, "refund", REFUND)
    with pytest.raises(ApprovalError, match="not approved"):
        approvals.spend("forged", "refund", REFUND)


def test_an_approval_grows_stale() -> None:
    clock = ManualClock()
    approvals = Approvals(max_age_s=60, clock=clock)
    fresh, stale = (approvals.ask("refund", {**REFUND, "n": n}) for n in range(2))
    for request in (fresh, stale):
        approvals.decide(request, approved=True)
    clock.advance(60)
    approvals.spend(fresh, "refund", {**REFUND, "n": 0})
    clock.advance(1)
    with pytest.raises(ApprovalError, match="too old"):
        approvals.spend(stale, "refund", {**REFUND, "n": 1})


def test_two_requests_for_the_same_action_are_approved_apart() -> None:
    approvals = Approvals(clock=ManualClock())
    first, second = (approvals.ask("refund", REFUND) for _ in range(2))
    approvals.decide(first, approved=True)
    approvals.spend(first, "refund", REFUND)
    with pytest.raises(ApprovalError, match="not approved"):
        approvals.spend(second, "refund", REFUND)
