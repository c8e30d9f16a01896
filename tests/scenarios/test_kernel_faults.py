"""What can happen to a kernel, and that it goes on, or that the next one finds nothing lost.

Real kernels, by messages. A turn whose kernel died is marked in the journal, every event that was
shown is there, nothing runs by itself, and the cell can be run again.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsimony_kernel.core.events import RunStarted, ToolEvent
from parsimony_kernel.testing.kernel_process import Cell

from .kernels import Bell, Desk, printed

pytestmark = pytest.mark.kernel

PHASES = ("first token", "mid-stream", "back-off", "python", "sleep", "await")


def code(source: str) -> str:
    return f"ScriptedModel([call('run_code', code={source!r})])"


# What stalls a turn in a phase, and the sign of it; after more attempts the breaker would open.
# Where no token comes, the time goes by while nothing but the request is told.
RUNNING = {
    "first token": ("HangingModel('first token')", "Reading the request … · "),
    "mid-stream": ("HangingModel('mid-stream')", "Thinking"),
    "back-off": ("HangingModel('back-off')", "attempt 1"),
    "python": (code("while True: pass"), "while True"),
    "swallowed": (
        code("while True:\n    try:\n        pass\n    except BaseException:\n        continue"),
        "while True",
    ),
    "sleep": (code("import time\ntime.sleep(100)"), "time.sleep"),
    "await": (code("import asyncio\nawait asyncio.sleep(100)"), "asyncio.sleep"),
    "subprocess": (code("import subprocess\nsubprocess.run(['sleep', '100'])"), "subprocess.run"),
}
SUMMARY = "All of it is done."
DONE = f"call('return_done', summary={SUMMARY!r})"
KEEP = f"ScriptedModel([call('run_code', code='kept = 41 + 1'), {DONE}])"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    opened = Desk(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    made = Bell(tmp_path / "bell")
    yield made
    made.close()


def agent(desk: Desk, request: str, *, cell_id: str) -> Cell:
    return desk.kernel.run(f"%%agent --approve auto\n{request}", cell_id=cell_id)


def running(source: str, then: str = DONE) -> str:
    return f"ScriptedModel([call('run_code', code={source!r}), {then}])"


def assert_usable(desk: Desk) -> None:
    """``AssertionError`` unless the person's cells and the agent's go on in this kernel."""
    assert desk.kernel.is_alive()
    assert printed(desk.kernel, "6 * 7") == "42"
    desk.use(running("again = 6 * 7"))
    assert agent(desk, "go on", cell_id="usable").status == "ok"
    assert printed(desk.kernel, "again") == "42"


def assert_finished(cell: Cell, made: str) -> None:
    """``AssertionError`` unless it reads as a turn of two steps that came to its end: first what
    the agent says of it, then what it took and what it bound, of which ``made`` is a part."""
    assert cell.text.startswith(f"{SUMMARY}\n"), cell.text
    assert re.search(rf"^2 steps · (?:.*, )?{made}\b", cell.text, re.M), cell.text
    assert "Stopped" not in cell.text


# -- sys.exit, os._exit, MemoryError


# Code that ends its step, and what the record calls that.
ENDING = {
    "sys.exit": ("import sys\nsys.exit(3)", ""),
    "quit, by name": ("quit", ""),
    "in a task": (
        "import asyncio, sys\nasync def leave(): sys.exit(1)\nawait asyncio.create_task(leave())",
        "",
    ),
    "one block": ("[0] * 10**15", "MemoryError"),
    "an array": ("import numpy as np\nnp.ones(10**15)", "MemoryError"),
    "recursion": ("def f(): return f()\nf()", "RecursionError"),
    "little by little": (
        "import resource\n"
        "before = resource.getrlimit(resource.RLIMIT_AS)\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + 300_000_000, before[1]))\n"
        "def fill():\n    kept = []\n    while True: kept.append(bytearray(1_000_000))\n"
        "try:\n    fill()\nfinally:\n    resource.setrlimit(resource.RLIMIT_AS, before)",
        "MemoryError",
    ),
}


@pytest.mark.parametrize("how", ENDING)
def test_code_that_exits_or_fills_the_memory_ends_its_step_only(shared: Desk, how: str) -> None:
    source, told = ENDING[how]
    shared.kernel.run("mine = [1, 2]")
    shared.use(running(source, f"call('run_code', code='after = 1'), {DONE}"))
    cell = agent(shared, how, cell_id=f"ending {how}")
    assert cell.status == "ok"
    assert told in cell.text
    assert_finished(cell, "after")
    assert "ask_exit" not in str(cell.reply.get("payload"))
    assert printed(shared.kernel, "mine, after") == "[1, 2] 1"
    assert_usable(shared)


DYING = {
    "os._exit": "import os\nos._exit(7)",
    "abort": "import os\nos.abort()",
    "segmentation fault": "import ctypes\nctypes.string_at(0)",
}


@pytest.mark.parametrize("how", DYING)
def test_code_ending_kernel_is_recorded_and_cell_reruns(desk: Desk, how: str) -> None:
    desk.use(running("early = 1"))
    agent(desk, "early", cell_id="early")
    desk.use(running("made = 2", f"call('run_code', code={DYING[how]!r}), {DONE}"))
    desk.kernel.begin(f"%%agent --approve auto\n{how}", cell_id="dying")
    desk.await_death()

    desk.use(running("made = 3"))
    history = desk.kernel.run("%agent history").text
    assert "cancelled" in history
    assert desk.statuses() == ["done", "cancelled"]
    told = desk.events(desk.turns()[1])
    steps = [event for event in told if isinstance(event, ToolEvent)]
    assert [(step.arguments["code"], step.completed) for step in steps] == [
        ("made = 2", False),
        ("made = 2", True),
        (DYING[how], False),
    ]
    shown = desk.kernel.run("%agent show").text
    assert "made = 2" in shown
    assert DYING[how].splitlines()[-1] in shown
    assert "· running" not in shown
    assert "kernel" in shown
    assert agent(desk, how, cell_id="dying").status == "ok"
    assert desk.statuses() == ["done", "replaced", "done"]


# -- the user's variable overwritten

OVERWRITING = {
    "bound anew": "sales = 'gone'",
    "changed in place": "sales['price'] = 0",
    "deleted": "del sales",
    "in a loop": "for sales in range(3): pass",
    "by import": "import json as sales",
    "by a function": "def f():\n    global sales\n    sales = 1\nf()",
}


ENDS = {
    "done": DONE,
    "unable": "call('return_unable', rationale='no', blockers=['none'])",
    "question": "call('ask_user', question='Which?')",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how", OVERWRITING)
def test_record_names_overwritten_variable(shared: Desk, how: str, end: str) -> None:
    shared.kernel.run("import pandas as pd\nsales = pd.DataFrame({'price': [1, 2]})")
    shared.use(running(OVERWRITING[how], ENDS[end]))
    cell = agent(shared, how, cell_id=f"overwriting {how} {end}")
    named = re.findall(r"^ *(?:Changed your|Deleted:) (.*)$", cell.text, re.M)
    assert any("sales" in names for names in named), cell.text


def test_turns_own_variable_is_not_called_users(shared: Desk) -> None:
    shared.use(running("fresh = 1", f"call('run_code', code='fresh = 2'), {DONE}"))
    assert "Changed your" not in agent(shared, "bind", cell_id="fresh").text


# -- endless output

ENDLESS = {
    "print": "print('x' * 1_000)",
    "write": "import sys; sys.stderr.write('x' * 1_000)",
    "display": "display('x' * 1_000)",
    "child": "import os; os.write(1, b'x' * 1_000)",
}


@pytest.mark.parametrize("how", ENDLESS)
def test_endless_output_is_stopped_and_bounded(desk: Desk, bell: Bell, how: str) -> None:
    source = (
        "import itertools\nfor n in itertools.count():\n"
        f"    {ENDLESS[how]}\n    if n == 5_000:\n        {bell.ring}"
    )
    desk.use(code(source))
    request = desk.kernel.begin(f"%%agent --approve auto\n{how}", cell_id="endless")
    bell.wait()
    desk.kernel.interrupt()
    cell = desk.kernel.end(request)
    assert cell.status == "error"
    assert "Stopped" in cell.text
    assert len(cell.text) < 200_000
    assert desk.statuses() == ["cancelled"]
    on_disk = sum(path.stat().st_size for path in (desk.folder / ".ockham").rglob("*.sqlite*"))
    assert on_disk < 3_000_000
    assert_usable(desk)


# -- SIGINT


@pytest.mark.parametrize("phase", RUNNING)
def test_stop_and_double_stop_end_one_turn(shared: Desk, phase: str) -> None:
    model, sign = RUNNING[phase]
    shared.kernel.run("mine = [1, 2]")
    for presses in (1, 2):
        shared.use(model)
        request = shared.kernel.begin(f"%%agent --approve auto\n{phase}", cell_id=f"stop {phase}")
        shared.kernel.until(request, sign)
        for _ in range(presses):
            shared.kernel.interrupt()
        cell = shared.kernel.end(request)
        assert cell.status == "error"
        assert "Stopped" in cell.text
        assert cell.of_type("error") == []
        assert printed(shared.kernel, "mine") == "[1, 2]"
        history = shared.kernel.run("%agent history").text
        assert "cancelled" in history
        assert "running" not in history
    assert_usable(shared)


def test_stop_during_question_leaves_it_waiting(desk: Desk) -> None:
    desk.use(f"ScriptedModel([call('ask_user', question='Which?'), {DONE}])")
    agent(desk, "ask", cell_id="asking")
    desk.kernel.interrupt()
    desk.kernel.interrupt()
    assert printed(desk.kernel, "6 * 7") == "42"
    assert desk.statuses() == ["suspended"]
    assert desk.kernel.run("%agent answer this one").status == "ok"
    assert desk.statuses() == ["done"]


STRIKE = """
import os, signal
from contextlib import contextmanager
from parsimony_kernel.storage import database

