"""Turns in a shell: the record as the notebook shows it, and answers, given in the live kernel if
there is one, else in this process."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from parsimony_kernel.cli import main as cli
from parsimony_kernel.session import resume
from parsimony_kernel.session.turn_values import short_id
from parsimony_kernel.testing.kernel_process import live_kernel

ROOT = Path(__file__).parents[1]
ASK = "%%agent\nload data/seattle-weather.csv and plot the monthly mean temperature"

pytestmark = pytest.mark.kernel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "notebooks" / "data", tmp_path / "data")
    monkeypatch.setenv("PARSIMONY_MODEL", "offline")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_run_resumes_here_without_kernel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live_kernel(folder) as kernel:
        kernel.run(ASK, cell_id="a")
    assert cli.main(["resume", "temp_min"]) == 0
    said = capsys.readouterr().out
    assert "kernel is gone" in said
    assert "temp_min" in said
    assert "pd.read_csv" in said
    assert "Variables in your notebook" not in said
    last = said.splitlines()[-1]
    assert "mean_temp_min_by_month" in last
    assert "lived in this process only" in last
    assert "in the workspace" in last
    assert cli.main(["resume", "temp_min"]) == 1
    assert "No question is waiting" in capsys.readouterr().err


def test_no_journal_asks_for_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["resume", "1"]) == 1
    assert "--folder" in capsys.readouterr().err


BUSY = """
import pathlib, time
print("busy", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""


def test_live_kernel_out_of_reach_is_not_dead_and_is_answered_later(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resume, "_ANSWERS_WITHIN_S", 2.0)

    def refuse() -> None:
        assert cli.main(["resume", "1"]) == 1
        told = capsys.readouterr()
        assert "alive but busy or out of reach" in told.err
        assert told.out == ""
        assert len(resume.questions(folder)) == 1

    with live_kernel(folder) as kernel:
        assert kernel.run(ASK, cell_id="a").status == "error"
        pid = int(kernel.run("import os; os.getpid()").text)
        busy = kernel.begin(BUSY)
        kernel.until(busy, "busy")
        refuse()
        (folder / "go").touch()
        assert kernel.end(busy).status == "ok"
        if sys.platform == "linux":  # only /proc tells whose a silent process is
            os.kill(pid, signal.SIGSTOP)
            try:
                refuse()
            finally:
                os.kill(pid, signal.SIGCONT)
            (row,) = resume.questions(folder)
            connection_file = Path(row.turn.connection_file)
            whole = connection_file.read_text()
            connection_file.write_text("{")
            refuse()
            connection_file.unlink()
            refuse()
            connection_file.write_text(whole)
        assert cli.main(["resume"]) == 0
        listed = capsys.readouterr().out
        assert "1. temp_max" in listed
        assert "monthly mean temperature" in listed
        assert cli.main(["resume", "1"]) == 0
        assert "Mean temp max by month" in capsys.readouterr().out
        assert kernel.run("'mean_temp_max_by_month' in globals()").text == "True"
    assert cli.main(["resume"]) == 0
    assert "No question is waiting" in capsys.readouterr().out


def test_killed_kernel_is_seen_as_dead(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live_kernel(folder) as kernel:
        kernel.run(ASK, cell_id="a")
        pid = int(kernel.run("import os; os.getpid()").text)
        os.kill(pid, signal.SIGKILL)
        (row,) = resume.questions(folder)
        assert Path(row.turn.connection_file).is_file()
        assert cli.main(["resume", "1"]) == 0
    assert "kernel is gone" in capsys.readouterr().out


def test_answer_reaches_kernel_verbatim(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = """
import parsimony_agent
async def answer_here(turn_id, reply):
    print(f"<{turn_id}|{reply}>")
parsimony_agent.answer_here = answer_here
get_ipython().register_magic_function(lambda line: print("FOREIGN"), "line", "agent")
"""
    with live_kernel(folder) as kernel:
        kernel.run(ASK, cell_id="a")
        assert kernel.run(foreign).status == "ok"
        (row,) = resume.questions(folder)
        for words in ("-1 or less", "--turn 'x' \"y\"", "%agent $HOME {1} \\n ?", "naïve 🌧"):
            assert cli.main(["resume", "--", *words.split()]) == 0
            assert capsys.readouterr().out == f"<{row.turn.run_id}|{words}>\n"


def lines(text: str) -> list[str]:
    """``text`` without the empty lines that stand between displays."""
    return [line for line in text.splitlines() if line.strip()]


def test_a_shell_tells_the_same_as_the_notebook_and_the_code_runs_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = "load data/iowa-electricity.csv and show the total net_generation by source"
    with live_kernel(folder) as kernel:
        assert kernel.run(f"%%agent\n{request}", cell_id="a").status == "ok"
        shown = kernel.run("%agent show 1", cell_id="b").text
    assert cli.main(["show", "1"]) == 0
    assert lines(capsys.readouterr().out) == lines(shown)
    assert cli.main(["runs", "--json"]) == 0
    (turn,) = json.loads(capsys.readouterr().out)["runs"]
    assert (turn["turn"], turn["status"]) == (1, "done")
    assert cli.main(["show", short_id(turn["turn_id"]), "--code"]) == 0
    names: dict[str, object] = {}
    exec(capsys.readouterr().out, names)
    assert "iowa_electricity" in names
