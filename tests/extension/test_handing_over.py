"""``%agent code``, ``fix``, ``cost`` and ``doctor`` in a shell with the offline model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parsimony_agent import extension
from parsimony_agent.commands import described

Said = Callable[..., str]

DATA = Path(__file__).parents[2] / "notebooks" / "data"
ASK = "load data/seattle-weather.csv and show the mean temp_max by month"


@pytest.fixture
def shell(installed_shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    shutil.copytree(DATA, tmp_path / "data")
    monkeypatch.setenv("PARSIMONY_MODEL", "offline")
    installed_shell.user_ns["__name__"] = "__main__"
    return installed_shell


def test_turn_code_runs_by_itself(shell: Any, said: Said) -> None:
    said(f"%%agent\n{ASK}")
    code = said("%agent code")
    assert code.startswith("# %% ")
    namespace: dict[str, Any] = {"display": lambda value: value}
    exec(code, namespace)
    assert {name for name in namespace if "mean_temp_max" in name}
    assert said("%agent code --cells 1") == "The code of turn 1 is in the next cell.\n"
    assert code.strip().endswith(shell.rl_next_input.strip())
    # A refusal has no code, and a turn that waits only a part: the newest that has all is meant.
    again = "load data/seattle-weather.csv as again and show the mean temp by weather"
    for request in ("buy me a ticket to the moon", again):
        shell.run_cell(f"%%agent\n{request}")
        assert said("%agent code") == code
    assert "again" in shell.user_ns


def test_failed_turn_has_no_code(shell: Any, said: Said) -> None:
    assert "no turns in this notebook yet" in said("%agent code", fails=True)
    shell.run_cell("%%agent\nbuy me a ticket to the moon")
    assert "No code of turn 1 worked; %agent history 1" in said("%agent code", fails=True)


def test_fix_needs_an_error(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("last_exc", "last_value"):
        monkeypatch.delattr(f"sys.{name}", raising=False)
    assert "nothing to fix" in said("%agent fix", fails=True)
    said("%agent show 99", fails=True)
    assert "nothing to fix" in said("%agent fix", fails=True)


def test_fix_request_has_error_line_and_cell(shell: Any, said: Said) -> None:
    cell = "total = 1\ndef broken(n):\n    return n / 0\nbroken(total)"
    said(cell, fails=True)
    said("fine = 2")
    shell.run_cell("%agent fix keep total")
    session = extension.install(shell).opened
    assert session is not None
    (turn,) = session.turns()
    assert "ZeroDivisionError: division by zero" in turn.request
    assert f"failed in line 4:\n```python\n{cell}\n```" in turn.request
    assert "keep total" in turn.request


def test_fix_request_under_schema_omits_error_text(
    shell: Any, capsys: pytest.CaptureFixture[str], said: Said
) -> None:
    said("names = ['canary word']\nfloat(names[0].replace('x', ''))", fails=True)
    for share, is_told in (("schema", False), ("none", False), ("samples", True)):
        said(f"%config ParsimonyAgent.share = {share!r}")
        shell.run_cell("%agent fix")
        told = capsys.readouterr().out
        assert "ValueError" in told
        assert ("could not convert" in told) is is_told
    said("%config ParsimonyAgent.share = 'samples'")


def test_error_without_cell_is_described() -> None:
    said = described(ValueError("\x1b[31mred\x1b[0m \u202ename"))
    assert "ValueError: red \ufffdname" in said
    assert "```" not in said


def test_usage_includes_replaced_turns(said: Said) -> None:
    assert "has asked a model yet" in said("%agent cost")
    for _ in range(2):
        said(f"%%agent\n{ASK}")
    told = said("%agent cost").splitlines()
    assert [line.split()[0] for line in told if line.strip()] == ["turn", "1", "2", "all"]
    calls = [int(line.split()[2]) for line in told[1:3]]
    assert int(told[3].split()[1]) == sum(calls) > 2
    assert "free" in told[3]


def test_doctor_magic_matches_command(said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    from parsimony_kernel.cli import main as cli

    told = " ".join(said("%agent doctor").split())
    cli.main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert findings
    for finding in findings:
        assert finding["name"] in told
