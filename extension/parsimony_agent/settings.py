"""Settings of the agent in a shell: ``%config ParsimonyAgent``, environment variables, files.

Precedence: a flag of the cell, then ``%config ParsimonyAgent``, then ``PARSIMONY_*`` in the
environment, then Jupyter's configuration files, then the default. The table in ``settings.toml`` is
the only source of the traits and their help. A setting with the name of a cell flag is parsed and
documented like that flag; ``example`` gives one where there is no default.
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
    """A setting whose value is text; ``None`` if it is not set here.

    ``read`` parses the text and raises ``ValueError`` with what it needs; ``usual`` is the default.
    """

    def __init__(self, name: str, row: Mapping[str, Any]) -> None:
        facts = {**CELL_FLAGS.get(f"--{name.replace('_', '-')}", {}), **row}
        self.variable = f"PARSIMONY_{name.upper()}"
        self.usual: str = facts.get("default", "")
        self.example: str = facts.get("example", self.usual)
        self.says: str = facts["help"]
        self.read = reader(facts)
        explanation = f"{self.says[0].upper()}{self.says[1:]}. Environment: {self.variable}."
        explanation += f" For example {self.example!r}." if self.example != self.usual else ""
        super().__init__(default_value=None, allow_none=True, help=explanation)
        self.name = name
        self.tag(config=True)

    def validate(self, obj: Any, value: Any) -> str:
        return self.checked(str(value), f"ParsimonyAgent.{self.name}")

    def checked(self, text: str, named: str) -> str:
        """Return ``text`` stripped, if it parses.

        Raises:
            TraitError: it doesn't; the message says what the setting ``named`` takes.
        """
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
# The sources other than the environment, as ``told`` names them.
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
        """Apply ``%config``; what it sets overrides the environment from now on."""
        self._here |= set(config.get("ParsimonyAgent", {}))
        super().update_config(config)

    def told(self, name: str) -> tuple[str, str]:
        """Return the text of a setting (empty if not set) and its source.

        Raises:
            TraitError: the environment's value is invalid.
        """
        setting = SETTINGS[name]
        own: str | None = getattr(self, name)
        if name in self._here and own is not None:
            return own, "%config"
        text = self._environ.get(setting.variable, "").strip()
        if text:
            return setting.checked(text, setting.variable), setting.variable
        if own is not None:
            return own, "configuration file"
        return setting.usual, "default"

    def of_models(self) -> dict[str, str]:
        """Return the settings made here that apply to every model, by environment variable."""
        told = {SETTINGS[name].variable: self.told(name) for name in _OF_MODELS}
        return {name: text for name, (text, source) in told.items() if source in SET_HERE}

    def value(self, name: str) -> Any:
        """Return the parsed value of a setting; ``None`` if it is not set.

        Raises:
            TurnError: the value is invalid.
        """
        try:
            text, _ = self.told(name)
        except TraitError as wrong:
            raise TurnError(f"{wrong} See %config ParsimonyAgent.") from None
        return SETTINGS[name].read(text) if text else None


def config_of_files(folders: list[str] | None = None) -> Config:
    """Load the configuration from Jupyter's folders; the person's own files override the others.

    The working folder is left out: a file beside a notebook may not be the person's.
    """
    from jupyter_core.paths import jupyter_config_path

    found = Config()
    # Not through an Application, which reconfigures logging and closes other handlers.
    for folder in reversed(folders or jupyter_config_path()):
        if (Path(folder) / FILE).is_file():
            found.merge(PyFileConfigLoader(FILE, path=folder).load_config())
    return found
