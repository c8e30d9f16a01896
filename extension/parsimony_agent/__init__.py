"""The IPython extension of Parsimony Agent: ``%load_ext parsimony_agent``.

Loading registers the magics and their hooks and imports nothing heavy; the agent itself is
imported by the first turn.
"""

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Load the extension, for ``%load_ext parsimony_agent``; a second call changes nothing."""
    from parsimony_agent.extension import install

    install(shell)


async def answer_here(turn_id: str, reply: str) -> None:
    """Answer the question of turn ``turn_id`` in the current shell, on behalf of an outside caller.

    The turn continues in the cell that asked if this process still displays it, and the new part of
    its record is shown as one display. Errors are one line without a traceback, including the one
    that says the extension is not loaded here.

    Args:
        turn_id: the turn that waits.
        reply: the number of a choice, or free text, which is taken literally.
    """
    from parsimony_agent.extension import here

    await here().run(lambda turns, stop: turns.answer(reply, turn=turn_id, here=True, stop=stop))


def unload_ipython_extension(shell: Any) -> None:
    """Unload the extension, for ``%unload_ext`` and before ``%reload_ext``; restores the shell."""
    from parsimony_agent.extension import uninstall

    uninstall(shell)
