"""The extension in a real IPython kernel, by messages."""

import os
import queue
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from parsimony_kernel.testing.kernel_process import live_kernel

pytestmark = pytest.mark.kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
TIMEOUT_S = 30


@dataclass
class Run:
    """One executed cell: the reply, and what came on IOPub with it as parent."""

    reply: dict[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each["content"] for each in self.messages if each["msg_type"] == kind]

    @property
    def printed(self) -> str:
        """What was printed; a kernel sends one line in several parts when it is busy."""
        return "".join(each["text"] for each in self.of("stream"))

    @property
    def text(self) -> str:
        return "\n".join(each["data"].get("text/plain", "") for each in self.of("display_data"))


class Front:
    """A front end that names its cells."""

    def __init__(self, manager: KernelManager) -> None:
        self.client = manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT_S)

    def send(self, code: str, cell_id: str | None = "c1") -> str:
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": True,
        }
        message = self.client.session.msg("execute_request", content)
        if cell_id is not None:
            message["metadata"] = {"cellId": cell_id}
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def reply(self, msg_id: str) -> dict[str, Any]:
        while True:
            reply = self.client.get_shell_msg(timeout=TIMEOUT_S)
            if reply["parent_header"].get("msg_id") == msg_id:
                return dict(reply["content"])

    def settle(self) -> None:
        """A kernel drops what comes right behind a cell that failed: wait until it has done so."""
        while self.reply(self.send("None", None))["status"] == "aborted":
            pass

    def run(self, code: str, cell_id: str | None = "c1") -> Run:
        msg_id = self.send(code, cell_id)
        reply = self.reply(msg_id)
        return Run(reply, self.rest(msg_id))

    def rest(self, msg_id: str) -> list[dict[str, Any]]:
        """What comes on IOPub of a cell until it has ended."""
        came: list[dict[str, Any]] = []
        while not came or came[-1]["content"].get("execution_state") != "idle":
            message = self.client.get_iopub_msg(timeout=TIMEOUT_S)
            came += [message] if message["parent_header"].get("msg_id") == msg_id else []
        return came

    def until(self, wanted: str) -> list[dict[str, Any]]:
        """IOPub messages up to the first that updates a display with a text that has ``wanted``."""
        seen = []
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            seen.append(message)
            if message["msg_type"] == "update_display_data" and wanted in str(
                message["content"]["data"].get("text/plain")
            ):
                return seen
        raise AssertionError(f"{wanted!r} was not shown; what came: {seen}")

    def click(self, run: Run, description: str) -> None:
        """As ipywidgets in the browser: a custom message to the button's comm."""
        for opened in run.of("comm_open"):
            if opened["data"]["state"].get("description") == description:
                content = {
                    "comm_id": opened["comm_id"],
                    "data": {"method": "custom", "content": {"event": "click"}},
                }
                message = self.client.session.msg("comm_msg", content)
                self.client.shell_channel.send(message)
                return
        raise AssertionError(f"there is no button {description!r}")


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    folder = tmp_path_factory.mktemp("kernel")
    here = Path(__file__).parent
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here), *(each for each in sys.path if each)]),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
    }
    environ.pop("PARSIMONY_DISPLAY", None)
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environ, cwd=str(folder))
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def front(manager: KernelManager) -> Iterator[Front]:
    front = Front(manager)
    loaded = front.run("%load_ext scripted_agent")
    assert loaded.reply["status"] == "ok"
    assert loaded.of("stream") == []
    yield front
    front.client.stop_channels()


def test_question_aborts_queue_without_error(front: Front) -> None:
    # Both are there before the first begins; a cell that comes after the question is not queued.
    before = front.send("input()", "c0")
    assert front.client.get_stdin_msg(timeout=TIMEOUT_S)["msg_type"] == "input_request"
    asking = front.send("%%agent\nask me")
    queued = front.send("reached = True", "c2")
    front.client.input("")
    assert front.reply(before)["status"] == "ok"
    reply = front.reply(asking)
    assert (reply["status"], reply["ename"]) == ("error", "QuestionPending")
    assert reply["traceback"] == []
    assert front.reply(queued)["status"] == "aborted"
    kinds = [message["msg_type"] for message in front.rest(asking)]
    assert "error" not in kinds
    assert "stream" not in kinds
    assert "display_data" in kinds


def test_button_continues_turn_in_its_cell(front: Front) -> None:
    asking = front.run("%%agent\ntwice", "c3")
    known = {each["transient"]["display_id"] for each in asking.of("display_data")}
    widgets = [each for each in asking.of("display_data") if WIDGET in each["data"]]
    assert len(widgets) == 1
    front.click(asking, "beta")
    seen = front.until("And then?")
    opened = [each for each in seen if each["msg_type"] == "comm_open"]
    answered = Run({}, seen)
    # Wait for the prompt of the second question, which stands in one of the same displays.
    while not any(WIDGET in each["data"] for each in answered.of("update_display_data")):
        message = front.client.get_iopub_msg(timeout=TIMEOUT_S)
        answered.messages.append(message)
        opened += [message] if message["msg_type"] == "comm_open" else []
    front.click(answered, "gamma")
    seen = answered.messages + front.until("Finished as asked.")
    updates = [each for each in seen if each["msg_type"] == "update_display_data"]
    assert {each["content"]["transient"]["display_id"] for each in updates} <= known
    parents = {each["parent_header"]["msg_id"] for each in updates}
    assert parents == {asking.messages[0]["parent_header"]["msg_id"]}
    assert not [each for each in seen if each["msg_type"] in {"error", "display_data"}]
    assert opened
    replies = front.run("print(agent_session.replies[-2:])").printed
    assert "'beta'" in replies
    assert "'gamma'" in replies


