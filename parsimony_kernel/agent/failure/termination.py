"""How a run ends by its own word.

A value that a termination tool returns; the loop turns it into the terminal event.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TerminationRequest:
    """The model says that it is done, or, with blockers, that it cannot go on."""

    message: str
    blockers: tuple[str, ...] = ()
    suggested_next_steps: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the task was finished."""
        return not self.blockers
