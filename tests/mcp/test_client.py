"""Tools from MCP servers: from the settings file to the gate, with every fault of a server."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core import events as ev
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import Share
from parsimony_kernel.testing.kernel_process import live_kernel
from parsimony_kernel.testing.scripted import Step, call
from parsimony_kernel.toolbox.mcp_client import Server, ServerError, servers_of
from parsimony_kernel.tools import Tools
from tests.session.session_steps import gather, question, turn

HERE = Path(__file__).parent
Start = Callable[..., NotebookSession]


def entry(script: str, *args: str, **more: Any) -> dict[str, Any]:
    """A server of this folder, as a settings file names it."""
    return {"command": sys.executable, "args": [str(HERE / script), *args], **more}


DONE = call("return_done", summary="done")
SERVERS = {
    "raw": entry("raw_server.py", env={"COLOUR": "${COLOUR:-blue}"}),
    "other": entry("other_server.py"),
}


def add_server(session: NotebookSession, name: str) -> Tools:
    """Say yes to a server's command line, and start it."""
    session.tools.servers.find(name).allow()
    return session.tools.servers.start(name).result()


def state_of(session: NotebookSession, name: str) -> str:
    """What `%agent tools` says of a server."""
    return {each: state for each, _, state in session.tools.servers.listing()}[name]


def answers(events: Sequence[ev.AgentEvent]) -> list[str]:
    """What the model read of each call."""
    return [event.content for event in events if isinstance(event, ev.ToolResultObserved)]


@pytest.fixture
def start(tmp_path: Path, scripted: Start) -> Start:
    """Open a session with a model that does what the steps say."""

    def begin(
        steps: Sequence[Step] = (), servers: Mapping[str, Any] = SERVERS, add: Sequence[str] = ()
    ) -> NotebookSession:
        (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        session = scripted(*steps)
        for name in add:
            add_server(session, name)
        return session

    return begin


# -- settings, and the person's yes


def test_nearest_settings_name_a_server(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    one = {"command": "near", "args": ["a b"]}
    two = {"type": "http", "url": "http://x", "headers": {"KEY": "${KEY}"}}
    above = {"one": {"command": "far"}, "three": {"command": "up", "env": {"A": "b"}}}
    (below / ".mcp.json").write_text(json.dumps({"mcpServers": {"one": one, "two": two}}))
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": above}))
    found = servers_of(below, tmp_path)
    assert {name: server.line for name, server in found.items()} == {
        "one": "near 'a b'",
        "two": "http://x (with KEY)",
        "three": "up (with A)",
    }
    assert found["one"].folder == below
    assert found["three"].folder == tmp_path
    assert found["two"].filled({"KEY": 'a"b'}).headers == {"KEY": 'a"b'}


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"args": ["-m", "evil"]}, False),
        ({"env": {"NODE_OPTIONS": "--require evil"}}, False),
        ({"folder": "/elsewhere"}, False),
        ({"name": "renamed"}, True),
        ({"source": "/moved/.mcp.json"}, True),
    ],
)
def test_consent_covers_one_command_line(change: dict[str, Any], is_same: bool) -> None:
    given = {"name": "a", "source": "/x/.mcp.json", "folder": "/x", "command": "uvx"}
    before = Server.model_validate(given)
    after = Server.model_validate(given | change)
    assert (after.permission == before.permission) is is_same


def test_server_is_listed_and_starts_after_consent(start: Start) -> None:
    session = start()
    line = f"{sys.executable} {HERE / 'raw_server.py'} (with COLOUR)"
    assert session.tools.servers.listing()[0] == ("raw", line, "not started")
    with pytest.raises(ServerError, match="Nobody has allowed this to be started"):
        session.tools.servers.start("raw")
    assert state_of(session, "raw") == "not started"
    assert "raw__add" in add_server(session, "raw")
    assert state_of(session, "raw") == "running"
    session.tools.remove("mcp:raw")
    assert dict(session.tools.added()) == {}
    assert "raw__add" in session.tools.servers.start("raw").result()


@pytest.mark.parametrize(
    ("name", "servers", "says"),
    [
        ("tim", SERVERS, "There is no MCP server 'tim' in .mcp.json: raw, other"),
        ("x", {"x": {"command": "no-such-program"}}, "no program 'no-such-program': install it"),
        ("x", {"x": {}}, "'x' in .* needs a command or a url"),
        ("x", {"x": {"command": "python", "args": "abc"}}, r"\.mcp\.json cannot be read"),
        ("x", {"x": entry("raw_server.py", env={"K": "${GONE}"})}, "the environment variable GONE"),
        ("x", {"x": entry("no_such.py")}, "No such file or directory"),
        ("x", {"x": {"url": "http://127.0.0.1:9/mcp"}}, "'x' cannot be used: .*"),
    ],
)
def test_unusable_server_names_reason(start: Start, name: str, servers: Any, says: str) -> None:
    session = start(servers=servers)
    with pytest.raises(ServerError, match=says):
        add_server(session, name)


def test_missing_package_is_named(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ServerError, match=r'pip install "parsimony-kernel\[mcp\]"'):
        start(add=["raw"])


