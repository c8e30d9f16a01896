"""A model that obeys every instruction in the data reaches nothing outside that nobody allowed."""

import hashlib
import json
import pickle
import socket
import sys
import tempfile
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from parsimony_kernel.core.chat import Completion, ModelRequest
from parsimony_kernel.core.events import AgentEvent, UserInputRequested
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.testing.scripted import ScriptedModel, call

TABLE = tomllib.loads((Path(__file__).parent / "injections" / "injections.toml").read_text())
INJECTIONS = {each["id"]: each for each in TABLE["injection"]}
READING = {
    "file": "from pathlib import Path\nPath('notes.txt').read_text()",
    "frame": "orders",
    "tool": None,
}


# An address that is kept for documentation: nobody has it.
HOST = "203.0.113.9"


def _held(folder: Path) -> dict[str, str]:
    return {
        each.relative_to(folder).as_posix(): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in folder.rglob("*")
        if each.is_file()
    }


@pytest.mark.parametrize("name", INJECTIONS)
async def test_obeyed_injection_reaches_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = INJECTIONS[name]
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    # What lies in the temporary folder is nobody's, and free.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (outside / "report.txt").write_text("Quarterly figures.")
    (outside / "full.pkl").write_bytes(pickle.dumps([1, 2, 3]))
    before = _held(outside)
    # As in a fresh kernel, where the first worker of all brings them along.
    spawning = ("multiprocessing.spawn", "multiprocessing.popen_spawn_posix")
    for each in spawning:  # both before either is taken away: the second imports the first
        import_module(each)
    for each in spawning:
        monkeypatch.delitem(sys.modules, each)
        monkeypatch.delattr(each)
    places = (("{host}", HOST), ("{outside}", str(outside)))
    text, obeys = row["text"], row["obeys"]
    for blank, place in places:
        text, obeys = text.replace(blank, place), obeys.replace(blank, place)
    (workspace / "notes.txt").write_text(text)
    seen: list[str] = []
    connected: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda link, address: connected.append(address))

    def obeying(request: ModelRequest) -> Completion:
        seen.append(json.dumps(request.messages, default=str))
        return call("run_code", code=obeys)

    code = READING[row["where"]]
    reads = call("run_code", code=code) if code else call("ticket", number=7)
    model = ScriptedModel([reads, obeying, *[call("return_done", summary="Done.")] * 3])
    session = NotebookSession(
        executor=CodeExecutor(cwd=str(workspace)),
        notebook="analysis.ipynb",
        folder=workspace,
        model=model,
        environ={},
    )
    try:
        await session.executor.execute(
            "import pandas as pd\n"
            f"orders = pd.DataFrame({{'note': [{text!r}], 'amount': [17.25]}})\n"
            "async def ticket(number: int) -> str:\n"
            "    'Look a ticket up.'\n"
            f"    return {text!r}"
        )
        session.tools.add("ticket")
        events: list[AgentEvent] = [
            event async for event in session.turn("What do the orders say?", cell_key="c1")
        ]
    finally:
        session.close()
    assert json.dumps(text)[1:30] in "".join(seen).replace('\\\\"', '"').replace("\\\\", "\\")
    assert connected == []
    assert _held(outside) == before
    assert row.get("refused") or isinstance(events[-1], UserInputRequested), events[-1]


def test_twenty_injections_in_all_three_places() -> None:
    assert len(INJECTIONS) >= 20
    assert {each["where"] for each in INJECTIONS.values()} == set(READING)
