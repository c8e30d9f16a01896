"""Every row of the table of causes: a run meets it, and climbs its ladder rung by rung."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.core import causes
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.causes import CAUSES, Cause, DefaultPolicy, Rung, cause_of
from parsimony_kernel.core.chat import ChatModel, Usage
from parsimony_kernel.core.config import ActionContract, AgentGuardrails
from parsimony_kernel.core.effects import MemoryEffects
from parsimony_kernel.core.kinds import Action, Failure, FailureKind
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval, Approving
from parsimony_kernel.gate.procedure import Edge, Procedure
from parsimony_kernel.gate.rules import Rules
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import (
    HangingModel,
    ScriptedModel,
    Step,
    call,
    calls,
    raw_call,
    say,
)
from parsimony_kernel.toolbox.run_tools import plan
from parsimony_kernel.tools import Tool, ToolResult, tool
from tests.session.session_steps import assert_well_told

from .agents import ended_by
from .loops import Answered

TWO_PRICES = "import pandas as pd\ncars = pd.DataFrame({'unit_price': [1], 'list_price': [2]})"
# A wait that no interrupt of ours reaches, and that ends by itself soon after the test.
STUCK = "import threading\nthreading.Event().wait(3)"
# Real seconds; a body that is to be stopped at its deadline has no other clock.
SOON_S = 0.02
# Failures in a row that open a breaker.
THRESHOLD = 5


# -- the tools


@tool(effect="none")
async def look(at: str = "") -> dict[str, str]:
    """Look."""
    return {"seen": at}


@tool(effect="none", timeout_s=SOON_S)
async def wait(at: str) -> None:
    """Wait."""
    await asyncio.Event().wait()


@tool(timeout_s=SOON_S)
async def hold(at: str) -> None:
    """Wait, and perhaps do something."""
    await asyncio.Event().wait()


@tool(effect="none")
async def shatter(at: str = "it") -> None:
    """Break."""
    raise RuntimeError(f"{at} is broken")


@tool(effect="none")
async def fetch(at: str) -> None:
    """Fetch from a service that is down."""
    raise ConnectionError("reset")


@tool(effect="none")
async def connect(at: str) -> ToolResult:
    """Connect."""
    sentence = f"There is no connector for {at}."
    return ToolResult.from_failure(
        Failure(FailureKind.capability_gap, sentence, (sentence,), Action.handoff)
    )


@tool(effect="none")
async def read(at: str) -> ToolResult:
    """Read."""
    asked = {"question": f"Which {at}?", "choices": ["a", "b"]}
    sentence = f"{at} may be one of two files"
    return ToolResult.from_failure(Failure(FailureKind.ambiguous_input, sentence, metadata=asked))


# What every run can call; a meeting's own tools come to these.
READING = (look, wait, hold, shatter, fetch, connect, read, plan)


def paying(body: Callable[[], Awaitable[Any]], **options: Any) -> Tool:
    """A write, as something that is paid."""

    async def pay(at: str) -> Any:
        """Pay."""
        return await body()

    return tool(effect="write", **options)(pay)


@dataclass
class Ledger:
    """A source of truth that cannot be asked, and when that was tried."""

    asked: list[str] = field(default_factory=list)

    async def reconcile(self, at: str) -> None:
        self.asked.append(at)
        raise RuntimeError("the ledger is closed")


async def never() -> None:
    await asyncio.Event().wait()


async def lose() -> None:
    raise ConnectionError("reset")


async def work() -> str:
    return "paid"


# -- how a run meets a cause


@dataclass(frozen=True)
class Meeting:
    """A run that goes on up to the last rung: what its models answer, and what it runs with.

    ``steps`` of ``None`` are those of a model that is silent; ``after`` is how many occurrences of
    another cause come first.
    """

    cause: Cause
    steps: Sequence[Step] | None
    how: str = ""
    tools: Sequence[Tool] = ()
    stages: Sequence[Stage] = ()
    fallback: Sequence[Step] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    looks_up: bool = False
    is_late: bool = False
    are_open: bool = False
    is_unrecorded: bool = False
    is_broken: bool = False
    after: int = 0

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.cause.name, self.how, self.cause.effect)))

    @property
    def rungs(self) -> list[Rung]:
        """The rungs in order. Each model of a chain has them up to the next model, and only a
        tool that knows a source of truth asks it."""
        ladder: list[Rung] = list(self.cause.ladder)
        if not self.looks_up:
            ladder = [rung for rung in ladder if rung is not Rung.reconcile]
        if Rung.fallback not in ladder or self.are_open:
            return ladder
        alone: list[Rung] = [rung for rung in ladder if rung is not Rung.fallback]
        return alone if self.fallback is None else [*ladder[:-1], *alone]


def each_new(name: str, times: int = 1, **more: Any) -> list[Step]:
    """Calls that differ, so that they are no loop."""
    return [call(name, at=f"x{n}", **more) for n in range(times)]


def ending(*summaries: str) -> list[Step]:
    return [call("return_done", summary=each) for each in summaries]


def code(*lines: str) -> list[Step]:
    return [call("run_code", code=each) for each in lines]


def broken_check(attempt: Attempt) -> Failure | None:
    raise RuntimeError("the check is broken")


def reaching(attempt: Attempt) -> Failure | None:
    """Finds, as a screening does, that the action would send something."""
    attempt.outside.append("it sends a file.")
    return None


def broken_guard() -> bool:
    raise RuntimeError("the guard is broken")


LOOK, AGAIN = Edge("look", "unseen", "seen"), Edge("wait", "seen", "seen")
LOOK_FIRST = Procedure("look", ("unseen", "seen"), "unseen", ("seen",), (LOOK, AGAIN))
GUARDED = replace(
    LOOK_FIRST, edges=(replace(LOOK, guard="broken_guard"),), guards={"broken_guard": broken_guard}
)
ORDER = ActionContract(identifiers={"at": "A102"})
CUT_OFF: Step = ended_by("length", say("And then"))
RESET = ConnectionError("reset")

MISSPELT = [f"cars['{each}_prise'].sum()" for each in ("unit", "list", "unit")]
_FAILING, _NOT = each_new("fetch", THRESHOLD), each_new("look", THRESHOLD)
FAILING_AND_NOT = [each for pair in zip(_FAILING, _NOT, strict=True) for each in pair]

MEETINGS = (
    Meeting(causes.NOT_REGISTERED, each_new("lok", 3)),
    Meeting(causes.NOT_REACHABLE, each_new("wait", 3), task={"procedure": LOOK_FIRST}),
    Meeting(causes.BAD_ARGUMENTS, each_new("look", 3, wrong=1), "an extra field"),
    Meeting(causes.BAD_ARGUMENTS, [raw_call("look", '{"at": ')] * 3, "no JSON"),
    Meeting(causes.BAD_ARGUMENTS, code(TWO_PRICES, *MISSPELT), "a column misspelt"),
    Meeting(causes.RULE_BROKEN, each_new("look", 2), "contract", task={"contract": ORDER}),
    Meeting(causes.RULE_BROKEN, each_new("look", 2), "rule",
            task={"rules": Rules(forbid_tools=("look",))}),
    Meeting(causes.NOT_APPROVED, each_new("pay"), tools=[paying(work)],
            stages=[Approving(Approval.guarded, lambda code: ()).stage]),
    Meeting(causes.LOOP, [call("look", at="x")] * 4),
    Meeting(causes.PROVIDER_FAULT, [Answered(429)] * 4, "429"),
    Meeting(causes.PROVIDER_FAULT, [Answered(503)] * 4, "503"),
    Meeting(causes.PROVIDER_FAULT, [RESET] * 4, "reset, two models", fallback=[RESET] * 4),
    Meeting(causes.BREAKER_OPEN, [], fallback=[], are_open=True),
    Meeting(causes.LATE, each_new("wait", 3)),
    Meeting(causes.LATE_UNCERTAIN, each_new("pay"), tools=[paying(never, timeout_s=SOON_S)],
            looks_up=True),
    Meeting(causes.LATE_UNCERTAIN, each_new("hold"), "effect not stated"),
    Meeting(causes.LATE, code("while True: pass", "while True: 2", "while True: 3"), "code",
            limits={"tool_timeout_s": SOON_S}),
    Meeting(causes.RAISED, each_new("shatter", 3)),
    Meeting(causes.RAISED, code("0 / 0", "1 / 0", "2 / 0"), "code"),
    Meeting(causes.RAISED_UNCERTAIN, each_new("pay"), tools=[paying(lose)], looks_up=True),
    Meeting(causes.RAISED_COMMITTED, each_new("pay"), "answer refused",
            tools=[paying(work, output_validators=(lambda paid: "it is no receipt",))]),
    Meeting(causes.ANSWER_CUT_OFF, [CUT_OFF] * 2),
    Meeting(causes.ANSWER_REFUSED, [ended_by("content_filter", say("No."))]),
    Meeting(causes.CLAIM_UNOBSERVED, ending("It is in `df_a`.", "It is in `df_b`.")),
    Meeting(causes.PLAN_OPEN,
            [call("plan", parts=["load it", "sum it"]), *ending("ok", "all is well", "fine")]),
    Meeting(causes.CONTEXT_EXCEEDED, [Answered(413)] * 2),
    Meeting(causes.GOAL_DRIFT, ending("Done.", "It is done.", "All of it."),
            task={"contract": ORDER}),
    Meeting(causes.STATE_LOST, code(STUCK, f"{STUCK}\n2"), limits={"tool_timeout_s": 10 * SOON_S}),
    Meeting(causes.STATE_LOST_UNCERTAIN, code(STUCK), "reaching outside", stages=[reaching],
            limits={"tool_timeout_s": 10 * SOON_S}),
    Meeting(causes.AMBIGUOUS, each_new("read")),
    Meeting(causes.CAPABILITY_GAP, [Answered(401)], "key"),
    Meeting(causes.CAPABILITY_GAP, [Answered(404)], "model"),
    Meeting(causes.CAPABILITY_GAP, [ImportError("No module named 'tiktoken'")], "package"),
    Meeting(causes.CAPABILITY_GAP, each_new("connect"), "connector"),
    Meeting(causes.STEPS_USED, each_new("look"), limits={"max_iterations": 1}),
    Meeting(causes.TIME_USED, [], limits={"max_execution_time_s": 1}, is_late=True),
    Meeting(causes.BUDGET_USED, [replace(call("run_code", code="1"), usage=Usage(8_000, 0))],
            limits={"max_tokens": 9_000}),
    Meeting(causes.NO_CALL, [say("hm"), say("So.")]),
    Meeting(causes.PROVIDER_SILENT, None),
    Meeting(causes.TOOL_BREAKER_OPEN, [*FAILING_AND_NOT, *each_new("fetch", 3)], after=THRESHOLD),
    Meeting(causes.GUARD_BROKEN, each_new("look"), task={"procedure": GUARDED}),
    Meeting(causes.WRITE_UNRECORDED, each_new("pay"), tools=[paying(work)], is_unrecorded=True),
    Meeting(causes.LIMIT_UNKEEPABLE, [], "no price", limits={"max_cost_usd": 1.0}),
    Meeting(causes.LIMIT_UNKEEPABLE, [], "too small", limits={"max_tokens": 10}),
    Meeting(causes.RUN_BROKEN, each_new("look"), is_broken=True),
    Meeting(causes.CHECK_BROKEN, each_new("look"), stages=[broken_check]),
    Meeting(causes.LOOP_AHEAD, [calls(*[call("look", at="x")] * 6)]),
    Meeting(causes.COLUMNS_NEAR, code(TWO_PRICES, "cars['price'].sum()")),
)  # fmt: skip


class Unrecorded(MemoryEffects):
    """A record of writes on a disk that is full."""

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> bool:
        raise OSError(28, "No space left on device")


class Hooks(RunHooks):
    """A run's hooks with the checks and the record of a meeting."""

    def __init__(self, breakers: Breakers, meeting: Meeting) -> None:
        super().__init__(breakers)
        self._stages = tuple(meeting.stages)
        self._is_broken = meeting.is_broken
        if meeting.is_unrecorded:
            self._effects = Unrecorded()

    def drain(self) -> list[ev.AgentEvent]:
        if self._is_broken:
            raise RuntimeError("the host is broken")
        return []

    def stages(self, state: RunState) -> tuple[Stage, ...]:
        return self._stages


