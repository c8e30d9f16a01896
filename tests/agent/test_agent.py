"""The agent's wiring: models, keys and the rules that stand last."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.failure.suspension import SuspensionTokenMismatch
from parsimony_kernel.agent.hooks import RunContext, RunHooks
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.model_calls import ModelCalls
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.causes import DefaultPolicy
from parsimony_kernel.core.chat import Completion
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.core.config import MAX_PINNED, AgentGuardrails
from parsimony_kernel.core.events import (
    AgentEvent,
    LLMCallCompleted,
    RunCompleted,
    TextDelta,
    UserInputRequested,
)
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.state import RunState, TerminationRequest
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, say
from parsimony_kernel.tools import Tools, tool

ASK = call("ask_user", question="Which?")
DONE = call("return_done", summary="ok")


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("offline", ["offline"]),
        ("openai/gpt-5, offline", ["openai/gpt-5", "offline"]),
        ([{"model": "openai/gpt-5"}, "offline"], ["openai/gpt-5", "offline"]),
        ((ScriptedModel([], "a"), "offline"), ["a", "offline"]),
    ],
)
def test_agent_takes_one_model_or_a_chain(model: Any, named: list[str]) -> None:
    agent = Agent(model, suspension_secret="s")
    assert [each.name for each in agent.hooks.models(RunContext.of(agent))] == named
    assert agent.model_id == ", ".join(named)


@pytest.mark.parametrize(
    "model", ["openai/a, anthropic/b", ["openai/a"], ScriptedModel([]), {"model": "openai/a"}]
)
def test_key_is_sent_to_its_model_only(model: Any) -> None:
    with pytest.raises(TypeError, match="one model's name"):
        Agent(model, api_key="k-123456", suspension_secret="s")
    assert Agent("openai/a", api_key="k-123456", suspension_secret="s").model_config == {
        "model": "openai/a",
        "api_key": "k-123456",
    }


def test_pinned_constraints_are_few_and_short() -> None:
    def pinned(**given: Any) -> tuple[str, ...]:
        return Agent("offline", suspension_secret="s", **given).pinned_constraints

    assert pinned() == ()
    assert pinned(pinned_constraints=["One."]) == ("One.",)
    assert pinned(pinned_constraints="A text is one rule.") == ("A text is one rule.",)
    for wrong in (["x"] * (MAX_PINNED + 1), [" "], ["x" * 400]):
        with pytest.raises(ValueError, match="at most 5 rules"):
            pinned(pinned_constraints=wrong)


async def suspended(agent: Agent) -> Any:
    last = [event async for event in agent.run("go")][-1]
    assert isinstance(last, UserInputRequested)
    return last.suspension_record


async def test_pinned_constraints_survive_suspension() -> None:
    model = ScriptedModel([ASK, DONE])
    agent = Agent(model, suspension_secret="s", pinned_constraints=["Say it in metres."])
    record = await suspended(agent)
    other = Agent(model, suspension_secret="s")
    assert [e async for e in other.resume(record, "a")][-1] == RunCompleted(summary="ok")
    assert "Say it in metres." in model.requests[1].messages[-1]["content"]


def sealed_with(folder: Path, clock: ManualClock, *steps: Any) -> Agent:
    return Agent(ScriptedModel(steps), keyring=Keyring(folder), clock=clock)


async def test_question_outlives_key_rotation_but_not_its_key(tmp_path: Path) -> None:
    clock = ManualClock()
    keyring = Keyring(tmp_path)
    record = await suspended(sealed_with(tmp_path, clock, ASK))
    newer = keyring.rotate()
    assert record.key_id != newer.key_id
    again = sealed_with(tmp_path, clock, ASK)
    last = [event async for event in again.resume(record, "a")][-1]
    assert isinstance(last, UserInputRequested)
    assert last.suspension_record.key_id == newer.key_id

    late = await suspended(sealed_with(tmp_path, clock, ASK))
    (tmp_path / "keys.json").unlink()
    with pytest.raises(SuspensionTokenMismatch, match=r"(?i)run the cell again"):
        await anext(sealed_with(tmp_path, clock, DONE).resume(late, "a"))


async def test_agent_that_never_suspends_needs_no_key(tmp_path: Path) -> None:
    agent = sealed_with(tmp_path / "none", ManualClock(), DONE)
    assert [event async for event in agent.run("go")][-1] == RunCompleted(summary="ok")
    assert not (tmp_path / "none").exists()


# What a run reads of an agent, and what it gives to one that leaves things out.


async def test_agent_without_model_is_refused_before_running() -> None:
    state = RunState()
    with pytest.raises(TypeError, match="model_config"):
        await anext(run_loop(SimpleNamespace(), state))
    assert (state.started_at, state.done) == ("", False)


def test_agent_with_model_alone_gets_defaults() -> None:
    context = RunContext.of(SimpleNamespace(model_config="offline"))
    assert context.guardrails == AgentGuardrails()
    assert isinstance(context.policy, DefaultPolicy)
    assert (context.clock, tuple(context.tools)) == (SYSTEM_CLOCK, ())
    assert RunContext.of(context) is context


def test_run_reads_settings_once_and_keys_when_needed() -> None:
    agent = SimpleNamespace(
        model_config="offline", guardrails=AgentGuardrails(max_iterations=2), suspension_secret="a"
    )
    context = RunContext.of(agent)
    agent.guardrails, agent.suspension_secret = AgentGuardrails(max_iterations=9), "b"
    assert context.guardrails.max_iterations == 2
    assert context.signing_key() == ("b", "")
    assert context.signing_key("older") == ("b", "")


# The models of a run behind their breakers: who is asked, and what each answer teaches.


DOWN = ConnectionError("reset")


def model_calls(
    steps: Sequence[Step], breakers: Breakers, clock: ManualClock, stop: CancellationRequest
) -> ModelCalls:
    model = ScriptedModel(steps, "a")
    agent = SimpleNamespace(model_config=model, clock=clock, hooks=RunHooks(breakers))
    state = RunState(messages=[{"role": "user", "content": "hi"}], cancellation=stop)
    return ModelCalls(RunContext.of(agent), state, Tools([]), Secrets({}))


class Asked:
    """One model of a run, on a clock that the test moves."""

    def __init__(self, *steps: Step) -> None:
        self.clock = ManualClock()
        self.breakers = Breakers(self.clock)
        self.stop = CancellationRequest()
        self.models = model_calls(steps, self.breakers, self.clock, self.stop)

    @property
    def state(self) -> str:
        return str(self.breakers.of("a").state)

    async def answer(self) -> Completion | Failure:
        async for _ in self.models.ask(since=0.0):
            pass
        return self.models.reply

    async def fails(self, times: int) -> None:
        for _ in range(times):
            assert isinstance(await self.answer(), Failure)


async def test_cancelled_probe_frees_its_slot() -> None:
    asked = Asked(*[DOWN] * 5, say("back"))
    await asked.fails(5)
    asked.clock.advance(60)
    stopped = CancellationRequest()
    stopped.set("enough")
    with pytest.raises(Cancelled):
        async for _ in model_calls([], asked.breakers, asked.clock, stopped).ask(since=0.0):
            pass
    assert isinstance(await asked.answer(), Completion)
    assert asked.state == "closed"


async def test_abandoned_stream_frees_the_probe() -> None:
    asked = Asked(*[DOWN] * 5, say("one"), say("two"))
    await asked.fails(5)
    asked.clock.advance(60)
    reading = asked.models.ask(since=0.0)
    assert isinstance(await anext(reading), TextDelta)
    await reading.aclose()
    assert isinstance(await asked.answer(), Completion)
    assert asked.state == "closed"


async def test_model_probed_by_another_run_is_skipped() -> None:
    asked = Asked(*[DOWN] * 5, say("probe"))
    await asked.fails(5)
    asked.clock.advance(60)
    probing = asked.models.ask(since=0.0)
    await anext(probing)
    assert asked.state == "half_open"
    # Its script is empty: a request would say so.
    other = model_calls([], asked.breakers, asked.clock, asked.stop)
    async for _ in other.ask(since=0.0):
        pass
    assert isinstance(other.reply, Failure)
    assert other.reply.metadata["breaker"] == "open"
    await probing.aclose()


async def test_model_calls_of_a_hosts_tool_count_towards_the_budget() -> None:
    class Host(RunHooks):
        def drain(self) -> list[AgentEvent]:
            return [LLMCallCompleted(model="host/judge", prompt_tokens=9_000, completion_tokens=1)]

    @tool
    def judge(text: str) -> str:
        """Ask a model of the host."""
        return text

    steps = [call("judge", text="a"), call("judge", text="b"), DONE]
    agent = Agent(
        ScriptedModel(steps),
        tools=[judge],
        hooks=Host(),
        guardrails=AgentGuardrails(max_tokens=20_000),
        suspension_secret="s",
    )
    (asked,) = [each async for each in agent.run("judge") if isinstance(each, UserInputRequested)]
    assert "token budget" in asked.question


class _Status(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_bad_requests_do_not_count_against_provider(status: int) -> None:
    asked = Asked(*[_Status(status)] * 6)
    await asked.fails(6)
    assert asked.state == "closed"


async def test_words_of_a_summary_are_stripped() -> None:
    done = await termination_tools()["return_done"].function(summary=" ok ")
    assert done.data == TerminationRequest("ok")
