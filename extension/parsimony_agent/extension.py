"""Install the extension into a shell, and remove it again.

Everything installed here is removed here, in reverse order. Nothing here imports anything heavy.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

from traitlets.config import Config

from parsimony_agent.cell import SessionFactory, open_in
from parsimony_agent.completion import matcher
from parsimony_agent.magics import AgentMagics
from parsimony_agent.pending import SilentStop, TurnError
from parsimony_agent.settings import ParsimonyAgent, config_of_files
from parsimony_agent.transform import asking, awaiting
from parsimony_kernel.core.deferred import defer_grammar_of_addresses

NAME = "agent"
SECOND_NAME = "parsimony"

# The magics of each shell, and the stack that removes them.
_installed: WeakKeyDictionary[Any, tuple[AgentMagics, ExitStack]] = WeakKeyDictionary()


def here() -> AgentMagics:
    """Return the magics of the current shell.

    Raises:
        TurnError: the extension is not loaded; the message says how to load it.
    """
    from IPython.core import getipython

    shell = getipython.get_ipython()
    if shell not in _installed:
        raise TurnError(
            "The agent is not loaded in this shell. Load it with %load_ext parsimony_agent."
        )
    return _installed[shell][0]


def install(shell: Any, session_factory: SessionFactory = open_in) -> AgentMagics:
    """Load the extension into ``shell`` unless it is already there; return its magics.

    Prints a line only if the usual name of the magic was taken.
    """
    if shell in _installed:
        return _installed[shell][0]
    defer_grammar_of_addresses()
    known = shell.magics_manager
    taken = any(NAME in table for table in (*known.magics.values(), known.lazy_magics))
    name = SECOND_NAME if taken else NAME
    # IPython's configuration files override Jupyter's.
    config = config_of_files()
    config.merge(getattr(shell, "config", None) or Config())
    settings = ParsimonyAgent(config=config)
    silence = SilentStop(shell)
    magics = AgentMagics(shell, f"%{name}", settings, silence.install, session_factory)
    hooks: tuple[tuple[list[Any], Any], ...] = (
        (shell.input_transformers_post, awaiting(name)),
        (shell.input_transformer_manager.token_transformers, asking(name)),
        (shell.Completer.custom_matchers, matcher(name, shell)),
        (shell.configurables, settings),
    )
    undo = ExitStack()
    shell.register_magic_function(magics.agent, magic_kind="line_cell", magic_name=name)
    undo.callback(_remove_magic, shell, name, magics.agent)
    for there, hook in hooks:
        there.append(hook)
        undo.callback(_remove_hook, there, hook)
    silence.install()
    undo.callback(silence.uninstall)
    magics.user_cells.install()
    undo.callback(magics.user_cells.uninstall)
    undo.callback(magics.close)
    _installed[shell] = magics, undo
    if taken:
        print(
            f"Parsimony Agent: %%{NAME} belongs to another extension here, so the agent is "
            f"%%{name} and %{name}."
        )
    return magics


def uninstall(shell: Any) -> None:
    """Remove the extension from ``shell`` if loaded, except what others have replaced since."""
    if shell in _installed:
        _installed.pop(shell)[1].close()


def _remove_magic(shell: Any, name: str, magic: Any) -> None:
    for table in shell.magics_manager.magics.values():
        if table.get(name) == magic:
            del table[name]


def _remove_hook(hooks: list[Any], hook: Any) -> None:
    hooks[:] = [each for each in hooks if each is not hook]
