"""How the agent is set up in a shell: ``%config ParsimonyAgent``, the environment, files.

What is asked for stands first: a flag of the cell, then ``%config ParsimonyAgent``, then
``PARSIMONY_*`` in the environment, then Jupyter's configuration files, then the default. The
table here is the only source of the traits, of their help and of ``%agent config``.
"""

import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traitlets import TraitError, TraitType
from traitlets.config import Config, Configurable, PyFileConfigLoader

from parsimony_agent.arguments import CELL_FLAGS, Flag, dollars, seconds

FILE = "jupyter_parsimony_config.py"


@dataclass(frozen=True)
class Setting:
    """One thing that can be set. ``read`` takes text and raises ValueError with what it needs."""

    name: str
    variable: str
    default: str
    help: str
    example: str
    read: Callable[[str], Any] = str


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}")
        return text.lower()

    return read


def _as_flag(name: str, variable: str, dest: str, default: str, help: str) -> Setting:
    flag: Flag = next(each for each in CELL_FLAGS if each.dest == dest)
    return Setting(name, variable, default, help, flag.example.partition(" ")[2], flag.read)


def _read(name: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        # Deferred: loading the extension imports no kernel.
        from parsimony_kernel.agent import resolve

        return getattr(resolve, name)(text)

    return read


SETTINGS = (
    _as_flag(
        "model",
        "PARSIMONY_MODEL",
        "model",
        "offline",
        "the model of a notebook's turns, or several with commas between: the next takes over "
        "where one fails",
    ),
    _as_flag(
        "effort",
        "PARSIMONY_EFFORT",
        "effort",
        "",
        "how long a model may think: low, medium or high, where it can be told",
    ),
    Setting(
        "model_parameters",
        "PARSIMONY_MODEL_PARAMETERS",
        "",
        "parameters for every model, as litellm names them, with commas between, or a JSON object",
        "temperature=0.2, top_p=0.9",
        _read("parameters"),
    ),
    Setting(
        "model_aliases",
        "PARSIMONY_MODEL_ALIASES",
        "",
        "short names for models, with commas between",
        "fast=openai/gpt-5-mini, deep=anthropic/claude-opus-4-5",
        _read("aliases"),
    ),
    _as_flag(
        "max_steps",
        "PARSIMONY_MAX_STEPS",
        "max_iterations",
        "",
        "ask before a turn goes beyond so many calls of the model",
    ),
    _as_flag(
        "max_time",
        "PARSIMONY_MAX_TIME",
        "max_time_s",
        "30m",
        "ask before a turn takes longer, what its code takes not counted: seconds, or 90s, 5m, 1h",
    ),
    Setting(
        "silence",
        "PARSIMONY_SILENCE",
        "2m",
        "how long a model may be silent before its request is given up and made again",
        "5m",
        seconds,
    ),
    _as_flag(
        "budget",
        "PARSIMONY_BUDGET",
        "max_cost_usd",
        "",
        "ask before a turn costs more than so many US dollars",
    ),
    Setting(
        "notebook_budget",
        "PARSIMONY_NOTEBOOK_BUDGET",
        "",
        "stop before all turns of a notebook together cost more than so many US dollars",
        "5",
        dollars,
    ),
    _as_flag(
        "max_tokens",
        "PARSIMONY_MAX_TOKENS",
        "max_tokens",
        "",
        "ask before a turn uses more tokens: 20000, or 20k",
    ),
    _as_flag(
        "approve",
        "PARSIMONY_APPROVE",
        "approve",
        "guarded",
        "ask before a step: auto (never), guarded (where it reaches outside), or always",
    ),
    _as_flag(
        "procedure",
        "PARSIMONY_PROCEDURE",
        "procedure",
        "",
        "a YAML file that says how the task of every cell is done",
    ),
    _as_flag(
        "share",
        "PARSIMONY_SHARE",
        "share",
        "samples",
        "what a model is told of the data: samples (names, types and a few values), schema (never "
        "a value), none (nothing but the request), or full (first rows of all tables too)",
    ),
    Setting(
        "classifier",
        "PARSIMONY_CLASSIFIER",
        "rules",
        "what tells why a step failed: rules, hybrid (the turn's model where rules cannot tell, "
        "which costs a request), or llm (the model alone)",
        "hybrid",
        _one_of("rules", "hybrid", "llm"),
    ),
    Setting(
        "claims",
        "PARSIMONY_CLAIMS",
        "mark",
        "what a number does that no result supports: mark (one line in the record) or strict (the "
        "model is asked once, too)",
        "strict",
        _one_of("mark", "strict"),
    ),
    Setting(
        "display",
        "PARSIMONY_DISPLAY",
        "auto",
        "how the record is drawn: live (updated), static (written once), quiet (questions and "
        "results only), or auto, which is live where a front end shows updates",
        "static",
        _one_of("auto", "live", "static", "quiet"),
    ),
    Setting(
        "on_question",
        "PARSIMONY_ON_QUESTION",
        "mark",
        "what a question does where nobody can answer: mark (it waits, and the cell says so) or "
        "raise (the cell fails)",
        "raise",
        _one_of("mark", "raise"),
    ),
    Setting(
        "cassette",
        "PARSIMONY_CASSETTE",
        "off",
        "what happens to the answers of models: record (they are kept in cassettes/ beside the "
        "notebook), replay (no model is asked), or off",
        "replay",
        _one_of("record", "replay", "off"),
    ),
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}
_OF_MODELS = ("effort", "model_parameters", "model_aliases")


class _Text(TraitType):
    """A setting as text; ``None`` where it is not set here."""

    def __init__(self, setting: Setting) -> None:
        said = f"{setting.help}. Environment: {setting.variable}."
        super().__init__(default_value=None, allow_none=True, help=said[0].upper() + said[1:])
        self._setting = setting
        self.tag(config=True)

    def validate(self, obj: Any, value: Any) -> str:
        return checked(self._setting, str(value), f"ParsimonyAgent.{self._setting.name}")

    def default_value_repr(self) -> str:
        return repr(self._setting.default or None)


def checked(setting: Setting, text: str, named: str) -> str:
    """``text`` without space around it. ``TraitError`` says what ``named`` takes instead."""
    text = text.strip()
    try:
        setting.read(text)
    except ValueError as needed:
        raise TraitError(f"{named} is {text!r}; it takes {needed}.") from None
    return text


class ParsimonyAgent(Configurable):
    """The Parsimony Agent in this notebook. ``%agent config`` shows what holds, and why."""

    locals().update({setting.name: _Text(setting) for setting in SETTINGS})

    def __init__(self, *, environ: Mapping[str, str] = os.environ, config: Config | None = None):
        self._here: set[str] = set()
        self._is_made = False
        self._environ = environ
        super().__init__(config=config or Config())
        self._is_made = True

    def update_config(self, config: Config) -> None:
        """What ``%config`` calls. It stands above the environment from now on."""
        self._here |= set(config.get("ParsimonyAgent", {}))
        super().update_config(config)

    def told(self, name: str) -> tuple[str, str]:
        """The text of a setting, empty where there is none, and where it is from.

        ``TraitError`` where the environment says what cannot be meant.
        """
        setting = _BY_NAME[name]
        own: str | None = getattr(self, name)
        if name in self._here and own is not None:
            return own, "%config"
        said = self._environ.get(setting.variable, "").strip()
        if said:
            return checked(setting, said, setting.variable), setting.variable
        if own is not None:
            return own, "configuration file"
        return setting.default, "default"

    def of_models(self) -> dict[str, str]:
        """What is set here for every model, by the variables that would say the same."""
        told = {_BY_NAME[name].variable: self.told(name) for name in _OF_MODELS}
        return {
            variable: text
            for variable, (text, source) in told.items()
            if source in ("%config", "configuration file")
        }

    def value(self, name: str) -> Any:
        """What holds, read; ``None`` where nothing is set."""
        text, _ = self.told(name)
        return _BY_NAME[name].read(text) if text else None


def config_of_files(folders: list[str] | None = None) -> Config:
    """What Jupyter's configuration folders say, the person's own last. The working folder is not
    one of them: what lies beside a notebook is not the person's word."""
    if folders is None:
        from jupyter_core.paths import jupyter_config_path

        folders = jupyter_config_path()
    found = Config()
    for folder in reversed(folders):
        if (Path(folder) / FILE).is_file():
            found.merge(PyFileConfigLoader(FILE, path=folder).load_config())
    return found


def file_text() -> str:
    """A configuration file with every setting in it, each behind a hash."""
    lines = ["# Configuration of Parsimony Agent.", "", "c = get_config()  # noqa: F821"]
    for setting in SETTINGS:
        said = f"{setting.help[0].upper()}{setting.help[1:]}."
        lines += [
            "",
            *textwrap.wrap(said, 90, initial_indent="# ", subsequent_indent="# "),
            f"# c.ParsimonyAgent.{setting.name} = {setting.default or setting.example!r}",
        ]
    return "\n".join(lines) + "\n"