@pytest.mark.kernel
def test_command_asks_consent_and_lists_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": SERVERS}))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    with live_kernel(tmp_path) as kernel:
        listed = kernel.run("%agent tools").text
        assert "raw_server.py (with COLOUR)" in listed
        assert "not started" in listed
        refused = kernel.run("%agent tools add mcp:raw").text
        assert "To allow it from now on: %agent tools --yes add mcp:raw" in refused
        assert "Tool: raw__add." in kernel.run("%agent tools --yes add mcp:raw").text
        assert "running" in kernel.run("%agent tools").text
        assert "no longer a tool" in kernel.run("%agent tools remove mcp:raw").text
        again = kernel.run("%agent tools add mcp:raw").text
        assert "Starting raw …" in again
        assert "Tool: raw__add." in again


@pytest.mark.kernel
def test_stop_ends_server_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "server.pid"
    silent = entry("raw_server.py", "--silent", f"--pid={mark}")
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"raw": silent}}))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    with live_kernel(tmp_path) as kernel:
        kernel.run("%agent")
        request = kernel.begin("%agent tools --yes add mcp:raw")
        kernel.until(request, "Starting raw …")
        while not (mark.exists() and mark.read_text()):
            time.sleep(0.01)
        began = time.monotonic()
        kernel.interrupt()
        stopped = kernel.end(request)
        assert "Stopped: the server was not started." in stopped.text
        assert time.monotonic() - began < 0.5
        assert_ends(int(mark.read_text()))


# -- what passes the gate


async def test_tool_is_called_with_valid_arguments(start: Start) -> None:
    steps = [call("raw__add", a="two"), call("raw__add", a=2, b=3), DONE]
    refused, answered = answers(await turn(start(steps, add=["raw"])))[:2]
    assert "'two' is not of type 'number'" in refused
    assert '"field": "a"' in refused
    assert '"5"' in answered


@pytest.mark.parametrize(
    ("tool", "approve", "asks"),
    [
        ("add", Approval.guarded, ""),
        ("order", Approval.guarded, "Raw__order writes outside the notebook"),
        ("order", Approval.auto, ""),
        ("touch", Approval.guarded, "Raw__touch does not say whether it changes something"),
        ("add", Approval.ask, ""),
        ("touch", Approval.ask, "Raw__touch does not say whether"),
    ],
)
async def test_annotations_decide_approval(
    start: Start, tool: str, approve: Approval, asks: str
) -> None:
    session = start([call(f"raw__{tool}", a=1), DONE], add=["raw"])
    events = await turn(session, approve=approve)
    assert isinstance(events[-1], ev.UserInputRequested) is bool(asks)
    if asks:
        assert asks in str(events[-1])
        events = await gather(session.resume("1"))
    assert isinstance(events[-1], ev.RunCompleted)


async def test_undeclared_effect_asks_once_a_turn(start: Start) -> None:
    session = start([call("raw__touch", a=1), call("raw__touch", a=2), DONE], add=["raw"])
    await turn(session)
    events = await gather(session.resume("1"))
    assert isinstance(events[-1], ev.RunCompleted)
    assert '"touch 2"' in answers(events)[1]