@pytest.mark.parametrize("code", ["%%agent --nope\nplot", "%agent nope"])
def test_misuse_is_one_line_and_fails_cell(front: Front, code: str) -> None:
    run = front.run(code)
    assert run.reply["status"] == "error"
    (error,) = run.of("error")
    assert len(error["traceback"]) == 1
    assert error["traceback"][0].startswith("UsageError: ")


@pytest.mark.parametrize(
    ("code", "proposed"),
    [
        ("%%agent --max-", "--max-steps"),
        ("x = 1\n%agent hist", "history"),
    ],
)
def test_kernel_completes_flags_subcommands_and_models(
    front: Front, code: str, proposed: str
) -> None:
    msg_id = front.client.complete(code, len(code))
    completed = front.reply(msg_id)
    assert proposed in completed["matches"]
    start = completed["cursor_start"]
    assert proposed.startswith(code[start : completed["cursor_end"]])


def test_interrupt_ends_endless_turn(front: Front, manager: KernelManager) -> None:
    waiting = front.send("%%agent\nwait for it", "c4")
    front.until("Waiting.")
    manager.interrupt_kernel()
    assert front.reply(waiting)["status"] == "error"
    front.settle()


def test_stop_button_appears_where_clicks_arrive(front: Front, manager: KernelManager) -> None:
    told = front.run(
        "from parsimony_agent.controls import is_heard_mid_cell\n"
        "print(is_heard_mid_cell(get_ipython()))"
    )
    waiting = front.send("%%agent\nwait for it", "c5")
    seen = Run({}, front.until("3 s"))
    drawn = [
        each["data"][WIDGET]["model_id"]
        for each in (*seen.of("display_data"), *seen.of("update_display_data"))
        if WIDGET in each["data"]
    ]
    stops = [
        each["comm_id"]
        for each in seen.of("comm_open")
        if each["data"]["state"].get("description") == "Stop"
    ]
    assert bool(stops) is (told.printed == "True\n")
    if stops:
        assert drawn == stops
        front.click(seen, "Stop")
        assert front.reply(waiting)["ename"] == "TurnStopped"
        ended = Run({}, front.rest(waiting)).of("update_display_data")
        assert any("Stopped" in each["data"]["text/plain"] for each in ended)
        assert not any(WIDGET in each["data"] for each in ended)
    else:
        manager.interrupt_kernel()
        assert front.reply(waiting)["status"] == "error"
    front.settle()


@pytest.mark.parametrize("presses", [1, 2, 3])
def test_stop_before_turn_begins_ends_cell_in_one_line(tmp_path: Path, presses: int) -> None:
    """The first agent cell of a kernel imports and opens its session: Stop is heard there too."""
    with live_kernel(tmp_path, name="python3") as kernel:
        assert kernel.run("%load_ext parsimony_agent").status == "ok"
        # Before a cell's first line an interrupt is ipykernel's own to handle, and it loses the
        # request; so the cell says that it has begun, in one piece.
        request = kernel.begin(
            "import sys\n"
            "sys.stdout.write('begun\\n')\n"
            "sys.stdout.flush()\n"
            "await get_ipython().run_cell_magic('agent', '--model offline', 'Show the rows.')",
            cell_id="c1",
        )
        kernel.until(request, "begun\\n")
        for _ in range(presses):
            kernel.interrupt()
        cell = kernel.end(request, patience_s=8)
        assert (cell.status, cell.reply["ename"]) == ("error", "TurnStopped")
        for error in cell.of_type("error"):
            assert len(error["traceback"]) <= 3
        assert "Traceback" not in cell.text
        goes_on = kernel.run("print(1 + 1)", cell_id="c2")
        assert "".join(part["text"] for part in goes_on.of_type("stream")) == "2\n"


def test_orderly_shutdown_turns_buttons_into_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("temp_max,temp_min\n3,1\n")
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    front = Front(manager)
    try:
        front.run("%load_ext parsimony_agent")
        asked = front.run("%%agent --model offline\nload a.csv and show the mean temp")
        shown = {each["transient"]["display_id"]: each for each in asked.of("display_data")}
        (controls,) = (name for name, each in shown.items() if WIDGET in each["data"])
        front.client.control_channel.send(
            front.client.session.msg("shutdown_request", {"restart": True})
        )
        texts = {
            each["content"]["transient"]["display_id"]: each["content"]["data"]["text/plain"]
            for each in front.until("To answer: %agent answer")
            if each["msg_type"] == "update_display_data"
        }
        assert texts.pop(controls) == "To answer: %agent answer"
        assert any("run %agent answer NUMBER" in each for each in texts.values())
    finally:
        front.client.stop_channels()
        manager.shutdown_kernel(now=True)
