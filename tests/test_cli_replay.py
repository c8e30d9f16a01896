"""``jupyter parsimony replay``: a notebook, run with the answers that were recorded."""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from parsimony_kernel.cli import main as cli
from tests.test_cli import TABLE

DATA = Path(__file__).parents[1] / "notebooks" / "data" / "seattle-weather.csv"
ASKS = "%%agent\nload data/seattle-weather.csv and plot the monthly mean temperature"
ANSWER = "%agent answer temp_max"
MEANS = "%%agent\nmean temp_max by weather"
RECORDED = ("x = 1", ASKS, ANSWER, MEANS)

pytestmark = pytest.mark.kernel


def written(
    path: Path,
    sources: Sequence[str],
    kernel: str = "parsimony-agent",
    tags: Mapping[int, list[str]] | None = None,
) -> Any:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for number, names in (tags or {}).items():
        cells[number].metadata.tags = names
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": kernel, "display_name": "", "language": ""}
    nbformat.write(notebook, path)
    return notebook


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a notebook, its data, and its recording, made with the offline model."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "data").mkdir()
    shutil.copy(DATA, folder / "data")
    path = folder / "weather.ipynb"
    client = NotebookClient(
        written(path, RECORDED), timeout=300, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(
        env={
            **os.environ,
            "PARSIMONY_CASSETTE": "record",
            "PARSIMONY_WORKSPACE": str(folder),
            "JPY_SESSION_NAME": str(path),
        }
    )
    shutil.rmtree(folder / ".ockham")
    return folder


Replay = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def replay(
    recorded: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Replay:
    """Replays the notebook with other cells: the exit code, what a program and a person get.

    No model can answer: the one that is set does not exist.
    """
    monkeypatch.setenv("PARSIMONY_MODEL", "nobody/nothing")
    folder = tmp_path / "elsewhere"
    shutil.copytree(recorded, folder)

    def run(
        *sources: str,
        output: Path | None = None,
        kernel: str = "parsimony-agent",
        tags: Mapping[int, list[str]] | None = None,
    ) -> tuple[int, dict[str, Any], str]:
        notebook = folder / "weather.ipynb"
        written(notebook, sources, kernel, tags)
        before = notebook.read_bytes()
        files = {path for path in folder.rglob("*") if path.is_file()}
        kept = () if output is None else ("--output", str(output))
        code = cli.main(["replay", str(notebook), *kept, "--json"])
        told = json.loads(capsys.readouterr().out)
        assert notebook.read_bytes() == before
        assert {path for path in folder.rglob("*") if path.is_file()} == files
        assert list(told) == list(TABLE["replay"]["json"])
        assert told["notebook"] == str(notebook)
        cells = [f"{each['cell']} {each['outcome']}" for each in told["cells"]]
        return code, told, ", ".join(cells)

    return run


def test_a_recorded_notebook_is_replayed_elsewhere_and_leaves_nothing_behind(
    replay: Replay, tmp_path: Path
) -> None:
    output = tmp_path / "out.ipynb"
    code, told, cells = replay(*RECORDED, output=output)
    assert (code, told["ok"], cells) == (0, True, "2 ok, 3 ok, 4 ok")
    assert told["output"] == str(output)
    executed = nbformat.read(output, as_version=4)
    assert "sun 19.36" in str(executed.cells[-1].outputs)


def test_each_cell_says_whether_the_recording_has_it_and_what_differs(replay: Replay) -> None:
    other = MEANS.replace("temp_max", "wind")
    code, told, cells = replay("x = 1", ASKS, "%agent answer temp_min", other, "1 / 0", "x")
    assert (code, told["ok"]) == (1, False)
    assert cells == "2 ok, 3 differs, 4 missing, 5 failed"
    promised = TABLE["replay"]["json"]["cells"].partition(": ")[2].split(", ")
    assert all(list(each) == promised for each in told["cells"])
    _, answer, request, plain = told["cells"]
    assert "-  temp_max\n+  temp_min" in answer["why"]
    assert "-mean temp_max by weather\n+mean wind by weather" in request["why"]
    assert plain["why"] == "ZeroDivisionError: division by zero"


def test_a_variable_that_the_model_would_see_otherwise_is_a_difference(replay: Replay) -> None:
    code, told, cells = replay("x = 2", *RECORDED[1:])
    assert (code, cells.split(", ")[0]) == (1, "2 differs")
    assert "x" in told["cells"][0]["why"]


def test_a_model_that_the_recording_is_not_of_is_a_difference(replay: Replay) -> None:
    code, told, cells = replay("x = 1", ASKS.replace("%%agent", "%%agent -m openai/gpt-5", 1))
    assert (code, cells) == (1, "2 differs")
    assert "openai/gpt-5" in told["cells"][0]["why"]


def test_cells_that_ask_no_model_are_left_out(replay: Replay) -> None:
    asking_none = ("%%agent --dry-run\nmean wind", "%%agent --help", "%%agent?", "%agent history")
    code, told, _ = replay(*asking_none, ASKS)
    assert (code, [each["source"] for each in told["cells"]]) == (1, [ASKS])


def test_an_error_that_a_cell_is_tagged_to_raise_is_none(replay: Replay) -> None:
    code, told, cells = replay("x = 1", "1 / 0  # on purpose", tags={1: ["raises-exception"]})
    assert (code, told["cells"], cells) == (0, [], "")


def test_where_there_is_no_agent_its_cells_have_failed(replay: Replay) -> None:
    code, told, cells = replay(*RECORDED, kernel="python3")
    assert (code, cells) == (1, "2 failed, 3 failed, 4 failed")
    assert "%%agent" in told["cells"][0]["why"]


def test_a_plain_kernel_with_the_extension_is_replayed_too(replay: Replay) -> None:
    code, _, cells = replay("%load_ext parsimony_agent\nx = 1", *RECORDED[1:], kernel="python3")
    assert (code, cells) == (0, "2 ok, 3 ok, 4 ok")


def test_a_person_reads_a_line_for_each_cell_and_the_difference_below(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(recorded, folder)
    written(folder / "weather.ipynb", ("x = 1", ASKS, "%agent answer temp_min\x1b[31m"))
    assert cli.main(["replay", str(folder / "weather.ipynb")]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[2]   ok      %%agent load data/seattle-weather.csv" in out
    assert "[3]   differs %agent answer temp_min\n" in out
    assert "      +  temp_min\n" in out
    assert out.endswith("Cells: 1 ok, 1 differs.\n")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.ipynb", None, "There is no notebook"),
        ("text.ipynb", "text", "cannot be read as a notebook"),
        ("alone.ipynb", {}, "cassettes/alone.yaml is not beside 'alone.ipynb'"),
        ("odd.ipynb", {"kernel": "no-such-kernel"}, "does not know the kernel 'no-such-kernel'"),
    ],
)
def test_what_cannot_be_replayed_is_1_and_one_line_with_the_remedy(
    name: str,
    content: Any,
    told: str,
    recorded: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content)
    elif content is not None:
        written(path, RECORDED, content.get("kernel", "parsimony-agent"))
    if name == "odd.ipynb":
        (tmp_path / "cassettes").mkdir()
        shutil.copy(recorded / "cassettes" / "weather.yaml", tmp_path / "cassettes" / "odd.yaml")
    assert cli.main(["replay", str(path)]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert told in said.err


def test_a_broken_recording_is_1_and_names_it(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(recorded, folder)
    (folder / "cassettes" / "weather.yaml").write_text("turns: [")
    assert cli.main(["replay", str(folder / "weather.ipynb")]) == 1
    assert "The recording 'weather.yaml' is no YAML" in capsys.readouterr().err


def test_a_kernel_that_ends_in_a_cell_is_1_and_says_so(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(recorded, folder)
    written(folder / "weather.ipynb", ("import os\nos._exit(1)", ASKS))
    assert cli.main(["replay", str(folder / "weather.ipynb")]) == 1
    assert capsys.readouterr().err == "weather.ipynb stopped: the kernel ended while a cell ran.\n"


def test_an_output_that_cannot_be_written_is_1_and_says_why(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "elsewhere"
    shutil.copytree(recorded, folder)
    (tmp_path / "file").write_text("no folder")
    out = tmp_path / "file" / "a.ipynb"
    words = ("replay", str(folder / "weather.ipynb"), "--output", str(out))
    assert cli.main(words) == 1
    assert "Name another place with --output." in capsys.readouterr().err
