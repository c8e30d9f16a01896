"""Who may set what: flags, ``%config``, the environment, files, defaults, in this order."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

from parsimony_agent import extension
from parsimony_agent.settings import FILE, SETTINGS, ParsimonyAgent, Setting, config_of_files
from parsimony_kernel.testing.scripted import ScriptedModel, call

Said = Callable[..., str]


def config(**values: Any) -> Config:
    made = Config()
    for name, value in values.items():
        setattr(made.ParsimonyAgent, name, value)
    return made


@pytest.fixture
def shell(installed_shell: Any) -> Any:
    return installed_shell


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_settings_follow_precedence(setting: Setting) -> None:
    above, below = setting.example, setting.usual or setting.example
    environ: dict[str, str] = {}
    settings = ParsimonyAgent(environ=environ)
    assert settings.told(setting.name) == (setting.usual, "default")
    settings = ParsimonyAgent(environ=environ, config=config(**{setting.name: below}))
    assert settings.told(setting.name) == (below, "configuration file")
    environ[setting.variable] = f" {above} "
    assert settings.told(setting.name) == (above, setting.variable)
    settings.update_config(config(**{setting.name: below}))
    assert settings.told(setting.name) == (below, "%config")
    assert settings.value(setting.name) == setting.read(below)
    settings.update_config(config(**{setting.name: None}))
    assert settings.told(setting.name) == (above, setting.variable)


def test_invalid_value_is_one_sentence_and_changes_nothing() -> None:
    settings = ParsimonyAgent(environ={"PARSIMONY_BUDGET": "much"})
    with pytest.raises(TraitError, match=r"PARSIMONY_BUDGET is 'much'; it takes an amount"):
        settings.told("budget")
    settings.update_config(config(budget=2))
    with pytest.raises(TraitError, match=r"ParsimonyAgent\.budget is '-1'; it takes an amount"):
        settings.update_config(config(budget=-1))
    assert settings.value("budget") == 2.0


def test_config_magic_sets_and_shows_help(said: Said) -> None:
    said("%config ParsimonyAgent.budget = 0.5")
    told = " ".join(said("%config ParsimonyAgent").split())
    for setting in SETTINGS.values():
        assert f"ParsimonyAgent.{setting.name}=" in told
        assert setting.variable in told
    assert "Current: '0.5'" in told


def test_alias_is_a_model_and_checked_at_once(said: Said) -> None:
    said('%config ParsimonyAgent.model_aliases = "small=ollama/llama3"')
    said('%config ParsimonyAgent.model_parameters = "num_ctx=16384"')
    assert "Model: ollama/llama3" in said("%agent model small")
    assert "the length of a prompt is set" in said("%agent doctor")


def test_unloading_removes_settings(shell: Any) -> None:
    names = [type(each).__name__ for each in shell.configurables]
    assert names.count("ParsimonyAgent") == 1
    extension.uninstall(shell)
    assert "ParsimonyAgent" not in [type(each).__name__ for each in shell.configurables]


def test_nearest_jupyter_config_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, system, here = (tmp_path / name for name in ("own", "system", "here"))
    for folder, model in ((own, "mine"), (system, "theirs"), (here, "a trap")):
        folder.mkdir()
        text = f"c = get_config()\nc.ParsimonyAgent.model = {model!r}\n"
        (folder / FILE).write_text(text + ("c.ParsimonyAgent.budget = 3\n" * (folder == system)))
    monkeypatch.chdir(here)
    found = config_of_files([str(own), str(system)])
    assert (found.ParsimonyAgent.model, found.ParsimonyAgent.budget) == ("mine", 3)


def test_file_can_set_every_setting(tmp_path: Path) -> None:
    given = {name: each.usual or each.example for name, each in SETTINGS.items()}
    lines = [f"c.ParsimonyAgent.{name} = {text!r}" for name, text in given.items()]
    (tmp_path / FILE).write_text("\n".join(["c = get_config()", *lines]))
    everything = ParsimonyAgent(environ={}, config=config_of_files([str(tmp_path)]))
    for setting in SETTINGS.values():
        assert everything.told(setting.name) == (given[setting.name], "configuration file")
        assert setting.usual or f"For example {setting.example!r}" in setting.help


# What ``%agent context`` and ``--dry-run`` show is what is sent.


REQUEST = "look at what there is: {x} 100 % ünïcode"


@pytest.fixture
def model(shell: Any, said: Said) -> ScriptedModel:
    """The notebook's model, which makes something in its first turn and looks in its second."""
    made = call("run_code", code="made = 1", purpose="first")
    ends = [call("return_done", summary=each) for each in ("`made` is 1.", "Looked.")]
    shell.user_ns["mine"] = model = ScriptedModel([made, *ends])
    said("%agent model mine")
    shell.user_ns["prices"] = [1, 2, 3]
    return model


