"""The IPython extension of Parsimony Agent: ``%load_ext parsimony_agent``.

Loading registers the magics and their hooks and imports nothing heavy; the agent itself is
imported by the first turn.
"""

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext parsimony_agent``; a second call changes nothing."""
    from parsimony_agent.extension import install

    install(shell)


async def answer_here(turn_id: str, reply: str) -> None:
    """Answer the question of turn ``turn_id`` in the current shell, for a caller outside it.

    ``reply`` is the number of a choice or words, taken as they are. The turn goes on in the cell
    that asked when this process still shows it, and what is new of it is shown as one display.
    Errors are one line without a traceback, among them that the extension is not loaded here.
    """
    from parsimony_agent.extension import here

    await here().run(lambda turns, stop: turns.answer(reply, turn=turn_id, here=True, stop=stop))


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext`` and before ``%reload_ext``; leaves the shell as it was."""
    from parsimony_agent.extension import uninstall

    uninstall(shell)
