"""How the agent is set up in a shell: ``%config ParsimonyAgent``, the environment, files.

What is asked for stands first: a flag of the cell, then ``%config ParsimonyAgent``, then
``PARSIMONY_*`` in the environment, then Jupyter's configuration files, then the default. The
table in ``settings.toml`` is the only source of the traits, of their help and of ``%agent config``.
"""

import os
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traitlets import TraitError, TraitType
from traitlets.config import Config, Configurable, PyFileConfigLoader

from parsimony_agent.arguments import CELL_FLAGS, reader

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


def _read(name: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        # Deferred: loading the extension imports no kernel.
        from parsimony_kernel.agent import resolve

        return getattr(resolve, name)(text)

    return read


def _setting(name: str, row: dict[str, Any]) -> Setting:
    told = {**CELL_FLAGS.get(name, {}), **row}
    default = told.get("default", "")
    read = _read(told["deferred"]) if "deferred" in told else reader(told)
    example = told.get("example", default)
    return Setting(name, f"PARSIMONY_{name.upper()}", default, told["help"], example, read)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SETTINGS = tuple(_setting(name, row) for name, row in _TABLE.items())
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