_transaction = database.Database.transaction

def _strike(nth, number):
    count = 0

    @contextmanager
    def transaction(self, *, synced=False):
        nonlocal count
        with _transaction(self, synced=synced) as db:
            yield db
            count += 1
            if count == nth:
                os.kill(os.getpid(), number)

    database.Database.transaction = transaction
"""
# The transactions of a turn of one step, from its first.
WRITES = range(1, 11)


def test_stop_during_journal_write_tears_no_entry(desk: Desk) -> None:
    assert desk.kernel.run(STRIKE).status == "ok"
    outcomes: list[str] = []
    for nth in WRITES:
        desk.use(running("made = 1"))
        desk.kernel.run("%agent history")
        desk.kernel.run(f"_strike({nth}, signal.SIGINT)")
        cell = agent(desk, f"write {nth}", cell_id=f"write {nth}")
        desk.kernel.run("database.Database.transaction = _transaction")
        assert cell.of_type("error") == []
        first, _, _ = cell.text.partition("\n")
        assert first == (SUMMARY if cell.status == "ok" else "Stopped · by the user"), cell.text
        outcomes.append(cell.status)
        assert "running" not in desk.statuses()
        assert printed(desk.kernel, "6 * 7") == "42"
    assert outcomes[0] == "error"
    assert_usable(desk)


# -- SIGKILL


@pytest.mark.parametrize("phase", PHASES)
def test_kernel_killed_twice_loses_nothing(desk: Desk, phase: str) -> None:
    desk.use(KEEP)
    assert agent(desk, "keep", cell_id="kept").status == "ok"
    whole = desk.events(desk.turns()[0])
    model, sign = RUNNING[phase]
    for time in (1, 2):
        desk.use(model)
        request = desk.kernel.begin(f"%%agent --approve auto\n{phase}", cell_id="killed")
        desk.kernel.until(request, sign)
        desk.kill()

        assert "cancelled" in desk.kernel.run("%agent history").text
        before = ["replaced"] * (time - 1)
        assert desk.statuses() == ["done", *before, "cancelled"]
        *_, last = desk.turns()
        begun, *since = desk.events(last)
        assert isinstance(begun, RunStarted)
        if "run_code" in model:
            steps = [event for event in since if isinstance(event, ToolEvent)]
            assert [step.completed for step in steps] == [False]
        assert "Nothing" in desk.kernel.run("%agent artifacts").text
    desk.use(KEEP)
    assert agent(desk, phase, cell_id="killed").status == "ok"
    assert printed(desk.kernel, "kept") == "42"
    assert desk.statuses() == ["done", "replaced", "replaced", "done"]
    assert desk.events(desk.turns()[0]) == whole


def test_question_outlives_two_killed_kernels(desk: Desk) -> None:
    write = "open('ledger.txt', 'a').write('1')"
    asking = f"ScriptedModel([call('run_code', code={write!r}), call('ask_user', question='?')])"
    desk.use(asking)
    agent(desk, "ask", cell_id="asking")
    for _ in range(2):
        desk.kill()
        desk.use(f"ScriptedModel([{DONE}])")
        assert desk.statuses() == ["suspended"]
    assert desk.kernel.run("%agent answer go on").status == "ok"
    assert desk.statuses() == ["done"]
    assert (desk.folder / "ledger.txt").read_text() == "1"
    assert "No turn waits" in desk.kernel.run("%agent answer go on").text


def test_approved_started_work_is_not_repeated_after_kill(desk: Desk, bell: Bell) -> None:
    source = (
        "import subprocess\nsubprocess.run('echo 1 >> ledger.txt', shell=True)\n"
        f"{bell.ring}\nwhile True: pass"
    )
    desk.use(code(source))
    desk.kernel.run("%%agent\nwrite", cell_id="writing")
    assert desk.statuses() == ["suspended"]
    desk.kernel.begin("%agent answer Run it")
    bell.wait()
    desk.kill()
    desk.use(f"ScriptedModel([{DONE}])")
    assert "No turn waits" in desk.kernel.run("%agent answer Run it").text
    assert desk.statuses() == ["cancelled"]
    assert (desk.folder / "ledger.txt").read_text() == "1\n"


@pytest.mark.parametrize("answer", ["It did", "It did not"])
def test_started_work_is_asked_about_after_kill(desk: Desk, bell: Bell, answer: str) -> None:
    """In another cell, and where nobody has to be asked: what it did outside is not known."""
    source = (
        "import subprocess\nfor each in range(1):\n"
        "    done = subprocess.run('echo 1 >> ledger.txt', shell=True)\n    if RINGS:\n"
        f"        {bell.ring}\n        while True: pass"
    )
    desk.use(code(source))
    desk.kernel.run("RINGS = True")
    desk.kernel.begin("%%agent --approve auto\nwrite", cell_id="writing")
    bell.wait()
    desk.kill()
    desk.kernel.run("RINGS = False")
    desk.use(running(source, f"{DONE}, call('run_code', code={source!r}), {DONE}"))
    asked = desk.kernel.run("%%agent --approve auto\nwrite", cell_id="another").text
    assert "Did it happen?" in asked
    assert (desk.folder / "ledger.txt").read_text() == "1\n"
    desk.kernel.run(f"%agent answer {answer}")
    assert (desk.folder / "ledger.txt").read_text() == "1\n"
    # It is known now, so that nobody is asked again.
    again = desk.kernel.run("%%agent --approve auto\nwrite", cell_id="third").text
    assert "Did it happen?" not in again
    assert (desk.folder / "ledger.txt").read_text() == "1\n1\n"


def test_kill_during_journal_write_tears_no_entry(desk: Desk) -> None:
    write = "with open('ledger.txt', 'a') as f: f.write('1')"
    for nth in WRITES:
        desk.use(running(write))
        desk.kernel.run("%agent history")
        assert desk.kernel.run(STRIKE).status == "ok"
        known = len(desk.turns())
        desk.kernel.run(f"_strike({nth}, signal.SIGKILL)")
        desk.kernel.begin(f"%%agent --approve auto\nwrite {nth}", cell_id=f"write {nth}")
        desk.await_death()
        desk.use(KEEP)
        desk.kernel.run("%agent history")
        begun = desk.turns()[known:]
        # The first transaction is the turn itself: without it nothing ever began.
        assert [turn.status for turn in begun] == ([] if nth == 1 else ["cancelled"])
        for turn in begun:
            desk.events(turn)
    ledger = (desk.folder / "ledger.txt").read_text()
    assert len(ledger) <= len(WRITES)
    assert_usable(desk)
