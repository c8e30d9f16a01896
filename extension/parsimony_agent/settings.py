"""How the agent is set up in a shell: ``%config ParsimonyAgent``, the environment, files.

What is asked for stands first: a flag of the cell, then ``%config ParsimonyAgent``, then
``PARSIMONY_*`` in the environment, then Jupyter's configuration files, then the default. The
table in ``settings.toml`` is the only source of the traits and of their help. What a flag of a cell
is called as well is read and explained as that flag is; ``example`` stands where there is no
default.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets import TraitError, TraitType
from traitlets.config import Config, Configurable, PyFileConfigLoader

from parsimony_agent.arguments import CELL_FLAGS, reader
from parsimony_agent.pending import TurnError

FILE = "jupyter_parsimony_config.py"


class Setting(TraitType[Any, Any]):
    """One thing that can be set, as text; ``None`` where it is not set here.

    ``read`` takes the text and raises ``ValueError`` with what it needs; ``usual`` holds where
    nobody has set it.
    """

    def __init__(self, name: str, row: Mapping[str, Any]) -> None:
        told = {**CELL_FLAGS.get(f"--{name.replace('_', '-')}", {}), **row}
        self.variable = f"PARSIMONY_{name.upper()}"
        self.usual: str = told.get("default", "")
        self.example: str = told.get("example", self.usual)
        self.says: str = told["help"]
        self.read = reader(told)
        said = f"{self.says[0].upper()}{self.says[1:]}. Environment: {self.variable}."
        said += f" For example {self.example!r}." if self.example != self.usual else ""
        super().__init__(default_value=None, allow_none=True, help=said)
        self.name = name
        self.tag(config=True)

    def validate(self, obj: Any, value: Any) -> str:
        return self.checked(str(value), f"ParsimonyAgent.{self.name}")

    def checked(self, text: str, named: str) -> str:
        """``text`` without space around it. ``TraitError`` says what ``named`` takes instead."""
        text = text.strip()
        try:
            self.read(text)
        except ValueError as needed:
            raise TraitError(f"{named} is {text!r}; it takes {needed}.") from None
        return text

    def default_value_repr(self) -> str:
        return repr(self.usual or None)


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SETTINGS = {name: Setting(name, row) for name, row in _TABLE.items()}
# Where else than in the environment something is set, as ``told`` says it.
SET_HERE = ("%config", "configuration file")
_OF_MODELS = ("effort", "model_parameters", "model_aliases")


class ParsimonyAgent(Configurable):
    """The Parsimony Agent in this notebook: a flag of a cell holds before what is set here."""

    locals().update(SETTINGS)

    def __init__(self, *, environ: Mapping[str, str] = os.environ, config: Config | None = None):
        self._here: set[str] = set()
        self._environ = environ
        super().__init__(config=config or Config())

    def update_config(self, config: Config) -> None:
        """What ``%config`` calls. It stands above the environment from now on."""
        self._here |= set(config.get("ParsimonyAgent", {}))
        super().update_config(config)

    def told(self, name: str) -> tuple[str, str]:
        """The text of a setting, empty where there is none, and where it is from.

        ``TraitError`` where the environment says what cannot be meant.
        """
        setting = SETTINGS[name]
        own: str | None = getattr(self, name)
        if name in self._here and own is not None:
            return own, "%config"
        said = self._environ.get(setting.variable, "").strip()
        if said:
            return setting.checked(said, setting.variable), setting.variable
        if own is not None:
            return own, "configuration file"
        return setting.usual, "default"

    def of_models(self) -> dict[str, str]:
        """What is set here for every model, by the variables that would say the same."""
        told = {SETTINGS[name].variable: self.told(name) for name in _OF_MODELS}
        return {name: text for name, (text, source) in told.items() if source in SET_HERE}

    def value(self, name: str) -> Any:
        """What holds, read; ``None`` where nothing is set. ``TurnError`` if it cannot be meant."""
        try:
            text, _ = self.told(name)
        except TraitError as wrong:
            raise TurnError(f"{wrong} See %config ParsimonyAgent.") from None
        return SETTINGS[name].read(text) if text else None


def config_of_files(folders: list[str] | None = None) -> Config:
    """What Jupyter's configuration folders say, the person's own last. The working folder is not
    one of them: what lies beside a notebook is not the person's word."""
    from jupyter_core.paths import jupyter_config_path

    found = Config()
    # Not by an Application: it sets logging up anew, which closes the handlers of everybody else.
    for folder in reversed(folders or jupyter_config_path()):
        if (Path(folder) / FILE).is_file():
            found.merge(PyFileConfigLoader(FILE, path=folder).load_config())
    return found
