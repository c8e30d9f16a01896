"""A budget is kept before it is spent."""

from dataclasses import dataclass
from typing import Any

from parsimony_kernel.agent.config import AgentGuardrails
from parsimony_kernel.agent.failure.kinds import Action, Failure, FailureKind
from parsimony_kernel.agent.failure.spending import reserve
from parsimony_kernel.agent.state import RunState
from parsimony_kernel.limits.budget import ANSWER_TOKENS, Demand
from parsimony_kernel.llm.base import ChatModel, ModelRequest
from parsimony_kernel.llm.offline.model import OfflineModel
from parsimony_kernel.testing.scripted import ScriptedModel

ASK = ModelRequest(({"role": "user", "content": "x" * 4000},))  # about 1,000 tokens
MODEL = ScriptedModel([])


@dataclass
class Priced(ScriptedModel):
    """A tenth of a cent for each thousand tokens."""

    max_answer_tokens: int | None = None

    def __post_init__(self) -> None:
        super().__init__([], "priced")

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        return (prompt_tokens + answer_tokens) * 1e-6


async def verdict(
    model: ChatModel = MODEL, spent: dict[str, Any] | None = None, **limits: Any
) -> Any:
    return await reserve(RunState(**(spent or {})), AgentGuardrails(**limits), model, ASK)


async def test_without_a_limit_nothing_is_reckoned() -> None:
    assert await verdict() is None


async def test_a_request_that_fits_is_let_through_and_a_near_one_is_told() -> None:
    assert await verdict(max_tokens=3_000) is None
    near = await verdict(max_tokens=2_100)
    assert isinstance(near, Demand)
    assert (near.guard, near.used, near.limit) == ("tokens", 0, 2_100)


async def test_a_request_that_would_go_over_is_a_question_before_it_is_made() -> None:
    over = await verdict(
        spent={"cumulative_prompt_tokens": 1_700, "cumulative_completion_tokens": 112},
        max_tokens=2_500,
    )
    assert isinstance(over, Failure)
    assert over.kind is FailureKind.policy_violation
    assert over.suggested_action is Action.ask_user
    assert over.metadata["guard"] == "tokens"
    assert "1,812 of 2,500 tokens" in over.explanation


async def test_a_request_that_no_budget_of_this_size_could_pay_is_handed_off() -> None:
    hopeless = await verdict(max_tokens=1_000)
    assert isinstance(hopeless, Failure)
    assert hopeless.suggested_action is Action.handoff
    assert "2,0" in hopeless.metadata["remedy"]


async def test_a_budget_counts_from_where_the_person_allowed_more() -> None:
    spent = {"cumulative_prompt_tokens": 9_000, "budget_from_tokens": 9_000}
    assert await verdict(spent=spent, max_tokens=3_000) is None


async def test_cost_is_reckoned_by_the_models_price() -> None:
    assert await verdict(Priced(), max_cost_usd=0.01) is None
    over = await verdict(Priced(), {"cumulative_cost_usd": 0.0099}, max_cost_usd=0.01)
    assert isinstance(over, Failure)
    assert over.metadata["guard"] == "cost"


async def test_an_answer_is_reserved_as_long_as_the_model_may_make_it() -> None:
    usual = await verdict(Priced(), max_tokens=1)
    longer = await verdict(Priced(max_answer_tokens=50_000), max_tokens=1)
    assert longer.metadata["reserved"] - usual.metadata["reserved"] == 50_000 - ANSWER_TOKENS


async def test_an_unknown_price_fails_closed_only_where_a_cost_limit_is_set() -> None:
    assert await verdict(max_tokens=3_000) is None
    closed = await verdict(max_cost_usd=1.0)
    assert isinstance(closed, Failure)
    assert closed.suggested_action is Action.handoff
    assert "scripted" in closed.explanation
    assert closed.metadata["remedy"]


async def test_the_offline_model_is_known_to_be_free() -> None:
    assert await verdict(OfflineModel(), max_cost_usd=0.0001) is None
