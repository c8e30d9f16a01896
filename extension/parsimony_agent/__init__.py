"""The IPython extension of Parsimony Agent: ``%load_ext parsimony_agent``.

Loading registers the magics and their hooks and imports nothing heavy; the agent itself is
imported by the first turn.
"""

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext parsimony_agent``; a second call changes nothing."""
    from parsimony_agent.extension import install

    install(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext`` and before ``%reload_ext``; leaves the shell as it was."""
    from parsimony_agent.extension import uninstall

    uninstall(shell)
