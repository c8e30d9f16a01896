"""What the loop costs by itself: its CPU, its prompts, its records, its import and its stop.

One Markdown table. A figure is the median of several runs; beside it stand the fastest and the
slowest, a baseline from the same run with the ratio to it, and the growth: the figure per item in
proportion to the first of its section, so that flat is 1.00. The prefix and the bytes are the same
in every run, so the spread of the prefix is the one over its steps. The model answers from a
script and keeps nothing.

Stop is measured in process here, up to the terminal event of ``run_loop``; ``stop.py`` measures it
in a real kernel, up to the end of the cell. CPU is the whole process's. One iteration should cost
under 1 ms of it, however long the run is.

    python benchmarks/loop.py [ROUNDS] [--json]
"""

import argparse
import asyncio
import copy
import gc
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from benchmarks.table import Row, show
from parsimony_kernel.agent.failure import DefaultPolicy
from parsimony_kernel.agent.failure.detectors import record_tool_call
from parsimony_kernel.agent.failure.suspension import (
    build_record,
    verify_seal,
    verify_suspension_token,
)
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.prompts import INSTRUCTIONS
from parsimony_kernel.agent.renderer import render_for_llm
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    RunCancelled,
    RunCompleted,
    TextDelta,
    ToolEvent,
    is_terminal,
)
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.gate.envelope import succeeded, to_text
from parsimony_kernel.testing.scripted import HangingModel, call, numbered
from parsimony_kernel.tools import Tools, tool

ITERATIONS = (20, 100, 300)
MESSAGES = (50, 500, 2000)
STEPS = (20, 60)
RESULT_BYTES = 2_048
SECRET = "a secret for benchmarks"
SETTLE_S = 0.05

IMPORTS = ("import parsimony_kernel", "from parsimony_kernel import Agent")
PROBE = """
import sys, time
before = set(sys.modules)
{statement}
took = time.process_time()
print(took, sum(
    name.partition(".")[0] not in sys.stdlib_module_names for name in set(sys.modules) - before
))
"""


def observation(number: int) -> dict[str, Any]:
    """What a cell gives back, ``RESULT_BYTES`` long as JSON and different for each ``number``."""
    shown: dict[str, Any] = {
        "stdout": "",
        "variables": [
            {
                "name": f"table_{number}",
                "type": "dataframe",
                "rows": 1_000 + number,
                "columns": [
                    {"name": name, "dtype": "float64", "samples": [number, number / 3]}
                    for name in ("price", "volume", "change", "weight")
                ],
            }
        ],
    }
    room = RESULT_BYTES - len(json.dumps(shown))
    return {**shown, "stdout": (f"{number} and what follows from it; " * 100)[:room]}


@tool
async def look(at: int) -> dict[str, Any]:
    """Look at one table."""
    return observation(at)


@tool
async def idle() -> None:
    """Wait for what never comes."""
    await asyncio.Event().wait()


class Script:
    """Plays ``answers`` in order. ``heard`` is given each request before the answer."""

    name = "script"

    def __init__(
        self,
        answers: Iterable[Completion],
        heard: Callable[[ModelRequest], None] = lambda request: None,
    ) -> None:
        self._answers = iter([numbered(each, n) for n, each in enumerate(answers, start=1)])
        self._heard = heard

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """Play the next answer."""
        self._heard(request)
        yield next(self._answers)


def looks(steps: int) -> Iterator[Completion]:
    """Answers for ``steps`` iterations, of which the last ends the run."""
    yield from (call("look", at=n) for n in range(1, steps))
    yield call("return_done", summary="Every table was looked at.")


def agent(model: ChatModel, *, steps: int = 50) -> SimpleNamespace:
    """An agent that has enough of everything for ``steps`` iterations."""
    return SimpleNamespace(
        model_config=model,
        policy=DefaultPolicy(),
        guardrails=AgentGuardrails(max_iterations=steps, max_execution_time_s=86_400),
        instructions=INSTRUCTIONS,
        suspension_secret=SECRET,
        tools=Tools([look, idle]) + termination_tools(),
    )


def request() -> RunState:
    """A run that is about to begin."""
    return RunState(messages=[{"role": "user", "content": "Look at every table."}])


def conversation(length: int, *, first: int) -> RunState:
    """A run after ``length`` messages, an even number, looking from table ``first`` on."""
    state = request()
    state.messages.append({"role": "user", "content": "Begin with the newest."})
    number = first
    while len(state.messages) < length:
        arguments = {"at": number}
        record_tool_call(state, "look", arguments)
        envelope = succeeded(
            "look", observation(number), state="running", valid_next_actions=("look", "return_done")
        )
        name, call_id = "look", f"call_{number}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        state.messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "name": name, "content": to_text(envelope)},
        ]
        number += 1
    return state


def expect(event: AgentEvent | None, kind: type[AgentEvent]) -> None:
    """``RuntimeError`` when a run ended otherwise than it should: its figures mean nothing."""
    if not isinstance(event, kind):
        raise RuntimeError(f"the run ended with {event!r} and not with {kind.__name__}")


