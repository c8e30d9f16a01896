"""What a provider can do wrong, and that a run finishes right or says why it cannot.

One case per fault, through the real client and real HTTP. A run enters one number; whatever
happens on the wire, the number is entered at most once, and exactly once where the run finishes.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.model_calls import service_of
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.llm.litellm_model import import_litellm
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.provider import (
    CONTEXT_LENGTH,
    OVERLOADED,
    SERVER_ERROR,
    UNAUTHORIZED,
    UNKNOWN_MODEL,
    Faulty,
    HttpError,
    LoopbackProvider,
    Reply,
    Wire,
    rate_limited,
)
from parsimony_kernel.testing.scripted import call, calls
from tests.llm.dialects import LITELLM_WARNINGS
from tests.session.session_steps import question

from .agents import MODEL, Tally, agent_at, config_of, drive, run_with

pytestmark = LITELLM_WARNINGS


ADD = call("add", n=1)
DONE = call("return_done", summary="1 was entered.")


@dataclass(frozen=True)
class Broken:
    """Answers that are lost, the waits they cost at least, and what the run calls it."""

    row: str
    faults: tuple[Reply, ...]
    waits: tuple[float, ...] = (1.0,)
    says: str = ""


BROKEN = (
    Broken("429 with Retry-After", (rate_limited("7"),), (7.0,), "asks to wait"),
    Broken("429 without Retry-After", (rate_limited(),), says="asks to wait"),
    Broken("500 twice", (SERVER_ERROR, SERVER_ERROR), (1.0, 1.0), "HTTP 500"),
    Broken("reset before headers", (Faulty(Wire.reset, ADD),), says="onnection to the provider"),
    Broken("stream cut midway", (Faulty(Wire.cut, ADD),), says="broke off"),
    Broken("stream cut midway", (Faulty(Wire.ended_early, ADD),), says="broke off"),
    Broken("200 with garbage", (Faulty(Wire.garbage, ADD),)),
    Broken("200 with garbage", (Faulty(Wire.garbage_event, ADD),)),
    Broken("200 with garbage", (Faulty(Wire.error_event, ADD),)),
    Broken("200 with garbage", (Faulty(Wire.empty_body, ADD),)),
    Broken("silence past the timeout", (Faulty(Wire.silence, ADD),), says="silent for 60 s"),
    Broken("empty choices", (Faulty(Wire.empty_choices, ADD),)),
)


def named(case: Broken) -> str:
    fault = case.faults[0]
    return f"{case.row}, {fault.wire.value}" if isinstance(fault, Faulty) else case.row


@pytest.mark.parametrize("before_the_effect", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("case", BROKEN, ids=named)
async def test_lost_answer_is_retried_after_a_wait(case: Broken, before_the_effect: bool) -> None:
    script = (*case.faults, ADD, DONE) if before_the_effect else (ADD, *case.faults, DONE)
    ran = await run_with(script)
    assert ran.last == ev.RunCompleted(summary="1 was entered.")
    assert ran.result.ok
    assert not ran.result.failed
    assert ran.effects == [1]
    assert ran.errors == [
        ("transient_provider", "retry", attempt + 1) for attempt in range(len(case.faults))
    ]
    assert [wait >= least for wait, least in zip(ran.waits, case.waits, strict=True)] == [
        True
    ] * len(case.waits)
    assert all(case.says in message for message in ran.messages)


# What is unusual on the wire, and allowed.
UNCOUNTED = (Wire.usage_missing, Wire.usage_nan, Wire.usage_absurd)
ODD = (Wire.comments, Wire.split_bytes, Wire.crlf, Wire.doubled_done, *UNCOUNTED)


@pytest.mark.parametrize("wire", ODD)
async def test_wire_oddity_is_no_failure(wire: Wire) -> None:
    words = "Grüße — 你好, ich trage 1 ein."
    script = [
        Faulty(wire, calls(ADD, text=words)),
        Faulty(wire, call("return_done", summary="1 — 你好 — was entered.")),
    ]
    ran = await run_with(script, "Enter 1 — 你好.")
    assert ran.last == ev.RunCompleted(summary="1 — 你好 — was entered.")
    assert ran.errors == []
    assert ran.effects == [1]
    assert "".join(e.content for e in ran.events if isinstance(e, ev.TextDelta)) == words


@pytest.mark.parametrize(
    ("fault", "says"),
    [(UNAUTHORIZED, "did not accept the API key"), (UNKNOWN_MODEL, "does not know the model")],
)
async def test_permanent_fault_is_asked_once_and_handed_off(fault: HttpError, says: str) -> None:
    ran = await run_with([ADD, fault])
    last = ran.handed_off(FailureKind.capability_gap)
    assert says in last.rationale
    assert says in last.blockers[0]
    assert last.suggested_next_steps
    assert (ran.errors, ran.waits) == ([], ())
    assert ran.effects == [1]


@pytest.mark.parametrize(("status", "code"), [(400, None), (404, "model_not_found")])
async def test_key_echoed_in_prose_is_removed(status: int, code: str | None) -> None:
    echo = HttpError(status, "There is nothing here for {key}, sorry.", code)
    ran = await run_with([echo])
    assert isinstance(ran.last, ev.Handoff)
    assert f"nothing here for {REDACTED}, sorry" in ran.last.rationale


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "as a connection error"])
async def test_missing_client_package_is_handed_off_at_once(
    monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    litellm = import_litellm()

    async def acompletion(**arguments: Any) -> Any:
        missing = ModuleNotFoundError("No module named 'tiktoken'", name="tiktoken")
        if not wrapped:
            raise missing
        raise litellm.APIConnectionError("Connection error.", "openai", MODEL) from missing

    monkeypatch.setattr(litellm, "acompletion", acompletion)
    ran = await run_with(())
    last = ran.handed_off(FailureKind.capability_gap)
    assert "client library cannot be used: No module named 'tiktoken'" in last.rationale
    assert last.suggested_next_steps
    assert (ran.errors, ran.waits, ran.requests) == ([], (), [])


@pytest.mark.parametrize(
    "fault", [rate_limited(), OVERLOADED], ids=["429 for ever", "503 for ever"]
)
async def test_breaker_blocks_provider_until_one_probe(fault: HttpError) -> None:
    tally = Tally()
    with LoopbackProvider(itertools.repeat(fault)) as provider:
        agent = agent_at(config_of(provider), tools=tally.tools)

        first = await drive(agent, provider)
        assert first.errors == [("transient_provider", "retry", n) for n in (1, 2, 3)]
        assert len(provider.requests) == 4
        assert breaker_state(agent) == "closed"

        second = await drive(agent, provider)
        assert (second.errors, len(provider.requests)) == ([], 5)
        assert breaker_state(agent) == "open"

        third = await drive(agent, provider)
        assert (third.errors, len(provider.requests)) == ([], 5)

        ends = [ran.handed_off(FailureKind.transient_provider) for ran in (first, second, third)]
        assert " s" in ends[-1].rationale
        assert isinstance(agent.clock, ManualClock)
        agent.clock.advance(61)
        probe = await drive(agent, provider)
        assert isinstance(probe.last, ev.Handoff)
        assert len(provider.requests) == 6
        assert breaker_state(agent) == "open"
    assert tally.effects == []


def window(characters: int, answers: Iterator[Reply]) -> Callable[[dict[str, Any]], Reply]:
    """A provider's step that takes ``characters`` more than the first request had, and no more."""
    sizes: list[int] = []

    def step(body: dict[str, Any]) -> Reply:
        sizes.append(len(json.dumps(body["messages"])))
        return CONTEXT_LENGTH if sizes[-1] > sizes[0] + characters else next(answers)

    return step


