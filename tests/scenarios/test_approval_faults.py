"""What can go wrong between a person's leave and the action, and that only what was shown is done.

Leave is for one run of exactly one action: whatever is changed meanwhile is asked about again or
refused, and however often and from wherever it is given, the action runs once.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.storage import seal
from parsimony_kernel.testing.scripted import call
from parsimony_kernel.tools import Tool, tool
from tests.session.session_steps import question

from .notebooks import DONE, Notebook, answered, begun, refusal_of, turn

THOUSAND = 1_000
SHELL = "import subprocess\nsubprocess.run('echo 1 >> ledger.txt', shell=True, check=True)"
CHANGED = SHELL.replace("ledger", "evil")


def ledger(notebook: Notebook) -> str:
    """What the action has written."""
    path = notebook.folder / "ledger.txt"
    return path.read_text() if path.exists() else ""


def sending(sent: list[str]) -> Tool:
    @tool(effect="write")
    async def send(to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return f"sent to {to}"

    return send


async def asking(
    notebook: Notebook, *, tools: Any = (), clock: Clock | None = None
) -> NotebookSession:
    """A session in which code waits to be allowed."""
    code = call("run_code", code=SHELL)
    session = notebook.open(code, DONE, tools=tools, clock=clock)
    asked = question(await turn(session, approve=Approval.guarded))
    assert asked.question == "May this code run?"
    return session


# -- arguments changed between approval and run

Change = Callable[[dict[str, Any]], None]


def in_call(**fields: Any) -> Change:
    return lambda record: record["pending_call"].update(fields)


def in_messages(record: dict[str, Any]) -> None:
    for message in record["messages"]:
        for made in message.get("tool_calls") or ():
            made["function"]["arguments"] = json.dumps({"code": CHANGED})


def everywhere(record: dict[str, Any]) -> None:
    in_messages(record)
    in_call(arguments=json.dumps({"code": CHANGED}))(record)


TAMPERED: dict[str, Change] = {
    "arguments": in_call(arguments=json.dumps({"code": CHANGED})),
    "one more argument": in_call(arguments=json.dumps({"code": SHELL, "purpose": "x"})),
    "white space": in_call(arguments=json.dumps({"code": SHELL}, indent=1)),
    "tool": in_call(name="send", arguments=json.dumps({"to": "eve"})),
    "hash": in_call(sha="0" * 64),
    "leave": in_call(allowed=True),
    "the conversation": in_messages,
    "all of it": everywhere,
    "the question": lambda record: record.update(pending_question="May nothing run?"),
    "the choices": lambda record: record.update(choices=["Don't", "Run it"]),
    "no call": lambda record: record.update(pending_call=None),
    "no seal": lambda record: record.update(seal=""),
}


@pytest.mark.parametrize("reply", ["Run it", "Don't"])
@pytest.mark.parametrize("what", TAMPERED)
async def test_code_changed_on_disk_is_not_run(notebook: Notebook, what: str, reply: str) -> None:
    sent: list[str] = []
    session = await asking(notebook, tools=[sending(sent)])
    (row,) = session.journal.pending()
    record = row.record.model_dump(mode="json")
    TAMPERED[what](record)
    with session.journal.transaction() as db:
        db.execute("UPDATE suspensions SET record = ?", (json.dumps(record),))
    said = await refusal_of(session.resume(reply))
    assert "seal" in said
    assert (ledger(notebook), sent) == ("", [])
    assert not (notebook.folder / "evil.txt").exists()
    assert [each.status for each in session.turns()] == ["suspended"]


ALLOWED = {
    "approve": "auto",
    "share": "full",
    "max_cost_usd": 1_000.0,
    "max_tokens": 1_000_000,
    "max_iterations": 1_000_000,
    "procedure": "other.yaml",
    "effort": "high",
}


@pytest.mark.parametrize("what", ALLOWED)
async def test_permissions_are_under_the_seal(notebook: Notebook, what: str) -> None:
    """Whoever may write the journal may also chain its entries again."""
    session = await asking(notebook)
    with session.journal.transaction() as db:
        prev = seal.GENESIS
        for seq, run_id, at, text in db.execute("SELECT seq, run_id, at, body FROM events"):
            body = json.loads(text)
            if body["type"] == "run_started":
                assert body[what] != ALLOWED[what]
                text = seal.canonical({**body, what: ALLOWED[what]})
            own = seal._link(prev, run_id, at, text)
            db.execute(
                "UPDATE events SET body = ?, prev = ?, hash = ? WHERE seq = ?",
                (text, prev, own, seq),
            )
            prev = own
    said = await refusal_of(session.resume("Run it"))
    assert "changed in the journal" in said
    assert ledger(notebook) == ""


MEANT = {
    "a file to delete": ("import os\nos.remove(target)", "mine.txt", "theirs.txt"),
    "a file to write": ("open(target, 'w').write('x')", "../mine.txt", "../theirs.txt"),
    "a program": (
        "import subprocess\nsubprocess.run(target, shell=True)",
        "echo 1 >> ledger.txt",
        "rm theirs.txt",
    ),
    "a folder to delete": ("import shutil\nshutil.rmtree(target)", "mine", "theirs"),
    "an address": (
        "import urllib.request\nurllib.request.urlopen(target)",
        "http://mine.invalid/",
        "http://theirs.invalid/",
    ),
}


@pytest.mark.parametrize("what", MEANT)
async def test_name_may_not_change_between_approval_and_run(notebook: Notebook, what: str) -> None:
    code, mine, theirs = MEANT[what]
    for name in ("mine", "theirs"):
        (notebook.folder / f"{name}.txt").write_text("here")
        (notebook.folder / name).mkdir()
    executor = CodeExecutor(cwd=str(notebook.folder))
    executor.locals["target"] = mine
    session = notebook.open(call("run_code", code=code), DONE, executor=executor)
    question(await turn(session, approve=Approval.guarded))
    executor.locals["target"] = theirs
    again = question(await answered(session, "Run it"))
    assert again.question == "May this code run?"
    assert not (notebook.folder.parent / "theirs.txt").exists()
    assert (notebook.folder / "theirs.txt").exists()
    assert (notebook.folder / "theirs").exists()
    assert ledger(notebook) == ""


# -- a thousand clicks


async def outcome(events: Any) -> str:
    """What came of one answer among many."""
    try:
        told: list[AgentEvent] = [event async for event in events]
    except SessionError as error:
        return f"refused: {error}"
    return "ran" if begun(told, "run_code") else "did not run"


@pytest.mark.parametrize("sessions", [1, 4])
async def test_thousand_answers_are_one(notebook: Notebook, sessions: int) -> None:
    first = await asking(notebook)
    all_of_them = [first, *(notebook.open(DONE) for _ in range(sessions - 1))]
    came = await asyncio.gather(
        *(outcome(all_of_them[n % sessions].resume("Run it")) for n in range(THOUSAND))
    )
    came += [await outcome(first.resume("Run it")) for _ in range(THOUSAND)]
    assert {each.partition(":")[0] for each in came} == {"ran", "refused"}
    assert came.count("ran") == 1
    assert came[-1].startswith("refused: No question is")
    assert ledger(notebook) == "1\n"
    assert [each.status for each in first.turns()] == ["done"]


# -- two processes answer at once

ANSWERING = """
import asyncio
from pathlib import Path
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from tests.scenarios.test_approval_faults import DONE, Notebook, outcome

notebook = Notebook(Path(place))
session = notebook.open(DONE, clock=SYSTEM_CLOCK)
wait()
print(asyncio.run(outcome(session.resume(REPLY))))
notebook.close()
"""
MIXED = "'Run it' if int(me[1:]) % 2 else \"Don't\""


@pytest.mark.slow
@pytest.mark.parametrize("reply", ["'Run it'", MIXED], ids=["all allow", "half allow"])
async def test_one_of_many_answering_processes_is_heard(
    notebook: Notebook, race: Callable[[str, Path], list[str]], reply: str
) -> None:
    session = await asking(notebook, clock=SYSTEM_CLOCK)
    program = ANSWERING.replace("REPLY", reply)
    came = await asyncio.to_thread(race, program, notebook.folder)
    heard = [each for each in came if not each.startswith("refused: ")]
    assert len(heard) == 1, came
    if reply != MIXED:
        assert heard == ["ran"]
    assert ledger(notebook) == ("1\n" if heard == ["ran"] else "")
    assert [each.status for each in session.turns()] == ["done"]
    assert session.journal.verify() is None
    assert "No question" in await refusal_of(session.resume("Run it"))
