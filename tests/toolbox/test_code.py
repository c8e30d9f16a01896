"""What the end of code means, as the tool that runs it tells."""

from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.core.causes import LATE, RAISED, STATE_LOST, Cause, cause_of
from parsimony_kernel.core.events import ToolResultObserved
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.toolbox.run_tools import code_tools, inspection_tools, stored_file_tools
from tests.scenarios.loops import gather

# Real seconds; code that is to be stopped at its deadline has no other clock.
SOON_S = 0.2
# A wait that no interrupt of ours reaches, and that ends by itself soon after the test.
STUCK = "import threading\nthreading.Event().wait(3)"
# Deadlines of the code's own; the words of one are those that we would use.
TIRED = "raise TimeoutError('read timeout')"
ALIKE = "raise TimeoutError('timeout: the code was stopped after 30 s by the database')"


async def ran(code: str) -> StepOutcome:
    return await Gate(code_tools(CodeExecutor(), timeout_s=SOON_S), timeout_s=60).step(
        "run_code", {"code": code}
    )


@pytest.mark.parametrize(
    ("code", "cause", "error"),
    [
        ("while True: pass", LATE, "action_timeout"),
        (STUCK, STATE_LOST, "action_error"),
        ("1/0", RAISED, "action_error"),
        (TIRED, RAISED, "action_error"),
        (ALIKE, RAISED, "action_error"),
    ],
)
async def test_code_outcome_maps_to_table_row(code: str, cause: Cause, error: str) -> None:
    outcome = await ran(code)
    assert outcome.failure is not None
    assert cause_of(outcome.failure) is cause
    assert outcome.envelope["error"] == error
    assert outcome.envelope.get("timeout_seconds") == (SOON_S if cause is LATE else None)
    assert ("still runs" in outcome.failure.explanation) is (cause is STATE_LOST)
    assert ("still runs" in outcome.envelope["message"]) is (cause is STATE_LOST)


# Looking at a variable.


SCOPE = RunScope("r1", "a.ipynb", "c1", 1)


@pytest.fixture
async def executor() -> CodeExecutor:
    executor = CodeExecutor()
    code = "df = pd.DataFrame({'x': [1, 2, 3]})\ntotal = int(df.x.sum())"
    await code_tools(executor, timeout_s=60, scope=lambda: SCOPE)["run_code"].function(code=code)
    return executor


async def step(executor: CodeExecutor, tool: str, /, **arguments: Any) -> StepOutcome:
    tools = inspection_tools(executor) + code_tools(executor, timeout_s=60)
    return await Gate(tools, timeout_s=60).step(tool, arguments)


async def test_table_and_value_are_shown_as_text(executor: CodeExecutor) -> None:
    told = (await step(executor, "inspect_variable", name="df")).result.data
    assert (told["rows"], told["text"]) == (3, "x\n1\n2\n3")
    assert "pd.DataFrame" in told["code"]
    assert (await step(executor, "inspect_variable", name="total")).result.data["text"] == "6"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((code, "one name") for code in ("df.x", "df; 1", "", "lambda", "total + 1")),
        ("totl", "did you mean 'total'"),
    ],
)
async def test_inspection_runs_no_code_and_suggests_the_nearest_name(
    executor: CodeExecutor, name: str, said: str
) -> None:
    outcome = await step(executor, "inspect_variable", name=name)
    assert outcome.failure is not None
    assert said in outcome.failure.explanation


# Files where a host keeps them: a run reads and writes them through ``FileStore`` alone.


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


async def said(shelf: Shelf, *steps: tuple[str, dict[str, Any]]) -> list[str]:
    """What each call comes to: its answer, or the sentence of its refusal."""
    gate, told = Gate(stored_file_tools(shelf), timeout_s=30), []
    for name, arguments in steps:
        outcome = await gate.step(name, arguments)
        told.append(outcome.failure.explanation if outcome.failure else str(outcome.result.data))
    return told


WRITE: tuple[str, dict[str, Any]] = ("write_file", {"path": "note.txt", "content": "new"})
READ: tuple[str, dict[str, Any]] = ("read_file", {"path": "note.txt"})


async def test_replaced_file_is_kept() -> None:
    shelf = Shelf(note="one\ntwo\n")
    read, written = await said(shelf, READ, WRITE)
    assert "one\\ntwo\\n" in read
    assert "'bytes': 3" in written
    assert shelf.files.pop("note.txt") == b"new"
    assert list(shelf.files.values()) == [b"one\ntwo\n"]


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