async def test_overflowing_conversation_is_compacted() -> None:
    answers = iter((ADD, *(calls(call("fetch", page=n)) for n in range(3)), DONE))
    ran = await run_with(itertools.repeat(window(6_000, answers)))
    assert isinstance(ran.last, ev.RunCompleted)
    assert ran.result.ok
    assert ran.effects == [1]
    assert ran.errors == [("scope_too_large", "narrow_scope", 1)]
    assert next(answers, None) is None


async def test_incompressible_request_is_handed_off() -> None:
    ran = await run_with(itertools.repeat(CONTEXT_LENGTH))
    ran.handed_off(FailureKind.scope_too_large)
    assert len(ran.requests) <= 3


@pytest.mark.parametrize("wire", UNCOUNTED)
async def test_token_budget_holds_without_provider_counts(wire: Wire) -> None:
    script = (Faulty(wire, call("fetch", page=n)) for n in itertools.count())
    ran = await run_with(script, max_tokens=20_000)
    asked = question(ran.events)
    assert asked.originating_failure_kind is FailureKind.policy_violation
    assert asked.choices == ("Go on", "Stop here")
    assert asked.suspension_record.originating_guard == "tokens"
    spent = [
        event.prompt_tokens + event.completion_tokens
        for event in ran.events
        if isinstance(event, ev.LLMCallCompleted)
    ]
    assert len(spent) > 1
    assert 0 < sum(spent) <= 20_000
    assert len(ran.requests) == len(spent)


def breaker_state(agent: Agent) -> str:
    (model,) = agent.hooks.models(RunContext.of(agent))
    return str(agent.hooks.breakers.of(service_of(model)).state)