async def test_server_gets_only_named_variables(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    session = start([call("raw__environment"), DONE], add=["raw"])
    (names, *_) = answers(await turn(session))
    assert {"COLOUR", "PATH"} <= set(json.loads(names)["result"].split())
    assert "SECRET_TOKEN" not in names


async def test_share_schema_hides_answers_from_model(start: Start) -> None:
    session = start([call("raw__add", a=40, b=2), DONE], add=["raw"])
    (answer, *_) = answers(await turn(session, share=Share.schema))
    assert "42" not in answer
    assert "kept in the notebook" in answer


async def test_failing_call_says_why(start: Start) -> None:
    (failed, *_) = answers(await turn(start([call("other__fails"), DONE], add=["other"])))
    assert json.loads(failed)["error"] == "action_error"
    assert "Error executing tool fails" in failed


class OverHttp:
    """A server that is reached over HTTP, always at one address."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}/mcp"

    def begin(self) -> None:
        command = [sys.executable, str(HERE / "other_server.py"), "--http", str(self.port)]
        self._process = subprocess.Popen(command)
        while self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                break
            time.sleep(0.05)

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


@pytest.fixture
def far() -> Iterator[OverHttp]:
    server = OverHttp()
    server.begin()
    yield server
    server.end()


@pytest.mark.slow
async def test_server_is_reached_over_http(start: Start, far: OverHttp) -> None:
    servers = {"far": {"type": "http", "url": far.address, "headers": {"X-Key": "${KEY:-none}"}}}
    session = start([call("far__add", a=1), DONE], servers=servers, add=["far"])
    assert session.tools.servers.listing()[0][1] == f"{far.address} (with X-Key)"
    assert '"result": 2' in answers(await turn(session))[0]


@pytest.mark.slow
async def test_vanished_http_server_is_reconnected(start: Start, far: OverHttp) -> None:
    steps = [call("far__add", a=1), DONE, call("far__add", a=2), DONE]
    session = start(steps, servers={"far": {"url": far.address}}, add=["far"])
    far.end()
    lost, *_ = answers(await turn(session))
    assert "The MCP server 'far'" in lost
    far.begin()
    found, *_ = answers(await turn(session))
    assert '"result": 3' in found


@pytest.mark.slow
async def test_packaged_server_works(start: Start) -> None:
    zones = {"source_timezone": "Asia/Tokyo", "target_timezone": "Asia/Kolkata", "time": "12:00"}
    servers = {"time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]}}
    session = start([call("time__convert_time", **zones), DONE], servers=servers, add=["time"])
    events = await turn(session, approve=Approval.auto)
    assert "-3.5h" in answers(events)[0]
    assert isinstance(events[-1], ev.RunCompleted)


# -- what goes wrong with a server


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("raw__choose", "not supported"),
        (
            "raw__passes_on",
            "Elicitation not supported",
        ),  # a write: it is known not to have happened
        ("other__choose", "did not decl"),
    ],
)
async def test_asking_server_is_refused_and_goes_on(start: Start, tool: str, says: str) -> None:
    server = tool.partition("__")[0]
    session = start([call(tool), call(f"{server}__add", a=40, b=2), DONE], add=[server])
    events = await turn(session, approve=Approval.auto)
    asked, added, *_ = answers(events)
    assert says in asked
    assert "42" in added
    assert isinstance(events[-1], ev.RunCompleted)


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        (["raw__dies", "raw__dies"], ["ended before it answered; its last words: out of", "alive"]),
        (["raw__garbage"], ['"done"']),
        (["raw__huge"], ["xxx"]),
    ],
)
async def test_server_fault_is_reported_and_next_call_works(
    start: Start, calls: list[str], says: list[str]
) -> None:
    events = await turn(start([*map(call, calls), DONE, DONE], add=["raw"]))
    told = answers(events)
    for answer, words in zip(told, says, strict=False):
        assert words in answer
        assert len(answer) < 25_000
    assert isinstance(events[-1], ev.RunCompleted)


async def test_dead_server_is_restarted(start: Start) -> None:
    session = start([call("raw__pid"), DONE, call("raw__pid"), DONE], add=["raw"])
    (before, *_) = answers(await turn(session))
    pid = int(json.loads(before)["result"])
    os.kill(pid, signal.SIGKILL)
    assert_ends(pid)
    while state_of(session, "raw") == "running":
        await asyncio.sleep(0.01)
    (after, *_) = answers(await turn(session))
    assert int(json.loads(after)["result"]) != pid


async def test_write_on_dying_server_is_not_repeated(start: Start, tmp_path: Path) -> None:
    steps = [call("raw__dies_writing"), DONE]
    session = start(steps, add=["raw"])
    asked = question(await turn(session, approve=Approval.auto))
    assert asked.question == "Did raw__dies_writing take effect?"
    events = await gather(session.resume("It did"))
    assert isinstance(events[-1], ev.RunCompleted)
    assert (tmp_path / "orders").read_text() == "one\n"


async def test_hanging_server_is_restarted(start: Start) -> None:
    steps = [call("raw__pid"), call("raw__hangs"), call("raw__pid", a=1), DONE]
    servers = {"raw": entry("raw_server.py", timeout=1)}
    session = start(steps, servers=servers, add=["raw"])
    before, late, after, *_ = answers(await turn(session))
    assert "action_timeout" in late
    assert before != after
    assert_ends(int(json.loads(before)["result"]))


async def test_stop_ends_a_call(start: Start) -> None:
    session = start([call("raw__hangs")], add=["raw"])
    events: list[ev.AgentEvent] = []
    async for event in session.turn("go", cell_key="a"):
        events.append(event)
        if "hangs" in str(event):
            began = time.monotonic()
            session.stop()
    assert isinstance(events[-1], ev.RunCancelled)
    assert time.monotonic() - began < 0.5


async def test_later_added_tools_are_not_offered(start: Start) -> None:
    session = start([call("raw__grow"), DONE, call("raw__grown"), DONE], add=["raw"])
    await turn(session)
    assert "unknown_action" in answers(await turn(session))[0]


# -- how servers end


def assert_ends(pid: int, within_s: float = 8.0) -> None:
    """The process ends, or has ended."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
    raise AssertionError(f"the process {pid} still lives")


_HOLDS = """
import sys, time
from pathlib import Path
from parsimony_kernel.toolbox.mcp_client import Servers
folder = Path(sys.argv[1])
servers = Servers(folder, folder, {})
servers.find("raw").allow()
servers.start("raw").result()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a server may outlive a killed kernel"
)
def test_servers_end_with_killed_kernel(tmp_path: Path) -> None:
    mark = tmp_path / "server.pid"
    stubborn = entry("raw_server.py", "--stubborn", f"--pid={mark}")
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"raw": stubborn}}))
    kernel = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert kernel.stdout is not None
    assert kernel.stdout.readline() == "ready\n"
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.wait()
    kernel.stdout.close()
    assert_ends(int(mark.read_text()), within_s=2.0)
