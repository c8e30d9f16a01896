"""Twenty data tasks with known answers, in our loop and in two others, with any model.

Without a key the model is a scripted analyst, the same for every loop (``analyst.py``); with
``--model`` it is any that litellm reaches, and it is paid for. Either way the loops talk to an
OpenAI-compatible server on loopback, which counts what comes. smolagents and pydantic-ai run where
an interpreter that has them is named; each loop runs in a process of its own (``model_loops.py``).

    python benchmarks/model_tasks.py                                     # ours, scripted
    python benchmarks/model_tasks.py --peer-python ~/smol/bin/python --peer-python ~/pai/bin/python
    python benchmarks/model_tasks.py --model anthropic/claude-sonnet-4-6 --parts tasks

Part ``tasks`` is the twenty tasks, ``steps`` a run of sixty steps that print 2 KB each, ``cpu`` the
loop's own CPU per step. New bytes are those behind what a request shares with the one before it:
what a provider's prompt cache cannot help with.
"""

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.analyst import TASKS, Analyst, Task, is_about, load, many_steps
from parsimony_kernel.core.chat import Completion, FunctionCall, ToolCall, Usage, answer
from parsimony_kernel.testing.provider import LoopbackProvider

LOOPS = Path(__file__).with_name("model_loops.py")
OURS = ("notebook", "agent")
PEERS = dict.fromkeys(("pydantic-ai", "pydantic-ai, streaming"), "pydantic_ai") | {
    "smolagents": "smolagents"
}
STEPS = 60
CPU_STEPS = (20, 100, 300)
# A step of the part ``cpu`` prints this much: the loop is to be measured, not the writing of JSON.
SMALL_STEP = 128
CACHED_PRICES = (0.1, 0.25)
# How each loop's result begins when it did not run what the model asked for.
REFUSALS = ("Refused", "Skipped", "Not run", "not run", "Unknown tool", "Error in tool call")

Model = Callable[[dict[str, Any]], Completion]


@dataclass(frozen=True)
class Request:
    """One request as it came.

    ``size`` is that on the wire; ``content`` tools and messages in the order of a prompt cache,
    and ``shared`` how much of that the loop's request before began with, whatever its task.
    ``before`` is the length of that request, and ``appended`` that of the messages that are here
    for the first time: the model's last answer and what follows it.
    """

    size: int
    content: str
    shared: int
    before: int
    appended: int
    usage: Usage

    @property
    def new(self) -> int:
        return len(self.content) - self.shared


@dataclass
class Run:
    """What one task came to in one loop."""

    task: Task
    requests: list[Request] = field(default_factory=list)
    refusals: int = 0
    answers: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu_s: float = 0.0

    @property
    def sent(self) -> int:
        return sum(each.size for each in self.requests)

    @property
    def new(self) -> int:
        return sum(each.new for each in self.requests)

    @property
    def shared(self) -> int:
        return sum(each.shared for each in self.requests)

    @property
    def reused(self) -> list[float]:
        """Per cent of each request that the next one begins with."""
        return [100 * each.shared / each.before for each in self.requests[1:]]

    @property
    def appended(self) -> int:
        """New bytes, had nothing that was sent been changed or left out since."""
        return sum(each.appended for each in self.requests)

    def billed(self, price: float) -> float:
        """Bytes, where one that the request before had costs ``price`` of a new one."""
        return self.new + price * self.shared

    @property
    def wrong(self) -> list[str]:
        """The turns whose answer lacks something, and what."""
        answers = [*self.answers, *[""] * len(self.task.turns)]
        misses = (
            (turn.misses(told), told) for turn, told in zip(self.task.turns, answers, strict=False)
        )
        return [f"{missed} in {told!r}" for missed, told in misses if missed]


class Desk:
    """Answers the requests of ``tasks`` with a model, and keeps what came of each."""

    def __init__(self, tasks: Sequence[Task], model: Model | None) -> None:
        self.runs = [Run(task) for task in tasks]
        self._models = [model or Analyst(task) for task in tasks]
        self._results = 0
        self._before = ""
        self._seen: set[str] = set()

    def __call__(self, body: dict[str, Any]) -> Completion:
        at = max(n for n, run in enumerate(self.runs) if is_about(body, run.task))
        completion = self._models[at](body)
        run = self.runs[at]
        if not run.requests:
            self._results = 0
        results = [each for each in body["messages"] if each["role"] == "tool"]
        run.refusals += sum(map(_is_refusal, results[self._results :]))
        self._results = len(results)
        content, before = _content(body), self._before
        size, shared = len(json.dumps(body)), _shared(before, content)
        appended = self._appended(body["messages"])
        run.requests.append(Request(size, content, shared, len(before), appended, completion.usage))
        self._before = content
        return completion

    def _appended(self, messages: list[dict[str, Any]]) -> int:
        answers = (n for n, each in enumerate(messages) if each["role"] == "assistant")
        tail = messages[max(answers, default=0) :]
        new = {json.dumps(each, ensure_ascii=False) for each in tail} - self._seen
        self._seen |= new
        return sum(map(len, new))