def as_told(model: ScriptedModel, number: int) -> list[str]:
    request = model.requests[number]
    told = [str(message.get("content") or "") for message in request.messages]
    return [*told, *(json.dumps(tool, ensure_ascii=False) for tool in request.tools)]


@pytest.mark.parametrize("line", ["%%agent --dry-run", "%agent context"])
@pytest.mark.parametrize("earlier", [False, True], ids=["at first", "after a turn"])
@pytest.mark.parametrize("flags", ["", " --share full", " --share schema", " --share none", "set"])
def test_preview_is_verbatim(
    shell: Any, model: ScriptedModel, said: Said, line: str, earlier: bool, flags: str
) -> None:
    if flags == "set":
        said("%config ParsimonyAgent.share = 'schema'")
        flags = ""
    if earlier:
        said("%%agent\nmake something")
    asked, turns = len(model.requests), len(history(shell))
    between = "\n" if line.startswith("%%") else " "
    shown = said(f"{line}{flags}{between}{REQUEST}")
    assert len(model.requests) == asked
    assert len(history(shell)) == turns
    shell.run_cell(f"%%agent{flags}\n{REQUEST}")
    for part in as_told(model, asked):
        assert part in shown


def history(shell: Any) -> list[Any]:
    session = extension.install(shell).opened
    assert session is not None
    return list(session.turns())


@pytest.mark.usefixtures("model")
def test_result_is_bound_where_requested(shell: Any, said: Said) -> None:
    told = said("%%agent -o prices\nmake something", fails=True)
    assert "would overwrite your variable 'prices'" in told
    assert shell.user_ns["prices"] == [1, 2, 3]
    said("%%agent -o 1st\nmake something", fails=True)
    assert history(shell) == []
    for _ in range(2):
        shell.run_cell("%%agent -o found\nmake something")
    assert (shell.user_ns["found"].ok, shell.user_ns["found"].text) == (True, "Looked.")


@pytest.mark.usefixtures("model")
def test_setting_applies_without_flag(shell: Any, said: Said) -> None:
    shell.user_ns["other"] = ScriptedModel([call("return_done", summary="Other.")] * 2)
    said("%config ParsimonyAgent.model = 'offline'")
    shell.run_cell("%%agent\nload nothing.csv")
    assert history(shell)[-1].model == "offline"
    said("%agent model other")
    said("%%agent\nanything")
    assert history(shell)[-1].model == shell.user_ns["other"].name
    said("%agent model mine")
    said("%config ParsimonyAgent.max_steps = 1")
    shell.run_cell("%%agent\nmake something")
    assert history(shell)[-1].status == "suspended"
    said("%%agent --max-steps 9\nmake something")
    assert history(shell)[-1].status == "done"


@pytest.mark.usefixtures("model")
def test_preview_undoes_nothing(shell: Any, said: Said) -> None:
    said("%%agent\nmake something")
    assert shell.user_ns["made"] == 1
    said("%%agent --dry-run\nmake something")
    assert shell.user_ns["made"] == 1
    assert [turn.status for turn in history(shell)] == ["done"]