class Watching(DefaultPolicy):
    """The shipped policy, which keeps what it was asked about."""

    def __init__(self) -> None:
        self.asked: list[Failure] = []

    def decide(self, failure: Failure, state: RunState) -> Action:
        self.asked.append(failure)
        return super().decide(failure, state)


@dataclass(frozen=True)
class Ran:
    """The events of a run, the failures that its funnel was given, and what was looked up."""

    events: Sequence[ev.AgentEvent]
    given: Sequence[Failure]
    looked_up: Sequence[str]

    @property
    def shown(self) -> Iterator[Failure]:
        """The failures that stand in its events."""
        for event in self.events:
            failure = getattr(event, "failure", None)
            if failure is not None:
                yield failure
            if isinstance(event, ev.UserInputRequested):
                yield from event.suspension_record.lessons_learned

    @property
    def climbed(self) -> Iterator[tuple[Failure, Rung]]:
        """Each occurrence, and what was done about it.

        A failure of a tool that the funnel was not given by the end of the step was its answer.
        """
        given = iter(self.given)
        answered: Failure | None = None
        for event in self.events:
            match event:
                case ev.ToolEvent(failure=Failure() as failure):
                    answered = failure
                case ev.AgentError(action=str(action), fallback=fallback):
                    answered = None
                    yield next(given), Rung.fallback if fallback else Rung(action)
                case ev.Handoff(failure=Failure() as failure):
                    yield next(given, failure), Rung.handoff
                case ev.UserInputRequested(originating_failure_kind=FailureKind()):
                    failure = next(given)
                    yield from ((failure, Rung.reconcile) for _ in self.looked_up)
                    yield failure, Rung.ask_user
                case ev.StateSnapshot() if answered is not None:
                    yield answered, Rung.refusal
                    answered = None


