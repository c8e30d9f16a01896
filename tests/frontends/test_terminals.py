"""The agent where there are no buttons: IPython at a terminal, and Jupyter's console."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsimony_kernel.testing.kernel_process import PATIENCE_S

from .reading import lines, recorded
from .terminal import COLUMNS, CTRL_C, Ipython, at_terminal

pytestmark = pytest.mark.kernel

REQUEST = "load data/seattle-weather.csv and plot the monthly mean temperature"
HOW = "To answer, run %agent answer NUMBER in a cell."
IPYTHON = ("IPython", "--no-banner", "--no-confirm-exit")
CONSOLE = ("jupyter_console", "--kernel", "parsimony-agent", "--no-confirm-exit")


@pytest.fixture
def ipython(place: Path) -> Iterator[Ipython]:
    """IPython at a terminal, with the agent and models to talk to."""
    with at_terminal(place, "-m", *IPYTHON) as screen:
        typed = Ipython(screen)
        typed.run("%load_ext parsimony_agent")
        typed.run("from actors import asking, endless, silent")
        yield typed


@pytest.fixture
def console(place: Path) -> Iterator[Ipython]:
    """Jupyter's console on the agent's kernel."""
    with at_terminal(place, "-m", *CONSOLE) as screen:
        typed = Ipython(screen)
        typed.run("from actors import asking, endless, silent")
        yield typed


def test_question_names_how_to_answer_and_turn_ends_as_text(ipython: Ipython) -> None:
    asked = " ".join(ipython.run("%%agent", REQUEST).split())
    assert "Which column of seattle_weather do you mean by 'temperature'?" in asked
    assert HOW in asked
    goes_on = lines(ipython.run("%agent answer 1"))
    assert any("Highest mean temp max: 2015-07, 28.09." in line for line in goes_on)
    assert any("Step 2 · " in line for line in goes_on)
    # Code stands as it was written; everything else is laid out.
    laid_out = [line for line in goes_on if not line.startswith("    ")]
    assert max(map(len, laid_out)) <= COLUMNS
    assert "48" in ipython.run("len(mean_temp_max_by_month)")


def test_answer_and_its_table_begin_within_ten_lines(ipython: Ipython) -> None:
    request = "load data/seattle-weather.csv and show the mean temp_max per weather"
    record = ipython.run("%%agent", request).splitlines()
    at = next(n for n, line in enumerate(record) if line.startswith("Highest mean temp max"))
    table = next(n for n, line in enumerate(record) if line.startswith("weather "))
    assert record[table + 2].startswith("sun ")
    assert table + 2 - at < 10


def test_console_names_how_to_answer(console: Ipython) -> None:
    console.run("%agent model asking")
    assert HOW in console.run("%%agent", "together")
    assert "Together they are 7." in console.run("%agent answer 1")
    assert "7" in console.run("together")


def await_begin(typed: Ipython, place: Path) -> None:
    """Begin a turn and wait until it stands where only Ctrl-C ends it."""
    os.mkfifo(place / "bell")
    bell = os.open(place / "bell", os.O_RDONLY | os.O_NONBLOCK)
    try:
        typed.begin("%%agent", "wait")
        heard, _, _ = select.select([bell], [], [], PATIENCE_S)
        assert heard
    finally:
        os.close(bell)


@pytest.mark.parametrize("model", ["endless", "silent"])
@pytest.mark.parametrize("where", ["ipython", "console"])
def test_ctrl_c_stops_turn_and_keeps_variables(
    model: str, where: str, place: Path, request: pytest.FixtureRequest
) -> None:
    typed: Ipython = request.getfixturevalue(where)
    typed.run("mine = 41")
    typed.run(f"%agent model {model}")
    await_begin(typed, place)
    typed.type(CTRL_C)
    stopped = typed.end()
    # The terminal itself writes what was pressed, and no end of a line.
    assert "Stopped · by the user" in [line.removeprefix("^C") for line in lines(stopped)]
    assert "Traceback" not in stopped
    assert "Stopped · by the user" in recorded(place)
    assert "42" in typed.run("mine + 1")
