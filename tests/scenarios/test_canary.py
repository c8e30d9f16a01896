"""Secrets in every place where one can come in, looked for in every byte that goes out.

What is the person's own stays as it is: the data, the procedure and their names on the disk.
"""

import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.llm.cassette_mode import CassetteMode
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls
from parsimony_kernel.tools import Tools, tool
from tests.scenarios.notebooks import shown, told
from tests.session.session_steps import question

# The secret is what follows the name; each is told apart from all others by its first word.
IN_ENVIRONMENT = 'canary-env "ünd&<more>\\'
OF_THE_MODEL = "canary-model-own"
IN_ADDRESS = "canary-address"
BEARER = "canaryBearer.9f2C-71"
IN_DICT = "canaryDict&3;x"
UNDER_NAME = "canaryNamed"
IN_COLUMN = "canaryColumn"
IN_INDEX = "canaryIndex"
IN_FILE_NAME = "canaryFileName1"
IN_ERROR = "canaryError&4"
IN_REQUEST = "canaryRequest5"
IN_QUESTION = "canaryQuestion6"
IN_CHOICE = "canaryChoice7"
IN_REPLY = "canaryReply8"
IN_PROCEDURE = "canaryProcedure9"
IN_CODE = "canaryCode10"
IN_PROSE = "canaryProse11"
IN_SUMMARY = "canarySummary12"
IN_PRINTED = "canaryPrinted13"
IN_TITLE = "canaryTitle14"
# Whatever is left of one begins so.
CANARY = re.compile(r"canary[-A-Z][\w-]*")

ENVIRON = {
    "WAREHOUSE_TOKEN": IN_ENVIRONMENT,
    "DATABASE_URL": f"postgresql://reader:{IN_ADDRESS}@db.example/x",
}
MINE = f"""
import pandas as pd

creds = {{"user": "u", "password": {IN_DICT!r}}}
headers = {{"Authorization": {"Bearer " + BEARER!r}}}
db_password = {UNDER_NAME!r}
spoken = {"the key is " + OF_THE_MODEL!r}
url = {ENVIRON["DATABASE_URL"]!r}
people = pd.DataFrame({{"name": ["a"], "password": [{IN_COLUMN!r}], "token": ["word"]}})
by_key = pd.DataFrame({{"n": [1]}}, index=pd.Index([{IN_INDEX!r}], name="api_key"))
"""
OPENED = (".ockham", "cassettes", "reports")


class Keeping(ScriptedModel):
    """A scripted model with a key of its own, that is also asked to say it."""

    secrets = (OF_THE_MODEL,)


@dataclass
class Place:
    """A notebook whose every kernel is watched."""

    folder: Path
    executor: CodeExecutor
    scripted: Callable[..., NotebookSession]
    models: list[Keeping] = field(default_factory=list)
    events: list[ev.AgentEvent] = field(default_factory=list)

    def open(self, *steps: Step) -> NotebookSession:
        model = Keeping(steps)
        self.models.append(model)
        return self.scripted(model=model, executor=self.executor, environ=ENVIRON)

    async def follow(self, stream: AsyncIterator[ev.AgentEvent]) -> list[ev.AgentEvent]:
        events = await told(stream)
        self.events += events
        return events

    async def turn(self, session: NotebookSession) -> list[ev.AgentEvent]:
        """A turn that asks nobody."""
        options = TurnOptions(approve=Approval.auto)
        return await self.follow(session.turn("go", cell_key="a", options=options))

    @property
    def written(self) -> bytes:
        """Every byte below the folders that are ours."""
        paths = sorted(path for name in OPENED for path in (self.folder / name).rglob("*"))
        return b"\n".join(path.read_bytes() for path in paths if path.is_file())

    @property
    def requests(self) -> list[ModelRequest]:
        return [request for model in self.models for request in model.requests]


@pytest.fixture
async def place(tmp_path: Path, scripted: Callable[..., NotebookSession]) -> Place:
    executor = CodeExecutor(cwd=str(tmp_path))
    assert (await executor.execute(MINE)).error is None
    (tmp_path / f"export_password={IN_FILE_NAME}.csv").write_text("x\n1\n")
    (tmp_path / "task.yaml").write_text(
        f"constraints:\n  - Never print password={IN_PROCEDURE}\n", "utf-8"
    )
    return Place(tmp_path, executor, scripted)


def found_in(text: str) -> list[str]:
    return CANARY.findall(text)


def assert_clean(place: Place, *texts: str) -> None:
    """``AssertionError`` where a canary is in a file, in a request, in an event or in ``texts``."""
    assert found_in(place.written.decode("utf-8", "replace")) == []
    for request in place.requests:
        asked = json.dumps([request.messages, request.tools], ensure_ascii=False, default=str)
        assert found_in(asked) == []
    for event in place.events:
        assert found_in(event.model_dump_json()) == [], event
    assert found_in(shown(place.events)) == []
    for text in texts:
        assert found_in(text) == []


