"""Several models behind their breakers: who is asked, and what each answer teaches."""

from collections.abc import Sequence

import pytest

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import Beat, Completion, Delta, ModelRequest
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.llm.chain import MAX_FAILING_REQUESTS, Chain
from parsimony_kernel.testing.clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, say

DOWN = ConnectionError("reset")
ASK = ModelRequest(({"role": "user", "content": "hi"},))


class _Status(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


async def last(chain: Chain, stop: CancellationRequest | None = None) -> Completion | Failure:
    items = [each async for each in chain.ask(ASK, cancellation=stop or CancellationRequest())]
    assert all(isinstance(each, Delta | Beat) for each in items[:-1])
    answer = items[-1]
    assert isinstance(answer, Completion | Failure)
    return answer


def chain(steps: Sequence[Step], clock: ManualClock | None = None) -> tuple[Chain, Breakers]:
    clock = clock or ManualClock()
    breakers = Breakers(clock)
    return Chain(
        [ScriptedModel(steps, "a"), ScriptedModel([say("b")], "b")], breakers, clock
    ), breakers


async def test_the_first_is_asked_until_one_moves_on_and_the_last_stays() -> None:
    models, _ = chain([say("a")])
    assert isinstance(await last(models), Completion)
    assert models.move_on() == "b"
    answer = await last(models)
    assert isinstance(answer, Completion)
    assert answer.model == "b"
    assert models.move_on() is None
    assert models.current.name == "b"


async def test_a_model_that_keeps_failing_is_left_alone_without_a_request() -> None:
    clock = ManualClock()
    models, breakers = chain([DOWN] * 5, clock)
    for _ in range(5):
        await last(models)
    clock.advance(20)
    refused = await last(models)  # the script would say so, had it been asked a sixth time
    assert isinstance(refused, Failure)
    assert refused.kind is FailureKind.transient_provider
    assert "40 s" in refused.explanation
    assert refused.metadata["breaker"] == breakers.of("a").state == "open"


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_what_is_wrong_with_the_request_does_not_count_against_the_provider(
    status: int,
) -> None:
    models, breakers = chain([_Status(status)] * 6)
    for _ in range(6):
        await last(models)
    assert breakers.of("a").state == "closed"


async def test_a_cancelled_probe_frees_its_place() -> None:
    clock = ManualClock()
    models, breakers = chain([*[DOWN] * 5, say("back")], clock)
    for _ in range(5):
        await last(models)
    clock.advance(60)
    stop = CancellationRequest()
    stop.set("enough")
    with pytest.raises(Cancelled):
        await last(models, stop)
    assert isinstance(await last(models), Completion)
    assert breakers.of("a").state == "closed"


async def test_a_reader_that_goes_away_frees_the_probe_too() -> None:
    clock = ManualClock()
    models, breakers = chain([*[DOWN] * 5, say("one"), say("two")], clock)
    for _ in range(5):
        await last(models)
    clock.advance(60)
    reading = models.ask(ASK, cancellation=CancellationRequest())
    assert isinstance(await anext(reading), Delta)
    await reading.aclose()
    assert isinstance(await last(models), Completion)
    assert breakers.of("a").state == "closed"


async def test_a_model_whose_probe_is_out_with_another_run_is_left_alone() -> None:
    clock = ManualClock()
    models, breakers = chain([*[DOWN] * 5, say("probe")], clock)
    for _ in range(5):
        await last(models)
    clock.advance(60)
    probing = models.ask(ASK, cancellation=CancellationRequest())
    await anext(probing)
    assert breakers.of("a").state == "half_open"
    # Its script is empty: a request would say so.
    refused = await last(Chain([ScriptedModel([], "a")], breakers, clock))
    assert isinstance(refused, Failure)
    assert refused.metadata["breaker"] == "open"
    await probing.aclose()


async def test_failing_requests_in_a_row_are_counted_over_all_models() -> None:
    clock = ManualClock()
    models = Chain(
        [ScriptedModel([DOWN] * MAX_FAILING_REQUESTS, name) for name in "abc"],
        Breakers(clock),
        clock,
    )
    asked = 0
    while not models.is_spent:
        answer = await last(models)
        assert isinstance(answer, Failure)
        asked += "breaker" not in answer.metadata
        if asked % 4 == 0:
            models.move_on()
    assert asked == MAX_FAILING_REQUESTS


async def test_an_answer_starts_the_count_of_failing_requests_anew() -> None:
    steps: list[Step] = []
    for _ in range(4):
        steps += [*[DOWN] * 4, say("up")]
    models, _ = chain(steps)
    for _ in steps:
        await last(models)
    assert not models.is_spent


def test_a_chain_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one model"):
        Chain([], Breakers())
