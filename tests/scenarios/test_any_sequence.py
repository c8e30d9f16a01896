"""Whatever a model and its provider do, in whatever order: the run ends, and ends well told."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.chat import Completion, answer
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import AgentEvent, collect
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.provider import transcript_breach
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls, raw_call, say
from parsimony_kernel.tools import Tools, tool
from tests.session.session_steps import assert_well_told

from .agents import Tally, ended_by
from .loops import Answered


class ContextWindowExceededError(Exception):
    """What a client raises when the conversation is too long."""


# What can come, by name; the number tells apart what came at different places.
ALPHABET: dict[str, Callable[[int], Step]] = {
    "connection reset": lambda n: ConnectionError("reset"),
    "timeout": lambda n: TimeoutError("too late"),
    "overloaded": lambda n: Answered(503),
    "unauthorized": lambda n: Answered(401),
    "too long": lambda n: ContextWindowExceededError("prompt is too long"),
    "client broken": lambda n: ImportError("No module named 'tiktoken'"),
    "client confused": lambda n: KeyError("choices"),
    "client cancelled": lambda n: asyncio.CancelledError(),
    "no choices": lambda n: Completion(choices=()),
    "words": lambda n: say(f"I think {n}."),
    "same words": lambda n: say("I think."),
    "nothing": lambda n: answer(),
    "blank": lambda n: say(" \n"),
    "refusal": lambda n: ended_by("content_filter", say("No.")),
    "cut off words": lambda n: ended_by("length", say("And then")),
    "half a call": lambda n: ended_by("length", raw_call("add", f'{{"n": {n}')),
    "a whole call, cut off": lambda n: ended_by("length", call("add", n=n)),
    "add": lambda n: call("add", n=n),
    "add, said": lambda n: calls(call("add", n=n), text="So."),
    "add the same": lambda n: call("add", n=0),
    "add twice": lambda n: calls(call("add", n=n), call("add", n=n + 100)),
    "add with one id": lambda n: calls(
        raw_call("add", f'{{"n": {n}}}', call_id="a"), raw_call("look", "{}", call_id="a")
    ),
    "look": lambda n: call("look"),
    "break": lambda n: call("shatter"),
    "add after a break": lambda n: calls(call("shatter"), call("add", n=n)),
    "unknown tool": lambda n: call("ad", n=n),
    "unknown tool, no name": lambda n: call(""),
    "bad argument": lambda n: call("add", n="many"),
    "bad arguments": lambda n: raw_call("add", '{"n": '),
    "arguments of another shape": lambda n: raw_call("add", f"[{n}]"),
    "lone surrogate": lambda n: raw_call("look", '{"at": "\\ud800"}'),
    "question": lambda n: call("ask_user", question="Which?", choices=["a", "b"]),
    "question, and more": lambda n: calls(call("ask_user", question="?"), call("add", n=n)),
    "empty question": lambda n: call("ask_user", question=" "),
    "done": lambda n: call("return_done", summary="It was entered."),
    "done, and more": lambda n: calls(call("return_done", summary="Done."), call("add", n=n)),
    "empty done": lambda n: call("return_done", summary=""),
    "unable": lambda n: call("return_unable", rationale="no data", blockers=["no file"]),
    "unable without blockers": lambda n: call("return_unable", rationale="no", blockers=[]),
}
# These end a run wherever they come, and a good call makes up for a fault before it: a run of any
# length needs few of the one and many of the other.
ENDS = {name for name in ALPHABET if name.startswith(("done", "unable", "question", "client"))} | {
    "refusal",
    "unauthorized",
}
GOOD = {name for name in ALPHABET if name.startswith(("add", "look"))}
SEQUENCES = st.lists(
    st.sampled_from(sorted(GOOD)) | st.sampled_from(sorted(set(ALPHABET) - ENDS)), max_size=11
).flatmap(lambda names: st.sampled_from(sorted(ALPHABET)).map(lambda last: [*names, last]))
# Enough to end a run that has outlived its sequence.
END = tuple(ALPHABET["unable"](n) for n in range(4))


def asked_for(steps: Sequence[Step]) -> Counter[int]:
    """How often each number was asked to be entered, by whole answers."""
    return Counter(
        json.loads(each.function.arguments)["n"]
        for step in steps
        if isinstance(step, Completion) and step.choices
        if step.choices[0].finish_reason == "tool_calls"
        for each in step.message.tool_calls
        if each.function.name == "add" and is_an_entry(each.function.arguments)
    )


def is_an_entry(arguments: str) -> bool:
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return False
    return isinstance(parsed, dict) and isinstance(parsed.get("n"), int)


def play(steps: Sequence[Step]) -> tuple[list[AgentEvent], RunState, ScriptedModel, Counter[int]]:
    tally = Tally()

    @tool
    async def shatter() -> None:
        """Break."""
        raise RuntimeError("broken")

    model = ScriptedModel(steps)
    agent = Agent(
        model,
        code_executor=EXECUTOR,
        tools=Tools([*tally.tools, shatter]) + termination_tools(),
        guardrails=AgentGuardrails(),
        suspension_secret="s",
        clock=ManualClock(),
    )
    state = agent.start("Enter some numbers.")

    async def run() -> list[AgentEvent]:
        return [event async for event in run_loop(agent, state)]

    events = asyncio.run(run())
    return events, state, model, Counter(tally.effects)


EXECUTOR = CodeExecutor()


@given(SEQUENCES)
@example(["connection reset", "half a call", "bad arguments", "words", "add", "done"])
@example(["break", "words", "overloaded", "unknown tool"] * 3)
@example(["add the same"] * 12)
@example(["bad argument", "look"] * 6)
@example(["too long", "too long", "add"])
@example(["add", *["overloaded"] * 5])
def test_any_sequence_ends_once_and_repeats_no_effect(names: list[str]) -> None:
    steps = [*(ALPHABET[name](n) for n, name in enumerate(names)), *END]
    events, state, model, entered = play(steps)

    assert_well_told(events)
    assert state.done

    result = collect(events)
    assert [result.ok, result.failed, result.suspended, result.cancelled].count(True) == 1

    for request in model.requests:
        assert transcript_breach(list(request.messages)) is None
    assert entered <= asked_for(steps[: len(model.requests)])
