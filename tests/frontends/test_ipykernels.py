"""The agent under the ipykernels that front ends bring, ours and their plain Python kernel."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from parsimony_kernel.testing.kernel_process import LiveKernel
from tests.scenarios.kernels import printed

from .conftest import kernel_under
from .overlays import INSTALLED
from .reading import lines, recorded

pytestmark = pytest.mark.kernel

REQUEST = "load data/iowa-electricity.csv and show the total net_generation by source"
KERNELS = [
    ("python3", "6.29.5"),
    ("python3", "6.31.0"),
    ("python3", "7.3.0"),
    ("python3", INSTALLED),
    ("parsimony-agent", "6.31.0"),
    ("parsimony-agent", INSTALLED),
]


@pytest.fixture(scope="module", params=KERNELS, ids="-".join)
def named(request: pytest.FixtureRequest) -> tuple[str, str]:
    name, version = request.param
    return name, version


@pytest.fixture(scope="module")
def folder(named: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("-".join(named)) / "place"


@pytest.fixture(scope="module")
def kernel(named: tuple[str, str], folder: Path) -> Iterator[LiveKernel]:
    yield from kernel_under(*named, folder)


def use(kernel: LiveKernel, model: str) -> None:
    """Answer the next turns by this model of the notebook."""
    assert kernel.run(f"%agent model {model}").status == "ok"


def test_kernel_runs_intended_version(kernel: LiveKernel, named: tuple[str, str]) -> None:
    assert kernel.run("import importlib.metadata, ipykernel").status == "ok"
    imported = printed(kernel, "ipykernel.__version__")
    assert printed(kernel, "importlib.metadata.version('ipykernel')") == imported
    assert named[1] in (imported, INSTALLED)


def test_turn_ends_as_journal_text(kernel: LiveKernel, folder: Path) -> None:
    use(kernel, "offline")
    cell = kernel.run(f"%%agent\n{REQUEST}", cell_id="turn")
    assert cell.status == "ok"
    assert lines(cell.text) == recorded(folder)
    assert "Fossil Fuels, 620,129" in cell.text
    assert printed(kernel, "len(iowa_electricity)") == "51"


def test_same_text_appears_once_without_updates(kernel: LiveKernel, folder: Path) -> None:
    use(kernel, "offline")
    cell = kernel.run(f"%%agent\n{REQUEST}")
    assert cell.status == "ok"
    assert cell.of_type("update_display_data") == []
    said = [each["data"].get("text/plain", "") for each in cell.of_type("display_data")]
    assert lines("\n".join(said)) == recorded(folder)


def test_question_is_answered_in_another_cell(kernel: LiveKernel) -> None:
    use(kernel, "asking")
    asked = kernel.run("%%agent\ntogether", cell_id="asked")
    assert (asked.status, asked.reply["ename"]) == ("error", "QuestionPending")
    assert asked.of_type("error") == []
    assert re.search("Sum or product.*1\\. the sum.*2\\. the product", asked.text, re.DOTALL)
    answered = kernel.run("%agent answer 1", cell_id="answered")
    assert answered.status == "ok"
    assert "Your answer: the sum" in answered.text
    assert "Together they are 7." in answered.text
    assert printed(kernel, "together") == "7"


@pytest.mark.parametrize("model", ["endless", "silent"])
@pytest.mark.parametrize("by", ["signal", "message"])
def test_stop_ends_turn_and_keeps_variables(
    kernel: LiveKernel, folder: Path, model: str, by: str
) -> None:
    assert kernel.run("mine = 41").status == "ok"
    use(kernel, model)
    request = kernel.begin("%%agent\nwait", cell_id=f"{model}-{by}")
    kernel.until(request, "Waiting")
    if by == "signal":
        kernel.interrupt()
    else:
        client = kernel._client
        client.control_channel.send(client.session.msg("interrupt_request"))
    cell = kernel.end(request)
    assert (cell.status, cell.reply["ename"]) == ("error", "TurnStopped")
    assert cell.of_type("error") == []
    assert "Stopped · by the user" in recorded(folder)
    assert printed(kernel, "mine + 1") == "42"
