"""Answering from a shell: in the live kernel if there is one, else in this process."""

import shutil
from pathlib import Path

import pytest

from parsimony_kernel import cli
from parsimony_kernel.testing.kernel import live_kernel

ROOT = Path(__file__).parents[1]
ASK = "%%agent\nload data/seattle-weather.csv and plot the monthly mean temperature"
SECRET = {"PARSIMONY_SUSPENSION_SECRET": "a secret for tests", "PARSIMONY_MODEL": "offline"}

pytestmark = pytest.mark.kernel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "notebooks" / "data", tmp_path / "data")
    for name, value in SECRET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_question_is_listed_and_answered_in_the_live_kernel(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with live_kernel(folder) as kernel:
        assert kernel.run(ASK, cell_id="a").status == "error"
        assert cli.main(["resume"]) == 0
        listed = capsys.readouterr().out
        assert "1. temp_max" in listed
        assert "monthly mean temperature" in listed
        assert cli.main(["resume", "1"]) == 0
        said = capsys.readouterr().out
        assert "Mean temp_max by month" in said
        made = kernel.run("'mean_temp_max_by_month' in globals()")
        assert made.text == "True"
    assert cli.main(["resume"]) == 0
    assert "No question is waiting" in capsys.readouterr().out


def test_without_the_kernel_the_run_goes_on_here_and_loads_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with live_kernel(folder) as kernel:
        kernel.run(ASK, cell_id="a")
    assert cli.main(["resume", "temp_min"]) == 0
    said = capsys.readouterr().out
    assert "kernel is gone" in said
    assert "temp_min" in said
    assert "pd.read_csv" in said
    assert cli.main(["resume", "temp_min"]) == 1
    assert "No question is waiting" in capsys.readouterr().err


def test_a_folder_without_a_journal_says_how_to_name_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["resume", "1"]) == 1
    assert "--folder" in capsys.readouterr().err