def cpu_ms(work: Callable[..., object], *given: object) -> float:
    """Milliseconds of CPU that ``work`` takes."""
    gc.collect()
    begun = time.process_time()
    work(*given)
    return (time.process_time() - begun) * 1000


async def run(steps: int, heard: Callable[[ModelRequest], None], state: RunState) -> float:
    """Milliseconds of CPU of a whole run of ``steps`` iterations."""
    ours = agent(Script(looks(steps), heard), steps=steps)
    event: AgentEvent | None = None
    gc.collect()
    begun = time.process_time()
    async for each in run_loop(ours, state):
        event = each
    took = time.process_time() - begun
    expect(event, RunCompleted)
    return took * 1000


async def bare(steps: int) -> float:
    """The same for a loop that awaits the tool and writes its result down, and nothing else."""
    gc.collect()
    begun = time.process_time()
    for number in range(steps):
        json.dumps(await look.function(at=number))
    return (time.process_time() - begun) * 1000


def iterations(rounds: int) -> Iterator[Row]:
    """CPU of the loop."""
    asyncio.run(run(ITERATIONS[0], lambda request: None, request()))
    for steps in ITERATIONS:
        ours, floor = [], []
        for _ in range(rounds):
            floor.append(asyncio.run(bare(steps)) / steps)
            ours.append(asyncio.run(run(steps, lambda request: None, request())) / steps)
        yield Row("CPU per iteration", f"{steps} iterations", "ms", ours, "bare loop", floor, 1)


def rendering(rounds: int) -> Iterator[Row]:
    """CPU of one prompt from a state that was never rendered before."""
    render = partial(render_for_llm, instructions=INSTRUCTIONS)
    for length in MESSAGES:
        ours, floor = [], []
        for number in range(rounds):
            state = conversation(length, first=number * 10_000)
            floor.append(cpu_ms(copy.deepcopy, state.messages))
            ours.append(cpu_ms(render, state))
        yield Row(
            "render from nothing", f"{length} messages", "ms", ours, "deepcopy", floor, length
        )


def sealed(state: RunState) -> str:
    """The record of ``state`` as it is stored."""
    record = build_record(
        state, secret=SECRET, now=datetime.now(UTC), elapsed_s=1.0, question="Which one?"
    )
    return record.model_dump_json()


def revived(text: str) -> RunState:
    """The state in the stored record ``text``, both seals checked."""
    record = SuspensionRecord.model_validate_json(text)
    if not (verify_suspension_token(record=record, secret=SECRET) and verify_seal(record, SECRET)):
        raise RuntimeError("an untouched record does not verify")
    return RunState.from_suspension(record)


def suspension(rounds: int) -> Iterator[Row]:
    """Size and CPU of a suspension and of its resume."""
    sections: dict[str, list[Row]] = {"suspended record": [], "suspend": [], "resume": []}
    for length in MESSAGES:
        at = f"{length} messages"
        size, plain_size = [], []
        out, plain_out = [], []
        back, plain_back = [], []
        for number in range(rounds):
            state = conversation(length, first=number * 10_000)
            text, plain = sealed(state), json.dumps(state.messages)
            size.append(len(text.encode()) / 1000)
            plain_size.append(len(plain.encode()) / 1000)
            plain_out.append(cpu_ms(json.dumps, state.messages))
            out.append(cpu_ms(sealed, state))
            plain_back.append(cpu_ms(json.loads, plain))
            back.append(cpu_ms(revived, text))
        sections["suspended record"].append(
            Row("suspended record", at, "KB", size, "messages as JSON", plain_size, length)
        )
        sections["suspend"].append(Row("suspend", at, "ms", out, "json.dumps", plain_out, length))
        sections["resume"].append(Row("resume", at, "ms", back, "json.loads", plain_back, length))
    for rows in sections.values():
        yield from rows


def canonical(messages: Iterable[Any]) -> str:
    """The messages as ASCII, open at the end, so that a longer conversation extends it."""
    return json.dumps(list(messages), sort_keys=True, separators=(",", ":"))[:-1]


def sent(steps: int) -> tuple[list[str], list[str]]:
    """Each request of a run as it was sent, and as it would be with all results in full."""
    state = request()
    system = {"role": "system", "content": INSTRUCTIONS}
    requests: list[str] = []
    full: list[str] = []

    def heard(request: ModelRequest) -> None:
        requests.append(canonical(request.messages))
        full.append(canonical([system, *state.messages]))

    asyncio.run(run(steps, heard, state))
    return requests, full


def shared(before: str, after: str) -> int:
    """How many characters ``after`` begins with as ``before`` does."""
    if after.startswith(before):
        return len(before)
    return next(n for n, each in enumerate(before) if after[n : n + 1] != each)


def repeated(requests: Sequence[str]) -> list[float]:
    """Per cent of each request that the next one begins with."""
    return [100 * shared(before, after) / len(before) for before, after in pairwise(requests)]