def _is_refusal(result: dict[str, Any]) -> bool:
    return str(result.get("content") or "").lstrip().startswith(REFUSALS)


def _content(body: dict[str, Any]) -> str:
    """Tools and messages, open at the end, so that a longer conversation extends a shorter one."""
    parts = (json.dumps(body.get(key, []), ensure_ascii=False) for key in ("tools", "messages"))
    return "".join(parts)[:-1]


def _shared(before: str, after: str) -> int:
    """How many characters both begin with, by halving."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Live:
    """A real model behind the loopback server, by litellm."""

    def __init__(self, name: str) -> None:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import litellm

        self._name = name
        self._complete = litellm.completion

    def __call__(self, body: dict[str, Any]) -> Completion:
        """Pass the request on: the same transcript and tools, whatever loop they come from."""
        keys = ("messages", "tools", "tool_choice")
        reply = self._complete(model=self._name, **{key: body[key] for key in keys if key in body})
        message, used = reply.choices[0].message, reply.usage
        details = getattr(used, "prompt_tokens_details", None)
        cached = getattr(details, "cached_tokens", 0) or 0
        asked = [
            ToolCall(each.id, FunctionCall(each.function.name, each.function.arguments))
            for each in message.tool_calls or ()
        ]
        usage = Usage(used.prompt_tokens, used.completion_tokens, cached)
        return answer(message.content, asked, usage=usage)


def find_files(task: Task, folder: Path) -> None:
    """Copy what ``task`` reads into ``folder``."""
    homes = [TASKS.with_name("data"), TASKS.parents[2] / "notebooks" / "data"]
    for name in task.files:
        found = next((home / name for home in homes if (home / name).exists()), None)
        shutil.copy(found or _shipped(name), folder)


def _shipped(name: str) -> Path:
    import vega_datasets

    return Path(vega_datasets.__file__).with_name("_data") / name


def run_tasks(
    loop: str, python: str, tasks: Sequence[Task], model: Model | None = None
) -> list[Run]:
    """Run ``tasks`` in ``loop``; a first one that warms the process up is left out.

    Raises ``RuntimeError``, with what the loop wrote, when it does not come to its end.
    """
    warm_up = many_steps(4, size=SMALL_STEP)
    desk = Desk([warm_up, *tasks], model)
    served = LoopbackProvider(itertools.repeat(desk), strict=loop in OURS)
    with tempfile.TemporaryDirectory() as place, served as provider:
        told = []
        for number, run in enumerate(desk.runs):
            folder = Path(place, f"task_{number}")
            folder.mkdir()
            find_files(run.task, folder)
            told.append(
                {
                    "name": run.task.name,
                    "folder": str(folder),
                    "setup": run.task.setup,
                    "turns": [turn.request for turn in run.task.turns],
                }
            )
        ran = subprocess.run(
            [python, str(LOOPS), loop],
            input=json.dumps({"url": provider.url, "tasks": told}),
            env=_environ(provider.url, place),
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"task"')]
    if len(lines) != len(desk.runs):
        raise RuntimeError(f"{loop} ended after {len(lines)} tasks: {ran.stderr[-2000:]}")
    for run, line in zip(desk.runs, lines, strict=True):
        run.answers, run.seconds, run.cpu_s = line["answers"], line["seconds"], line["cpu_s"]
    return desk.runs[1:]


def _environ(url: str, home: str) -> dict[str, str]:
    """No key, no history and no setting of the person's reaches a loop."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARSIMONY")}
    own = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "any", "HOME": home, "IPYTHONDIR": home}
    return {**kept, **own}


