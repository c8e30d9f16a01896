"""The extension in a plain Python kernel, by messages."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.testing.kernel_process import PATIENCE_S, Cell, LiveKernel, live_kernel

pytestmark = pytest.mark.kernel

WIDGET = "application/vnd.jupyter.widget-view+json"
ASK = "%%agent --model offline\nload a.csv and show the mean temp"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "a.csv").write_text("temp_max,temp_min\n3,1\n")
    with live_kernel(folder, name="python3") as kernel:
        loaded = kernel.run("%load_ext parsimony_agent")
        assert (loaded.status, loaded.outputs) == ("ok", [])
        yield kernel


def seen_until(kernel: LiveKernel, text: str) -> Cell:
    """What comes until a display is updated with a text that has ``text``."""
    seen = Cell()
    while True:
        seen.outputs.append(kernel._client.get_iopub_msg(timeout=PATIENCE_S))
        last = seen.outputs[-1]
        if last["msg_type"] == "update_display_data" and text in last["content"]["data"].get(
            "text/plain", ""
        ):
            return seen


def send(channel: Any, session: Any, kind: str, **content: Any) -> None:
    channel.send(session.msg(kind, content))


def widgets(cell: Cell) -> list[str]:
    """The models of the widgets that the displays of ``cell`` show, in the order they came."""
    shown = cell.of_type("display_data") + cell.of_type("update_display_data")
    return [each["data"][WIDGET]["model_id"] for each in shown if WIDGET in each["data"]]


def test_question_aborts_queue_without_error(kernel: LiveKernel, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    # All are there before the first ends; a cell that comes after the question is not queued.
    before = kernel.begin(f"told = open({str(gate)!r}).read()")
    asking = kernel.begin(ASK, cell_id="c1")
    queued = kernel.begin("reached = True", cell_id="c2")
    gate.write_text("go")
    assert kernel.end(before).status == "ok"
    asked = kernel.end(asking)
    assert (asked.status, asked.reply["ename"]) == ("error", "QuestionPending")
    assert asked.reply["traceback"] == []
    assert asked.of_type("display_data")
    assert asked.of_type("error") + asked.of_type("stream") == []
    assert kernel.end(queued).status == "aborted"


def test_stop_button_appears_where_clicks_arrive(kernel: LiveKernel) -> None:
    told = kernel.run(
        "from parsimony_agent.controls import is_heard_mid_cell\n"
        "from parsimony_kernel.testing.scripted import HangingModel\n"
        "waiting = HangingModel('mid-stream')\nis_heard_mid_cell(get_ipython())"
    )
    assert kernel.run("%agent model waiting").status == "ok"
    request = kernel.begin("%%agent\nwait for it", cell_id="c3")
    seen = seen_until(kernel, "3 s")
    stops = [
        each["comm_id"]
        for each in seen.of_type("comm_open")
        if each["data"]["state"].get("description") == "Stop"
    ]
    assert bool(stops) is (told.text == "True")
    if stops:
        assert widgets(seen) == stops
        client, click = kernel._client, {"method": "custom", "content": {"event": "click"}}
        send(client.shell_channel, client.session, "comm_msg", comm_id=stops[0], data=click)
    else:
        kernel.interrupt()
    ended = kernel.end(request)
    assert (ended.status, ended.reply["ename"]) == ("error", "TurnStopped")
    assert "Stopped" in ended.text
    assert widgets(ended) == []


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


def test_orderly_shutdown_takes_buttons_away(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("temp_max,temp_min\n3,1\n")
    with live_kernel(tmp_path, name="python3") as kernel:
        kernel.run("%load_ext parsimony_agent")
        asked = kernel.run(ASK, cell_id="c1")
        # The buttons take the place where the steps stood.
        (controls,) = {
            each["transient"]["display_id"]
            for each in asked.of_type("update_display_data")
            if WIDGET in each["data"]
        }
        client = kernel._client
        send(client.control_channel, client.session, "shutdown_request", restart=True)
        told = {
            each["transient"]["display_id"]: each["data"]
            for each in seen_until(kernel, "Step 1 · Load a.csv").of_type("update_display_data")
        }
        # The steps have their place again, and the card above says how to answer.
        assert "Step 1 · Load a.csv" in told[controls]["text/plain"]
        assert not any(WIDGET in each for each in told.values())


def test_fix_request_has_every_cell_in_traceback(tmp_path: Path) -> None:
    """Which calls its cells like files."""
    (tmp_path / "broken.py").write_text("1 / 0  # of a file\n", encoding="utf-8")
    with live_kernel(tmp_path) as kernel:
        kernel.run("x = 1\ndef halved(a):\n    return a / (x - 1)")
        assert kernel.run("y = 5\nhalved(y)").status == "error"
        shown = kernel.run("%agent fix").text
        assert "ZeroDivisionError: division by zero" in shown
        assert "which failed in line 2:" in shown
        assert "halved(y)" in shown
        assert "where line 3 raised:" in shown
        assert "return a / (x - 1)" in shown
        assert "Fixing code takes a model that reads and writes Python" in shown
        assert "%agent model openai/gpt-5" in " ".join(shown.split())

        assert kernel.run("for i in range(3)\n    print(i)").status == "error"
        shown = kernel.run("%agent fix").text
        assert "SyntaxError: expected ':'" in shown
        assert "ipykernel" not in shown
        assert "which failed in line 1:" in shown
        assert "for i in range(3)" in shown

        assert "ZeroDivisionError" in kernel.run("%run broken.py").text
        assert "of a file" not in kernel.run("%agent fix").text