def billed(requests: Sequence[str], price: float) -> float:
    """The bytes of all requests, those that one has in common with the one before at ``price``."""
    cached = sum(shared(before, after) for before, after in pairwise(requests))
    return sum(map(len, requests)) - (1 - price) * cached


def prompts() -> Iterator[Row]:
    """What a provider's prompt cache and its scales see."""
    requests, full = sent(STEPS[-1])
    yield Row(
        "prefix repeated from the request before",
        f"{STEPS[-1]} steps",
        "%",
        repeated(requests),
        "results in full",
        repeated(full),
    )
    yield Row(
        "the same in the mean",
        f"{STEPS[-1]} steps",
        "%",
        [statistics.mean(repeated(requests))],
        "results in full",
        [statistics.mean(repeated(full))],
    )
    for section, price in (("new bytes", 0.0), ("billed, cached at a tenth", 0.1),
                           ("billed, cached at a quarter", 0.25)):  # fmt: skip
        yield Row(
            section,
            f"{STEPS[-1]} steps",
            "KB",
            [billed(requests, price) / 1000],
            "results in full",
            [billed(full, price) / 1000],
        )
    for steps in STEPS:
        requests, full = sent(steps)
        yield Row(
            "sent in total",
            f"{steps} steps",
            "KB",
            [sum(map(len, requests)) / 1000],
            "results in full",
            [sum(map(len, full)) / 1000],
            steps,
        )


def probe(statement: str) -> tuple[float, float]:
    """CPU milliseconds of a process that runs ``statement``, and the foreign modules it loads."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, modules = ran.stdout.split()
    return float(seconds) * 1000, float(modules)


def imports(rounds: int) -> Iterator[Row]:
    """What an import costs in a fresh process."""
    for statement in IMPORTS:
        probe(statement)
        nothing, ours = zip(
            *((probe("pass"), probe(statement)) for _ in range(rounds)), strict=True
        )
        for index, unit in enumerate(("ms", "modules")):
            yield Row(
                "import in a fresh process",
                f"`{statement}`",
                unit,
                [each[index] for each in ours],
                "`pass`",
                [each[index] for each in nothing],
            )


@dataclass(frozen=True)
class Phase:
    """Where a run is stopped: the model that leads there and the event that tells it is there."""

    at: str
    model: Callable[[], ChatModel]
    reached: Callable[[AgentEvent], bool] | None = None


PHASES = (
    Phase("waiting for the first token", lambda: HangingModel("first token")),
    Phase(
        "between chunks",
        lambda: HangingModel("mid-stream"),
        lambda event: isinstance(event, TextDelta),
    ),
    Phase(
        "back-off",
        lambda: HangingModel("back-off"),
        lambda event: isinstance(event, AgentError) and event.delay_s > 2 * SETTLE_S,
    ),
    Phase(
        "awaiting tool",
        lambda: Script([call("idle")]),
        lambda event: isinstance(event, ToolEvent),
    ),
)


class Press:
    """Does ``act`` from another thread, ``SETTLE_S`` after ``soon``, and knows when."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._timer = threading.Timer(SETTLE_S, self._press)
        self._at = 0.0

    def soon(self) -> None:
        self._timer.start()

    def since(self) -> float:
        """Milliseconds since the press."""
        ended = time.perf_counter()
        self._timer.join()
        return (ended - self._at) * 1000

    def _press(self) -> None:
        self._at = time.perf_counter()
        self._act()


async def stopped(phase: Phase) -> float:
    """Milliseconds from the press in ``phase`` to the terminal event."""
    cancellation = CancellationRequest()
    press = Press(cancellation.set)
    waiting = phase.reached
    if waiting is None:
        press.soon()
    took = 0.0
    async for event in run_loop(agent(phase.model()), request(), cancellation=cancellation):
        if waiting is not None and waiting(event):
            waiting = None
            press.soon()
        if is_terminal(event):
            expect(event, RunCancelled)
            took = press.since()
    return took


async def woken() -> float:
    """Milliseconds until a bare task that awaits an event goes on when a thread sets it."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    press = Press(lambda: loop.call_soon_threadsafe(event.set))
    press.soon()
    await event.wait()
    return press.since()


def stops(rounds: int) -> Iterator[Row]:
    """How long Stop takes."""
    for phase in PHASES:
        floor, ours = [], []
        for _ in range(rounds):
            floor.append(asyncio.run(woken()))
            ours.append(asyncio.run(stopped(phase)))
        yield Row("stop, in process", phase.at, "ms", ours, "bare asyncio.Event", floor)


def measure(rounds: int) -> Iterator[Row]:
    """Every figure, section by section."""
    yield from iterations(rounds)
    yield from rendering(rounds)
    yield from suspension(rounds)
    yield from prompts()
    yield from imports(rounds)
    yield from stops(rounds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=5, help="runs of each figure")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    given = parser.parse_args()
    show(measure(given.rounds), rounds=given.rounds, as_json=given.json)


if __name__ == "__main__":
    main()