def loops(peers: Iterable[str]) -> dict[str, str]:
    """The loops that are here, each with its interpreter."""
    found = dict.fromkeys(OURS, sys.executable)
    for python in peers:
        for loop, package in PEERS.items():
            probe = [python, "-c", f"import {package}"]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                found[loop] = python
    return found


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Markdown, a row when it is there."""
    yield f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _tokens(runs: Sequence[Run]) -> tuple[int, int, int]:
    """What the provider counted: in, of those from its cache, and out."""
    used = [each.usage for run in runs for each in run.requests]
    return (
        sum(each.prompt_tokens for each in used),
        sum(each.cached_tokens for each in used),
        sum(each.completion_tokens for each in used),
    )


def kb(size: float) -> str:
    return f"{size / 1000:,.1f}"


def tasks_part(found: dict[str, str], tasks: Sequence[Task], model: Model | None) -> Iterator[str]:
    """The tasks, a line for each loop, then what was wrong. ``agent`` has no second turns."""
    heads: tuple[str, ...] = (
        "loop",
        "calls",
        "KB",
        "new KB",
        "cached share",
        "wrong answers",
        "refusals",
        "seconds",
    )
    if model:
        heads = (*heads, "tokens in", "cached by the provider", "tokens out")
    wrong: list[str] = []

    def rows() -> Iterator[Sequence[object]]:
        for loop, python in found.items():
            chosen = [task for task in tasks if loop != "agent" or len(task.turns) == 1]
            runs = run_tasks(loop, python, chosen, model)
            wrong.extend(f"{loop}, {run.task.name}: {miss}" for run in runs for miss in run.wrong)
            new, shared = sum(run.new for run in runs), sum(run.shared for run in runs)
            yield (
                loop,
                sum(len(run.requests) for run in runs),
                kb(sum(run.sent for run in runs)),
                kb(new),
                f"{shared / (new + shared):.0%}",
                sum(len(run.wrong) for run in runs),
                sum(run.refusals for run in runs),
                f"{sum(run.seconds for run in runs):.1f}",
                *(_tokens(runs) if model else ()),
            )

    yield f"\n{len(tasks)} tasks\n"
    yield from table(heads, rows())
    yield from wrong


def steps_part(found: dict[str, str], model: Model | None) -> Iterator[str]:
    """Sixty steps of 2 KB."""
    prices = (f"billed KB, cached at {each}" for each in CACHED_PRICES)
    reuse = ("reused, median %", "mean %")
    heads = ("loop", "calls", "KB", "new KB", "× append-only", *prices, *reuse)

    def rows() -> Iterator[Sequence[object]]:
        for loop, python in found.items():
            [run] = run_tasks(loop, python, [many_steps(STEPS)], model)
            yield (
                loop,
                len(run.requests),
                kb(run.sent),
                kb(run.new),
                f"{run.new / run.appended:.2f}",
                *(kb(run.billed(price)) for price in CACHED_PRICES),
                f"{statistics.median(run.reused):.1f}",
                f"{statistics.mean(run.reused):.1f}",
            )

    yield f"\n{STEPS} steps of 2 KB\n"
    yield from table(heads, rows())


def cpu_part(found: dict[str, str]) -> Iterator[str]:
    """CPU of the loop's process per step, HTTP and the tool included."""

    def rows() -> Iterator[Sequence[object]]:
        for loop, python in found.items():
            runs = run_tasks(loop, python, [many_steps(n, size=SMALL_STEP) for n in CPU_STEPS])
            yield loop, *(f"{1000 * run.cpu_s / len(run.requests):.1f}" for run in runs)

    yield "\nCPU per step, ms\n"
    yield from table(("loop", *(f"{n} steps" for n in CPU_STEPS)), rows())


def main() -> None:
    """Print the parts that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", help="a model's name for litellm; the scripted analyst without")
    parser.add_argument(
        "--peer-python",
        action="append",
        default=[],
        metavar="PATH",
        help="an interpreter that has smolagents or pydantic-ai; may be given twice",
    )
    parser.add_argument("--parts", default="tasks,steps,cpu", help="of tasks, steps, cpu")
    parser.add_argument("--task", action="append", default=[], help="only the task of this name")
    parser.add_argument("--loop", action="append", default=[], help="only the loop of this name")
    given = parser.parse_args()
    found = loops(given.peer_python)
    for loop in PEERS.keys() - found.keys():
        print(f"{loop} is not here: name an interpreter that has it with --peer-python PATH.")
    if given.loop:
        found = {loop: found[loop] for loop in given.loop}
    model = Live(given.model) if given.model else None
    tasks = [task for task in load() if not given.task or task.name in given.task]
    parts = {
        "tasks": lambda: tasks_part(found, tasks, model),
        "steps": lambda: steps_part(found, None),
        "cpu": lambda: cpu_part(found),
    }
    for part in given.parts.split(","):
        for line in parts[part]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
