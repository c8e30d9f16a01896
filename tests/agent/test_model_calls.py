"""The models of a run behind their breakers: who is asked, and what each answer teaches."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from parsimony_kernel.agent.hooks import RunContext, RunHooks
from parsimony_kernel.agent.model_calls import ModelCalls
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import Completion
from parsimony_kernel.core.events import TextDelta
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.state import RunState
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, say
from parsimony_kernel.tools import Tools

DOWN = ConnectionError("reset")


class _Status(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


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


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_bad_requests_do_not_count_against_provider(status: int) -> None:
    asked = Asked(*[_Status(status)] * 6)
    await asked.fails(6)
    assert asked.state == "closed"


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