async def play(meeting: Meeting) -> Ran:
    """The run of ``meeting``; ``AssertionError`` unless its scripts are used up."""
    clock = ManualClock()
    hooks = Hooks(Breakers(clock), meeting)
    scripts = [each for each in (meeting.steps, meeting.fallback) if each is not None]
    models = [ScriptedModel(script, f"model {n}") for n, script in enumerate(scripts)]
    if meeting.are_open:
        for model in models:
            for _ in range(THRESHOLD):
                hooks.breakers.of(model.name).admit().report("failed")
    chain: Sequence[ChatModel] = models or [HangingModel("first token")]
    ledger, policy = Ledger(), Watching()
    own = meeting.tools
    if meeting.looks_up:
        own = [replace(each, reconcile=ledger.reconcile) for each in own]
    agent = Agent(
        chain,
        tools=[*READING, *own],
        policy=policy,
        guardrails=AgentGuardrails(**meeting.limits),
        code_executor=CodeExecutor(),
        suspension_secret="s",
        clock=clock,
        hooks=hooks,
        **meeting.task,
    )
    state = agent.start("What is the total price?")
    if meeting.is_late:
        clock.advance(2)
    events = [event async for event in run_loop(agent, state)]
    for model in models:
        model.assert_exhausted()
    return Ran(events, policy.asked, ledger.asked)


@pytest.mark.parametrize("meeting", MEETINGS, ids=str)
async def test_run_climbs_the_ladder_of_each_cause(meeting: Meeting) -> None:
    ran = await play(meeting)
    assert_well_told(ran.events)
    occurred = list(ran.climbed)[meeting.after :]
    assert [cause_of(failure) for failure, _ in occurred] == [meeting.cause] * len(meeting.rungs)
    assert [rung for _, rung in occurred] == meeting.rungs
    told = {cause_of(failure) for failure in ran.shown}
    assert meeting.after or told <= {meeting.cause}
    if isinstance(ran.events[-1], ev.UserInputRequested):
        assert ran.events[-1].originating_failure_kind is meeting.cause.kind
    else:
        assert meeting.cause in told


def test_every_row_is_tested() -> None:
    met = [each.cause for each in MEETINGS]
    assert [cause for cause in CAUSES if cause not in met] == []
