"""What loading the extension puts into a shell, and takes out again.

Everything that is installed here is undone here, in reverse. Nothing of it is heavy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from traitlets.config import Config

from parsimony_agent.completion import matcher, sources
from parsimony_agent.magics import AgentMagics
from parsimony_agent.pending import SilentStop
from parsimony_agent.sessions import SessionFactory, open_in
from parsimony_agent.settings import ParsimonyAgent, config_of_files
from parsimony_agent.transform import asking, awaiting

NAME = "agent"
SECOND_NAME = "parsimony"


class Extension:
    """The extension in one shell. ``name`` is the magic that it took."""

    def __init__(
        self,
        shell: Any,
        *,
        session_factory: SessionFactory = open_in,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._shell = shell
        tables = shell.magics_manager.magics
        taken = any(NAME in tables[kind] for kind in ("line", "cell")) or NAME in (
            shell.magics_manager.lazy_magics
        )
        self.name = SECOND_NAME if taken else NAME
        self._transform, self._asking = awaiting(self.name), asking(self.name)
        self._silence = SilentStop(shell)
        self.settings = ParsimonyAgent(environ=environ, config=_configuration(shell))
        self.magics = AgentMagics(
            shell,
            name=self.name,
            session_factory=session_factory,
            environ=environ,
            settings=self.settings,
            silence=self._silence.install,
        )
        self._matcher = matcher(self.name, sources(shell, lambda: self.magics.opened))

    def install(self) -> None:
        """Register everything; says so only when the usual name was taken."""
        self._shell.register_magic_function(
            self.magics.agent, magic_kind="line_cell", magic_name=self.name
        )
        self._shell.input_transformers_post.append(self._transform)
        self._shell.input_transformer_manager.token_transformers.append(self._asking)
        self._shell.Completer.custom_matchers.append(self._matcher)
        self._silence.install()
        self.magics.user_cells.install()
        self._shell.configurables.append(self.settings)
        if self.name != NAME:
            print(
                f"Parsimony Agent: %%{NAME} belongs to another extension here, so the agent is "
                f"%%{self.name} and %{self.name}."
            )

    def uninstall(self) -> None:
        """Take everything out again, except what somebody has replaced meanwhile."""
        self.magics.close()
        self.magics.user_cells.uninstall()
        self._shell.configurables[:] = [
            each for each in self._shell.configurables if each is not self.settings
        ]
        self._silence.uninstall()
        matchers = self._shell.Completer.custom_matchers
        matchers[:] = [each for each in matchers if each is not self._matcher]
        if self._transform in self._shell.input_transformers_post:
            self._shell.input_transformers_post.remove(self._transform)
        transformers = self._shell.input_transformer_manager.token_transformers
        transformers[:] = [each for each in transformers if each is not self._asking]
        for table in self._shell.magics_manager.magics.values():
            if table.get(self.name) == self.magics.agent:
                del table[self.name]


def _configuration(shell: Any) -> Config:
    """What Jupyter's and IPython's configuration files say, the latter last."""
    found = config_of_files()
    found.merge(getattr(shell, "config", None) or Config())
    return found


_installed: WeakKeyDictionary[Any, Extension] = WeakKeyDictionary()


def install(shell: Any, session_factory: SessionFactory = open_in) -> Extension:
    """The extension of ``shell``, installed if it is not yet."""
    extension = _installed.get(shell)
    if extension is None:
        extension = Extension(shell, session_factory=session_factory)
        extension.install()
        _installed[shell] = extension
    return extension


def installed(shell: Any) -> Extension | None:
    """The extension of ``shell``, if it is loaded there."""
    return _installed.get(shell)


def uninstall(shell: Any) -> None:
    """Take the extension out of ``shell``, if it is there."""
    extension = _installed.pop(shell, None)
    if extension is not None:
        extension.uninstall()
