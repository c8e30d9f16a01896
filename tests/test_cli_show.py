"""The record of a turn in a shell, beside the one that its notebook shows."""

import json
import shutil
from pathlib import Path

import pytest

from parsimony_kernel.cli import main as cli
from parsimony_kernel.session.turns import short_id
from parsimony_kernel.testing.kernel import live_kernel

ROOT = Path(__file__).parents[1]
REQUEST = "%%agent\nload data/iowa-electricity.csv and show the total net_generation by source"

pytestmark = pytest.mark.kernel


def lines(text: str) -> list[str]:
    """``text`` without the empty lines that stand between displays."""
    return [line for line in text.splitlines() if line.strip()]


def test_a_shell_tells_the_same_as_the_notebook_and_the_code_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "notebooks" / "data", tmp_path / "data")
    monkeypatch.setenv("PARSIMONY_MODEL", "offline")
    monkeypatch.chdir(tmp_path)
    with live_kernel(tmp_path) as kernel:
        assert kernel.run(REQUEST, cell_id="a").status == "ok"
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