def answered(events: Sequence[ev.AgentEvent], name: str) -> list[ev.ToolEvent]:
    return [
        event
        for event in events
        if isinstance(event, ev.ToolEvent) and event.completed and event.tool_name == name
    ]


async def test_secret_never_leaves_a_turn(
    place: Place, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="parsimony_kernel")
    session = place.open(
        calls(
            call("run_code", code=f"password = 'x{IN_CODE}'\nlen(password)"),
            text=f"I use password={IN_PROSE} and {OF_THE_MODEL}.",
        ),
        call("run_code", code=f"print('api_key={IN_PRINTED}'); creds"),
        call("run_code", code="people"),
        call("run_code", code="by_key"),
        call("run_code", code="spoken, headers, url"),
        call("run_code", code=f"raise ValueError('password={IN_ERROR}')"),
        call(
            "ask_user",
            question=f"Is the password={IN_QUESTION} right?",
            context=f"Authorization: Bearer {BEARER}",
            choices=[f"password={IN_CHOICE}", "no"],
        ),
        call("return_done", summary=f"Connected with password={IN_SUMMARY}."),
    )
    options = TurnOptions(
        approve=Approval.auto, procedure="task.yaml", cassette=CassetteMode.record
    )
    request = f"Connect with password={IN_REQUEST}, or {IN_ENVIRONMENT}, or {IN_ADDRESS}."
    asked = await place.follow(session.turn(request, cell_key="a", options=options))
    question(asked)
    ended = await place.follow(session.resume(f"it is password={IN_REPLY}"))
    assert isinstance(ended[-1], ev.RunCompleted)
    assert len(answered(asked, "run_code")) == 6
    printed = capfd.readouterr()
    assert_clean(place, caplog.text, printed.out, printed.err, session.turns()[-1].request)
    assert REDACTED in place.written.decode("utf-8", "replace")
    assert (place.folder / "cassettes").is_dir()
    assert session.journal.verify() is None


async def test_executed_code_equals_written_code(place: Place) -> None:
    session = place.open(
        call("run_code", code=f"password = '{IN_CODE}'\nn = len(password)"),
        call("return_done", summary="done"),
    )
    await place.turn(session)
    assert place.executor.variables()["n"] == len(IN_CODE)
    assert_clean(place)


async def test_call_with_secret_is_not_shown_for_approval(place: Place) -> None:
    shell = "import subprocess\nsubprocess.run(['true'], env={'K': %r})"
    session = place.open(
        call("run_code", code=shell % f"password={IN_CODE}"),
        call("run_code", code="import os, subprocess\nsubprocess.run(['true'])"),
    )
    events = await place.follow(session.turn("go", cell_key="a"))
    first, *_ = answered(events, "run_code")
    assert first.result is not None
    assert first.result["error"] == "validation_failed"
    assert "os.environ" in first.result["message"]
    held = question(events).suspension_record.pending_call
    assert held is not None
    assert "subprocess" in held.arguments
    assert_clean(place)


PUBLISHING: list[Callable[[], Any]] = [
    lambda: call("return_dataset", variable="made", title="Made"),
    lambda: call("return_notebook", name="made"),
    lambda: call("return_notebook", name="made", code=f"password = '{IN_CODE}'\n"),
    lambda: call("return_report", title="Made", body=f"We used password={IN_TITLE} for it."),
]


@pytest.mark.parametrize("publish", PUBLISHING)
async def test_secret_is_not_published(place: Place, publish: Callable[[], Any]) -> None:
    session = place.open(
        call("run_code", code=f"password = '{IN_CODE}'\nmade = people[['name']].copy()"),
        publish(),
        call("return_unable", rationale="the code holds a key", blockers=["a key"]),
    )
    events = await place.turn(session)
    (refused,) = [e for e in events if isinstance(e, ev.ToolEvent) and e.ok is False]
    assert refused.result is not None
    assert "os.environ" in refused.result["message"]
    assert session.artifacts() == ()
    assert isinstance(events[-1], ev.Handoff)
    assert_clean(place)


async def test_write_record_hides_secret_and_still_matches(place: Place) -> None:
    sent: list[str] = []

    @tool(effect="write")
    async def send(password: str, text: str) -> dict[str, str]:
        """Send a text."""
        sent.append(password)
        return {"password": password, "text": text}

    again = [call("send", password=word, text="x") for word in (IN_CODE, IN_CODE, IN_TITLE)]
    session = place.open(*again, call("return_done", summary="done"))
    session.tools.added = lambda: Tools([send])  # type: ignore[method-assign]
    await place.turn(session)
    assert sent == [IN_CODE, IN_TITLE]
    assert_clean(place)
