"""``%agent code``, ``fix``, ``cost`` and ``doctor`` in a shell with the offline model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from parsimony_agent import extension
from parsimony_agent.commands import described

DATA = Path(__file__).parents[2] / "notebooks" / "data"
ASK = "load data/seattle-weather.csv and show the mean temp_max by month"


@pytest.fixture
def shell(installed_shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    shutil.copytree(DATA, tmp_path / "data")
    monkeypatch.setenv("PARSIMONY_MODEL", "offline")
    installed_shell.user_ns["__name__"] = "__main__"
    return installed_shell


def ran(shell: Any, source: str) -> bool:
    return bool(shell.run_cell(source).success)


def test_turn_code_runs_by_itself(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(shell, f"%%agent\n{ASK}")
    capsys.readouterr()
    assert ran(shell, "%agent code")
    code = capsys.readouterr().out
    assert code.startswith("# %% ")
    namespace: dict[str, Any] = {"display": lambda value: value}
    exec(code, namespace)
    assert {name for name in namespace if "mean_temp_max" in name}
    capsys.readouterr()
    assert ran(shell, "%agent code --cells 1")
    assert capsys.readouterr().out == "The code of turn 1 is in the next cell.\n"
    assert code.strip().endswith(shell.rl_next_input.strip())
    # A refusal has no code, and a turn that waits only a part: the newest that has all is meant.
    again = "load data/seattle-weather.csv as again and show the mean temp by weather"
    for request in ("buy me a ticket to the moon", again):
        ran(shell, f"%%agent\n{request}")
        capsys.readouterr()
        assert ran(shell, "%agent code")
        assert capsys.readouterr().out == code
    assert "again" in shell.user_ns


def test_failed_turn_has_no_code(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not ran(shell, "%agent code")
    assert "no turns in this notebook yet" in capsys.readouterr().out
    ran(shell, "%%agent\nbuy me a ticket to the moon")
    capsys.readouterr()
    assert not ran(shell, "%agent code")
    assert "No code of turn 1 worked; %agent history 1" in capsys.readouterr().out


def test_fix_needs_an_error(
    shell: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("last_exc", "last_value"):
        monkeypatch.delattr(f"sys.{name}", raising=False)
    assert not ran(shell, "%agent fix")
    assert "nothing to fix" in capsys.readouterr().out
    assert not ran(shell, "%agent show 99")
    assert not ran(shell, "%agent fix")
    assert "nothing to fix" in capsys.readouterr().out


def test_fix_request_has_error_line_and_cell(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = "total = 1\ndef broken(n):\n    return n / 0\nbroken(total)"
    assert not ran(shell, cell)
    assert ran(shell, "fine = 2")
    ran(shell, "%agent fix keep total")
    session = extension.install(shell).opened
    assert session is not None
    (turn,) = session.turns()
    assert "ZeroDivisionError: division by zero" in turn.request
    assert f"failed in line 4:\n```python\n{cell}\n```" in turn.request
    assert "keep total" in turn.request


def test_fix_request_under_schema_omits_error_text(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not ran(shell, "names = ['canary word']\nfloat(names[0].replace('x', ''))")
    for share, told in (("schema", False), ("none", False), ("samples", True)):
        assert ran(shell, f"%config ParsimonyAgent.share = {share!r}")
        capsys.readouterr()
        ran(shell, "%agent fix")
        said = capsys.readouterr().out
        assert "ValueError" in said
        assert ("could not convert" in said) is told
    ran(shell, "%config ParsimonyAgent.share = 'samples'")


def test_error_without_cell_is_described() -> None:
    said = described(ValueError("\x1b[31mred\x1b[0m \u202ename"))
    assert "ValueError: red \ufffdname" in said
    assert "```" not in said


def test_usage_includes_replaced_turns(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(shell, "%agent cost")
    assert "has asked a model yet" in capsys.readouterr().out
    for _ in range(2):
        assert ran(shell, f"%%agent\n{ASK}")
    capsys.readouterr()
    assert ran(shell, "%agent cost")
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told if line.strip()] == ["turn", "1", "2", "all"]
    calls = [int(line.split()[2]) for line in told[1:3]]
    assert int(told[3].split()[1]) == sum(calls) > 2
    assert "free" in told[3]


def test_doctor_magic_matches_command(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from parsimony_kernel.cli import main as cli

    assert ran(shell, "%agent doctor")
    told = " ".join(capsys.readouterr().out.split())
    cli.main(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert findings
    for finding in findings:
        assert finding["name"] in told
