"""Each worked example of document 003 comes to what the document prints."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.loops import Repetition
from parsimony_kernel.patterns.critic import ActionMismatch, validate_action_contract
from parsimony_kernel.patterns.escalation import EscalationReason, EscalationRequest, HumanInTheLoop
from parsimony_kernel.patterns.handoff import ValidationResult, validated_handoff
from parsimony_kernel.patterns.loop_breaker import LoopBreaker
from parsimony_kernel.patterns.recovery_path import recovery_path
from parsimony_kernel.patterns.token_budget import BudgetExhausted, TokenBudget
from parsimony_kernel.tools import Tools, tool

DELAYED = "Delayed, ETA Friday"
ran: list[str] = []


@tool
async def query_db(id: Annotated[str, Field(pattern=r"^A[0-9]{3,}$")]) -> str:
    """Look an order up."""
    ran.append(id)
    return DELAYED


@tool
async def get_eta(order: str) -> str:
    """When an order arrives."""
    raise AssertionError("this must not run")


@tool
async def suggest_alternative(order: str) -> str:
    """Another offer."""
    raise AssertionError("this must not run")


@pytest.fixture
def gate() -> Gate:
    ran.clear()
    return Gate(Tools([query_db, get_eta, suggest_alternative]), timeout_s=5)


async def test_the_wrong_field_is_rejected_naming_id_and_the_right_one_is_accepted(
    gate: Gate,
) -> None:
    rejected = await gate.step("query_db", {"order_id": "A102"})
    accepted = await gate.step("query_db", {"id": "A102"})
    assert [
        f"rejected: {rejected.envelope['reason']}",
        f"accepted: {ran[0]}",
        accepted.envelope["result"],
    ] == [
        "rejected: 'id' is missing; 'order_id' is not a field (did you mean 'id'?)",
        "accepted: A102",
        DELAYED,
    ]
    assert ran == ["A102"]


@pytest.mark.parametrize("invented", ["search_database", "fetch_order_magic"])
async def test_an_invented_tool_is_answered_with_the_sentence_that_lists_the_real_ones(
    gate: Gate, invented: str
) -> None:
    outcome = await gate.step(invented, {"query": "order A102", "format": "json"})
    assert outcome.envelope["message"] == (
        f"Tool {invented!r} is not available. "
        "Available tools: query_db, get_eta, suggest_alternative."
    )
    assert ran == []


def test_the_loop_breaker_prints_false_false_true() -> None:
    breaker = LoopBreaker(max_identical=3)
    assert [
        f"{which}: {breaker.check('query_db', {'id': 'A102'})}"
        for which in ("first", "second", "third")
    ] == ["first: False", "second: False", "third: True"]


@pytest.mark.parametrize(
    ("calls", "runs"),
    [
        ([("query_db", {"id": "A102"})] * 5, 2),
        (
            [
                ("query_db", {"id": "A102"}),
                ("search", {"query": "status for order A102"}),
                ("search", {"query": "A102 shipment ETA"}),
                ("search", {"query": "where is order A102"}),
            ],
            3,
        ),
    ],
    ids=["the same call", "other words"],
)
def test_the_stuck_agents_of_the_document_are_stopped(
    calls: list[tuple[str, dict[str, Any]]], runs: int
) -> None:
    repetition = Repetition()
    made = 0
    for name, args in calls:
        if repetition.before(name, args) is not None:
            break
        repetition = repetition.after(name, args, DELAYED)
        made += 1
    assert made == runs


def test_the_budget_prints_what_is_used_and_that_the_limit_is_exceeded() -> None:
    budget = TokenBudget(
        max_tokens=1_000, max_cost_usd=0.01, pricing={"order-model": {"input": 1.0, "output": 2.0}}
    )
    budget.consume(200, 50, "order-model")
    printed = [f"used tokens: {budget.used_tokens}"]
    with pytest.raises(BudgetExhausted) as blocked:
        budget.consume(900, 20, "order-model")
    printed.append(f"blocked: {str(blocked.value).split(':')[0]}")
    assert printed == ["used tokens: 250", "blocked: Token limit exceeded"]
    assert str(blocked.value) == "Token limit exceeded: 1170/1000"


def test_a_request_of_120_000_tokens_is_over_the_limit_of_100_000() -> None:
    for spend in (TokenBudget().consume, TokenBudget().reserve):
        with pytest.raises(BudgetExhausted) as blocked:
            spend(110_000, 10_000, "any")
        assert str(blocked.value) == "Token limit exceeded: 120000/100000"


def test_the_lookup_prints_retry_and_the_refund_prints_reconcile() -> None:
    assert [
        f"lookup timeout: {recovery_path('timeout', 'none', False)}",
        f"refund timeout: {recovery_path('timeout', 'uncertain', True)}",
    ] == [
        "lookup timeout: retry with backoff",
        "refund timeout: reconcile before replay",
    ]


def test_the_contract_prints_admitted_and_drift() -> None:
    contract = {"intent": "lookup_order", "order_id": "A102"}
    said = validate_action_contract(contract, "query_db", {"id": "A102"}, {"query_db"})
    printed = [f"lookup: {said}"]
    with pytest.raises(ActionMismatch) as drift:
        validate_action_contract(contract, "calculate_shipping", {}, {"query_db"})
    printed.append(f"drift: {drift.value}")
    assert printed == ["lookup: admitted", "drift: tool not allowed"]


def test_a_handoff_that_fails_comes_back_as_the_document_s_dict() -> None:
    answer = validated_handoff(
        {"status": "delivered"}, [lambda _: ValidationResult(False, "no carrier scan")]
    )
    assert answer == {
        "status": "validation_failed",
        "error": "no carrier scan",
        "fallback": "Request human review of this output",
    }


async def test_an_escalation_without_a_reviewer_is_pending_and_approves_nothing() -> None:
    human = HumanInTheLoop()
    request = human.should_escalate({"action_type": "refund"})
    assert request is not None
    assert [(await human.handle_escalation(request))["ticket_id"] for _ in range(2)] == [
        "ESC-1",
        "ESC-2",
    ]
    assert human.escalation_queue == [request, request]
    told = await human.handle_escalation(
        EscalationRequest(EscalationReason.MAX_STEPS_EXCEEDED, {}, 4, "look")
    )
    assert told == {
        "status": "escalated",
        "ticket_id": "ESC-3",
        "reason": "max_steps_exceeded",
        "priority": 4,
        "review_decision": {"decision": "pending", "action_hash": "not-approved"},
    }
