"""Files where a host keeps them: a run reads and writes them through ``FileStore`` alone."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.core.events import AgentEvent, ToolResultObserved
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.toolbox.stored_files import stored_file_tools

DONE = call("return_done", summary="done")


class Shelf:
    """A host's files, in memory."""

    def __init__(self, **files: str) -> None:
        self.files = {f"{name}.txt": text.encode() for name, text in files.items()}

    async def read(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    async def write(self, path: str, data: bytes) -> None:
        self.files[path] = data


async def gather(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    return [event async for event in events]


async def said(shelf: Shelf, *steps: tuple[str, dict[str, Any]]) -> list[str]:
    """What each call comes to: its answer, or the sentence of its refusal."""
    gate, told = Gate(stored_file_tools(shelf), timeout_s=30), []
    for name, arguments in steps:
        outcome = await gate.step(name, arguments)
        told.append(outcome.failure.explanation if outcome.failure else str(outcome.result.data))
    return told


WRITE: tuple[str, dict[str, Any]] = ("write_file", {"path": "note.txt", "content": "new"})
READ: tuple[str, dict[str, Any]] = ("read_file", {"path": "note.txt"})


async def test_file_is_read_before_replacing_and_kept() -> None:
    shelf = Shelf(note="one\ntwo\n")
    refused, read, written = await said(shelf, WRITE, READ, WRITE)
    assert "exists: read_file it first" in refused
    assert "one\\ntwo\\n" in read
    assert "'bytes': 3" in written
    assert shelf.files.pop("note.txt") == b"new"
    assert list(shelf.files.values()) == [b"one\ntwo\n"]


async def test_file_changed_by_others_is_not_replaced() -> None:
    shelf = Shelf(note="one")
    gate = Gate(stored_file_tools(shelf), timeout_s=30)
    await gate.step(*READ)
    shelf.files["note.txt"] = b"theirs"
    outcome = await gate.step(*WRITE)
    assert outcome.failure is not None
    assert "was changed since it was read" in outcome.failure.explanation
    assert shelf.files["note.txt"] == b"theirs"


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("read_file", {"path": "gone.txt"}, "does not exist: write_file makes it"),
        ("read_file", {"path": "../note.txt"}, "choose another"),
        ("read_file", {"path": "/etc/passwd"}, "is empty"),
        ("write_file", {"path": ".env", "content": "x"}, "is hidden"),
        ("read_file", {"path": "note.txt", "start_line": 0}, "count from 1"),
        ("write_file", {"path": "long.txt", "content": "x" * 2**21}, "More than 1 MiB"),
    ],
)
async def test_impossible_operation_is_explained(
    name: str, arguments: dict[str, Any], says: str
) -> None:
    shelf = Shelf(note="one\ntwo\n")
    (told,) = await said(shelf, (name, arguments))
    assert says in told
    assert shelf.files == {"note.txt": b"one\ntwo\n"}


async def test_agent_reads_and_writes_its_store() -> None:
    steps = [call("read_file", path="note.txt"), call("write_file", path="note.txt", content="1")]
    for hand_over in (True, False):
        shelf = Shelf(note="one")
        agent = Agent(
            ScriptedModel([*steps, DONE]),
            file_store=shelf if hand_over else None,
            suspension_secret="s",
        )
        state = agent.start("number it")
        state.files = shelf
        events = await gather(run_loop(agent, state))
        assert all(each.ok for each in events if isinstance(each, ToolResultObserved))
        assert shelf.files["note.txt"] == b"1"
