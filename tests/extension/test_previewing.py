"""What ``%agent context`` and ``--dry-run`` show is what is sent."""

import json
from typing import Any

import pytest

from parsimony_agent import extension
from parsimony_kernel.testing.scripted import ScriptedModel, call

REQUEST = "look at what there is: {x} 100 % ünïcode"


@pytest.fixture
def shell(installed_shell: Any) -> Any:
    return installed_shell


def scripted(shell: Any) -> ScriptedModel:
    model = ScriptedModel(
        [
            call("run_code", code="made = 1", purpose="first"),
            call("return_done", summary="`made` is 1."),
            call("return_done", summary="Looked."),
        ]
    )
    shell.user_ns["mine"] = model
    assert shell.run_cell("%agent model mine").success
    shell.user_ns["prices"] = [1, 2, 3]
    return model


def as_told(model: ScriptedModel, number: int) -> list[str]:
    request = model.requests[number]
    told = [str(message.get("content") or "") for message in request.messages]
    return [*told, *(json.dumps(tool, ensure_ascii=False) for tool in request.tools)]


@pytest.mark.parametrize("line", ["%%agent --dry-run", "%agent context"])
@pytest.mark.parametrize("earlier", [False, True], ids=["at first", "after a turn"])
@pytest.mark.parametrize("flags", ["", " --share full", " --share schema", " --share none"])
def test_preview_is_verbatim(
    shell: Any, capsys: pytest.CaptureFixture[str], line: str, earlier: bool, flags: str
) -> None:
    model = scripted(shell)
    if earlier:
        assert shell.run_cell("%%agent\nmake something").success
    asked, turns = len(model.requests), len(history(shell))
    capsys.readouterr()
    between = "\n" if line.startswith("%%") else " "
    assert shell.run_cell(f"{line}{flags}{between}{REQUEST}").success
    shown = capsys.readouterr().out
    assert len(model.requests) == asked
    assert len(history(shell)) == turns
    shell.run_cell(f"%%agent{flags}\n{REQUEST}")
    for part in as_told(model, asked):
        assert part in shown


def history(shell: Any) -> list[Any]:
    session = extension.install(shell).opened
    assert session is not None
    return list(session.turns())


def test_result_is_bound_where_requested(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(shell)
    assert not shell.run_cell("%%agent -o prices\nmake something").success
    assert "would overwrite your variable 'prices'" in capsys.readouterr().out
    assert shell.user_ns["prices"] == [1, 2, 3]
    assert not shell.run_cell("%%agent -o 1st\nmake something").success
    assert history(shell) == []
    for _ in range(2):
        shell.run_cell("%%agent -o found\nmake something")
    assert (shell.user_ns["found"].ok, shell.user_ns["found"].text) == (True, "Looked.")


def test_setting_applies_without_flag(shell: Any) -> None:
    scripted(shell)
    shell.user_ns["other"] = ScriptedModel([call("return_done", summary="Other.")] * 2)
    assert shell.run_cell("%config ParsimonyAgent.model = 'offline'").success
    shell.run_cell("%%agent\nload nothing.csv")
    assert history(shell)[-1].model == "offline"
    assert shell.run_cell("%agent model other").success
    shell.run_cell("%%agent\nanything")
    assert history(shell)[-1].model == shell.user_ns["other"].name
    assert shell.run_cell("%agent model mine").success
    assert shell.run_cell("%config ParsimonyAgent.max_steps = 1").success
    shell.run_cell("%%agent\nmake something")
    assert history(shell)[-1].status == "suspended"
    shell.run_cell("%%agent --max-steps 9\nmake something")
    assert history(shell)[-1].status == "done"


def test_preview_undoes_nothing(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(shell)
    shell.run_cell("%%agent\nmake something")
    assert shell.user_ns["made"] == 1
    assert shell.run_cell("%%agent --dry-run\nmake something").success
    assert shell.user_ns["made"] == 1
    assert [turn.status for turn in history(shell)] == ["done"]
