"""The bench of tasks with known answers: that it runs, counts, and finds a wrong answer."""

import json
import sys
from typing import Any

import pytest

from benchmarks.analyst import Turn, load, many_steps
from benchmarks.model_tasks import Desk, run_tasks

TASKS = {task.name: task for task in load()}
TURN = Turn("", (), "", (1234.56, 27, "August"))


def body(*messages: tuple[str, str], tools: tuple[str, ...] = ("run_python",)) -> dict[str, Any]:
    """A request as a loop sends it."""
    return {
        "messages": [{"role": role, "content": content} for role, content in messages],
        "tools": [{"function": {"name": name}} for name in tools],
    }


def test_twenty_uniquely_named_tasks() -> None:
    assert len(TASKS) == len(load()) == 20


@pytest.mark.slow
def test_three_tasks_are_solved_in_fewest_calls() -> None:
    # Without a notebook there is no inventory, so the last one looks at its table first.
    calls = {"means of a file": 2, "three figures that were printed": 4, "a step that fails": 4}
    runs = run_tasks("agent", sys.executable, [TASKS[name] for name in calls])
    assert [run.wrong for run in runs] == [[], [], []]
    assert [run.refusals for run in runs] == [0, 0, 0]
    assert [len(run.requests) for run in runs] == [*calls.values()]
    for run in runs:
        assert run.sent > run.new > 0
        assert run.billed(0.25) > run.billed(0.1) > run.new


@pytest.mark.parametrize(
    ("answered", "misses"),
    [
        ("1,234.6 in August, 27 times", []),
        ("1234.56, 27.0, AUGUST", []),
        ("1,235 in August on 27 days", []),
        ("1,234.5 in August, 27 times", [1234.56]),
        ("1,234.56 and 28 in July", [27, "August"]),
    ],
)
def test_number_counts_to_written_digits(answered: str, misses: list[float | str]) -> None:
    assert TURN.misses(answered) == misses


def test_new_bytes_exclude_shared_prefix() -> None:
    task = many_steps(3)
    desk = Desk([task], None)
    first = body(("user", task.turns[0].request))
    desk(first)
    desk(body(("user", task.turns[0].request), ("tool", "look 1: 1 and what follows")))
    [run] = desk.runs
    assert run.requests[1].shared == len(run.requests[0].content)
    assert run.new == len(run.requests[1].content)
    assert run.reused == [100.0]


def test_append_only_client_sends_each_message_once() -> None:
    task = many_steps(4)
    desk = Desk([task], None)
    begin, reminder = ("user", task.turns[0].request), ("user", "a reminder, last each time")
    shown = [("tool", f"look {n}: {n} and what follows" * 50) for n in (1, 2)]
    said = ("assistant", "")
    desk(body(begin, reminder))
    desk(body(begin, said, shown[0], reminder))
    desk(body(begin, said, ("tool", "cut short"), said, shown[1], reminder))
    [run] = desk.runs
    once = [{"role": role, "content": text} for role, text in (begin, reminder, said, *shown)]
    assert run.appended == sum(len(json.dumps(each)) for each in once)
    assert run.requests[2].shared < len(run.requests[1].content)
