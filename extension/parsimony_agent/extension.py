"""What loading the extension puts into a shell, and takes out again.

Everything that is installed here is undone here, in reverse. Nothing of it is heavy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from traitlets.config import Config

from parsimony_agent.cell import SessionFactory, open_in
from parsimony_agent.completion import matcher, source_of
from parsimony_agent.magics import AgentMagics
from parsimony_agent.pending import SilentStop
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
        self._silence = SilentStop(shell)
        # IPython's configuration files have the last word over Jupyter's.
        config = config_of_files()
        config.merge(getattr(shell, "config", None) or Config())
        self.settings = ParsimonyAgent(environ=environ, config=config)
        self.magics = AgentMagics(
            shell,
            name=self.name,
            session_factory=session_factory,
            environ=environ,
            settings=self.settings,
            silence=self._silence.install,
        )
        # What is added to lists of the shell.
        self._hooks: tuple[tuple[list[Any], Any], ...] = (
            (shell.input_transformers_post, awaiting(self.name)),
            (shell.input_transformer_manager.token_transformers, asking(self.name)),
            (
                shell.Completer.custom_matchers,
                matcher(self.name, source_of(shell, lambda: self.magics.opened)),
            ),
            (shell.configurables, self.settings),
        )

    def install(self) -> None:
        """Register everything; says so only when the usual name was taken."""
        self._shell.register_magic_function(
            self.magics.agent, magic_kind="line_cell", magic_name=self.name
        )
        for hooks, hook in self._hooks:
            hooks.append(hook)
        self._silence.install()
        self.magics.user_cells.install()
        if self.name != NAME:
            print(
                f"Parsimony Agent: %%{NAME} belongs to another extension here, so the agent is "
                f"%%{self.name} and %{self.name}."
            )

    def uninstall(self) -> None:
        """Take everything out again, except what somebody has replaced meanwhile."""
        self.magics.close()
        self.magics.user_cells.uninstall()
        self._silence.uninstall()
        for hooks, hook in self._hooks:
            hooks[:] = [each for each in hooks if each is not hook]
        for table in self._shell.magics_manager.magics.values():
            if table.get(self.name) == self.magics.agent:
                del table[self.name]


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
