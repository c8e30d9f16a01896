"""A budget is kept before it is spent."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.core.chat import ChatModel, Completion, Message, ModelRequest, Usage, answer
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.kinds import Action, Failure, FailureKind, FailureRaised
from parsimony_kernel.core.state import RunState
from parsimony_kernel.limits.budget import (
    ANSWER_TOKENS,
    MOST_TOKENS,
    MOST_USD,
    Budget,
    Demand,
    counted,
    dollars,
    tokens_in,
    tokens_said,
    usage_by_size,
    usd,
)
from parsimony_kernel.offline.model import OfflineModel
from parsimony_kernel.testing.scripted import ScriptedModel, call, say

ASK = ModelRequest(({"role": "user", "content": "x" * 4000},))  # about 1,000 tokens
MODEL = ScriptedModel([])
TOKENS = Budget(RunState(), AgentGuardrails(max_tokens=10_000))
COST = Budget(RunState(), AgentGuardrails(max_cost_usd=1.0))


class Priced(ScriptedModel):
    """A tenth of a cent for each thousand tokens."""

    def __init__(self) -> None:
        super().__init__([], "priced")

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        return (prompt_tokens + answer_tokens) * 1e-6


def budget(spent: dict[str, Any] | None = None, **limits: Any) -> Budget:
    return Budget(RunState(**(spent or {})), AgentGuardrails(**limits))


async def verdict(
    model: ChatModel = MODEL, spent: dict[str, Any] | None = None, **limits: Any
) -> Any:
    return (await budget(spent, **limits).reckon(model, ASK))[1]


async def billed(budget: Budget, answer: Any, model: ChatModel) -> Completion:
    bill = await budget.bill(answer, ASK, model)
    assert bill is not None
    return bill


async def test_fitting_request_passes_and_near_limit_warns() -> None:
    assert await verdict(max_tokens=3_000) is None
    assert await verdict(Priced(), max_cost_usd=0.01) is None
    near = await verdict(max_tokens=2_100)
    assert isinstance(near, Demand)
    assert (near.guard, near.used, near.limit) == ("tokens", 0, 2_100)
    # A budget counts from where the person allowed more.
    spent = {"cumulative_prompt_tokens": 9_000, "budget_from_tokens": 9_000}
    assert await verdict(spent=spent, max_tokens=3_000) is None


@pytest.mark.parametrize(
    ("spent", "limits", "action", "said"),
    [
        ({"cumulative_prompt_tokens": 1_812}, {"max_tokens": 2_500}, Action.ask_user,
         "1,812 of 2,500 tokens"),
        ({"cumulative_cost_usd": 0.0099}, {"max_cost_usd": 0.01}, Action.ask_user, "$0.0099 of"),
        ({}, {"max_tokens": 1_000}, Action.handoff, "Allow more than 2,0"),
    ],
)  # fmt: skip
async def test_excessive_request_is_refused_beforehand(
    spent: dict[str, Any], limits: dict[str, Any], action: Action, said: str
) -> None:
    over = await verdict(Priced(), spent, **limits)
    assert isinstance(over, Failure)
    assert over.kind is FailureKind.policy_violation
    assert over.suggested_action is action
    assert over.metadata["guard"] == ("tokens" if "max_tokens" in limits else "cost")
    assert said in f"{over.explanation} {over.metadata.get('remedy')}"


class OddlyPriced(ScriptedModel):
    """Tells ``price``, raises it, or waits for it."""

    def __init__(self, price: Any) -> None:
        super().__init__([], "odd")
        self._price = price

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> Any:
        if isinstance(self._price, Exception):
            raise self._price
        return await self._price if asyncio.iscoroutine(self._price) else self._price


@pytest.mark.parametrize(
    "price",
    ["0.1", float("nan"), float("inf"), -0.1, 10**400, None, True, [1], RuntimeError("broke")],
)
async def test_invalid_price_fails_closed_under_cost_limit(price: Any) -> None:
    model = OddlyPriced(price)
    closed = await verdict(model, max_cost_usd=1.0)
    assert isinstance(closed, Failure)
    assert closed.suggested_action is Action.handoff
    assert "price of 'odd' is unknown" in closed.explanation
    assert closed.metadata["remedy"]
    assert isinstance(await verdict(max_cost_usd=1.0), Failure)  # it has no price to tell
    assert (await billed(COST, say("a"), model)).cost_usd is None


async def test_price_lookup_ends_with_run_time() -> None:
    late = replace(ASK, deadline_s=0.0)
    _, closed = await COST.reckon(OddlyPriced(asyncio.Event().wait()), late)
    assert isinstance(closed, Failure)
    assert "is unknown" in closed.explanation


async def test_unusable_model_is_not_reported_as_unpriced() -> None:
    known = Failure(FailureKind.capability_gap, "nothing is installed")
    model = OddlyPriced(FailureRaised(known))
    assert await COST.reckon(model, ASK) == (ASK, known)
    assert (await billed(COST, say("a"), model)).cost_usd is None


PROMPT = tokens_in(ASK.messages, ASK.tools)


async def cap(model: ChatModel = MODEL, spent: Any = None, **limits: Any) -> int | None:
    request, _ = await budget(spent, **limits).reckon(model, ASK)
    assert replace(request, max_answer_tokens=None) == ASK
    return request.max_answer_tokens


async def test_answer_is_capped_at_remaining_budget() -> None:
    assert await cap(max_tokens=10_000) == 10_000 - PROMPT
    spent = {"cumulative_prompt_tokens": 5_000, "cumulative_completion_tokens": 1_000}
    assert await cap(spent=spent, max_tokens=10_000) == 4_000 - PROMPT
    more = {**spent, "budget_from_tokens": 6_000}
    assert await cap(spent=more, max_tokens=10_000) == 10_000 - PROMPT
    assert await cap(max_tokens=10**12) == MOST_TOKENS
    most = 10_000 - PROMPT  # a token is a millionth of a dollar
    assert await cap(Priced(), max_cost_usd=0.01) == pytest.approx(most, abs=1)
    half = await cap(Priced(), {"cumulative_cost_usd": 0.005}, max_cost_usd=0.01)
    assert half == pytest.approx(most - 5_000, abs=1)
    assert await cap(Priced(), max_cost_usd=0.01, max_tokens=3_000) == 3_000 - PROMPT
    assert await cap(OfflineModel(), max_cost_usd=0.01) == MOST_TOKENS


async def test_reservation_is_typical_answer() -> None:
    for model in (Priced(), MODEL):
        assert isinstance(await verdict(model, max_tokens=PROMPT + ANSWER_TOKENS), Demand)
        assert isinstance(await verdict(model, max_tokens=PROMPT + ANSWER_TOKENS - 1), Failure)
    assert await cap(max_tokens=PROMPT + ANSWER_TOKENS) == ANSWER_TOKENS


async def test_uncounted_usage_is_charged_by_size() -> None:
    reply = answer("x" * 4000)
    by_tokens = await billed(TOKENS, reply, Priced())
    assert (by_tokens.usage, by_tokens.cost_usd) == (Usage(PROMPT, 1001), None)
    by_cost = await billed(COST, reply, Priced())
    assert by_cost.usage == by_tokens.usage
    assert by_cost.cost_usd == pytest.approx((PROMPT + 1001) * 1e-6)


async def test_broken_answer_is_charged_for_what_arrived() -> None:
    cut = Failure(FailureKind.transient_provider, "cut", metadata={"answer_tokens": 25_000})
    bill = await billed(COST, cut, Priced())
    assert (bill.usage, bill.model, bill.choices) == (Usage(PROMPT, 25_000), "priced", ())
    assert bill.cost_usd == pytest.approx((PROMPT + 25_000) * 1e-6)
    refused = Failure(FailureKind.transient_provider, "status 503")
    assert await COST.bill(refused, ASK, Priced()) is None


@pytest.mark.parametrize(
    ("limits", "is_limited"),
    [({}, False), ({"max_tokens": 1}, True), ({"max_cost_usd": 1}, True)],
)  # fmt: skip
def test_budget_counts_only_under_a_limit(limits: Any, is_limited: bool) -> None:
    assert budget(**limits).is_limited is is_limited


# What a request would use, reckoned before it is made.


@pytest.mark.parametrize(
    ("used", "reserved", "near", "over"),
    [(0, 800, False, False), (0, 801, True, False), (900, 100, True, False), (1000, 1, True, True)],
)
def test_over_is_strict_and_near_is_four_fifths(
    used: int, reserved: int, near: bool, over: bool
) -> None:
    demand = Demand("tokens", used, reserved, 1000)
    assert (demand.is_near, demand.is_over) == (near, over)


def test_demand_is_reported_in_its_unit() -> None:
    assert Demand("tokens", 1170, 0, 1000).in_words() == "1,170 of 1,000 tokens"
    assert Demand("cost", 0.01234, 0, 0.5).in_words() == "$0.0123 of $0.50"


def test_text_calls_and_schemas_count_by_bytes() -> None:
    empty = tokens_in([], [])
    words = tokens_in([{"role": "user", "content": "x" * 4000}], [])
    assert 1000 <= words - empty <= 1001
    script = tokens_in([{"role": "user", "content": "数" * 1000}], [])
    assert 750 <= script - empty <= 751
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"arguments": "y" * 4000}}],
    }
    assert 1000 <= tokens_in([called], []) - empty <= 1001
    assert tokens_in([], [{"function": {"description": "z" * 4000}}]) - empty > 1000
    parts = {"role": "user", "content": [{"type": "text", "text": "x" * 4000}]}
    assert tokens_in([parts], []) - empty > 1000


def test_answer_counts_text_reasoning_and_calls() -> None:
    empty = tokens_said(Message())
    asked = call("look", at="y" * 4000).message
    assert tokens_said(Message("x" * 4000)) - empty == 1000
    assert tokens_said(Message(reasoning_content="x" * 4000)) - empty == 1000
    assert 1000 < tokens_said(asked) - empty < 1010
    messages = [{"role": "user", "content": "x" * 4000}]
    used = usage_by_size(ModelRequest(messages), asked)
    assert used == Usage(tokens_in(messages, ()), tokens_said(asked))


@pytest.mark.parametrize(
    ("prompt", "completion", "told"),
    [
        (3, 2, Usage(3, 2)), (3.0, 0, Usage(3, 0)), (MOST_TOKENS, 0, Usage(MOST_TOKENS, 0)),
        (0, 0, None), (MOST_TOKENS + 1, 0, None), (3, -1, None), (3, float("nan"), None),
        (3, float("inf"), None), (3, None, None), ("3", "2", None), (True, 2, None),
    ],
)  # fmt: skip
def test_impossible_count_is_not_reported(prompt: Any, completion: Any, told: Usage | None) -> None:
    usage = SimpleNamespace(prompt_tokens=prompt, completion_tokens=completion)
    assert counted(usage) == told
    assert counted(None) is None


def test_price_may_be_nothing_and_has_a_maximum() -> None:
    assert (usd(0), usd(MOST_USD), usd(MOST_USD + 1)) == (0.0, MOST_USD, None)


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0.0, "$0.00"), (0.5, "$0.50"), (0.0001, "$0.0001"), (0.125, "$0.125"), (1234.5, "$1,234.50")],
)
def test_limit_is_shown_to_the_needed_digits(amount: float, words: str) -> None:
    assert dollars(amount) == words
