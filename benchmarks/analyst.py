"""An analyst who answers from a script, by what a request shows: the same one for every loop.

It knows the steps of a task and what each must have shown before the next makes sense. A step
whose outcome the request does not show, not any more or not yet, is taken (again); once all is
shown it answers with the figures that it reads there, never from memory. So a loop that hides an
outcome costs a request here, as it does with a model.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsimony_kernel.core.chat import Completion
from parsimony_kernel.testing.scripted import call, calls, say

TASKS = Path(__file__).with_name("model_tasks") / "tasks.toml"
CODE_TOOLS = ("run_code", "run_python")
# A step that has been taken so often and still shows nothing is given up.
MOST_TRIES = 3
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Step:
    """Python to run, in one call or in several at once, and the patterns of its outcome."""

    code: tuple[str, ...]
    shows: tuple[re.Pattern[str], ...]


@dataclass(frozen=True)
class Turn:
    """A request, the steps to its answer, and the figures and words that the answer must have."""

    request: str
    steps: tuple[Step, ...]
    answer: str
    expect: tuple[float | str, ...]

    def misses(self, answered: str) -> list[float | str]:
        """What ``answered`` lacks of what is expected."""
        return [each for each in self.expect if not _has(answered, each)]


@dataclass(frozen=True)
class Task:
    """Turns over the same files and variables."""

    name: str
    turns: tuple[Turn, ...]
    files: tuple[str, ...] = ()
    setup: str = "pass"


def load(path: Path = TASKS) -> list[Task]:
    """The tasks of a file."""
    return [_task(each) for each in tomllib.loads(path.read_text())["task"]]


def _task(given: Mapping[str, Any]) -> Task:
    turns = tuple(_turn(each) for each in given["turn"])
    return Task(given["name"], turns, tuple(given.get("files", ())), given.get("setup", "pass"))


def _turn(given: Mapping[str, Any]) -> Turn:
    steps = []
    for each in given["step"]:
        code = each["code"]
        shows = tuple(re.compile(pattern, re.M) for pattern in each["shows"])
        steps.append(Step((code,) if isinstance(code, str) else tuple(code), shows))
    return Turn(given["request"], tuple(steps), given["answer"], tuple(given["expect"]))


def _has(answered: str, wanted: float | str) -> bool:
    """Whether a number is there, to as many digits as are written, or a word."""
    if isinstance(wanted, str):
        return wanted.casefold() in answered.casefold()
    for written in NUMBER.findall(answered):
        plain = written.replace(",", "").replace("−", "-")
        digits = len(plain.partition(".")[2])
        if abs(float(plain) - wanted) <= 0.5 * 10**-digits + 1e-9 * abs(wanted):
            return True
    return False


class Analyst:
    """Answers the requests of one task."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._tries: dict[tuple[int, int], int] = {}

    def __call__(self, body: Mapping[str, Any]) -> Completion:
        """The next step that is not shown yet, or the answer."""
        shown = "\n".join(_shown(body["messages"]))
        asked = _squeezed(shown)
        turns = self._task.turns
        at = max(n for n, turn in enumerate(turns) if _squeezed(turn.request) in asked)
        read: dict[str, str] = {}
        for number, step in enumerate(turns[at].steps):
            found = [pattern.search(shown) for pattern in step.shows]
            for each in found:
                read |= each.groupdict() if each else {}
            if all(found):
                continue
            tries = self._tries[at, number] = self._tries.get((at, number), 0) + 1
            if tries > MOST_TRIES:
                return _end(body, f"I cannot see what step {number + 1} showed.")
            return _run(body, step)
        return _end(body, turns[at].answer.format(**read))


def is_about(body: Mapping[str, Any], task: Task) -> bool:
    """Whether a request is one of ``task``."""
    return _squeezed(task.turns[0].request) in _squeezed("\n".join(_shown(body["messages"])))


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def _shown(messages: list[dict[str, Any]]) -> Iterator[str]:
    """What the model is shown, without what it has written itself."""
    for message in messages:
        if message["role"] == "assistant":
            continue
        content = message.get("content") or ""
        if isinstance(content, str):
            yield content
        else:
            yield from (part.get("text", "") for part in content)


def _tools(body: Mapping[str, Any]) -> list[str]:
    return [each["function"]["name"] for each in body.get("tools") or ()]


def _run(body: Mapping[str, Any], step: Step) -> Completion:
    name = next(each for each in CODE_TOOLS if each in _tools(body))
    return calls(*(call(name, code=code) for code in step.code))


def _end(body: Mapping[str, Any], text: str) -> Completion:
    """``text`` as the loop wants an answer: by a tool where there is one that ends the run."""
    tools = _tools(body)
    if "return_done" in tools:
        return call("return_done", summary=text)
    if "final_answer" in tools:
        return call("final_answer", answer=text)
    return say(text)


def many_steps(count: int, *, size: int = 2_048) -> Task:
    """A task of ``count`` requests; every step prints ``size`` bytes, its number first."""
    setup = (
        "def look(number):\n"
        "    text = f'look {number}: ' + f'{number} and what follows from it; ' * 200\n"
        f"    print(text[:{size} - 1])"
    )
    steps = tuple(
        Step((f"look({n})",), (re.compile(rf"look {n}: {n} and"),)) for n in range(1, count)
    )
    request = f"Look at each of the {count - 1} parts, one after the other."
    turn = Turn(request, steps, "I looked at every part.", ("every part",))
    return Task(f"{count} steps of {size} bytes", (turn,), setup=setup)
