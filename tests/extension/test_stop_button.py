"""The button that stops a turn, alone and in a kernel by messages."""

import os
import queue
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from parsimony_agent.controls import StopButton, is_heard_mid_cell
from parsimony_kernel.core.cancellation import CancellationRequest

WIDGET = "application/vnd.jupyter.widget-view+json"
PATIENCE_S = 30


def click(button: StopButton) -> None:
    """As the front end does it."""
    button.button._handle_button_msg(button.button, {"event": "click"}, [])


def test_a_click_asks_the_turn_to_stop_and_nothing_else() -> None:
    request = CancellationRequest()
    button = StopButton(request.set)
    before = button.button.get_state()
    click(button)
    assert request.is_set
    assert request.reason == "stopped by the user"
    assert button.button.get_state() == before
    click(button)


def test_it_says_what_it_does_and_what_does_it_where_no_widget_is_drawn() -> None:
    button = StopButton(lambda: None)
    assert button.button.description == "Stop"
    assert "Stops this turn" in button.button.tooltip
    data, _ = button.bundle()
    assert WIDGET in data
    assert data["text/plain"] == "Interrupt the kernel to stop this turn."


def test_settled_it_is_nothing_and_a_late_click_stops_nothing() -> None:
    request = CancellationRequest()
    button = StopButton(request.set)
    button.settle("")
    click(button)
    assert not request.is_set
    data, _ = button.bundle()
    assert not any(each.strip() for each in data.values())


def test_without_a_kernel_no_click_is_heard() -> None:
    assert not is_heard_mid_cell(SimpleNamespace())
    assert not is_heard_mid_cell(SimpleNamespace(kernel=None))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[BlockingKernelClient]:
    """A kernel that has a scripted agent."""
    here = Path(__file__).parent
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here), *(each for each in sys.path if each)]),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
    }
    environ.pop("PARSIMONY_DISPLAY", None)
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=environ, cwd=str(tmp_path))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _execute(client: BlockingKernelClient, code: str) -> str:
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    message = client.session.msg("execute_request", content)
    message["metadata"] = {"cellId": "c1"}
    client.shell_channel.send(message)
    return str(message["header"]["msg_id"])


def _reply(client: BlockingKernelClient, request: str) -> dict[str, Any]:
    while True:
        reply = client.get_shell_msg(timeout=PATIENCE_S)
        if reply["parent_header"].get("msg_id") == request:
            return dict(reply["content"])


def _shown(client: BlockingKernelClient, request: str) -> Iterator[dict[str, Any]]:
    """The messages of a cell as they come."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            continue
        if message["parent_header"].get("msg_id") == request:
            yield message
    raise AssertionError("the cell showed nothing more")


def _said(message: dict[str, Any]) -> str:
    return str(message["content"].get("data", {}).get("text/plain", ""))


@pytest.mark.kernel
def test_a_running_cell_offers_the_button_just_where_the_kernel_hears_a_click(
    client: BlockingKernelClient,
) -> None:
    asked = _execute(
        client,
        "from parsimony_agent.controls import is_heard_mid_cell\n"
        "assert is_heard_mid_cell(get_ipython())",
    )
    hears = _reply(client, asked)["status"] == "ok"
    loaded = _execute(client, "%load_ext scripted_agent")
    while _reply(client, loaded)["status"] == "aborted":
        loaded = _execute(client, "%load_ext scripted_agent")
    turn = _execute(client, "%%agent\nwait for it")
    opened: dict[str, str] = {}
    offered = ""
    for message in _shown(client, turn):
        if message["msg_type"] == "comm_open":
            state = message["content"]["data"]["state"]
            opened[message["content"]["comm_id"]] = str(state.get("description", ""))
        model = message["content"].get("data", {}).get(WIDGET, {}).get("model_id", "")
        offered = offered or (model if opened.get(model) == "Stop" else "")
        if offered or "3 s" in _said(message):
            break
    assert bool(offered) == hears
    if not hears:
        return
    click = {"comm_id": offered, "data": {"method": "custom", "content": {"event": "click"}}}
    client.shell_channel.send(client.session.msg("comm_msg", click))
    assert _reply(client, turn)["ename"] == "TurnStopped"
    last: dict[str, dict[str, Any]] = {}
    for message in _shown(client, turn):
        display = message["content"].get("transient", {}).get("display_id")
        if display:
            last[display] = message["content"]["data"]
        if message["content"].get("execution_state") == "idle":
            break
    assert not any(WIDGET in data for data in last.values())
    assert any("stopped" in str(data.get("text/plain")).lower() for data in last.values())
